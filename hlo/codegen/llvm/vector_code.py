"""The code of a loop's body for several turns at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from hlo.codegen.llvm.loop_body import (
    BINARY,
    BINARY_FORM,
    CALL_FORM,
    CAST_FORM,
    CASTS,
    COMPARE_FORM,
    FLAGGED,
    LINE,
    LOAD_FORM,
    NAME,
    SELECT_FORM,
    STORE_FORM,
    SUFFIX,
    UNARY_FORM,
    Body,
    Linear,
    Sum,
    Varying,
    bits,
    parts_of,
)
from hlo.codegen.llvm.module import Module


class Names(Protocol):
    """The function that the loop is in."""

    module: Module
    vector_bits: int
    allocated: set[str]

    def fresh(self) -> str: ...
    def new_label(self, stem: str) -> str: ...


@dataclass
class _Turn:
    """The code of one vector.

    totals: of each variable, the vector before and after. names: the new names of values that are
    not the same in all turns; counts: of numbers that count elements, as vectors.
    """

    is_first: bool
    totals: dict[str, tuple[str, str]]
    names: dict[str, str] = field(default_factory=dict)
    counts: dict[str, str] = field(default_factory=dict)


class VectorCode:
    """Writes the code of a loop's body for several turns at once, `lanes` to a vector.

    before: what goes before the new loop. lines: what goes into it.
    """

    def __init__(self, body: Body, lanes: int, index: str, names: Names) -> None:
        self.body, self.lanes = body, lanes
        self.fresh, self.module = names.fresh, names.module
        self.before: list[str] = []
        self.lines: list[str] = []
        # The new names of values that are the same in all turns.
        self._fixed = {body.index: index}
        self._splats: dict[str, str] = {}
        self._turns: list[_Turn] = []

    def write(self, copies: int) -> None:
        """Write the turns of so many vectors, line by line in turn: one goes on where one waits."""
        addresses = sorted({total.address for total in self.body.sums.values()})
        for copy in range(copies):
            starts = [self.fresh() for _ in addresses]
            totals = {a: (name, name) for a, name in zip(addresses, starts, strict=True)}
            self._turn = _Turn(not copy, totals)
            self._turns.append(self._turn)
            if copy:
                index = self._fixed[self.body.index]
                self._assign(self.body.index, f"add nsw i64 {index}, {copy * self.lanes}")
        for line in self.body.lines:
            for turn in self._turns:
                self._turn = turn
                self._write(line)

    def _write(self, line: str) -> None:
        m = LINE.match(line)
        if m is None:
            self.lines.append(line)
            return
        name, op, rest = m.groups()
        if name is None:
            type_, value, pointer = parts_of(STORE_FORM, rest)
            if value in self.body.sums:
                return
            self.lines.append(
                f"  store {self._type(type_)} {self._vector(type_, value)}, "
                f"ptr {self._name(pointer)}, align {bits(type_) // 8}"
            )
            return
        kind = self.body.kind(name)
        if total := self.body.sums.get(name):
            start, before = self._turn.totals[total.address]
            term = self._vector(total.type, total.term)
            self._assign(name, total.applied(self.module, self.lanes, before, term))
            self._turn.totals[total.address] = start, self._name(name)
        elif isinstance(kind, Varying):
            self._assign(name, self._operation(op, rest))
        elif isinstance(kind, Linear):
            self._assign(name, f"{op} {self._renamed(rest)}")
        elif self._turn.is_first:
            new = self._fixed[name] = self.fresh()
            self.lines.append(f"  {new} = {op} {self._renamed(rest)}")

    def phis(self, before: str, inside: str) -> list[str]:
        """Return the lines by which the variables' vectors come from turn to turn."""
        lines = []
        for turn in self._turns:
            for address, (start, end) in turn.totals.items():
                total = self._sum_at(address)
                nothing = f"splat ({total.type} {total.identity})"
                ways = f"[ {nothing}, %{before} ], [ {end}, %{inside} ]"
                lines.append(f"  {start} = phi {self._type(total.type)} {ways}")
        return lines

    def sums(self) -> list[str]:
        """Return the lines that add the vectors to the variables, after the loop."""
        lines = []

        def assign(text: str) -> str:
            name = self.fresh()
            lines.append(f"  {name} = {text}")
            return name

        for address in self._turns[0].totals:
            total = self._sum_at(address)
            vector, *others = (turn.totals[address][0] for turn in self._turns)
            for other in others:
                vector = assign(total.applied(self.module, self.lanes, vector, other))
            some = assign(total.reduced(self.module, self.lanes, vector))
            before = assign(f"load {total.type}, ptr {address}")
            now = assign(total.applied(self.module, 0, before, some))
            lines.append(f"  store {total.type} {now}, ptr {address}")
        return lines

    def _sum_at(self, address: str) -> Sum:
        return next(total for total in self.body.sums.values() if total.address == address)

    def _assign(self, name: str, text: str) -> None:
        new = self._turn.names[name] = self.fresh()
        self.lines.append(f"  {new} = {text}")

    def _name(self, name: str) -> str:
        return self._turn.names.get(name) or self._fixed.get(name, name)

    def _renamed(self, text: str) -> str:
        return NAME.sub(lambda m: self._name(m[0]), text)

    def _type(self, type_: str) -> str:
        return f"<{self.lanes} x {type_}>"

    def _operation(self, op: str, rest: str) -> str:
        if op == "load":
            type_, pointer = parts_of(LOAD_FORM, rest)
            align = bits(type_) // 8
            return f"load {self._type(type_)}, ptr {self._name(pointer)}, align {align}"
        if op in BINARY:
            flags, type_, x, y = parts_of(BINARY_FORM, rest)
            operands = f"{self._vector(type_, x)}, {self._vector(type_, y)}"
            return f"{op} {flags}{self._type(type_)} {operands}"
        if op in ("icmp", "fcmp"):
            flags, predicate, type_, x, y = parts_of(COMPARE_FORM, rest)
            operands = f"{self._vector(type_, x)}, {self._vector(type_, y)}"
            return f"{op} {flags}{predicate} {self._type(type_)} {operands}"
        if op == "select":
            flags, condition, type_, x, _, y = parts_of(SELECT_FORM, rest)
            t = self._type(type_)
            chosen = f"{self._type('i1')} {self._vector('i1', condition)}"
            return f"select {flags}{chosen}, {t} {self._vector(type_, x)}, {t} " + (
                self._vector(type_, y)
            )
        if op in CASTS:
            flags, type_, x, to = parts_of(CAST_FORM, rest)
            if op == "trunc" and isinstance(self.body.kind(x), Linear):
                start = self.fresh()
                self.lines.append(f"  {start} = trunc i64 {self._name(x)} to {to}")
                return self._count(to, start, x)
            return f"{op} {flags}{self._type(type_)} {self._vector(type_, x)} to {self._type(to)}"
        if op in ("fneg", "freeze"):
            flags, type_, x = parts_of(UNARY_FORM, rest)
            return f"{op} {flags}{self._type(type_)} {self._vector(type_, x)}"
        return self._call(rest)

    def _call(self, rest: str) -> str:
        flags, type_, function, arguments = parts_of(CALL_FORM, rest)
        parts, types = [], []
        is_flagged = SUFFIX.sub("", function) in FLAGGED
        for n, argument in enumerate(arguments.split(", ")):
            t, value = argument.split(" ")
            if not (is_flagged and n == 1):
                t, value = self._type(t), self._vector(t, value)
            parts.append(f"{t} {value}")
            types.append(t)
        name = "llvm." + SUFFIX.sub(rf".v{self.lanes}\1", function)
        self.module.declare(name, self._type(type_), types)
        return f"call {flags}{self._type(type_)} @{name}({', '.join(parts)})"

    def _vector(self, type_: str, value: str) -> str:
        """Return an operand as a vector."""
        if not value.startswith("%"):
            if value in ("poison", "undef", "zeroinitializer"):
                return value
            return f"splat ({type_} {value})"
        kind = self.body.kind(value)
        if isinstance(kind, Varying):
            return self._name(value)
        if isinstance(kind, Linear):
            if value not in self._turn.counts:
                text = self._count("i64", self._name(value), value)
                name = self._turn.counts[value] = self.fresh()
                self.lines.append(f"  {name} = {text}")
            return self._turn.counts[value]
        if value not in self._splats:
            # Known before the loop, unless the loop's own code says what it is.
            place = self.lines if value in self.body.kinds else self.before
            self._splats[value] = self._splat(place, type_, self._name(value))
        return self._splats[value]

    def _splat(self, place: list[str], type_: str, value: str) -> str:
        first, name, t = self.fresh(), self.fresh(), self._type(type_)
        place.append(f"  {first} = insertelement {t} poison, {type_} {value}, i64 0")
        place.append(
            f"  {name} = shufflevector {t} {first}, {t} poison, <{self.lanes} x i32> "
            "zeroinitializer"
        )
        return name

    def _count(self, type_: str, start: str, index: str) -> str:
        """Return the operation for the values of an index, given the first."""
        kind = self.body.kind(index)
        assert isinstance(kind, Linear)
        mask = (1 << bits(type_)) - 1
        steps = ", ".join(f"{type_} {(kind.step * n) & mask}" for n in range(self.lanes))
        spread = self._splat(self.lines, type_, start)
        return f"add {self._type(type_)} {spread}, <{steps}>"
