"""Packing: the copy of a part of an operand to a panel, whatever its dimensions and bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from hlo.codegen.kernels.matmul.microkernels import PanelFormat, PanelOrder
from hlo.codegen.kernels.matmul.panels import StridedMatrix, clear_rows, copy, copy_groups
from hlo.codegen.kernels.matmul.product import (
    Bound,
    Computed,
    Dim,
    Dims,
    Product,
    merged,
    offset_at,
)
from hlo.codegen.kernels.matmul.schedule import KBlock
from hlo.codegen.llvm import Builder, Index, Val
from hlo.codegen.loops.kernel import LIGHT_COST, Kernel, plain_loop, split_index
from hlo.codegen.loops.vectors import Types
from hlo.codegen.scalar import operations as scalar


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


class Packer:
    """Writes the copy of a part of an operand to a panel."""

    def __init__(self, k: Kernel, p: Product, side: str, panel: PanelFormat) -> None:
        self.k, self.b, self.p, self.side, self.format = k, k.b, p, side, panel
        self.source = p.source(side)
        names = {x.free for x in self.source.bounds} | {x.tap for x in self.source.bounds}
        self.names = names
        self.free = merged(self._named(p.free(side)), side) or (Dim(1),)
        self.types = Types.of(self.source.et, panel.element)

    def _named(self, dims: Dims) -> Dims:
        return tuple(d if d.name in self.names else replace(d, name="") for d in dims)

    def _stride(self, d: Dim) -> int:
        return d.stride(self.side)

    def pack(
        self, panel: str, pitch: int, order: PanelOrder, first: Index, number: Index, block: KBlock,
        batch: Sequence[Index], *, fills: bool = False,
    ) -> None:  # fmt: skip
        """Copy `number` free indices from `first` on of a block of k.

        order: K_INNERMOST or K_OUTERMOST; pitch: the distance of what is outermost, in groups.
        fills: write zeros for what is beyond the ends, for K_INNERMOST only.
        """
        b = self.b
        at = offset_at(b, 0, self.p.batch, batch, self.side)
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
        if len(self.free) + len(dims) > 2 or self.source.bounds:
            # Every copy is of a run of the innermost dimensions, several elements at a time.
            self.k.is_light |= self.free[-1].size * dims[-1].size < 2 * LIGHT_COST
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
                is_all = len(dims) == 1 and not self.source.bounds
                piece = _Piece(segment, dims[-1], low, length, base, packed, names, is_all)
                self._piece(panel, pitch, order, piece, fills=fills)

    def _piece(
        self, panel: str, pitch: int, order: PanelOrder, piece: _Piece, *, fills: bool
    ) -> None:
        """Copy what is within the bounds of a range of free indices and one of k.

        fills: write zeros for what is not.
        """
        b = self.b
        start, low = piece.segment.start, piece.low
        last, end = b.add(start, piece.segment.length), b.add(low, piece.length)
        free, taps, slanted = self._within(piece, (start, last), (low, end))
        # What lies within all bounds is copied together; free indices near an end have a range of
        # their own along k.
        whole = free if slanted is None else self._unclipped(slanted, free, taps)
        if fills:
            is_all = b.both(b.compare("eq", taps[0], low), b.compare("eq", taps[1], end))
            whole = whole[0], b.select(is_all, _i64(whole[1]), _i64(whole[0])).name
        if fills or slanted is not None:
            every = (start, last) if fills else free
            first = b.minimum(whole[0], every[1])
            whole = first, b.maximum(first, whole[1])
            if fills:
                self._clear(panel, pitch, piece, (every[0], whole[0]))
                self._clear(panel, pitch, piece, (whole[1], every[1]))
            if slanted is not None:
                with self._outside(every, whole) as f:
                    fixed = b.add(b.mul(f, slanted.step), slanted.low)
                    here = _clip(b, *taps, fixed, slanted.jump, slanted.size, slanted.unit)
                    one = b.maximum(f, free[0]), b.minimum(b.add(f, 1), free[1])
                    self._copy(panel, pitch, order, piece, one, here)
        self._copy(panel, pitch, order, piece, free if slanted is None else whole, taps)

    def _within(
        self, piece: _Piece, free: tuple[Index, Index], taps: tuple[Index, Index]
    ) -> tuple[tuple[Index, Index], tuple[Index, Index], Bound | None]:
        """Return the ranges of a piece within the bounds that do not depend on both of its indices.

        Besides the one that does, if there is one.
        """
        b = self.b
        (f0, f1), (t0, t1), slanted = free, taps, None
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
        return (f0, f1), (t0, t1), slanted

    def _unclipped(
        self, bound: Bound, free: tuple[Index, Index], taps: tuple[Index, Index]
    ) -> tuple[Index, Index]:
        """Return the free indices all of whose taps are within a bound."""
        b = self.b
        for t in (taps[0], b.sub(taps[1], 1)):
            fixed = b.add(b.mul(b.udiv(t, bound.unit), bound.jump), bound.low)
            free = _clip(b, *free, fixed, bound.step, bound.size)
        return free

    @contextmanager
    def _outside(self, every: tuple[Index, Index], but: tuple[Index, Index]) -> Iterator[Index]:
        """Run the body for each index of a range but those of another, which lies within."""
        b = self.b
        (low, high), (first, last) = every, but
        skipped = b.sub(last, first)
        with b.loop(low, b.sub(high, skipped), plain=True) as at:
            after = _i64(b.add(at, skipped))
            yield b.select(b.compare("slt", at, first), _i64(at), after).name

    def _clear(self, panel: str, pitch: int, piece: _Piece, free: tuple[Index, Index]) -> None:
        """Write zeros for free indices of a piece, to a panel whose k is innermost."""
        b, group = self.b, self.format.group
        row = b.add(piece.segment.done, b.sub(free[0], piece.segment.start))
        element, size = scalar.memory_type(self.types.chain[-1]), self.format.bytes // group
        at = b.add(b.mul(row, group * pitch), piece.packed)
        to = StridedMatrix(b.element_address(panel, element, at), group * pitch, 1)
        clear_rows(b, to, size, b.sub(free[1], free[0]), piece.length)

    def _copy(
        self, panel: str, pitch: int, order: PanelOrder, piece: _Piece, free: tuple[Index, Index],
        taps: tuple[Index, Index],
    ) -> None:  # fmt: skip
        b, group = self.b, self.format.group
        u, v = self._stride(self.free[-1]), self._stride(piece.dim)
        df, dt = b.sub(free[0], piece.segment.start), b.sub(taps[0], piece.low)
        at = b.add(piece.base, b.add(b.mul(df, u), b.mul(dt, v)))
        row, column = b.add(piece.segment.done, df), b.add(piece.packed, dt)
        number, length = b.sub(free[1], free[0]), b.sub(taps[1], taps[0])
        if isinstance(self.source.memory, Computed):
            if order is PanelOrder.K_INNERMOST:
                first = b.add(b.mul(row, group * pitch), column)
                lines = _Lines(panel, first, group * pitch, at, u, number, length)
            else:
                first = b.add(b.mul(column, pitch), row)
                lines = _Lines(panel, first, pitch, at, v, length, number)
            self._compute(self.source.memory, lines)
            return
        mem = scalar.memory_type(self.source.et)
        address = b.element_address(self.source.address(self.k), mem, at)
        target = self.k.target
        if group > 1 and order is PanelOrder.K_OUTERMOST and not piece.is_all:
            self._scatter(panel, pitch, row, column, StridedMatrix(address, v, u), length, number)
            return
        if group > 1 and order is PanelOrder.K_OUTERMOST:
            line = b.mul(b.udiv(column, group), pitch)
            to = b.element_address(panel, self.format.type, b.add(line, row))
            copy_groups(
                b, target, self.types, group, StridedMatrix(to, pitch, 1),
                StridedMatrix(address, v, u), length, number,
            )  # fmt: skip
            return
        element = scalar.memory_type(self.types.chain[-1])
        if order is PanelOrder.K_INNERMOST:
            step = group * pitch
            to = b.element_address(panel, element, b.add(b.mul(row, step), column))
            place = StridedMatrix(to, step, 1)
        else:
            to = b.element_address(panel, element, b.add(b.mul(column, pitch), row))
            place = StridedMatrix(to, 1, pitch)
        copy(b, target, self.types, place, StridedMatrix(address, u, v), number, length)

    def _compute(self, source: Computed, lines: _Lines) -> None:
        """Compute lines of a panel, which are runs of the operand's innermost dimension."""
        b = self.b
        with b.loop(0, lines.number, plain=True) as i:
            run = source.run(self.k, b.add(lines.at, b.mul(i, lines.step)), self.types)
            to = b.add(lines.first, b.mul(i, lines.pitch))

            def element(j: str, to: Index = to, run: Callable[[Index], scalar.Value] = run) -> None:
                self.types.store(b, run(j), lines.panel, b.add(to, j))

            plain_loop(b, (0, lines.length), element)

    def _scatter(
        self, panel: str, pitch: int, row: Index, column: Index, frm: StridedMatrix, length: Index,
        number: Index,
    ) -> None:  # fmt: skip
        """Copy `length` indices of k, which may begin within a group, each to its place there."""
        b, group = self.b, self.format.group
        target, element = self.k.target, scalar.memory_type(self.types.chain[-1])
        source = scalar.memory_type(self.source.et)
        with b.loop(0, length, plain=True) as i:
            at = b.add(column, i)
            line = b.add(b.mul(b.udiv(at, group), pitch), row)
            to = b.element_address(panel, element, b.add(b.mul(line, group), b.urem(at, group)))
            address = b.element_address(frm.address, source, b.mul(i, frm.row))
            places = StridedMatrix(to, 0, group), StridedMatrix(address, 0, frm.column)
            copy(b, target, self.types, *places, 1, number)


@dataclass(frozen=True)
class _Lines:
    """Lines of a panel to compute: the place of the first element and the distance of lines there.

    at, step: the same in the operand. number, length: of lines.
    """

    panel: str
    first: Index
    pitch: Index
    at: Index
    step: Index
    number: Index
    length: Index


@dataclass(frozen=True)
class _Piece:
    """A segment of free indices, and a range of the innermost dimension of k.

    base: the offset of its first element in the operand; packed: the first's place along k in the
    panel; names: the indices of all other dimensions that have one; is_all: no other piece has the
    same free indices, and none of this one is padding.
    """

    segment: Segment
    dim: Dim
    low: Index
    length: Index
    base: Index
    packed: Index
    names: dict[str, Index]
    is_all: bool


def _i64(at: Index) -> Val:
    return Val("i64", str(at))


def _clip(
    b: Builder, low: Index, high: Index, fixed: Index, step: int, size: int, unit: int = 1
) -> tuple[Index, Index]:
    """Return the part of a range whose indices i have 0 <= fixed + (i / unit) * step < size."""
    first = b.udiv(b.add(b.maximum(b.sub(0, fixed), 0), step - 1), step)
    end = b.udiv(b.add(b.maximum(b.sub(size, fixed), 0), step - 1), step)
    return b.maximum(low, b.mul(first, unit)), b.minimum(high, b.mul(end, unit))
