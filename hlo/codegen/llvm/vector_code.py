"""The code of a loop's body for several turns at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from hlo.codegen.llvm.extrema import Extremum
from hlo.codegen.llvm.loop_body import (
    FLAGGED,
    Body,
    Linear,
    Sum,
    Varying,
    bits,
    intrinsic,
)
from hlo.codegen.llvm.module import ModuleBuilder
from hlo.llvm import (
    Alloca,
    Binary,
    Call,
    Cast,
    Compare,
    GetElementPtr,
    InsertElement,
    Instruction,
    Line,
    Load,
    Operation,
    Phi,
    Select,
    ShuffleVector,
    Store,
    Unary,
    overload,
    vector_type,
)


class Names(Protocol):
    """The function that the loop is in."""

    module: ModuleBuilder
    vector_bits: int
    allocated: set[str]
    bases: dict[str, str]
    keeps_indices: bool

    def fresh(self) -> str: ...
    def new_label(self, stem: str) -> str: ...
    def count(self, index: str, following: str, step: int, *, hides: bool) -> list[Line]: ...


@dataclass
class Turn:
    """The code of one vector.

    number: how many vectors of the same turn are before it. totals: of each variable, the vector
    before and after. names: the new names of values that are not the same in all turns; counts: of
    numbers that count elements, as vectors.
    """

    number: int
    totals: dict[str, tuple[str, str]]
    names: dict[str, str] = field(default_factory=dict)
    counts: dict[str, str] = field(default_factory=dict)


@dataclass
class Outside:
    """What goes before the loops that are made of one. splats: vectors of one value each."""

    lines: list[Line] = field(default_factory=list)
    splats: dict[str, str] = field(default_factory=dict)


class VectorCode:
    """Writes the code of a loop's body for several turns at once, `lanes` to a vector.

    label: that of the block in which the new loop's body begins, then of the one in which it ends.
    lines: what goes into it.
    """

    def __init__(
        self, body: Body, lanes: int, index: str, label: str, names: Names, outside: Outside
    ) -> None:
        self.body, self.lanes, self.index, self.label = body, lanes, index, label
        self.fresh, self.module = names.fresh, names.module
        self.outside = outside
        self.lines: list[Line] = []
        # The new names of values that are the same in all turns.
        self._fixed = {body.index: index}
        # Splats of these.
        self._splats: dict[str, str] = {}
        self._turns: list[Turn] = []

    def write(self, copies: int) -> None:
        """Write the turns of so many vectors, line by line in turn: one goes on where one waits."""
        self._begin(copies)
        self._write_all(self.body.lines)

    def _begin(self, copies: int) -> None:
        addresses = sorted({total.address for total in self.body.sums.values()})
        for copy in range(copies):
            starts = [self.fresh() for _ in addresses]
            totals = {a: (name, name) for a, name in zip(addresses, starts, strict=True)}
            self._turn = Turn(copy, totals)
            self._turns.append(self._turn)
            if copy:
                step = Binary("add", "nsw", "i64", (self.index, str(copy * self.lanes)))
                self._assign(self.body.index, step)

    def _write_all(self, lines: Iterable[Line]) -> None:
        for line in lines:
            for turn in self._turns:
                self._turn = turn
                self._write(line)

    def _write(self, line: Line) -> None:
        if not isinstance(line, Instruction):
            self.lines.append(line)
            return
        name, operation = line.result, line.operation
        if isinstance(operation, Store):
            value, pointer = operation.operands
            if value in self.body.sums:
                return
            self._store(operation.type, self._vector(operation.type, value), self._name(pointer))
            return
        kind = self.body.kind(name)
        if total := self.body.sums.get(name):
            start, before = self._turn.totals[total.address]
            term = self._vector(total.type, total.term)
            held = Extremum.of(total, self.module)
            if isinstance(held, Extremum):
                term = held.key(self._line, self.lanes, term)
            self._assign(name, held.applied(self.module, self.lanes, before, term))
            self._turn.totals[total.address] = start, self._kept(held, self._name(name), before)
        elif isinstance(kind, Varying):
            is_gathered = name in self.body.gathered
            made = self._gathered if is_gathered else self._operation
            self._assign(name, made(operation))
        elif isinstance(kind, Linear):
            if kind.base and self._turn.number:
                distance = self._turn.number * self.lanes * kind.step
                operands = (self._turns[0].names[name], str(distance))
                operation = GetElementPtr("", "i8", ("ptr", "i64"), operands)
                self._assign(name, operation)
            else:
                self._assign(name, self._renamed(operation))
        elif not self._turn.number:
            self._fixed[name] = self._line(self._renamed(operation))

    def phis(self, before: str, inside: str, begun: Mapping[str, str]) -> list[Line]:
        """Return the lines by which the variables' vectors come from turn to turn.

        begun: vectors to go on with, by address.
        """
        lines: list[Line] = []
        for turn in self._turns:
            for address, (start, end) in turn.totals.items():
                total = Extremum.of(self._sum_at(address), self.module)
                first = f"splat ({total.type} {total.identity})"
                if not turn.number:
                    first = begun.get(address, first)
                merge = Phi(self._type(total.type), (first, end), (before, inside))
                lines.append(Instruction(start, merge))
        return lines

    def totals(self, lines: list[Line]) -> dict[str, str]:
        """Return one vector for each variable, by address, after the loop."""
        found: dict[str, str] = {}
        for address in self._turns[0].totals:
            held = Extremum.of(self._sum_at(address), self.module)
            vector, *others = (turn.totals[address][0] for turn in self._turns)
            for other in others:
                name = self.fresh()
                both = held.applied(self.module, self.lanes, vector, other)
                lines.append(Instruction(name, both))
                vector = name
            found[address] = vector
        return found

    def sums(self) -> list[Line]:
        """Return the lines that add the vectors to the variables, after the loop."""
        lines: list[Line] = []

        def assign(operation: Operation) -> str:
            name = self.fresh()
            lines.append(Instruction(name, operation))
            return name

        for address, vector in self.totals(lines).items():
            total = self._sum_at(address)
            held = Extremum.of(total, self.module)
            some = assign(held.reduced(self.module, self.lanes, vector))
            if isinstance(held, Extremum):
                some = held.value(assign, some)
            before = assign(Load(total.type, (address,)))
            now = assign(total.applied(self.module, 0, before, some))
            lines.append(Instruction("", Store(total.type, (now, address))))
        return lines

    def _sum_at(self, address: str) -> Sum:
        return next(total for total in self.body.sums.values() if total.address == address)

    def _line(self, operation: Operation) -> str:
        name = self.fresh()
        self.lines.append(Instruction(name, operation))
        return name

    def _assign(self, name: str, operation: Operation) -> None:
        self._turn.names[name] = self._line(operation)

    def _name(self, name: str) -> str:
        return self._turn.names.get(name) or self._fixed.get(name, name)

    def _renamed(self, operation: Operation) -> Operation:
        assert not isinstance(operation, Alloca)
        return operation._replace(operands=tuple(map(self._name, operation.operands)))

    def _type(self, type_: str) -> str:
        return vector_type(self.lanes, type_)

    # What is different where vectors are masked.

    def _load(self, type_: str, pointer: str) -> Operation:
        return Load(self._type(type_), (pointer,), bits(type_) // 8)

    def _store(self, type_: str, vector: str, pointer: str) -> None:
        store = Store(self._type(type_), (vector, pointer), bits(type_) // 8)
        self.lines.append(Instruction("", store))

    def _kept(self, total: Sum, now: str, before: str) -> str:
        """Return the vector of a variable, given what it would be and what it was."""
        return now

    def _mask(self) -> str:
        """Return which lanes there are."""
        return "splat (i1 true)"

    # --- what lies apart --------------------------------------------------------------------------

    def _gathered(self, load: Operation) -> Operation:
        """Return the load of elements that lie apart."""
        assert isinstance(load, Load)
        vector, (type_, pointers) = self._type(load.type), self._pointers(load.operands[0])
        types = f"{type_} align {bits(load.type) // 8}", self._type("i1"), vector
        operands = pointers, self._mask(), "zeroinitializer"
        return self._masked("gather", vector, types, operands, type_)

    def _masked(
        self, name: str, type_: str, types: tuple[str, ...], operands: tuple[str, ...],
        pointer: str = "ptr",
    ) -> Call:  # fmt: skip
        """Return the call of an intrinsic that reads or writes where a mask is set.

        pointer: the type of its addresses.
        """
        vector = types[0] if type_ == "void" else type_
        overloads = overload(vector), overload(pointer)
        call = Call("", type_, f"@llvm.masked.{name}", types, operands, overloads)
        self.module.declare(call.callee, type_, [t.split(" align")[0] for t in types])
        return call

    def _pointers(self, name: str) -> tuple[str, str]:
        """Return an address, of one element or of each, with its type."""
        kind = self.body.kind(name)
        if isinstance(kind, Varying):
            return self._type("ptr"), self._name(name)
        if isinstance(kind, Linear):
            steps = ", ".join(f"i64 {kind.step * n}" for n in range(self.lanes))
            types, operands = ("ptr", self._type("i64")), (self._name(name), f"<{steps}>")
            return self._type("ptr"), self._line(GetElementPtr("", "i8", types, operands))
        return "ptr", self._name(name)

    def _addresses(self, address: GetElementPtr) -> GetElementPtr:
        """Return the computation of the addresses of elements that lie apart."""
        base, index = address.operands
        type_, pointers = self._pointers(base)
        if type_ != "ptr" and not isinstance(self.body.kind(index), Varying | Linear):
            types, operands = (type_, "i64"), (pointers, self._name(index))
        else:
            types, operands = (type_, self._type("i64")), (pointers, self._vector("i64", index))
        return address._replace(types=types, operands=operands)

    def _operation(self, operation: Operation) -> Operation:
        """Return an operation on vectors."""
        match operation:
            case Load(type_, (pointer,)):
                return self._load(type_, self._name(pointer))
            case Binary(_, _, type_) | Compare(_, _, type_) | Unary(_, type_):
                operands = tuple([self._vector(type_, x) for x in operation.operands])
                return operation._replace(type=self._type(type_), operands=operands)
            case Select(_, type_, (condition, x, y)):
                chosen = self._vector("i1", condition)
                operands = (chosen, self._vector(type_, x), self._vector(type_, y))
                return Select(self._type("i1"), self._type(type_), operands)
            case Cast(opcode, type_, to, (x,)):
                if opcode == "trunc" and isinstance(self.body.kind(x), Linear):
                    start = self.fresh()
                    first = Cast("trunc", "i64", to, (self._name(x),))
                    self.lines.append(Instruction(start, first))
                    return self._count(to, start, x)
                return Cast(opcode, self._type(type_), self._type(to), (self._vector(type_, x),))
            case Call():
                return self._call(operation)
            case GetElementPtr():
                return self._addresses(operation)
        raise AssertionError(operation)

    def _call(self, call: Call) -> Call:
        operands, types = [], []
        is_flagged = intrinsic(call) in FLAGGED
        for n, (t, value) in enumerate(zip(call.types, call.operands, strict=True)):
            if is_flagged and n == 1:
                operands.append(value)
                types.append(t)
            else:
                operands.append(self._vector(t, value))
                types.append(self._type(t))
        new = call._replace(
            type=self._type(call.type), types=tuple(types), operands=tuple(operands),
            overloads=tuple(f"v{self.lanes}{t}" for t in call.overloads),
        )  # fmt: skip
        self.module.declare(new.callee, new.type, types)
        return new

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
                numbers = self._count("i64", self._name(value), value)
                name = self._turn.counts[value] = self.fresh()
                self.lines.append(Instruction(name, numbers))
            return self._turn.counts[value]
        # Known before the loop, unless the loop's own code says what it is.
        is_inside = value in self.body.kinds
        splats = self._splats if is_inside else self.outside.splats
        if value not in splats:
            place = self.lines if is_inside else self.outside.lines
            splats[value] = self._splat(place, type_, self._name(value))
        return splats[value]

    def _splat(self, place: list[Line], type_: str, value: str) -> str:
        first, name, t = self.fresh(), self.fresh(), self._type(type_)
        place.append(Instruction(first, InsertElement(t, type_, ("poison", value, "0"))))
        place.append(Instruction(name, ShuffleVector(t, (first, "poison"), self.lanes)))
        return name

    def _count(self, type_: str, start: str, index: str) -> Binary:
        """Return the operation for the values of an index, given the first."""
        kind = self.body.kind(index)
        assert isinstance(kind, Linear)
        mask = (1 << bits(type_)) - 1
        steps = ", ".join(f"{type_} {(kind.step * n) & mask}" for n in range(self.lanes))
        spread = self._splat(self.lines, type_, start)
        return Binary("add", "", self._type(type_), (spread, f"<{steps}>"))
