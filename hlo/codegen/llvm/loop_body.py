"""What the straight code of a loop does from turn to turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeGuard

from hlo.codegen.llvm.module import ModuleBuilder
from hlo.llvm import (
    Alloca,
    Binary,
    Call,
    Cast,
    Compare,
    GetElementPtr,
    Instruction,
    Line,
    Load,
    Location,
    Operation,
    Phi,
    Select,
    Store,
    Unary,
    VectorType,
    overload,
    vector_type,
)

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
    if type_[0] == "i" and type_[1:].isdigit():
        return int(type_[1:])
    raise Unfit(type_)


def _is_vector(type_: str) -> bool:
    return isinstance(type_, VectorType)


def intrinsic(call: Call) -> str:
    """Return the name of the intrinsic that a call is of: `smax`. Empty for another function."""
    return call.function[6:] if call.function.startswith("@llvm.") else ""


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

    def applied(self, module: ModuleBuilder, lanes: int, x: str, y: str) -> Operation:
        """Return the operation on two vectors, or with no lanes on two scalars."""
        type_ = vector_type(lanes, self.type) if lanes else self.type
        if self.op in BINARY:
            return Binary(self.op, self.flags, type_, (x, y))
        return self._declared(module, Call(
            self.flags, type_, f"@llvm.{self.op}", (type_, type_), (x, y), (overload(type_),)
        ))  # fmt: skip

    def reduced(self, module: ModuleBuilder, lanes: int, vector: str) -> Operation:
        """Return the operation on all elements of a vector."""
        t, v = self.type, vector_type(lanes, self.type)
        is_float = t in _WIDTHS
        op = f"f{self.op}" if is_float and self.op not in BINARY else self.op
        name, overloads = f"@llvm.vector.reduce.{op}", (overload(v),)
        if op in ("fadd", "fmul"):
            operands = (self.identity, vector)
            return self._declared(module, Call("reassoc", t, name, (t, v), operands, overloads))
        return self._declared(module, Call("", t, name, (v,), (vector,), overloads))

    def _declared(self, module: ModuleBuilder, call: Call) -> Call:
        module.declare(call.callee, call.type, call.types)
        return call


class Fitness(Enum):
    """What becomes of a loop: one over vectors, what it is, or what LLVM makes of it."""

    VECTORS = "vectors"
    ELEMENTS = "elements"
    UNKNOWN = "unknown"


# Vectors of elements that lie further apart than this are gathered one by one, which is not worth
# it for less than so many operations on them.
_FAR, _MUCH = 4, 8
# The widths of elements that machines gather.
_GATHERED = (32, 64)


@dataclass
class Body:
    """The straight code of a loop, seen as that of many turns at once.

    lines: its instructions. index: the name of what the loop counts by ones. bases: of addresses,
    those that they were computed from. allocated: addresses of the function's own memory. is_apart:
    no turn reads what those before it have written, whatever the addresses. gathers: the machine
    reads elements that lie apart as one vector.
    """

    lines: Sequence[Line]
    index: str
    bases: Mapping[str, str]
    allocated: Set[str]
    is_apart: bool = False
    gathers: bool = False
    kinds: dict[str, _Kind] = field(default_factory=dict)
    stored: set[tuple[str, str]] = field(default_factory=set)
    loaded: set[tuple[str, str]] = field(default_factory=set)
    # By the name of the new value.
    sums: dict[str, Sum] = field(default_factory=dict)
    operations: int = 0
    widest: int = 8
    # How many values there are of each width.
    widths: Counter[int] = field(default_factory=Counter)
    is_scattered: bool = False
    # The names of elements that lie apart, and are read as vectors.
    gathered: set[str] = field(default_factory=set)
    # Whether a turn reads what it has written.
    reads_back: bool = False

    def judge(self) -> Fitness:
        """Find what each value is; returns what the loop is fit for."""
        self.kinds[self.index] = Linear(1)
        try:
            for line in self.lines:
                if not isinstance(line, Location):
                    self._look(line)
            if (self.is_scattered or self.gathered) and self.operations <= _MUCH:
                return Fitness.ELEMENTS
            if self.is_scattered:
                return Fitness.UNKNOWN
            self._check_memory()
        except Unfit:
            return Fitness.UNKNOWN
        return Fitness.VECTORS if self.stored or self.sums else Fitness.UNKNOWN

    def _check_memory(self) -> None:
        """Check that no turn reads what another writes, but for the variables."""
        for base, at in self.stored if not self.is_apart else ():
            if any(b == base and a != at for b, a in self.loaded | self.stored):
                raise Unfit(base)
        for address in {total.address for total in self.sums.values()}:
            own = [total for total in self.sums.values() if total.address == address]
            reads = sum(
                isinstance(x.operation, Load) and x.operation == Load(x.operation.type, (address,))
                for x in self._instructions()
            )
            if reads != len(own) or len({(total.op, total.flags) for total in own}) > 1:
                raise Unfit(address)
            if any(b == address and at != address for b, at in self.loaded | self.stored):
                raise Unfit(address)

    def kind(self, name: str) -> _Kind:
        return self.kinds.get(name, _UNIFORM)

    def _instructions(self) -> list[Instruction]:
        return [line for line in self.lines if isinstance(line, Instruction)]

    def _look(self, line: Line) -> None:
        if not isinstance(line, Instruction):
            raise Unfit(line)
        operation = line.operation
        match operation:
            case Store():
                self._look_at_store(operation)
                return
            case Load():
                found = self._loaded(line.result, operation)
            case GetElementPtr():
                found = self._address(operation)
            case _:
                found = self._computed(operation)
        if not line.result:
            raise Unfit(line)
        self.kinds[line.result] = found
        if isinstance(found, Varying):
            self.operations += 1
            if found.type not in ("i1", "ptr"):
                width = bits(found.type)
                self.widest = max(self.widest, width)
                self.widths[width] += 1

    def _root(self, pointer: str) -> str:
        """Return the memory that a pointer leads to: a parameter, or some of the function's own."""
        while pointer in self.bases:
            pointer = self.bases[pointer]
        is_buffer = pointer.startswith("%buf") and pointer[4:].isdigit()
        if pointer not in self.allocated and not is_buffer:
            raise Unfit(pointer)
        return pointer

    def _look_at_store(self, store: Store) -> None:
        value, pointer = store.operands
        kind = self.kind(pointer)
        if _is_vector(store.type):
            raise Unfit(store)
        if isinstance(kind, Uniform):
            self.sums[value] = self._sum(store.type, value, pointer)
            return
        if not self._is_near(kind, bits(store.type)):
            self.is_scattered = True
            return
        self.widest = max(self.widest, bits(store.type))
        self.stored.add((self._root(kind.base), pointer))

    def _sum(self, type_: str, value: str, address: str) -> Sum:
        """Return what a store to a variable does."""
        instructions = self._instructions()
        made = [x.operation for x in instructions if x.result == value]
        if address not in self.allocated or not made:
            raise Unfit(value)
        operation = made[0]
        match operation:
            case Call(flags=flags, operands=(x, *others)):
                op, y = intrinsic(operation), others[0] if others else ""
            case Binary(opcode=op, flags=flags, operands=(x, y)):
                pass
            case _:
                raise Unfit(operation)
        if op not in _IDENTITIES or (op in ("fadd", "fmul") and "reassoc" not in flags):
            raise Unfit(operation)
        if type_ in ("half", "bfloat"):
            # Nothing is added up so narrow.
            raise Unfit(type_)
        loads = {i.result for i in instructions if i.operation == Load(type_, (address,))}
        before, term = (x, y) if x in loads else (y, x)
        uses = Counter(n for i in instructions for n in (i.result, *i.operation.operands))
        # Both are made and used once.
        is_kept = uses[before] == uses[value] == 2 and before in loads
        if not is_kept or not isinstance(self.kind(term), Varying):
            raise Unfit(operation)
        return Sum(address, type_, op, flags, term)

    def _loaded(self, name: str, load: Load) -> _Kind:
        (pointer,) = load.operands
        kind = self.kind(pointer)
        if load.is_invariant or _is_vector(load.type):
            raise Unfit(load)
        if isinstance(kind, Uniform):
            self.loaded.add((self._root(pointer), pointer))
            return _UNIFORM
        if self._is_near(kind, bits(load.type)):
            place = self._root(kind.base), pointer
            self.loaded.add(place)
            self.reads_back |= place in self.stored
        elif self.gathers and bits(load.type) in _GATHERED:
            start = kind.base if isinstance(kind, Linear) else pointer
            self.loaded.add((self._root(start), pointer))
            self.gathered.add(name)
        else:
            self.is_scattered = True
        return Varying(load.type)

    def _is_near(self, kind: _Kind, width: int) -> TypeGuard[Linear]:
        """True when an address is that of the next element in the next turn, False if it is far.

        Raises Unfit for other neighbours: LLVM reads those a vector at a time, and shuffles them.
        """
        if isinstance(kind, Linear) and abs(kind.step) * 8 <= _FAR * width:
            if kind.step * 8 != width:
                raise Unfit(kind)
            return True
        return False

    def _address(self, address: GetElementPtr) -> _Kind:
        base, index = address.operands
        if address.types != ("ptr", "i64") or _is_vector(address.type):
            raise Unfit(address)
        at, start = self.kind(index), self.kind(base)
        step = 0
        if isinstance(start, Linear):
            step, base = start.step, start.base
        if isinstance(at, Linear):
            step += at.step * (bits(address.type) // 8)
        if isinstance(at, Varying) or isinstance(start, Varying):
            return Varying("ptr")
        return Linear(step, base) if step else _UNIFORM

    def _computed(self, operation: Operation) -> _Kind:
        kinds = [self.kind(name) for name in operation.operands]
        if isinstance(operation, Call):
            if intrinsic(operation) not in _INTRINSICS:
                raise Unfit(operation)
        elif isinstance(operation, Alloca | Phi):
            raise Unfit(operation)
        if all(k is _UNIFORM for k in kinds):
            return _UNIFORM
        if any(isinstance(k, Linear) and k.base for k in kinds):
            raise Unfit(operation)
        match operation:
            case Binary(opcode, _, type_, (x, y)) if opcode in BINARY:
                return self._index(opcode, x, y) or Varying(type_)
            case Compare(type=type_) if not _is_vector(type_):
                return Varying("i1")
            case Select(condition_type="i1", type=type_) | Unary(type=type_) | Call(type=type_):
                return Varying(type_)
            case Cast(opcode, _, to) if opcode in CASTS:
                return Varying(to)
        raise Unfit(operation)

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
