"""Loops over vectors, made of loops over elements.

LLVM's own vectorizer takes whatever loop it is given, and several times as long as generating the
code does. Loops over arrays are of a simple kind, which is all that is taken here: straight code,
whose loads and stores go to neighbouring elements from turn to turn, and which may add up what it
finds in variables. Anything else is left to LLVM.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hlo.codegen.llvm.hidden import hidden
from hlo.codegen.llvm.loop_body import Body, Fitness
from hlo.codegen.llvm.masked_code import MaskedCode
from hlo.codegen.llvm.unused import without_unused
from hlo.codegen.llvm.values import Index
from hlo.codegen.llvm.vector_code import Names, Outside, VectorCode
from hlo.llvm import Branch, Compare, Instruction, Label, Line, Phi


@dataclass(frozen=True)
class Loop:
    """A loop over elements: its index, start and end, the labels before and after it, its body.

    is_apart: no turn reads what those before it have written. multiple: of what the number of turns
    is one.
    """

    index: str
    start: Index
    end: Index
    before: str
    after: str
    lines: Sequence[Line]
    is_apart: bool = False
    multiple: int = 1


@dataclass(frozen=True)
class VectorLoop:
    """A loop over vectors, its index at its end and the label there.

    is_all: no elements are left over; the label is that after the loop over elements.
    """

    lines: list[Line]
    index: str
    label: str
    is_all: bool


# Loops of so few operations compute two vectors in a turn, and so do loops of so many, or that read
# what lies apart, in which one vector goes on where the other waits. The others are no faster so,
# and more code.
_SHORT, _LONG = 8, 64
# Loops of so few vectors in all, and not many operations, compute two of them in a turn.
_BRIEF = 4
# What there is of once in so many operations may take two vectors.
_RARE = 16
# Short loops that add up compute more: each sum waits for itself, and of more sums each is of fewer
# elements, and rounded less.
_SUMS = 4
# A loop with a known number of turns is worth so many over vectors, if it leaves elements over.
_MANY = 8
# Where vectors are masked, loops of so many operations do not need another loop without masks.
_MASKED = 32


def _width(body: Body) -> int:
    """Return the width of values of which a vector is full.

    That of the widest ones, or if these are few, as where counters of 64 bits become random numbers
    of 32, of the others: then the widest take two vectors.
    """
    half = body.widest // 2
    is_rare = _RARE * body.widths[body.widest] < body.widths[half]
    return half if is_rare and not body.sums else body.widest


def vector_loop(names: Names, loop: Loop) -> VectorLoop | Fitness:
    """Return the loop over vectors that goes before one over elements, or what else to do."""
    turns = None
    if isinstance(loop.start, int) and isinstance(loop.end, int):
        turns = loop.end - loop.start
        if turns <= 1:
            return Fitness.ELEMENTS
    lines = without_unused(loop.lines)
    is_masked = names.module.folds_loops
    body = Body(
        lines, loop.index, names.bases, names.allocated, is_apart=loop.is_apart, gathers=is_masked
    )
    fitness = body.judge()
    lanes = names.vector_bits // _width(body)
    if fitness is not Fitness.VECTORS or lanes < 2:
        return Fitness.UNKNOWN if fitness is Fitness.VECTORS else fitness
    is_brief = turns is not None and turns <= _BRIEF * lanes and body.operations < _MASKED
    is_alone = _SHORT < body.operations < _LONG and not body.gathered and not is_brief
    copies = 1 if is_alone else 2
    if body.sums and body.operations <= _SHORT:
        copies = _SUMS
    multiple = loop.multiple if turns is None else turns
    if is_masked and multiple % lanes and not body.reads_back:
        return _masked_loops(names, loop, body, lanes, copies, turns)
    if turns is not None or multiple % lanes == 0:
        while copies > 1 and multiple % (lanes * copies):
            copies //= 2
    is_all = multiple % (lanes * copies) == 0
    if turns is not None and not is_all and turns < _MANY * lanes:
        return Fitness.UNKNOWN
    written = _Written(names, body, lanes, Outside())
    label = loop.after if is_all else names.new_label("left")
    written.add(copies, str(loop.start), str(loop.end), loop.before, label)
    return VectorLoop(written.finished(), written.index, label, is_all)


def _masked_loops(
    names: Names, loop: Loop, body: Body, lanes: int, copies: int, turns: int | None
) -> VectorLoop:
    """Return loops over vectors the last of which may have less elements."""
    written = _Written(names, body, lanes, Outside())
    start, before = str(loop.start), loop.before
    is_long = body.operations >= _MASKED
    while turns is not None and turns < copies * lanes:
        copies //= 2
    if copies and not is_long:
        before = names.new_label("left")
        written.add(copies, start, str(loop.end), loop.before, before)
        start = written.index
    is_alone = body.gathered or (turns is not None and turns <= lanes)
    copies = 2 if is_long and not is_alone else 1
    written.add(copies, start, str(loop.end), before, loop.after, is_masked=True)
    return VectorLoop(written.finished(), written.index, loop.after, is_all=True)


class _Written:
    """Loops over vectors made of one over elements, one after the other.

    index: that of the last loop, at its end.
    """

    def __init__(self, names: Names, body: Body, lanes: int, outside: Outside) -> None:
        self.names, self.body, self.lanes, self.outside = names, body, lanes, outside
        self.index = ""
        self._lines: list[Line] = []
        self._last: VectorCode | None = None

    def add(
        self, copies: int, start: str, end: str, before: str, after: str, *, is_masked: bool = False
    ) -> None:
        """Write a loop of so many vectors a turn, between two labels.

        is_masked: no elements are left over.
        """
        names = self.names
        head, inside = names.new_label("vectors"), names.new_label("vector")
        index, following, go_on = (names.fresh() for _ in range(3))
        own = self.body, self.lanes, index, inside, names, self.outside
        if is_masked:
            code: VectorCode = MaskedCode(*own, end, is_rest=self._last is not None)
        else:
            code = VectorCode(*own)
        code.write(copies)
        first = Phi("i64", (start, following), (before, code.label))
        each = self.lanes * copies
        if names.keeps_indices or not self._hides_count(start, end, each):
            step = names.count(index, following, each, hides=names.keeps_indices)
        else:
            near = names.fresh()
            step = [
                *names.count(index, near, each, hides=False),
                Instruction(following, hidden(near)),
            ]
        if is_masked:
            test = Compare("icmp", "slt", "i64", (index, end))
        else:
            test = Compare("icmp", "sle", "i64", (following, end))
        metadata = names.module.rolled_loop(vectorized=False)
        begun = self._last.totals(self._lines) if self._last else {}
        self._lines += [
            Instruction("", Branch((), (head,))),
            Label(head),
            Instruction(index, first),
            *code.phis(before, code.label, begun),
            *step,
            Instruction(go_on, test),
            Instruction("", Branch((go_on,), (inside, after))),
            Label(inside),
            *code.lines,
            Instruction("", Branch((), (head,), metadata)),
            Label(after),
        ]
        self.index, self._last = index, code

    def _hides_count(self, start: str, end: str, step: int) -> bool:
        """True where LLVM is not to look for another way to count.

        That takes up to a fifth of its time, and only short loops gain. Of a single turn it may
        know.
        """
        is_known = start.isdigit() and end.isdigit()
        is_single = is_known and int(end) - int(start) <= step
        is_long = self.body.operations > _SHORT
        return self.names.module.pointer_bits == 64 and is_long and not is_single

    def finished(self) -> list[Line]:
        """Return the loops, with what is before and after them."""
        assert self._last is not None
        return [*self.outside.lines, *self._lines, *self._last.sums()]
