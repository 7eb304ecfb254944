"""The code of a loop's body for several turns at once, of which there may be less than lanes.

Where all lanes are used, neighbours are read and written without a mask: processors fetch ahead for
such reads only, and need not read the cache line that such a write fills.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeGuard

from hlo.codegen.llvm.hidden import hidden
from hlo.codegen.llvm.loop_body import Body, Linear, Sum, Varying, bits
from hlo.codegen.llvm.vector_code import Names, Outside, Turn, VectorCode
from hlo.llvm import (
    Binary,
    Branch,
    Cast,
    Compare,
    Instruction,
    Label,
    Line,
    Load,
    Operation,
    Phi,
    Select,
)


class MaskedCode(VectorCode):
    """Writes the code of a loop's body for several turns at once, up to the loop's end.

    The body reads nothing back that it has written.
    """

    def __init__(
        self, body: Body, lanes: int, index: str, label: str, names: Names, outside: Outside,
        end: str, *, is_rest: bool,
    ) -> None:  # fmt: skip
        """Write up to an end. is_rest: there are less elements than 256 in all."""
        super().__init__(body, lanes, index, label, names, outside)
        self._names, self._end, self._is_rest = names, end, is_rest
        # Of each vector of a turn; whether it has all lanes.
        self._masks: list[str] = []
        self._is_whole = ""
        # What is written at the end: types, vectors, and addresses.
        self._written: list[tuple[Turn, str, str, str]] = []

    def write(self, copies: int) -> None:
        """Write the turns of so many vectors: the addresses, what is read there, all else."""
        self._begin(copies)
        lines = self.body.lines
        early = [line for line in lines if self._is_early(line)]
        loads = [line for line in lines if self._is_neighbour(line)]
        self._write_all(early)
        self._read(loads)
        done = {id(line) for line in (*early, *loads)}
        self._write_all(line for line in lines if id(line) not in done)
        self._put()

    def _is_early(self, line: Line) -> bool:
        """True for what is the same in all turns, and for indices and addresses."""
        if not isinstance(line, Instruction) or not line.result:
            return False
        return line.result not in self.body.sums and not isinstance(
            self.body.kind(line.result), Varying
        )

    def _is_neighbour(self, line: Line) -> TypeGuard[Instruction]:
        """True for a load of what lies together."""
        if not isinstance(line, Instruction) or not isinstance(line.operation, Load):
            return False
        is_gathered = line.result in self.body.gathered
        return not is_gathered and isinstance(self.body.kind(line.operation.operands[0]), Linear)

    def _read(self, loads: list[Instruction]) -> None:
        """Write loads, in one of two blocks: all lanes, or those that there are."""
        left = self._line(Binary("sub", "nsw", "i64", (self._end, self.index)))
        if self._is_rest:
            self._masks = self._some(left)
            self._write_all(loads)
            return
        count = len(self._turns) * self.lanes
        self._is_whole = self._line(Compare("icmp", "sge", "i64", (left, str(count))))
        all_lanes: list[list[str]] = []
        some_lanes: list[list[str]] = []

        def whole() -> None:
            all_lanes.extend(self._loaded(loads, n) for n in range(len(self._turns)))

        def part() -> None:
            self._masks = self._some(left)
            some_lanes.extend(self._loaded(loads, n) for n in range(len(self._turns)))

        ends = self._either(whole, part)
        self._masks = [
            self._line(Phi(self._type("i1"), ("splat (i1 true)", mask), ends))
            for mask in self._masks
        ]
        for turn, xs, ys in zip(self._turns, all_lanes, some_lanes, strict=True):
            for line, x, y in zip(loads, xs, ys, strict=True):
                assert isinstance(line.operation, Load)
                merge = Phi(self._type(line.operation.type), (x, y), ends)
                turn.names[line.result] = self._line(merge)

    def _put(self) -> None:
        """Write the stores, in one of two blocks."""
        if not self._written:
            return

        def whole() -> None:
            for _, type_, vector, pointer in self._written:
                super(MaskedCode, self)._store(type_, vector, pointer)

        def part() -> None:
            for turn, type_, vector, pointer in self._written:
                self._turn = turn
                self._store_masked(type_, vector, pointer)

        self._either(whole, part)

    def _either(self, whole: Callable[[], None], part: Callable[[], None]) -> tuple[str, str]:
        """Write one block for vectors with all lanes, and one for others; returns their labels."""
        labels = self._names.new_label("whole"), self._names.new_label("part")
        self.label = self._names.new_label("all")
        self.lines.append(Instruction("", Branch((self._is_whole,), labels)))
        for label, write in zip(labels, (whole, part), strict=True):
            self.lines.append(Label(label))
            write()
            self.lines.append(Instruction("", Branch((), (self.label,))))
        self.lines.append(Label(self.label))
        return labels

    def _some(self, left: str) -> list[str]:
        """Return the masks of vectors of so many elements."""
        # Where LLVM knew that there is one, it would write four bytes for one or two.
        narrow = self._line(Cast("trunc", "i64", "i8", (self._line(hidden(left)),)))
        count = self._splat(self.lines, "i8", narrow)
        masks = []
        for n in range(len(self._turns)):
            numbers = ", ".join(f"i8 {n * self.lanes + lane}" for lane in range(self.lanes))
            masks.append(
                self._line(Compare("icmp", "ult", self._type("i8"), (f"<{numbers}>", count)))
            )
        return masks

    def _loaded(self, loads: list[Instruction], number: int) -> list[str]:
        """Return the vectors that loads have in one of the vectors of a turn."""
        self._turn = self._turns[number]
        return [self._line(self._operation(line.operation)) for line in loads]

    def _mask(self) -> str:
        return self._masks[self._turn.number]

    def _load(self, type_: str, pointer: str) -> Operation:
        if not self._masks:
            return super()._load(type_, pointer)
        vector = self._type(type_)
        types = f"ptr align {bits(type_) // 8}", self._type("i1"), vector
        return self._masked("load", vector, types, (pointer, self._mask(), "zeroinitializer"))

    def _store(self, type_: str, vector: str, pointer: str) -> None:
        if self._is_rest:
            self._store_masked(type_, vector, pointer)
        else:
            self._written.append((self._turn, type_, vector, pointer))

    def _store_masked(self, type_: str, vector: str, pointer: str) -> None:
        types = self._type(type_), f"ptr align {bits(type_) // 8}", self._type("i1")
        call = self._masked("store", "void", types, (vector, pointer, self._mask()))
        self.lines.append(Instruction("", call))

    def _kept(self, total: Sum, now: str, before: str) -> str:
        types = self._type("i1"), self._type(total.type)
        return self._line(Select(*types, (self._mask(), now, before)))
