"""What the straight code of a loop does from turn to turn."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeGuard

from hlo.codegen.llvm.module import Module

SHORT = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}
_WIDTHS = {"half": 16, "bfloat": 16, "float": 32, "double": 64}

# What computes each element of its result from those of its operands alone. Divisions of integers
# are not here: no machine has them for vectors.
BINARY = frozenset("add sub mul shl lshr ashr and or xor fadd fsub fmul fdiv".split())
CASTS = frozenset("trunc zext sext fptrunc fpext sitofp uitofp fptosi fptoui bitcast".split())
_INTRINSICS = frozenset(
    """abs bitreverse bswap canonicalize ceil copysign ctlz ctpop cttz fabs floor fma fmuladd
    fptosi.sat fptoui.sat fshl fshr maximum maxnum minimum minnum nearbyint rint round roundeven
    smax smin sqrt trunc umax umin""".split()
)
# Their second operand says whether zero, or the least number, is defined: one constant for all.
FLAGGED = frozenset({"abs", "ctlz", "cttz"})

LINE = re.compile(r"  (?:(%[\w.]+) = )?(\w+) (.*)$")
NAME = re.compile(r"%[\w.]+")
_FLAGS = r"((?:(?:nsw|nuw|exact|reassoc|contract|disjoint|nneg) )*)"
BINARY_FORM = re.compile(rf"{_FLAGS}(\S+) (\S+), (\S+)$")
COMPARE_FORM = re.compile(rf"{_FLAGS}([a-z]+) (\S+) (\S+), (\S+)$")
SELECT_FORM = re.compile(rf"{_FLAGS}i1 (\S+), (\S+) (\S+), (\S+) (\S+)$")
CAST_FORM = re.compile(rf"{_FLAGS}(\S+) (\S+) to (\S+)$")
UNARY_FORM = re.compile(rf"{_FLAGS}(\S+) (\S+)$")
CALL_FORM = re.compile(rf"{_FLAGS}(\S+) @llvm\.([\w.]+)\((.*)\)$")
ADDRESS_FORM = re.compile(r"((?:inbounds )?(?:nuw )?)(\S+), ptr (\S+), i64 (\S+)$")
LOAD_FORM = re.compile(r"(\S+), ptr (\S+?)(?:, align \d+)?$")
STORE_FORM = re.compile(r"(\S+) (\S+), ptr (\S+?)(?:, align \d+)?$")
_BASE = re.compile(r"^  (%[\w.]+) = getelementptr .*?ptr (%[\w.]+),", re.MULTILINE)
SUFFIX = re.compile(r"\.(f16|bf16|f32|f64|i\d+)(?=\.|$)")


# Operations on variables whose order does not matter, with what leaves any value as it is, by the
# number of bits where that depends on it. Those on floats have to say `reassoc`, or be intrinsics.
_IDENTITIES: dict[str, Callable[[int], str]] = {
    "fadd": lambda _: "-0.0",
    "fmul": lambda _: "1.0",
    "maximum": lambda _: "0xFFF0000000000000",
    "minimum": lambda _: "0x7FF0000000000000",
    "add": lambda _: "0",
    "mul": lambda _: "1",
    "and": lambda _: "-1",
    "or": lambda _: "0",
    "xor": lambda _: "0",
    "smax": lambda bits: str(-(1 << (bits - 1))),
    "smin": lambda bits: str((1 << (bits - 1)) - 1),
    "umax": lambda _: "0",
    "umin": lambda _: "-1",
}


class Unfit(Exception):
    """The loop is none of the kind taken here."""


@dataclass(frozen=True)
class Uniform:
    """The same in all turns."""


@dataclass(frozen=True)
class Linear:
    """An index, or with a base an address, that grows by so many, or so many bytes, a turn."""

    step: int
    base: str = ""


@dataclass(frozen=True)
class Varying:
    """A value of a type, of its own in each turn."""

    type: str


_Kind = Uniform | Linear | Varying
_UNIFORM = Uniform()


def bits(type_: str) -> int:
    """Return the width of a scalar type. Raises Unfit for a type without vectors."""
    if type_ in _WIDTHS:
        return _WIDTHS[type_]
    if re.fullmatch(r"i\d+", type_):
        return int(type_[1:])
    raise Unfit(type_)


def used_lines(lines: Sequence[str]) -> list[str]:
    """Return the lines without values that nothing uses."""
    used: set[str] = set()
    kept = []
    for line in reversed(lines):
        m = LINE.match(line)
        if m and m[1] and m[1] not in used and m[2] not in ("call", "load"):
            continue
        used.update(NAME.findall(m[3]) if m else ())
        kept.append(line)
    return kept[::-1]


@dataclass(frozen=True)
class Sum:
    """A variable that each turn adds to: its address and type, the operation, what is added."""

    address: str
    type: str
    op: str
    flags: str
    term: str

    @property
    def identity(self) -> str:
        return _IDENTITIES[self.op](bits(self.type))

    def applied(self, module: Module, lanes: int, x: str, y: str) -> str:
        """Return the operation on two vectors, or with no lanes on two scalars."""
        type_ = f"<{lanes} x {self.type}>" if lanes else self.type
        if self.op in BINARY:
            return f"{self.op} {self.flags}{type_} {x}, {y}"
        name = f"llvm.{self.op}.{f'v{lanes}' if lanes else ''}{SHORT.get(self.type, self.type)}"
        module.declare(name, type_, [type_, type_])
        return f"call {self.flags}{type_} @{name}({type_} {x}, {type_} {y})"

    def reduced(self, module: Module, lanes: int, vector: str) -> str:
        """Return the operation on all elements of a vector."""
        t, v = self.type, f"<{lanes} x {self.type}>"
        is_float = t in _WIDTHS
        op = f"f{self.op}" if is_float and self.op not in BINARY else self.op
        start = f"{t} {self.identity}, " if op in ("fadd", "fmul") else ""
        name = f"llvm.vector.reduce.{op}.v{lanes}{SHORT.get(t, t)}"
        module.declare(name, t, [t, v] if start else [v])
        return f"call {'reassoc ' if start else ''}{t} @{name}({start}{v} {vector})"


class Fitness(Enum):
    """What becomes of a loop: one over vectors, what it is, or what LLVM makes of it."""

    VECTORS = "vectors"
    ELEMENTS = "elements"
    UNKNOWN = "unknown"


# Vectors of elements that lie further apart than this are gathered one by one, which is not worth
# it for less than so many operations on them.
_FAR, _MUCH = 4, 8


@dataclass
class Body:
    """The straight code of a loop, seen as that of many turns at once.

    lines: its instructions. index: the name of what the loop counts by ones. earlier: the lines
    before. allocated: addresses of the function's own memory.
    """

    lines: Sequence[str]
    index: str
    earlier: Sequence[str]
    allocated: Set[str]
    kinds: dict[str, _Kind] = field(default_factory=dict)
    stored: set[tuple[str, str]] = field(default_factory=set)
    loaded: set[tuple[str, str]] = field(default_factory=set)
    # By the name of the new value.
    sums: dict[str, Sum] = field(default_factory=dict)
    operations: int = 0
    widest: int = 8
    is_scattered: bool = False

    def judge(self) -> Fitness:
        """Find what each value is; returns what the loop is fit for."""
        self.kinds[self.index] = Linear(1)
        self.bases = dict(_BASE.findall("\n".join([*self.earlier, *self.lines])))
        try:
            for line in self.lines:
                if not line.startswith("  ;"):
                    self._look(line)
            if self.is_scattered:
                return Fitness.ELEMENTS if self.operations <= _MUCH else Fitness.UNKNOWN
            self._check_memory()
        except Unfit:
            return Fitness.UNKNOWN
        return Fitness.VECTORS if self.stored or self.sums else Fitness.UNKNOWN

    def _check_memory(self) -> None:
        """Check that no turn reads what another writes, but for the variables."""
        for base, at in self.stored:
            if any(b == base and a != at for b, a in self.loaded | self.stored):
                raise Unfit(base)
        for address in {total.address for total in self.sums.values()}:
            own = [total for total in self.sums.values() if total.address == address]
            reads = sum(
                line.endswith(f", ptr {address}") and " = load " in line for line in self.lines
            )
            if reads != len(own) or len({(total.op, total.flags) for total in own}) > 1:
                raise Unfit(address)
            if any(b == address and at != address for b, at in self.loaded | self.stored):
                raise Unfit(address)

    def kind(self, name: str) -> _Kind:
        return self.kinds.get(name, _UNIFORM)

    def _look(self, line: str) -> None:
        m = LINE.match(line)
        if m is None:
            raise Unfit(line)
        name, op, rest = m.groups()
        if op == "store":
            self._look_at_store(rest)
            return
        if name is None:
            raise Unfit(line)
        if op == "load":
            found = self._loaded(rest)
        elif op == "getelementptr":
            found = self._address(rest)
        else:
            found = self._computed(op, rest)
        self.kinds[name] = found
        if isinstance(found, Varying):
            self.operations += 1
            if found.type not in ("i1", "ptr"):
                self.widest = max(self.widest, bits(found.type))

    def _root(self, pointer: str) -> str:
        """Return the memory that a pointer leads to: a parameter, or some of the function's own."""
        while pointer in self.bases:
            pointer = self.bases[pointer]
        if pointer not in self.allocated and not re.fullmatch(r"%buf\d+", pointer):
            raise Unfit(pointer)
        return pointer

    def _look_at_store(self, rest: str) -> None:
        type_, value, pointer = parts_of(STORE_FORM, rest)
        kind = self.kind(pointer)
        if isinstance(kind, Uniform):
            self.sums[value] = self._sum(type_, value, pointer)
            return
        if not self._is_near(kind, bits(type_)):
            return
        self.widest = max(self.widest, bits(type_))
        self.stored.add((self._root(kind.base), pointer))

    def _sum(self, type_: str, value: str, address: str) -> Sum:
        """Return what a store to a variable does."""
        made = [m for line in self.lines if (m := LINE.match(line)) and m[1] == value]
        if address not in self.allocated or not made:
            raise Unfit(value)
        op, rest = made[0][2], made[0][3]
        if op == "call":
            flags, _, function, arguments = parts_of(CALL_FORM, rest)
            op = SUFFIX.sub("", function)
            x, *others = (argument.split(" ")[1] for argument in arguments.split(", "))
            y = others[0] if others else ""
        else:
            flags, _, x, y = parts_of(BINARY_FORM, rest)
        if op not in _IDENTITIES or (op in ("fadd", "fmul") and "reassoc" not in flags):
            raise Unfit(rest)
        if type_ in ("half", "bfloat"):
            # Nothing is added up so narrow.
            raise Unfit(type_)
        load = f"load {type_}, ptr {address}"
        before, term = (x, y) if f"  {x} = {load}" in self.lines else (y, x)
        uses = Counter(name for line in self.lines for name in NAME.findall(line))
        # Both are made and used once.
        is_kept = uses[before] == uses[value] == 2 and f"  {before} = {load}" in self.lines
        if not is_kept or not isinstance(self.kind(term), Varying):
            raise Unfit(rest)
        return Sum(address, type_, op, flags, term)

    def _loaded(self, rest: str) -> _Kind:
        type_, pointer = parts_of(LOAD_FORM, rest)
        kind = self.kind(pointer)
        if isinstance(kind, Uniform):
            self.loaded.add((self._root(pointer), pointer))
            return _UNIFORM
        if self._is_near(kind, bits(type_)):
            self.loaded.add((self._root(kind.base), pointer))
        return Varying(type_)

    def _is_near(self, kind: _Kind, width: int) -> TypeGuard[Linear]:
        """True when an address is that of the next element in the next turn, False if it is far.

        Raises Unfit for other neighbours: LLVM reads those a vector at a time, and shuffles them.
        """
        if isinstance(kind, Linear) and abs(kind.step) * 8 <= _FAR * width:
            if kind.step * 8 != width:
                raise Unfit(kind)
            return True
        self.is_scattered = True
        return False

    def _address(self, rest: str) -> _Kind:
        _, type_, base, index = parts_of(ADDRESS_FORM, rest)
        at, start = self.kind(index), self.kind(base)
        step = 0
        if isinstance(start, Linear):
            step, base = start.step, start.base
        if isinstance(at, Linear):
            step += at.step * (bits(type_) // 8)
        if isinstance(at, Varying) or isinstance(start, Varying):
            return Varying("ptr")
        return Linear(step, base) if step else _UNIFORM

    def _computed(self, op: str, rest: str) -> _Kind:
        kinds = [self.kind(n) for n in NAME.findall(rest)]
        if op == "call":
            _, type_, function, _ = parts_of(CALL_FORM, rest)
            if SUFFIX.sub("", function) not in _INTRINSICS:
                raise Unfit(rest)
        elif op in ("alloca", "phi"):
            raise Unfit(rest)
        if all(k is _UNIFORM for k in kinds):
            return _UNIFORM
        if any(isinstance(k, Linear) and k.base for k in kinds):
            raise Unfit(rest)
        if op in BINARY:
            _, type_, x, y = parts_of(BINARY_FORM, rest)
            return self._index(op, x, y) or Varying(type_)
        if op in ("icmp", "fcmp"):
            parts_of(COMPARE_FORM, rest)
            return Varying("i1")
        if op == "select":
            return Varying(parts_of(SELECT_FORM, rest)[2])
        if op in CASTS:
            return Varying(parts_of(CAST_FORM, rest)[3])
        if op in ("fneg", "freeze"):
            return Varying(parts_of(UNARY_FORM, rest)[1])
        if op == "call":
            return Varying(type_)
        raise Unfit(rest)

    def _index(self, op: str, x: str, y: str) -> Linear | None:
        """Return what arithmetic on indices is that is an index itself."""
        a, b = self.kind(x), self.kind(y)
        if isinstance(a, Varying) or isinstance(b, Varying):
            return None
        steps = [k.step if isinstance(k, Linear) else 0 for k in (a, b)]
        if op == "mul":
            factor = y if isinstance(a, Linear) else x
            return Linear(sum(steps) * int(factor)) if factor.lstrip("-").isdigit() else None
        if op in ("add", "sub"):
            step = steps[0] + (steps[1] if op == "add" else -steps[1])
            return Linear(step) if step else None
        return None


def parts_of(form: re.Pattern[str], text: str) -> tuple[str, ...]:
    m = form.match(text)
    if m is None:
        raise Unfit(text)
    return m.groups()
