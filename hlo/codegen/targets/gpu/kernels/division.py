"""How the threads of a grid share a reduction: a decision by shapes alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum, auto

from hlo.codegen.kernels.reduce.lanes import position_operand
from hlo.codegen.kernels.reduce.reducer import Reduction

# Threads of a block, and those that reduce one row together at the most.
_BLOCK, _LONGEST_GROUP = 128, 512
# Columns that a block has side by side, in lines of many; lines of fewer are cut evenly.
_COLUMNS, _MANY_COLUMNS = 32, 256
# Rows of up to so many elements are a warp's where there are so many of them.
_WARP_ROW, _MANY_ROWS = 4096, 4096
# Threads that keep a GPU busy, and blocks that a reduction is split into.
_WANTED_THREADS, _WANTED_BLOCKS = 1 << 16, 512
# Elements that a thread of a split reduction has at least, and what it reads at once. Of so many
# times these, parts are worth it that blocks wait for memory once more.
_PART_ELEMENTS, AT_ONCE, _WORTH_PARTS = 32, 8, 4
# Shared memory of a block for columns.
_SHARED_BYTES = 32768
# Bytes that a thread reads by one instruction.
_VECTOR_BYTES = 16


class Way(Enum):
    """Which elements of a result a thread takes.

    SPREAD: every so many-th. PICKED: the same, by a function that picks one; positions tell the
    order. CHUNKED: those that follow each other. WHOLE: all, from the initial value on.
    """

    SPREAD = auto()
    PICKED = auto()
    CHUNKED = auto()
    WHOLE = auto()


@dataclass(frozen=True)
class Division:
    """How the threads of a grid share a reduction.

    lines, width: the results, of which `width` lie side by side in each of `lines`. length: the
    elements of each. columns: the results side by side that a block has. group: the threads that
    reduce a result together. lines_at_once: of a block. parts: into which the elements of a result
    are split. vector: elements of a row that a thread reads by one instruction.
    """

    way: Way
    lines: int
    width: int
    length: int
    columns: int = 1
    group: int = 1
    lines_at_once: int = 1
    parts: int = 1
    vector: int = 1

    @property
    def used(self) -> int:
        """The threads of a block that have elements."""
        return self.columns * self.group * self.lines_at_once

    @property
    def strips(self) -> int:
        return -(-self.width // self.columns)

    @property
    def blocks(self) -> int:
        return -(-self.lines // self.lines_at_once) * self.strips * self.parts

    @property
    def tile(self) -> int:
        """The elements of a result that a group reads at once."""
        return self.group * self.vector

    @property
    def part(self) -> int:
        """The elements of a part; the last one may have fewer."""
        return -(-self.length // (self.parts * self.tile)) * self.tile

    @property
    def sharing_blocks(self) -> int:
        """How many sets of blocks have results in common."""
        return self.blocks // self.parts

    @property
    def join(self) -> Division:
        """How one block takes what all parts have found, in the order of parts."""
        return replace(
            self, way=Way.SPREAD if self.way is Way.SPREAD else Way.CHUNKED, length=self.parts,
            group=min(self.group, _power(self.parts)), parts=1, vector=1,
        )  # fmt: skip


def divide(
    way: Way, lines: int, width: int, length: int, vector: int = 1, held: int = 4
) -> Division:
    """Return how to share a reduction of `lines` times `width` results.

    held: bytes that each takes in shared memory.
    """
    d = Division(way, lines, width, length, vector=vector)
    d = _rows(d) if width == 1 else _columns(d, min(_LONGEST_GROUP, _SHARED_BYTES // held))
    taken = d.columns * d.group
    return replace(d, lines_at_once=max(1, min(_BLOCK // taken, lines)))


def _rows(d: Division) -> Division:
    """Choose for results one by one, or of which each is a row of its own."""
    if d.way is Way.WHOLE:
        return d
    is_short = d.lines >= _MANY_ROWS and d.length <= _WARP_ROW
    each = 2 * d.vector if d.vector > 1 else 4
    group = _power(min(-(-d.length // each), 32 if is_short else _LONGEST_GROUP, d.length))
    return _split(replace(d, group=group), d.lines)


def _columns(d: Division, threads: int) -> Division:
    """Choose for results that lie side by side. threads: of a block, at the most."""
    columns = _COLUMNS
    if d.width < _MANY_COLUMNS:
        columns = -(-d.width // -(-d.width // _COLUMNS))
    d = replace(d, columns=columns, vector=1)
    if d.way is Way.WHOLE:
        return d
    wanted = -(-_WANTED_THREADS // (d.lines * d.width))
    most = max(1, threads // columns)
    d = replace(d, group=_power(max(1, min(wanted, most, d.length // 4))))
    return _split(d, d.lines * d.strips)


def _split(d: Division, blocks: int) -> Division:
    """Choose the parts for results that take so many blocks otherwise."""
    each = _PART_ELEMENTS * d.group
    if blocks >= _WANTED_BLOCKS // 2 or d.length < _WORTH_PARTS * each:
        return d
    parts = min(-(-d.length // each), -(-_WANTED_BLOCKS // blocks))
    parts = -(-d.length // replace(d, parts=parts).part)
    return replace(d, parts=parts)


def _power(n: int) -> int:
    """Return the largest power of two up to n."""
    return 1 << (max(n, 1).bit_length() - 1)


def way_of(r: Reduction) -> Way:
    if r.combiner.known:
        return Way.SPREAD
    if not r.combiner.splits(r.length):
        return Way.WHOLE
    return Way.PICKED if position_operand(r) is not None else Way.CHUNKED


def vector_of(r: Reduction, way: Way) -> int:
    """Return how many elements of a row are read by one instruction."""
    if way is not Way.SPREAD or not r.reduced or not r.length:
        return 1
    most = max(1, _VECTOR_BYTES // r.source.element_type.byte_width)
    return math.gcd(r.size(r.reduced[-1:]), min(most, AT_ONCE))
