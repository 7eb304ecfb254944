"""Matrix products: how they are cut into blocks, what is packed, and who computes what.

The result is cut into blocks of rows and columns, and k into blocks too: for each, the parts of A
and B that it takes are read in place where they lie well in memory, or copied to panels first, and
a microkernel multiplies them. Panels are a task's own (`LOCAL`), or, for a B that many tasks read,
made by a step of their own before (`SHARED`). What is cheapest is estimated, in cycles of vector
operations. A long k with a small result is cut into shares whose sums are added in the end. The
cut depends on shapes and target alone, so that the number of threads never shows in a result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import cached_property

from hlo.codegen import scalar
from hlo.codegen.kernel import Extent, Kernel, KernelEmitter, Plan, split_index
from hlo.codegen.kernels.microkernel import (
    Arithmetic,
    Dots,
    Tile,
    inner_block,
    outer_block,
)
from hlo.codegen.kernels.panels import Place, Types, clear, copy, copy_pairs
from hlo.codegen.kernels.product import (
    Dim,
    Dims,
    Product,
    Source,
    count,
    merged,
    uniform_stride,
)
from hlo.codegen.llvm import FALSE, TRUE, Builder, Index, Val
from hlo.codegen.target import Target
from hlo.types import ELEMENT_TYPES

# Bytes along k of a block: a strip of B of that depth stays in a first- or second-level cache.
_DEPTH_BYTES = 2048
# Bytes of a task's panel, of its sums, and of a B that is read in place by many.
_PANEL_BYTES, _SUMS_BYTES, _IN_PLACE_BYTES = 192 * 1024, 256 * 1024, 256 * 1024
# Tasks of a product at the most, and the cost of one that is worth having.
_TASKS, _TASK_COST = 16, 20_000
# How many pieces a kernel's tasks are shared out in; each has panels of its own.
_LANES = 64
_LINE, _SETS = 64, 64

_S16 = ELEMENT_TYPES["s16"]


class Form(Enum):
    """Where the microkernel reads an operand."""

    DIRECT = auto()
    LOCAL = auto()
    SHARED = auto()


@dataclass(frozen=True)
class Cut:
    """How k is cut: blocks of `step` indices of dimension `level`, whole in those inside it."""

    dims: Dims
    level: int
    step: int

    @staticmethod
    def of(dims: Dims, most: int) -> Cut:
        """Cut into blocks of about `most`, or not at all where it is little more."""
        if count(dims) <= most * 5 // 4:
            return Cut(dims, 0, dims[0].size)
        inside = 1
        for level in range(len(dims) - 1, -1, -1):
            size = dims[level].size
            if inside * size > most:
                parts = -(-size * inside // most)
                step = -(-size // parts)
                return Cut(dims, level, -(-step // 16) * 16 if inside == 1 else step)
            inside *= size
        raise AssertionError(dims)

    @property
    def inside(self) -> int:
        return count(self.dims[self.level + 1 :])

    @property
    def most(self) -> int:
        """The length of a block that is not the last of its dimension."""
        return min(self.step, self.dims[self.level].size) * self.inside

    @property
    def parts(self) -> int:
        return -(-self.dims[self.level].size // self.step)

    @property
    def number(self) -> int:
        """How many blocks there are."""
        return count(self.dims[: self.level]) * self.parts

    def block(self, b: Builder, number: Index) -> KBlock:
        """Return a block by its number."""
        sizes = [d.size for d in self.dims[: self.level]]
        *outer, part = split_index(b, number, [*sizes, self.parts])
        start = b.mul(part, self.step)
        here = b.minimum(self.step, b.sub(self.dims[self.level].size, start))
        if self.dims[self.level].size % self.step == 0:
            here = self.step
        linear: Index = 0
        for size, i in zip(sizes, outer, strict=True):
            linear = b.add(b.mul(linear, size), i)
        linear = b.add(b.mul(linear, self.dims[self.level].size), start)
        return KBlock(self, tuple(outer), start, here, b.mul(linear, self.inside))

    @property
    def inner_dims(self) -> Dims:
        return self.dims[self.level :]


@dataclass(frozen=True)
class KBlock:
    """A block of k: indices of the outer dimensions, and a range of the one that is cut.

    linear: the number of indices of k before it.
    """

    cut: Cut
    outer: tuple[Index, ...]
    start: Index
    here: Index
    linear: Index

    def length(self, b: Builder) -> Index:
        return b.mul(self.here, self.cut.inside)


@dataclass(frozen=True)
class Schedule:
    """How a product is computed. rows, columns: of a block of the result."""

    p: Product
    tile: Tile | Dots
    cut: Cut
    rows: int
    columns: int
    shares: int
    a: Form
    b: Form
    # What is contiguous in the panel of A: "k" or "free".
    inside: str
    # True when the microkernel writes to the result itself.
    direct: bool
    cost: float

    @cached_property
    def row_blocks(self) -> int:
        return -(-count(self.p.m) // self.rows)

    @cached_property
    def column_blocks(self) -> int:
        return -(-count(self.p.n) // self.columns)

    @property
    def tasks(self) -> int:
        return self.shares * count(self.p.batch) * self.row_blocks * self.column_blocks

    # --- panels of a task, in elements ----------------------------------------------------------

    @property
    def depth(self) -> int:
        """Elements of a panel along k: pairs count as one."""
        return _depth(self.p.arithmetic, self.cut.most)

    @property
    def a_pitch(self) -> int:
        """The distance between rows of A's panel (`inside` k), or its columns."""
        if self.inside == "free":
            return self.rows
        return _pitch(self.depth, self.p.arithmetic.bytes)

    @property
    def b_pitch(self) -> int:
        """The distance between rows of a local panel of B, along columns or, for dots, along k."""
        if isinstance(self.tile, Dots):
            return _pitch(self.depth, self.p.arithmetic.bytes)
        return self.wide_columns

    @property
    def wide_columns(self) -> int:
        """Columns of a block, rounded up to whole tiles."""
        width = self.tile.columns
        return -(-self.columns // width) * width

    @property
    def panels(self) -> tuple[int, int, int]:
        """Elements of a task's panel of A, of B, and of its sums."""
        a = b = sums = 0
        if self.a is Form.LOCAL:
            a = self.a_pitch * (self.rows if self.inside == "k" else self.depth)
        if self.b is Form.LOCAL:
            lines = self.columns if isinstance(self.tile, Dots) else self.depth
            b = self.b_pitch * lines
        elif self.b is Form.DIRECT and self._has_rest:
            b = self.tile.columns * self.depth
        if not self.direct:
            sums = self.rows * self.wide_columns
        return a, b, sums

    @property
    def _has_rest(self) -> bool:
        return isinstance(self.tile, Tile) and count(self.p.n) % self.tile.columns != 0

    @property
    def slot_bytes(self) -> int:
        """Bytes of a task's panels, each on lines of its own."""
        size = self.p.arithmetic.bytes
        return sum(-(-n * size // _LINE) * _LINE for n in self.panels)


def _depth(arithmetic: Arithmetic, length: int) -> int:
    return -(-length // 2) if arithmetic.pairs else length


def _pitch(length: int, size: int) -> int:
    """Return a distance between rows of `length` such that few rows share a cache set."""
    lines = -(-length * size // _LINE)
    return (lines | 1) * _LINE // size


# --- choice -------------------------------------------------------------------------------------


@dataclass
class Steps:
    """The steps of a plan in the making, and their scratch memory."""

    emitters: list[KernelEmitter] = field(default_factory=list)
    scratch: list[int] = field(default_factory=list)

    def memory(self, bytes_: int) -> int:
        """Reserve scratch memory; returns its number."""
        self.scratch.append(max(1, bytes_))
        return len(self.scratch) - 1

    def plan(self) -> Plan:
        return Plan(tuple(self.emitters), tuple(self.scratch))


def add_product(steps: Steps, p: Product, elements: int, target: Target) -> None:
    """Append the steps of a product whose sizes are all positive.

    elements: of the result, for sums that are added up in shares.
    """
    p = p.simplified()
    one = (Dim(1),)
    p = replace(p, m=p.m or one, n=p.n or one, k=p.k or one)
    choices = list(_schedules(p, target))
    if not choices:
        p = replace(p, arithmetic=replace(p.arithmetic, pairs=False))
        choices = list(_schedules(p, target))
    s = min(choices, key=lambda s: s.cost)
    slots = steps.memory(s.slot_bytes * min(s.tasks, _LANES))
    shared = partial = -1
    if s.b is Form.SHARED:
        strips = -(-count(s.p.n) // s.tile.columns)
        depth = _depth(s.p.arithmetic, count(s.p.k))
        size = _own_batches(s.p.batch, "b") * strips * s.tile.columns * depth
        shared = steps.memory(size * s.p.arithmetic.bytes)
        steps.emitters.append(_PackShared(s, shared))
    if s.shares > 1:
        partial = steps.memory(s.shares * elements * s.p.arithmetic.bytes)
    steps.emitters.append(_Multiply(s, slots, shared, partial, elements))
    if s.shares > 1:
        steps.emitters.append(_AddShares(s, partial, elements))


def _own_batches(batch: Dims, side: str) -> int:
    return count([d for d in batch if d.stride(side)])


def _tiles(p: Product, target: Target) -> Iterator[Tile]:
    """Yield tiles that fill the registers of a target."""
    lanes = max(1, target.vector_bits // max(p.arithmetic.total.bits, 8))
    if target.vector_registers >= 32:
        shapes = [(4, 4), (8, 2), (8, 1)]
    else:
        shapes = [(6, 2), (6, 1)]
    if count(p.m) == 1:
        shapes = [(1, 4)]
    for rows, vectors in shapes:
        yield Tile(rows, vectors, lanes)


def _schedules(p: Product, target: Target) -> Iterator[Schedule]:
    most = max(64, _DEPTH_BYTES // p.arithmetic.bytes)
    for q in (p, p.flipped()):
        cuts = [Cut.of(q.k, most)]
        inner = q.k[-1].size
        if len(q.k) > 1 and inner >= 64 and cuts[0].level < len(q.k) - 1:
            cuts.append(Cut(q.k, len(q.k) - 1, Cut.of(q.k[-1:], most).step))
        for cut in cuts:
            for tile in _tiles(q, target):
                s = _outer_schedule(q, tile, cut, target)
                if not p.arithmetic.pairs or _makes_pairs(s):
                    yield s
    if not p.arithmetic.pairs:
        lanes = max(1, target.vector_bits // max(p.arithmetic.total.bits, 8))
        square = Dots(4, 4 if target.vector_registers >= 32 else 2, lanes)
        for q in (p, p.flipped()):
            if count(q.n) == 1:
                yield _inner_schedule(q, Dots(8, 1, lanes), Cut(q.k, 0, q.k[0].size), target)
            for cut in (Cut.of(q.k, most), Cut(q.k, len(q.k) - 1, Cut.of(q.k[-1:], most).step)):
                yield _inner_schedule(q, square, cut, target)


def _copy_cost(p: Product, side: str, inside: str, lanes: int) -> float:
    """Return the cost of packing an element with k, or else the free dimension, inside."""
    source = p.source(side)
    along = p.k[-1].stride(side) if inside == "k" else p.free(side)[-1].stride(side)
    across = p.free(side)[-1].stride(side) if inside == "k" else p.k[-1].stride(side)
    through = 0.0 if source.et is p.arithmetic.total else 0.1
    if along == 1:
        return 2.5 / lanes + through
    return (0.6 if across == 1 else 1.5) + through


def _is_plain(p: Product, side: str, cut: Cut) -> bool:
    """True when the microkernel can read an operand itself: of the type, at constant strides."""
    source = p.source(side)
    return (
        not p.arithmetic.pairs
        and source.et is p.arithmetic.total
        and not source.bounds
        and uniform_stride(p.free(side), side) is not None
        and uniform_stride(cut.inner_dims, side) is not None
    )


def _crowded(stride_bytes: int, lines: int) -> bool:
    """True when lines at a stride share so few cache sets that they would not stay."""
    step = abs(stride_bytes) // _LINE
    if step == 0 or lines <= 4:
        return False
    sets = _SETS // math.gcd(step, _SETS)
    return lines > 4 * sets


def _reads_rows(p: Product, cut: Cut, rows: int, strips: int) -> bool:
    """True when A is best read in place."""
    if not _is_plain(p, "a", cut):
        return False
    row, step = uniform_stride(p.m, "a"), uniform_stride(cut.inner_dims, "a")
    assert row is not None and step is not None
    if strips == 1:
        return True
    size = p.arithmetic.bytes
    if step == 1:
        return not _crowded(row * size, rows)
    return abs(row) == 1 and not _crowded(step * size, cut.most)


def _outer_schedule(p: Product, tile: Tile, cut: Cut, target: Target) -> Schedule:
    m, n, batch, lanes = count(p.m), count(p.n), count(p.batch), tile.lanes
    size = p.arithmetic.bytes
    strips, bands = -(-n // tile.columns), -(-m // tile.rows)
    depth = _depth(p.arithmetic, count(p.k))
    cycles = max(tile.rows * tile.vectors, 0.6 * (tile.rows + tile.vectors), 4.0)
    tiles = bands * strips * batch
    cost = tiles * (depth * cycles + cut.number * (15 + tile.rows * tile.vectors))

    a = Form.DIRECT if _reads_rows(p, cut, tile.rows, strips) else Form.LOCAL
    inside = "k" if p.k[-1].a == 1 or p.m[-1].a != 1 else "free"
    panel = max(tile.rows, _PANEL_BYTES // (_depth(p.arithmetic, cut.most) * size))
    rows = _share(m, panel, tile.rows)
    plain_b = _is_plain(p, "b", cut) and uniform_stride(p.n, "b") in ((0, 1) if n == 1 else (1,))
    if plain_b and (bands <= 2 or count(p.k) * n * size <= _IN_PLACE_BYTES):
        b = Form.DIRECT
    elif p.b.bounds or -(-m // rows) <= 2:
        b = Form.LOCAL
    else:
        b = Form.SHARED
    columns = -(-n // tile.columns) * tile.columns
    if b is Form.LOCAL:
        columns = _share(n, max(tile.columns, _PANEL_BYTES // (cut.most * size)), tile.columns)
    c_row, c_column = uniform_stride(p.m, "c"), uniform_stride(p.n, "c")
    direct = (
        p.store == Types.of(p.arithmetic.total) and c_row is not None and (c_column == 1 or n == 1)
    )
    if not direct:
        columns = min(columns, _share(n, max(tile.columns, _SUMS_BYTES // (rows * size)),
                                      tile.columns))  # fmt: skip
    rows, columns, shares = _enough_tasks(p, tile, cut, cost, rows, columns)
    if a is Form.LOCAL:
        cost += batch * m * count(p.k) * -(-n // columns) * _copy_cost(p, "a", inside, lanes)
    if b is Form.LOCAL:
        cost += batch * n * count(p.k) * -(-m // rows) * _copy_cost(p, "b", "free", lanes)
    elif b is Form.SHARED:
        each = _copy_cost(p, "b", "free", lanes) + 2 / lanes
        cost += _own_batches(p.batch, "b") * n * count(p.k) * each
    if not direct:
        cost += batch * m * n * (0.2 if c_column == 1 else 0.7 if c_row == 1 else 1.5)
    return Schedule(p, tile, cut, rows, columns, shares, a, b, inside, direct, cost)


def _inner_schedule(p: Product, dots: Dots, cut: Cut, target: Target) -> Schedule:
    m, n, batch, lanes = count(p.m), count(p.n), count(p.batch), dots.lanes
    size = p.arithmetic.bytes
    bands, strips = -(-m // dots.rows), -(-n // dots.columns)
    # As many loads as the square's sides in each step, and the sums of lanes for each block.
    each = max(dots.rows * dots.columns, 1.1 * (dots.rows + dots.columns), 4.0)
    steps = cut.number * -(-cut.most // lanes)
    squares = batch * bands * strips
    cost = squares * (steps * each + cut.number * (30 + 4 * dots.rows * dots.columns))

    def form(side: str) -> Form:
        plain = _is_plain(p, side, cut) and uniform_stride(cut.inner_dims, side) in (0, 1)
        return Form.DIRECT if plain else Form.LOCAL

    a, b = form("a"), form("b")
    panel = max(1, _PANEL_BYTES // (cut.most * size))
    rows = _share(m, panel if a is Form.LOCAL else 4 * panel, dots.rows)
    columns = _share(n, panel if b is Form.LOCAL else 4 * panel, dots.columns)
    direct = (
        p.store == Types.of(p.arithmetic.total)
        and uniform_stride(p.m, "c") is not None
        and uniform_stride(p.n, "c") is not None
    )
    rows, columns, shares = _enough_tasks(p, dots, cut, cost, rows, columns)
    if a is Form.LOCAL:
        cost += batch * m * count(p.k) * -(-n // columns) * _copy_cost(p, "a", "k", lanes)
    if b is Form.LOCAL:
        cost += batch * n * count(p.k) * -(-m // rows) * _copy_cost(p, "b", "k", lanes)
    if not direct:
        cost += batch * m * n * 0.7
    return Schedule(p, dots, cut, rows, columns, shares, a, b, "k", direct, cost)


def _makes_pairs(s: Schedule) -> bool:
    """True when neighbours along k can be paired: in one run, where they are not in a row."""
    cut = s.cut
    length = cut.dims[cut.level].size * cut.inside
    if cut.number > 1 and (cut.most % 2 or (cut.level > 0 and length % 2)):
        return False

    def in_one_run(side: str) -> bool:
        return uniform_stride(cut.dims, side) is not None and not s.p.source(side).bounds

    return in_one_run("b") and (s.inside == "k" or in_one_run("a"))


def _share(size: int, most: int, unit: int) -> int:
    """Return the size of equal parts of at most about `most`, a multiple of `unit`."""
    parts = -(-size // max(most, unit))
    return -(-size // (parts * unit)) * unit


def _enough_tasks(
    p: Product, tile: Tile | Dots, cut: Cut, cost: float, rows: int, columns: int
) -> tuple[int, int, int]:
    """Return rows and columns of blocks, and shares of k, that give enough tasks."""
    m, n, batch = count(p.m), count(p.n), count(p.batch)
    want = min(_TASKS, int(cost / _TASK_COST))

    def tasks() -> int:
        return batch * -(-m // rows) * -(-n // columns)

    while tasks() < want and rows > 4 * tile.rows and rows >= min(m, columns):
        rows = _share(m, rows // 2, tile.rows)
    while tasks() < want and columns > 2 * tile.columns:
        columns = _share(n, columns // 2, tile.columns)
    while tasks() < want and rows > 2 * tile.rows:
        rows = _share(m, rows // 2, tile.rows)
    shares = max(1, min(cut.number, want // tasks()))
    return rows, columns, shares


# --- packing ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Segment:
    """A part of a run of free indices that lies within one run of the innermost dimension.

    done: indices of the run before it; outer: those of the outer dimensions; start, length: its
    range in the innermost one.
    """

    done: Index
    outer: tuple[Index, ...]
    start: Index
    length: Index


@contextmanager
def segments(b: Builder, dims: Dims, first: Index, number: Index) -> Iterator[Segment]:
    """Run the body for the segments of `number` free indices from `first` on."""
    if len(dims) == 1:
        yield Segment(0, (), first, number)
        return
    inner = dims[-1].size
    end = b.add(first, number)
    last = b.udiv(b.add(end, inner - 1), inner)
    with b.loop(b.udiv(first, inner), last, plain=True) as at:
        begin = b.mul(at, inner)
        start = b.maximum(first, begin)
        length = b.sub(b.minimum(end, b.add(begin, inner)), start)
        outer = split_index(b, at, [d.size for d in dims[:-1]])
        yield Segment(b.sub(start, first), tuple(outer), b.sub(start, begin), length)


class _Packer:
    """Writes the copy of a part of an operand to a panel."""

    def __init__(self, k: Kernel, p: Product, side: str) -> None:
        self.k, self.b, self.p, self.side = k, k.b, p, side
        self.source = p.source(side)
        names = {x.free for x in self.source.bounds} | {x.tap for x in self.source.bounds}
        self.names = names
        self.free = merged(self._named(p.free(side)), side) or (Dim(1),)
        self.types = Types.of(self.source.et, _S16 if p.arithmetic.pairs else p.arithmetic.total)

    def _named(self, dims: Dims) -> Dims:
        return tuple(d if d.name in self.names else replace(d, name="") for d in dims)

    def _stride(self, d: Dim) -> int:
        return d.stride(self.side)

    def pack(
        self, panel: str, pitch: int, inside: str, first: Index, number: Index, block: KBlock,
        batch: Sequence[Index],
    ) -> None:  # fmt: skip
        """Copy `number` free indices from `first` on of a block of k.

        Panels have k, or else the free dimension, inside; elsewhere the distance is `pitch`.
        """
        b = self.b
        at: Index = 0
        for d, i in zip(self.p.batch, batch, strict=True):
            at = b.add(at, b.mul(i, self._stride(d)))
        cut = block.cut
        outer_k = cut.dims[: cut.level]
        known: dict[str, Index] = {}
        for d, i in zip(outer_k, block.outer, strict=True):
            at = b.add(at, b.mul(i, self._stride(d)))
            known[d.name] = i
        level, *rest = self._named(cut.inner_dims)
        dims = [level]
        for d in rest:
            # The range in the dimension that is cut becomes one in what it merges to.
            if d.size == 1 and not d.name:
                continue
            joined = not d.name and not dims[-1].name
            if joined and self._stride(dims[-1]) == self._stride(d) * d.size:
                dims[-1] = replace(d, size=dims[-1].size * d.size)
            else:
                dims.append(d)
        factor = dims[0].size // level.size if level.size else 1
        start, here = b.mul(block.start, factor), b.mul(block.here, factor)
        with segments(b, self.free, first, number) as segment:
            base, names = at, dict(known)
            for d, i in zip(self.free[:-1], segment.outer, strict=True):
                base = b.add(base, b.mul(i, self._stride(d)))
                names[d.name] = i
            base = b.add(base, b.mul(segment.start, self._stride(self.free[-1])))
            with ExitStack() as loops:
                packed: Index = 0
                ranges = [(start, here), *((0, d.size) for d in dims[1:])]
                for d, (low, length), inner in zip(dims, ranges, dims[1:], strict=False):
                    i = loops.enter_context(b.loop(low, b.add(low, length), plain=True))
                    base = b.add(base, b.mul(i, self._stride(d)))
                    packed = b.mul(b.add(packed, b.sub(i, low)), inner.size)
                    names[d.name] = i
                low, length = ranges[-1]
                base = b.add(base, b.mul(low, self._stride(dims[-1])))
                piece = _Piece(segment, dims[-1], low, length, base, packed, names)
                self._piece(panel, pitch, inside, piece)

    def _piece(self, panel: str, pitch: int, inside: str, piece: _Piece) -> None:
        """Copy what is within the bounds of a range of free indices and one of k."""
        b = self.b
        f0, f1 = piece.segment.start, b.add(piece.segment.start, piece.segment.length)
        t0, t1 = piece.low, b.add(piece.low, piece.length)
        slanted = None
        for bound in self.source.bounds:
            at_free, at_tap = piece.names.get(bound.free), piece.names.get(bound.tap)
            if at_tap is not None:
                at_tap = b.udiv(at_tap, bound.unit)
            if at_free is not None and at_tap is not None:
                fixed = b.add(b.mul(at_free, bound.step), b.mul(at_tap, bound.jump))
                fixed = b.add(fixed, bound.low)
                inside_it = b.both(b.compare("sge", fixed, 0), b.compare("slt", fixed, bound.size))
                f1 = b.select(inside_it, _i64(f1), _i64(f0)).name
            elif at_tap is not None:
                fixed = b.add(b.mul(at_tap, bound.jump), bound.low)
                f0, f1 = _clip(b, f0, f1, fixed, bound.step, bound.size)
            elif at_free is not None:
                fixed = b.add(b.mul(at_free, bound.step), bound.low)
                t0, t1 = _clip(b, t0, t1, fixed, bound.jump, bound.size, bound.unit)
            else:
                slanted = bound
        if slanted is None:
            self._copy(panel, pitch, inside, piece, (f0, f1), (t0, t1))
            return
        # Each free index has a range of its own along k.
        with b.loop(f0, f1, plain=True) as f:
            fixed = b.add(b.mul(f, slanted.step), slanted.low)
            here = _clip(b, t0, t1, fixed, slanted.jump, slanted.size, slanted.unit)
            self._copy(panel, pitch, inside, piece, (f, b.add(f, 1)), here)

    def _copy(
        self, panel: str, pitch: int, inside: str, piece: _Piece, free: tuple[Index, Index],
        taps: tuple[Index, Index],
    ) -> None:  # fmt: skip
        b, pairs = self.b, self.p.arithmetic.pairs
        u, v = self._stride(self.free[-1]), self._stride(piece.dim)
        df, dt = b.sub(free[0], piece.segment.start), b.sub(taps[0], piece.low)
        at = b.add(piece.base, b.add(b.mul(df, u), b.mul(dt, v)))
        mem = scalar.memory_type(self.source.et)
        address = b.element_address(self.source.address(self.k), mem, at)
        row, column = b.add(piece.segment.done, df), b.add(piece.packed, dt)
        number, length = b.sub(free[1], free[0]), b.sub(taps[1], taps[0])
        target = self.k.target
        if pairs and inside == "free":
            to = b.element_address(panel, "i32", b.add(b.mul(b.udiv(column, 2), pitch), row))
            copy_pairs(
                b, target, self.source.et, Place(to, pitch, 1), Place(address, v, u), length, number
            )
            return
        element = scalar.memory_type(self.types.chain[-1])
        if inside == "k":
            step = 2 * pitch if pairs else pitch
            to = b.element_address(panel, element, b.add(b.mul(row, step), column))
            place = Place(to, step, 1)
        else:
            to = b.element_address(panel, element, b.add(b.mul(column, pitch), row))
            place = Place(to, 1, pitch)
        copy(b, target, self.types, place, Place(address, u, v), number, length)


@dataclass(frozen=True)
class _Piece:
    """A segment of free indices, and a range of the innermost dimension of k.

    base: the offset of its first element in the operand; packed: the first's place along k in the
    panel; names: the indices of all other dimensions that have one.
    """

    segment: Segment
    dim: Dim
    low: Index
    length: Index
    base: Index
    packed: Index
    names: dict[str, Index]


def _i64(at: Index) -> Val:
    return Val("i64", str(at))


def _clip(
    b: Builder, low: Index, high: Index, fixed: Index, step: int, size: int, unit: int = 1
) -> tuple[Index, Index]:
    """Return the part of a range whose indices i have 0 <= fixed + (i / unit) * step < size."""
    first = b.udiv(b.add(b.maximum(b.sub(0, fixed), 0), step - 1), step)
    end = b.udiv(b.add(b.maximum(b.sub(size, fixed), 0), step - 1), step)
    return b.maximum(low, b.mul(first, unit)), b.minimum(high, b.mul(end, unit))


@dataclass(frozen=True)
class _PackShared:
    """Copies B into strips `[batch][strip][k][columns]`, zeros where it has no more columns."""

    s: Schedule
    scratch: int

    def __call__(self, k: Kernel) -> Extent:
        b, s, p = k.b, self.s, self.s.p
        width, n = s.tile.columns, count(p.n)
        strips = -(-n // width)
        depth = _depth(p.arithmetic, count(p.k))
        whole = Cut(p.k, 0, p.k[0].size)
        own = [d for d in p.batch if d.b]
        packer = _Packer(k, p, "b")
        with b.loop(k.begin, k.end, plain=True) as at:
            *indices, strip = split_index(b, at, [*(d.size for d in own), strips])
            found = iter(indices)
            batch = [next(found) if d.b else 0 for d in p.batch]
            panel = b.element_address(
                k.scratch[self.scratch], p.arithmetic.type, b.mul(at, depth * width)
            )
            first = b.mul(strip, width)
            here = b.minimum(width, b.sub(n, first)) if n % width else width
            if n % width or p.b.bounds:
                clear(b, panel, p.arithmetic, depth * width)
            packer.pack(panel, width, "free", first, here, whole.block(b, 0), batch)
        return Extent(_own_batches(p.batch, "b") * strips, depth * width / 4)


# --- multiplication -----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Multiply:
    """Computes the blocks of the result, each a task; threads share the tasks."""

    s: Schedule
    slots: int
    shared: int
    partial: int
    elements: int

    def __call__(self, k: Kernel) -> Extent:
        b, tasks = k.b, self.s.tasks
        lanes = min(tasks, _LANES)
        with b.loop(k.begin, k.end, plain=True) as lane:
            slot = b.element_address(k.scratch[self.slots], "i8", b.mul(lane, self.s.slot_bytes))
            if lanes == tasks:
                self._task(k, lane, slot)
            else:
                first = b.udiv(b.mul(lane, tasks), lanes)
                last = b.udiv(b.mul(b.add(lane, 1), tasks), lanes)
                with b.loop(first, last, plain=True) as task:
                    self._task(k, task, slot)
        return Extent(lanes, self.s.cost / lanes)

    def _task(self, k: Kernel, task: Index, slot: str) -> None:
        b, s, p = k.b, self.s, self.s.p
        sizes = [s.shares, *(d.size for d in p.batch), s.column_blocks, s.row_blocks]
        share, *batch, column_block, row_block = split_index(b, task, sizes)
        m, n = count(p.m), count(p.n)
        m0, n0 = b.mul(row_block, s.rows), b.mul(column_block, s.columns)
        rows = b.minimum(s.rows, b.sub(m, m0)) if m % s.rows else s.rows
        columns = b.minimum(s.columns, b.sub(n, n0)) if n % s.columns else s.columns
        t = _Task(k, s, slot, self.shared, batch, m0, n0, rows, columns)
        base, store = k.outputs[0], p.store
        offset: Index = p.c_offset
        if s.shares > 1:
            base, store = k.scratch[self.partial], Types.of(p.arithmetic.total)
            offset = b.add(b.mul(share, self.elements), p.c_offset)
        for d, i in zip(p.batch, batch, strict=True):
            offset = b.add(offset, b.mul(i, d.c))
        result = _Result(store.result_address(b, base, offset), store)
        c = t.target(result)
        number = s.cut.number
        first: Index = 0
        last: Index = number
        if s.shares > 1:
            first = b.udiv(b.mul(share, number), s.shares)
            last = b.udiv(b.mul(b.add(share, 1), number), s.shares)
        if number == 1:
            t.multiply(s.cut.block(b, 0), c, FALSE)
        else:
            with b.loop(first, last, plain=True) as i:
                t.multiply(s.cut.block(b, i), c, b.compare("ne", i, first))
        if not s.direct:
            t.deliver(result, c)


@dataclass(frozen=True)
class _Result:
    """Where the sums of a batch go."""

    address: str
    store: Types


class _Task:
    """Emission of one block of the result."""

    def __init__(
        self, k: Kernel, s: Schedule, slot: str, shared: int, batch: Sequence[Index], m0: Index,
        n0: Index, rows: Index, columns: Index,
    ) -> None:  # fmt: skip
        self.k, self.b, self.s, self.p = k, k.b, s, s.p
        self.shared, self.batch = shared, batch
        self.m0, self.n0, self.rows, self.columns = m0, n0, rows, columns
        self.type = s.p.arithmetic.type
        at, addresses = 0, []
        for n in s.panels:
            addresses.append(self.b.element_address(slot, "i8", at))
            at += -(-n * s.p.arithmetic.bytes // _LINE) * _LINE
        self.a_panel, self.b_panel, self.sums = addresses

    def target(self, result: _Result) -> Place:
        """Return where the microkernel writes."""
        b, p = self.b, self.p
        if not self.s.direct:
            return Place(self.sums, self.s.wide_columns, 1)
        row, column = uniform_stride(p.m, "c"), uniform_stride(p.n, "c")
        assert row is not None and column is not None
        at = b.add(b.mul(self.m0, row), b.mul(self.n0, column))
        return Place(b.element_address(result.address, self.type, at), row, column)

    def _origin(self, side: str, first: Index, block: KBlock) -> tuple[str, int, int]:
        """Return the address of an operand's element in place, and its strides along free and k."""
        b, p = self.b, self.p
        source = p.source(side)
        at: Index = 0
        for d, i in zip(p.batch, self.batch, strict=True):
            at = b.add(at, b.mul(i, d.stride(side)))
        cut = block.cut
        for d, i in zip(cut.dims[: cut.level], block.outer, strict=True):
            at = b.add(at, b.mul(i, d.stride(side)))
        at = b.add(at, b.mul(block.start, cut.dims[cut.level].stride(side)))
        free, step = uniform_stride(p.free(side), side), uniform_stride(cut.inner_dims, side)
        assert free is not None and step is not None
        at = b.add(at, b.mul(first, free))
        return b.element_address(source.address(self.k), self.type, at), free, step

    def multiply(self, block: KBlock, c: Place, more: Val) -> None:
        """Add the products of a block of k."""
        if isinstance(self.s.tile, Dots):
            self._inner(self.s.tile, block, c, more)
        else:
            self._outer(self.s.tile, block, c, more)

    def _a(self, block: KBlock, length: Index) -> tuple[str, int, int]:
        """Return where A is: address, strides along rows and k."""
        s = self.s
        if s.a is Form.DIRECT:
            return self._origin("a", self.m0, block)
        if self.p.a.bounds or (self.p.arithmetic.pairs and count(self.p.k) % 2):
            lines = self.rows if s.inside == "k" else length
            clear(self.b, self.a_panel, self.p.arithmetic, self.b.mul(lines, s.a_pitch))
        packer = _Packer(self.k, self.p, "a")
        packer.pack(self.a_panel, s.a_pitch, s.inside, self.m0, self.rows, block, self.batch)
        return (self.a_panel, s.a_pitch, 1) if s.inside == "k" else (self.a_panel, 1, s.a_pitch)

    def _inner(self, dots: Dots, block: KBlock, c: Place, more: Val) -> None:
        b, s, p = self.b, self.s, self.p
        length = block.length(b)
        a, a_row, _ = self._a(block, length)
        if s.b is Form.DIRECT:
            panel, b_column, _ = self._origin("b", self.n0, block)
        else:
            panel, b_column = self.b_panel, s.b_pitch
            if p.b.bounds:
                clear(b, panel, p.arithmetic, b.mul(self.columns, s.b_pitch))
            packer = _Packer(self.k, p, "b")
            packer.pack(panel, s.b_pitch, "k", self.n0, self.columns, block, self.batch)
        function = inner_block(b.module, p.arithmetic, dots)
        b.write(
            f"call void @{function}(ptr {a}, i64 {a_row}, i64 {self.rows}, ptr {panel}, "
            f"i64 {b_column}, i64 {self.columns}, i64 {length}, ptr {c.address}, i64 {c.row}, "
            f"i64 {c.column}, {more})"
        )

    def _outer(self, tile: Tile, block: KBlock, c: Place, more: Val) -> None:
        b, s, p = self.b, self.s, self.p
        length = block.length(b)
        depth: Index = b.udiv(b.add(length, 1), 2) if p.arithmetic.pairs else length
        a, a_row, a_k = self._a(block, length)
        function = outer_block(b.module, p.arithmetic, tile)

        def call(panel: str, b_k: Index, b_strip: Index, columns: Index, first: Index) -> None:
            at = b.element_address(c.address, self.type, first)
            b.write(
                f"call void @{function}(ptr {a}, i64 {a_row}, i64 {a_k}, i64 {self.rows}, "
                f"ptr {panel}, i64 {b_k}, i64 {b_strip}, i64 {columns}, i64 {depth}, ptr {at}, "
                f"i64 {c.row}, {more})"
            )

        wide = self.columns
        if not s.direct and count(p.n) % tile.columns:
            # The sums have room for whole tiles.
            wide = b.mul(b.udiv(b.add(self.columns, tile.columns - 1), tile.columns), tile.columns)
        match s.b:
            case Form.SHARED:
                strips, whole = -(-count(p.n) // tile.columns), _depth(p.arithmetic, count(p.k))
                at: Index = 0
                for d, i in zip(p.batch, self.batch, strict=True):
                    if d.b:
                        at = b.add(b.mul(at, d.size), i)
                strip = b.add(b.mul(at, strips), b.udiv(self.n0, tile.columns))
                before = b.udiv(block.linear, 2) if p.arithmetic.pairs else block.linear
                at = b.mul(b.add(b.mul(strip, whole), before), tile.columns)
                panel = b.element_address(self.k.scratch[self.shared], self.type, at)
                call(panel, tile.columns, whole * tile.columns, wide, 0)
            case Form.LOCAL:
                packer = _Packer(self.k, p, "b")
                if p.b.bounds or count(p.n) % tile.columns:
                    clear(b, self.b_panel, p.arithmetic, b.mul(depth, s.b_pitch))
                packer.pack(
                    self.b_panel, s.b_pitch, "free", self.n0, self.columns, block, self.batch
                )
                call(self.b_panel, s.b_pitch, tile.columns, wide, 0)
            case Form.DIRECT:
                panel, _, b_k = self._origin("b", self.n0, block)
                if count(p.n) % tile.columns == 0:
                    call(panel, b_k, tile.columns, self.columns, 0)
                    return
                whole_columns = b.mul(b.udiv(self.columns, tile.columns), tile.columns)
                call(panel, b_k, tile.columns, whole_columns, 0)
                rest = b.sub(self.columns, whole_columns)

                def last() -> None:
                    # What is left of the columns is less than a tile may read.
                    clear(b, self.b_panel, p.arithmetic, b.mul(depth, tile.columns))
                    first = b.add(self.n0, whole_columns)
                    packer = _Packer(self.k, p, "b")
                    packer.pack(self.b_panel, tile.columns, "free", first, rest, block, self.batch)
                    width = rest if s.direct else tile.columns
                    call(self.b_panel, tile.columns, tile.columns, width, whole_columns)

                _when(b, b.compare("sgt", rest, 0), last)

    def deliver(self, result: _Result, sums: Place) -> None:
        """Bring the sums to the result."""
        b, p = self.b, self.p
        m, n = merged(p.m, "c") or (Dim(1),), merged(p.n, "c") or (Dim(1),)
        with (
            segments(b, m, self.m0, self.rows) as i,
            segments(b, n, self.n0, self.columns) as j,
        ):
            at: Index = 0
            for dims, segment in ((m, i), (n, j)):
                for d, x in zip(dims, (*segment.outer, segment.start), strict=True):
                    at = b.add(at, b.mul(x, d.c))
            to = Place(result.store.result_address(b, result.address, at), m[-1].c, n[-1].c)
            here = b.add(b.mul(i.done, self.s.wide_columns), j.done)
            frm = Place(b.element_address(sums.address, self.type, here), self.s.wide_columns, 1)
            copy(b, self.k.target, result.store, to, frm, i.length, j.length)


def _when(b: Builder, condition: Val, body: Callable[[], None]) -> None:
    """Write a body that runs if a condition holds, which may be known."""
    if condition == TRUE:
        body()
    elif condition != FALSE:
        with b.when(condition):
            body()


@dataclass(frozen=True)
class _AddShares:
    """Adds the sums of the shares of k, and stores them."""

    s: Schedule
    partial: int
    elements: int

    def __call__(self, k: Kernel) -> Extent:
        b, arithmetic = k.b, self.s.p.arithmetic
        store = self.s.p.store
        chunk = 256
        with b.loop(k.begin, k.end, plain=True) as part:
            first = b.mul(part, chunk)
            last = b.minimum(b.add(first, chunk), self.elements)
            with b.loop(first, last, rolled=True) as at:
                base = k.scratch[self.partial]
                values = []
                for share in range(self.s.shares):
                    place = b.add(at, share * self.elements)
                    raw = f"load {arithmetic.type}, ptr "
                    raw += b.element_address(base, arithmetic.type, place)
                    values.append(b.effect(arithmetic.type, raw))
                total = values[0]
                for value in values[1:]:
                    total = arithmetic.add(b, total, value)
                value = scalar.from_memory(b, arithmetic.total, total)
                result: scalar.Value = value
                for source, target in zip(store.chain, store.chain[1:], strict=False):
                    result = scalar.convert(b, result, source, target)
                scalar.store(b, store.chain[-1], result, k.outputs[0], at)
        return Extent(-(-self.elements // chunk), chunk * self.s.shares / 8)


__all__ = ["Source", "Steps", "add_product"]
