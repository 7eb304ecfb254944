"""Reductions of windows: pooling of any rank, stride, padding and dilation.

Windows without padding and with few elements are computed in registers, one result at a time, with
vectors along the results. Otherwise a strip of adjacent results is on the stack while the windows'
elements are added, row by row, clipped to those that exist. Prefix sums are in `running`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property

from hlo.analysis.fusion.roles import Role
from hlo.codegen.kernels.reduce.combiner import Accumulators, Combiner, element_type
from hlo.codegen.kernels.reduce.running import plan_running
from hlo.codegen.llvm import Builder, Index
from hlo.codegen.loops.collapse import collapsible_reads
from hlo.codegen.loops.element import Indices
from hlo.codegen.loops.kernel import Kernel, over_elements, planner, split_index
from hlo.codegen.scalar.operations import Value
from hlo.codegen.targets.base import Extent, Plan, Target
from hlo.ir import Instruction
from hlo.ops.attrs import Window, WindowDim
from hlo.values.layout.plain import loop_order
from hlo.values.types import ArrayShape

# Windows of up to so many elements are unrolled.
_UNROLLED = 32
# Bytes of results that stay on the stack.
_STRIP_BYTES = 8192


@dataclass(frozen=True)
class Windows:
    """The windows over the dimensions of an operand.

    dims: of the operand. out: number of windows in each dimension.
    """

    dims: tuple[int, ...]
    out: tuple[int, ...]
    window: Window

    @staticmethod
    def of(operand: ArrayShape, window: Window) -> Windows:
        window = window or (WindowDim(),) * operand.rank
        sizes = zip(operand.dims, window, strict=True)
        return Windows(operand.dims, tuple(w.output_size(n) for n, w in sizes), window)

    @cached_property
    def sliding(self) -> list[int]:
        """The dimensions in which a window is not just the element at its own index."""
        return [d for d, w in enumerate(self.window) if w != WindowDim()]

    def is_whole(self, d: int) -> bool:
        """True when no window reaches beyond the operand's elements in a dimension."""
        w, last = self.window[d], self.out[d] - 1
        reach = last * w.stride + (w.size - 1) * w.rhs_dilate - w.pad_low
        return w.lhs_dilate == 1 and w.pad_low <= 0 and reach < self.dims[d]

    def inner_range(self, d: int) -> tuple[int, int]:
        """Return the range of windows that are entirely in bounds."""
        w = self.window[d]
        assert w.lhs_dilate == 1
        first = max(0, -(-w.pad_low // w.stride))
        room = self.dims[d] - 1 + w.pad_low - (w.size - 1) * w.rhs_dilate
        end = min(self.out[d], room // w.stride + 1)
        return (first, end) if first < end else (0, 0)

    def element_at(self, b: Builder, d: int, window: Index, offset: Index) -> Index:
        """Return the element at an offset of a window, without dilation."""
        w = self.window[d]
        at = b.add(b.mul(window, w.stride), b.mul(offset, w.rhs_dilate))
        return b.sub(at, w.pad_low)

    @contextmanager
    def elements(self, b: Builder, d: int, window: Index) -> Iterator[tuple[Index, Index]]:
        """Emit the body for the elements of a window in one dimension, in order.

        Yields the element's index and its offset in the window. If both operand and window are
        dilated, all elements in reach are tested.
        """
        w, n = self.window[d], self.dims[d]
        base = b.sub(b.mul(window, w.stride), w.pad_low)
        if w.lhs_dilate == 1:
            low = _ceil_div(b, b.sub(0, base), w.rhs_dilate)
            high = _end_of(b, b.sub(n - 1, base), w.rhs_dilate)
            with b.loop(low, b.minimum(high, w.size)) as offset:
                yield b.add(base, b.mul(offset, w.rhs_dilate)), offset
            return
        low = _ceil_div(b, base, w.lhs_dilate)
        high = _end_of(b, b.add(base, (w.size - 1) * w.rhs_dilate), w.lhs_dilate)
        with b.loop(low, b.minimum(high, n)) as at, ExitStack() as stack:
            distance = b.sub(b.mul(at, w.lhs_dilate), base)
            if w.rhs_dilate > 1:
                hit = b.compare("eq", b.urem(distance, w.rhs_dilate), 0)
                stack.enter_context(b.when(hit))
            yield at, b.udiv(distance, w.rhs_dilate)


def _ceil_div(b: Builder, a: Index, by: int) -> Index:
    """Return max(a, 0) / by, rounded up."""
    return b.udiv(b.add(b.maximum(a, 0), by - 1), by)


def _end_of(b: Builder, a: Index, by: int) -> Index:
    """Return how many multiples of `by` are in [0, a]."""
    return b.udiv(b.maximum(b.add(a, by), 0), by)


class WindowEmitter:
    """Emission of a reduce-window into one kernel."""

    def __init__(self, k: Kernel) -> None:
        self.k = k
        self.b = k.b
        self.combiner = Combiner.of(k.inst.to_apply)
        count = self.combiner.count
        self.operands, self.initial = k.inst.operands[:count], k.inst.operands[count:]
        source = self.operands[0].array_shape
        self.windows = Windows.of(source, k.inst.window)
        self.results = [s for _, s in k.inst.shape.leaves() if isinstance(s, ArrayShape)]
        self.order = loop_order(self.results[0])

    def inits(self) -> list[Value]:
        values = [self.k.elements.at(i, ()) for i in self.initial]
        return self.combiner.start(self.b, values, [element_type(i) for i in self.initial])

    def step(self, held: Sequence[Value], at: Mapping[int, Index]) -> list[Value]:
        """Return the accumulators after the element at an index."""
        place = tuple(at[d] for d in range(len(self.windows.dims)))
        values = [self.k.elements.at(o, place) for o in self.operands]
        new = self.combiner.elements(self.b, values, [element_type(o) for o in self.operands])
        return self.combiner.apply(self.k.elements, held, new)

    def store(self, values: Sequence[Value], at: Mapping[int, Index]) -> None:
        place = tuple(at[d] for d in range(len(self.windows.dims)))
        wanted = [s.element_type for s in self.results]
        for n, value in enumerate(self.combiner.result(self.b, values, wanted)):
            self.k.store(value, place, n)

    def over(
        self, dims: Sequence[int], at: dict[int, Index], body: Callable[[dict[int, Index]], None]
    ) -> None:
        """Emit the body for the elements of one window in some dimensions, the last one fastest.

        at: the window's index in those dimensions, and the elements' in others.
        """
        with ExitStack() as stack:
            place = dict(at)
            for d in dims:
                place[d], _ = stack.enter_context(self.windows.elements(self.b, d, at[d]))
            body(place)

    @cached_property
    def columns(self) -> list[int]:
        """The innermost dimensions of the result that collapse into one loop."""
        w, order = self.windows, self.order
        if not order or order[-1] in w.sliding:
            return order[-1:]
        flags = collapsible_reads(self.operands, self.k.roles, order)
        first = len(order) - 1
        while first and flags[first - 1] and order[first - 1] not in w.sliding:
            first -= 1
        return order[first:]


@planner("reduce-window")
def plan_reduce_window(
    inst: Instruction, roles: Mapping[Instruction, Role], target: Target
) -> Plan:
    """Choose by the windows' size and whether they overlap the padding."""
    combiner = Combiner.of(inst.to_apply)
    source = inst.operands[0].array_shape
    w = Windows.of(source, inst.window)
    if 0 in w.out:
        return Plan(())
    running = plan_running(inst, combiner, target)
    if running is not None:
        return running
    volume = math.prod(d.size for d in w.window)
    if volume <= _UNROLLED and all(w.is_whole(d) for d in w.sliding):
        return Plan((_whole_windows,))
    result = next(s for _, s in inst.shape.leaves() if isinstance(s, ArrayShape))
    order = loop_order(result)
    minor = order[-1] if order else None
    if minor is None or (minor in w.sliding and not _slides_in_strips(w, minor, combiner)):
        return Plan((_each_window,))
    return Plan((_strips,))


def _slides_in_strips(w: Windows, minor: int, combiner: Combiner) -> bool:
    """True when a window may be unrolled along the innermost dimension of the result."""
    dim = w.window[minor]
    in_order = combiner.known is not None or w.sliding[-1] == minor
    return in_order and dim.lhs_dilate == 1 and dim.size <= _UNROLLED


def _whole_windows(k: Kernel) -> Extent:
    """Reduce windows one at a time, in registers."""
    w = WindowEmitter(k)
    sliding, window = w.windows.sliding, w.windows.window
    offsets = list(itertools.product(*(range(window[d].size) for d in sliding)))

    def body(indices: Indices) -> None:
        at = dict(enumerate(indices))
        held = w.inits()
        for offset in offsets:
            moved = {
                d: w.windows.element_at(k.b, d, at[d], n)
                for d, n in zip(sliding, offset, strict=True)
            }
            held = w.step(held, at | moved)
        w.store(held, at)

    flags = collapsible_reads(w.operands, k.roles, w.order)
    merged = [
        flag and not {a, b} & set(sliding)
        for flag, (a, b) in zip(flags, itertools.pairwise(w.order), strict=True)
    ]
    extent = over_elements(k, w.results[0], body, merged)
    return Extent(extent.iterations, extent.cost * max(1, len(offsets)))


def _each_window(k: Kernel) -> Extent:
    """Reduce windows one at a time, element by element in row-major order."""
    w = WindowEmitter(k)
    acc = Accumulators(k.b, w.combiner.held)

    def body(indices: Indices) -> None:
        acc.put(w.inits())
        at = dict(enumerate(indices))
        w.over(w.windows.sliding, at, lambda place: acc.put(w.step(acc.get(), place)))
        w.store(acc.get(), at)

    extent = over_elements(k, w.results[0], body)
    return Extent(extent.iterations, extent.cost * _reach(w))


def _reach(w: WindowEmitter) -> float:
    """Return the approximate number of elements of a window."""
    pairs = zip(w.windows.window, w.windows.dims, strict=True)
    return float(max(1, math.prod(min(d.size, n) for d, n in pairs)))


def _strips(k: Kernel) -> Extent:
    """Reduce strips of adjacent windows together."""
    w = WindowEmitter(k)
    b, dims = k.b, w.windows.out
    columns = w.columns
    outer = w.order[: len(w.order) - len(columns)]
    width = math.prod(dims[d] for d in columns)
    most = max(64, _STRIP_BYTES // sum(et.byte_width for et in w.combiner.held))
    strip = min(width, most)
    strips = -(-width // strip)
    lines = math.prod(dims[d] for d in outer)
    acc = Accumulators(b, w.combiner.held, strip)
    rows = [d for d in w.windows.sliding if d not in columns]
    with b.loop(k.begin, k.end) as share:
        line, number = split_index(b, share, [lines, strips])
        found = split_index(b, line, [dims[d] for d in outer]) if outer else []
        fixed: dict[int, Index] = dict.fromkeys(range(len(dims)), 0)
        fixed |= dict(zip(outer, found, strict=True))
        first = b.mul(number, strip)
        here = strip if width % strip == 0 else b.minimum(strip, b.sub(width, first))

        def at_column(j: Index) -> dict[int, Index]:
            parts = split_index(b, b.add(first, j), [dims[d] for d in columns])
            return dict(zip(columns, parts, strict=True))

        with b.loop(0, here) as j:
            acc.put(w.inits(), j)

        def row(place: dict[int, Index]) -> None:
            if columns[0] in w.windows.sliding:
                _slide(w, acc, place, columns[0], first, here)
                return
            with b.loop(0, here) as j:
                acc.put(w.step(acc.get(j), place | at_column(j)), j)

        w.over(rows, fixed, row)
        with b.loop(0, here) as j:
            w.store(acc.get(j), fixed | at_column(j))
    return Extent(lines * strips, strip * _reach(w))


def _slide(
    w: WindowEmitter,
    acc: Accumulators,
    place: Mapping[int, Index],
    d: int,
    first: Index,
    here: Index,
) -> None:
    """Add the elements of adjacent windows of one row.

    Windows inside the row are processed together; those at its ends are clipped one by one.
    """
    b, windows = w.b, w.windows
    lo, hi = windows.inner_range(d)
    begin = b.minimum(b.maximum(b.sub(lo, first), 0), here)
    end = b.maximum(b.minimum(b.sub(hi, first), here), begin)

    def clipped(start: Index, stop: Index) -> None:
        with b.loop(start, stop, plain=True) as j:
            single = dict(place) | {d: b.add(first, j)}
            w.over([d], single, lambda at: acc.put(w.step(acc.get(j), at), j))

    clipped(0, begin)
    with b.loop(begin, end) as j:
        held = acc.get(j)
        for offset in range(windows.window[d].size):
            element = windows.element_at(b, d, b.add(first, j), offset)
            held = w.step(held, {**place, d: element})
        acc.put(held, j)
    clipped(end, here)
