"""Loops over vectors, made of loops over elements.

LLVM's own vectorizer takes whatever loop it is given, and several times as long as generating the
code does. Loops over arrays are of a simple kind, which is all that is taken here: straight code,
whose loads and stores go to neighbouring elements from turn to turn, and which may add up what it
finds in variables. Anything else is left to LLVM.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hlo.codegen.llvm.loop_body import Body, Fitness
from hlo.codegen.llvm.unused import without_unused
from hlo.codegen.llvm.values import Index
from hlo.codegen.llvm.vector_code import Names, VectorCode
from hlo.llvm import Binary, Branch, Compare, Instruction, Label, Line, Phi


@dataclass(frozen=True)
class Loop:
    """A loop over elements: its index, start and end, the labels before and after it, its body."""

    index: str
    start: Index
    end: Index
    before: str
    after: str
    lines: Sequence[Line]


@dataclass(frozen=True)
class VectorLoop:
    """A loop over vectors, its index at its end and the label there.

    is_all: no elements are left over; the label is that after the loop over elements.
    """

    lines: list[Line]
    index: str
    label: str
    is_all: bool


# Loops of so few operations compute two vectors in a turn, and so do loops of so many, in which one
# vector goes on where the other waits. The others are no faster so, and more code.
_SHORT, _LONG = 8, 64
# What there is of once in so many operations may take two vectors.
_RARE = 16
# Short loops that add up compute more: each sum waits for itself, and of more sums each is of fewer
# elements, and rounded less.
_SUMS = 4
# A loop with a known number of turns is worth so many over vectors, if it leaves elements over.
_MANY = 8


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
    body = Body(without_unused(loop.lines), loop.index, names.bases, names.allocated)
    fitness = body.judge()
    lanes = names.vector_bits // _width(body)
    if fitness is not Fitness.VECTORS or lanes < 2:
        return Fitness.UNKNOWN if fitness is Fitness.VECTORS else fitness
    copies = 1 if _SHORT < body.operations < _LONG else 2
    if body.sums and body.operations <= _SHORT:
        copies = _SUMS
    is_all = False
    if isinstance(loop.start, int) and isinstance(loop.end, int):
        turns = loop.end - loop.start
        while copies > 1 and turns % (lanes * copies):
            copies //= 2
        is_all = turns % (lanes * copies) == 0
        if not is_all and turns < _MANY * lanes:
            return Fitness.UNKNOWN
    head, inside, left = (names.new_label(s) for s in ("vectors", "vector", "left"))
    label = loop.after if is_all else left
    index, following, go_on = (names.fresh() for _ in range(3))
    code = VectorCode(body, lanes, index, names)
    code.write(copies)
    metadata = names.module.rolled_loop(vectorized=False)
    first = Phi("i64", (str(loop.start), following), (loop.before, inside))
    test = Compare("icmp", "sle", "i64", (following, str(loop.end)))
    lines = [
        *code.before,
        Instruction("", Branch((), (head,))),
        Label(head),
        Instruction(index, first),
        *code.phis(loop.before, inside),
        Instruction(following, Binary("add", "nsw", "i64", (index, str(lanes * copies)))),
        Instruction(go_on, test),
        Instruction("", Branch((go_on,), (inside, label))),
        Label(inside),
        *code.lines,
        Instruction("", Branch((), (head,), metadata)),
        Label(label),
        *code.sums(),
    ]
    return VectorLoop(lines, index, label, is_all)
