"""Convolutions whose groups have one feature: sums over a window, without a matrix product.

A task copies what it sees of the input to a panel, with zeros around it, and runs over that in
vectors: along rows where the result's columns are contiguous, across groups where those are. The
gradient of the filter is the same with positions and taps in each other's place: few positions,
many taps, and sums over images too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from hlo.codegen import scalar
from hlo.codegen.kernel import Extent, Kernel, slots, split_index
from hlo.codegen.kernels.gemm import AddShares, Steps, over_tasks
from hlo.codegen.kernels.microkernel import Arithmetic
from hlo.codegen.kernels.panels import Place, clear, copy
from hlo.codegen.kernels.product import Dim, Dims, Source, count
from hlo.codegen.kernels.schedule import LINE
from hlo.codegen.kernels.stencil_rows import (
    Taps,
    correlate_groups,
    correlate_row,
    filter_groups,
    filter_row,
)
from hlo.codegen.kernels.vectors import Types
from hlo.codegen.llvm import Index
from hlo.codegen.target import Target

# Places that are multiplied at once, and bytes of a task's panel, at the most.
_FEW, _PANEL_BYTES = 49, 128 * 1024
# Vectors of groups in a panel.
_VECTORS = 4
# Shares of the images whose sums are added up apart, where there are few other tasks.
_TASKS, _TASK_WORK = 16, 20_000


@dataclass(frozen=True)
class Line:
    """One spatial dimension: `many` places that are run over, `few` that are multiplied at once.

    Place m and f see element `m * step + f * jump + low` of the input's `size`, elements `stride`
    apart. One of the two counts the positions of the window and the other its taps.
    """

    many: int
    few: int
    step: int
    jump: int
    low: int
    size: int
    stride: int

    def reach(self, many: int) -> int:
        """Return how many elements so many places see."""
        return (many - 1) * self.step + (self.few - 1) * self.jump + 1

    @property
    def is_whole(self) -> bool:
        return self.low >= 0 and self.low + self.reach(self.many) <= self.size


@dataclass(frozen=True)
class Stencil:
    """A convolution to compute. Strides of A, B and C are those of input, filter and result.

    groups: independent of each other. outer: what else the result has (images, several outputs of a
    group). summed: what is added up beside the window (images, for the gradient of the filter).
    y, x: the window. many, few: strides of B and C along the window's places in (y, x).
    """

    a: Source
    b: Source
    groups: Dim
    outer: Dims
    summed: Dims
    y: Line
    x: Line
    many: tuple[int, int]
    few: tuple[int, int]
    # True when the few places are positions: the gradient of the filter.
    correlates: bool
    arithmetic: Arithmetic
    store: Types
    c_offset: int
    elements: int

    @property
    def few_places(self) -> int:
        return self.y.few * self.x.few

    @property
    def is_worthwhile(self) -> bool:
        """True when few places are few, and fewer than the others."""
        return self.few_places <= _FEW and self.y.many * self.x.many >= self.few_places

    @property
    def work(self) -> int:
        """Multiplications."""
        places = self.y.many * self.x.many * self.few_places
        return self.groups.size * count(self.outer) * count(self.summed) * places


def add_stencils(steps: Steps, stencils: Sequence[Stencil], target: Target) -> None:
    """Append the steps of stencils that write different parts of one result."""
    together: dict[tuple[int, ...], list[_Plan]] = {}
    for s in stencils:
        lanes = max(1, target.vector_bits // (8 * s.arithmetic.bytes))
        enough = s.groups.size * 2 >= lanes
        contiguous = s.groups.a == 1 if s.correlates else s.groups.c == 1
        plan = _Plan(s, lanes, enough and contiguous)
        # Phases that lie between each other are written while the result is in the cache.
        together.setdefault(tuple(plan.task_sizes), []).append(plan)
    for plans in together.values():
        _add_plans(steps, plans)


def _add_plans(steps: Steps, plans: Sequence[_Plan]) -> None:
    first = plans[0]
    factors = []
    for plan in plans:
        if not plan.s.correlates:
            number = steps.memory(plan.factor_count * plan.s.arithmetic.bytes)
            steps.emitters.append(_PackFactors(plan, number))
            factors.append(number)
    s, shares, partial = first.s, first.shares, -1
    if shares > 1:
        partial = steps.memory(shares * s.elements * s.arithmetic.bytes)
    slot_bytes = max(plan.slot_bytes for plan in plans)
    own = steps.memory(slot_bytes * slots(first.tasks))
    steps.emitters.append(_Run(tuple(plans), own, slot_bytes, tuple(factors), partial))
    if shares > 1:
        steps.emitters.append(AddShares(s.arithmetic, s.store, shares, partial, s.elements))


@dataclass(frozen=True)
class _Plan:
    """How a stencil is cut into tasks. across: vectors are of groups, not of places in a row."""

    s: Stencil
    lanes: int
    across: bool

    # --- a task's part --------------------------------------------------------------------------

    @property
    def width(self) -> int:
        """Groups in an element of the panel."""
        if not self.across:
            return 1
        return min(_VECTORS, -(-self.s.groups.size // self.lanes)) * self.lanes

    @property
    def group_blocks(self) -> int:
        return -(-self.s.groups.size // self.width)

    @property
    def rows(self) -> int:
        """Rows of places that a panel serves."""
        y = self.s.y
        room = _PANEL_BYTES // (self.row * self.s.arithmetic.bytes)
        most = max(1, (room - (y.few - 1) * y.jump - 1) // y.step + 1)
        blocks = -(-y.many // most)
        return -(-y.many // blocks)

    @property
    def row_blocks(self) -> int:
        return -(-self.s.y.many // self.rows)

    @property
    def shares(self) -> int:
        """Parts of what is summed that are added up apart."""
        if not self.s.correlates:
            return 1
        others = count(self.s.outer) * self.group_blocks
        want = min(_TASKS, self.s.work // (_TASK_WORK * self.lanes)) // others
        return max(1, min(count(self.s.summed), want))

    @property
    def task_sizes(self) -> list[int]:
        """Shares, outer dimensions, blocks of groups, blocks of rows (filters only)."""
        blocks = 1 if self.s.correlates else self.row_blocks
        return [self.shares, *(d.size for d in self.s.outer), self.group_blocks, blocks]

    @property
    def tasks(self) -> int:
        return math.prod(self.task_sizes)

    # --- the panel of the input, in elements of the arithmetic ----------------------------------

    @property
    def phase(self) -> int:
        """The distance of phases of columns."""
        x = self.s.x
        columns = -(-x.reach(x.many) // x.step)
        return columns * self.width if self.across else columns + self.lanes

    @property
    def row(self) -> int:
        """The distance of rows."""
        return self.phase * self.s.x.step

    @property
    def panel(self) -> int:
        return self.row * self.s.y.reach(self.rows) + self.lanes

    # --- the other panel: of the filter's many taps, or of results that are converted -----------

    @property
    def other_row(self) -> int:
        return self.s.x.many * self.width

    @property
    def other(self) -> int:
        return 0 if self.in_place else self.other_row * self.rows

    @property
    def in_place(self) -> bool:
        """True when the other array is read or written where it lies."""
        s = self.s
        plain = (
            s.b.et is s.arithmetic.total
            if s.correlates
            else s.store == Types.of(s.arithmetic.total)
        )
        if not self.across:
            return plain and s.many[1] == 1
        inner = s.groups.b if s.correlates else s.groups.c
        return plain and inner == 1 and (not s.correlates or s.groups.size % self.lanes == 0)

    @property
    def sums(self) -> int:
        return self.s.few_places * self.width if self.s.correlates else 0

    @property
    def parts(self) -> list[int]:
        """Bytes of a task's panels, each on lines of its own."""
        size = self.s.arithmetic.bytes
        sizes = (self.panel, self.other, self.sums)
        return [-(-n * size // LINE) * LINE for n in sizes]

    @property
    def slot_bytes(self) -> int:
        return sum(self.parts)

    # --- factors --------------------------------------------------------------------------------

    @property
    def factor_dims(self) -> Dims:
        """What else than taps and groups the filter depends on."""
        return tuple(d for d in self.s.outer if d.b)

    @property
    def factor_groups(self) -> int:
        """Groups in the packed filter: whole vectors."""
        return self.group_blocks * self.width

    @property
    def factor_count(self) -> int:
        return count(self.factor_dims) * self.factor_groups * self.s.few_places

    @property
    def taps(self) -> Taps:
        s = self.s
        return Taps(s.y.few, s.x.few, s.x.step, s.x.jump)


@dataclass(frozen=True)
class _PackFactors:
    """Writes the filter as [outer][tap][group] for vectors of groups, else [outer][group][tap]."""

    plan: _Plan
    scratch: int

    def __call__(self, k: Kernel) -> Extent:
        b, plan, s = k.b, self.plan, self.plan.s
        taps, groups, width = s.few_places, s.groups.size, plan.factor_groups
        types = Types.of(s.b.et, s.arithmetic.total)
        base = k.scratch[self.scratch]
        if plan.across and width != groups:
            clear(b, base, s.arithmetic, plan.factor_count)
        with b.loop(k.begin, k.end, plain=True) as at:
            sizes = [*(d.size for d in plan.factor_dims), s.y.few, s.x.few]
            *outer, i, j = split_index(b, at, sizes)
            frm: Index = b.add(b.mul(i, s.few[0]), b.mul(j, s.few[1]))
            block: Index = 0
            for d, index in zip(plan.factor_dims, outer, strict=True):
                frm = b.add(frm, b.mul(index, d.b))
                block = b.add(b.mul(block, d.size), index)
            tap = b.add(b.mul(i, s.x.few), j)
            source = b.element_address(s.b.address(k), scalar.memory_type(s.b.et), frm)
            if plan.across:
                to = b.mul(b.add(b.mul(block, taps), tap), width)
                row, column = 0, 1
            else:
                to, row, column = b.add(b.mul(block, taps * groups), tap), 0, taps
            place = Place(b.element_address(base, s.arithmetic.type, to), row, column)
            copy(b, k.target, types, place, Place(source, 0, s.groups.b), 1, groups)
        return Extent(count(plan.factor_dims) * taps, groups)


@dataclass(frozen=True)
class _Run:
    """Runs over the panels of all tasks."""

    plans: tuple[_Plan, ...]
    own: int
    slot_bytes: int
    factors: tuple[int, ...]
    partial: int

    def __call__(self, k: Kernel) -> Extent:
        cost = sum(1.5 * plan.s.work / plan.lanes for plan in self.plans)

        def task(number: Index, slot: str) -> None:
            for i, plan in enumerate(self.plans):
                factors = k.scratch[self.factors[i]] if self.factors else ""
                partial = k.scratch[self.partial] if self.partial >= 0 else ""
                with k.b.scope():
                    _Task(k, plan, number, slot, factors, partial).write()

        own = k.scratch[self.own]
        return over_tasks(k, self.plans[0].tasks, own, self.slot_bytes, cost, task)


class _Task:
    """Emission of one task.

    slot: the address of its panels; factors, partial: those of the packed filter, and of sums of
    shares.
    """

    def __init__(
        self, k: Kernel, plan: _Plan, task: Index, slot: str, factors: str, partial: str
    ) -> None:
        self.k, self.b, self.plan, self.s = k, k.b, plan, plan.s
        self.factors, self.partial = factors, partial
        self.type = self.s.arithmetic.type
        parts = self.plan.parts
        self.panel = slot
        self.other = self.b.element_address(slot, "i8", parts[0])
        self.sums = self.b.element_address(slot, "i8", parts[0] + parts[1])
        b, s, plan = self.b, self.s, self.plan
        self.share, *self.outer, block, self.row_block = split_index(b, task, plan.task_sizes)
        self.first = b.mul(block, plan.width)
        self.groups: Index = plan.width
        if s.groups.size % plan.width:
            self.groups = b.minimum(plan.width, b.sub(s.groups.size, self.first))

    def write(self) -> None:
        if self.s.correlates:
            self._correlate()
        else:
            self._filter()

    # --- places in arrays -----------------------------------------------------------------------

    def _offset(self, side: str) -> Index:
        """Return the offset of the task's first group in an array."""
        b, s = self.b, self.s
        at = b.mul(self.first, s.groups.stride(side))
        for d, i in zip(s.outer, self.outer, strict=True):
            at = b.add(at, b.mul(i, d.stride(side)))
        return at

    def _in(self, source: Source, at: Index) -> str:
        return self.b.element_address(source.address(self.k), scalar.memory_type(source.et), at)

    def _element(self, base: str, at: Index) -> str:
        return self.b.element_address(base, self.type, at)

    # --- the panel ------------------------------------------------------------------------------

    def _fill(self, at: Index, first: Index, rows: Index) -> None:
        """Copy what `rows` rows of places from `first` on see, from offset `at` of the input on."""
        b, s, plan = self.b, self.s, self.plan
        y, x = s.y, s.x
        if not (y.is_whole and x.is_whole):
            clear(b, self.panel, s.arithmetic, plan.panel)
        types = Types.of(s.a.et, s.arithmetic.total)
        row0 = b.mul(first, y.step)
        above = b.add(row0, y.low)
        reach = b.add(b.mul(b.sub(rows, 1), y.step), (y.few - 1) * y.jump + 1)
        low = b.maximum(b.sub(0, above), 0)
        high = b.minimum(reach, b.sub(y.size, above))
        columns = x.reach(x.many)
        left, right = max(0, -x.low), min(columns, x.size - x.low)
        for phase in range(min(x.step, columns)):
            i0, i1 = (max(0, -(-(edge - phase) // x.step)) for edge in (left, right))
            start = b.add(at, b.mul(b.add(row0, low), y.stride))
            start = b.add(start, (i0 * x.step + phase) * x.stride)
            to = b.add(b.mul(low, plan.row), phase * plan.phase + i0 * plan.width)
            number, step = b.sub(high, low), x.step * x.stride
            if not plan.across:
                copy(
                    b, self.k.target, types, Place(self._element(self.panel, to), plan.row, 1),
                    Place(self._in(s.a, start), y.stride, step), number, i1 - i0,
                )  # fmt: skip
                continue
            with b.loop(0, number, plain=True) as r:
                place = self._element(self.panel, b.add(to, b.mul(r, plan.row)))
                frm = self._in(s.a, b.add(start, b.mul(r, y.stride)))
                copy(
                    b, self.k.target, types, Place(place, plan.width, 1),
                    Place(frm, step, s.groups.a), i1 - i0, self.groups,
                )  # fmt: skip

    def _vectors(self) -> Iterator[tuple[int, Index]]:
        """Yield where each vector of an element of the panel starts, and its groups."""
        for v in range(0, self.plan.width, self.plan.lanes):
            yield v, self.b.sub(self.groups, v) if v else self.groups

    # --- filters --------------------------------------------------------------------------------

    def _filter(self) -> None:
        b, s, plan = self.b, self.s, self.plan
        first = b.mul(self.row_block, plan.rows)
        rows: Index = plan.rows
        if s.y.many % plan.rows:
            rows = b.minimum(plan.rows, b.sub(s.y.many, first))
        self._fill(self._offset("a"), first, rows)
        at = b.add(b.add(self._offset("c"), s.c_offset), b.mul(first, s.many[0]))
        result = s.store.result_address(b, self.k.outputs[0], at)
        c, c_row, c_column = result, s.many[0], s.many[1]
        if not plan.in_place:
            c, c_row, c_column = self.other, plan.other_row, plan.width
        block: Index = 0
        for d, i in zip(s.outer, self.outer, strict=True):
            if d.b:
                block = b.add(b.mul(block, d.size), i)
        taps = s.few_places
        w = b.mul(block, taps * plan.factor_groups)
        x_row, x_tap = plan.row * s.y.step, plan.row * s.y.jump
        panel = f"i64 {x_row}, i64 {x_tap}, i64 {plan.phase}"
        if plan.across:
            function = filter_groups(b.module, s.arithmetic, plan.taps, plan.lanes)
            w = b.add(w, self.first)
            for v, here in self._vectors():
                # A block may have fewer vectors than others.
                with b.when(b.compare("sgt", here, 0)) if v else nullcontext():
                    b.write(
                        f"call void @{function}(ptr {self._element(self.panel, v)}, {panel}, "
                        f"i64 {plan.width}, ptr {self._element(self.factors, b.add(w, v))}, "
                        f"i64 {plan.factor_groups}, ptr {self._element(c, v)}, i64 {c_row}, "
                        f"i64 {c_column}, i64 {rows}, i64 {s.x.many}, i64 {here})"
                    )
        else:
            function = filter_row(b.module, s.arithmetic, plan.taps, plan.lanes)
            w = b.add(w, b.mul(self.first, taps))
            b.write(
                f"call void @{function}(ptr {self.panel}, {panel}, "
                f"ptr {self._element(self.factors, w)}, ptr {c}, i64 {c_row}, i64 {rows}, "
                f"i64 {s.x.many})"
            )
        if plan.in_place:
            return
        if not plan.across:
            copy(
                b, self.k.target, s.store, Place(result, s.many[0], s.many[1]),
                Place(c, c_row, 1), rows, s.x.many,
            )  # fmt: skip
            return
        with b.loop(0, rows, plain=True) as r:
            place = s.store.result_address(b, result, b.mul(r, s.many[0]))
            frm = self._element(c, b.mul(r, c_row))
            copy(
                b, self.k.target, s.store, Place(place, s.many[1], s.groups.c),
                Place(frm, c_column, 1), s.x.many, self.groups,
            )  # fmt: skip

    # --- gradients of filters -------------------------------------------------------------------

    def _correlate(self) -> None:
        b, s, plan = self.b, self.s, self.plan
        clear(b, self.sums, s.arithmetic, plan.sums)
        images = count(s.summed)
        low = b.udiv(b.mul(self.share, images), plan.shares) if plan.shares > 1 else 0
        high = (
            b.udiv(b.mul(b.add(self.share, 1), images), plan.shares) if plan.shares > 1 else images
        )
        from_a, from_b = self._offset("a"), self._offset("b")
        with b.loop(low, high, plain=True) as image, b.loop(0, plan.row_blocks, plain=True) as part:
            at, other = from_a, from_b
            indices = split_index(b, image, [d.size for d in s.summed]) if s.summed else []
            for d, i in zip(s.summed, indices, strict=True):
                at, other = b.add(at, b.mul(i, d.a)), b.add(other, b.mul(i, d.b))
            first = b.mul(part, plan.rows)
            rows: Index = plan.rows
            if s.y.many % plan.rows:
                rows = b.minimum(plan.rows, b.sub(s.y.many, first))
            self._fill(at, first, rows)
            self._add_products(b.add(other, b.mul(first, s.many[0])), rows)
        self._deliver()

    def _add_products(self, other: Index, rows: Index) -> None:
        """Add the products of the panel and the other array, from an offset of it on."""
        b, s, plan = self.b, self.s, self.plan
        y, y_row, y_column = self._in(s.b, other), s.many[0], s.many[1]
        if not plan.in_place:
            types = Types.of(s.b.et, s.arithmetic.total)
            if plan.across:
                if s.groups.size % plan.width:
                    clear(b, self.other, s.arithmetic, plan.other)
                with b.loop(0, rows, plain=True) as r:
                    place = self._element(self.other, b.mul(r, plan.other_row))
                    frm = self._in(s.b, b.add(other, b.mul(r, y_row)))
                    copy(
                        b, self.k.target, types, Place(place, plan.width, 1),
                        Place(frm, y_column, s.groups.b), s.x.many, self.groups,
                    )  # fmt: skip
            else:
                copy(
                    b, self.k.target, types, Place(self.other, plan.other_row, 1),
                    Place(y, y_row, y_column), rows, s.x.many,
                )  # fmt: skip
            y, y_row, y_column = self.other, plan.other_row, plan.width
        panel = f"i64 {plan.row * s.y.step}, i64 {plan.row * s.y.jump}, i64 {plan.phase}"
        if not plan.across:
            function = correlate_row(b.module, s.arithmetic, plan.taps, plan.lanes)
            b.write(
                f"call void @{function}(ptr {self.panel}, {panel}, ptr {y}, i64 {y_row}, "
                f"ptr {self.sums}, i64 {rows}, i64 {s.x.many})"
            )
            return
        function = correlate_groups(b.module, s.arithmetic, plan.taps, plan.lanes)
        for v, here in self._vectors():
            with b.when(b.compare("sgt", here, 0)) if v else nullcontext():
                b.write(
                    f"call void @{function}(ptr {self._element(self.panel, v)}, {panel}, "
                    f"i64 {plan.width}, ptr {self._element(y, v)}, i64 {y_row}, i64 {y_column}, "
                    f"ptr {self._element(self.sums, v)}, i64 {plan.width}, i64 {rows}, "
                    f"i64 {s.x.many})"
                )

    def _deliver(self) -> None:
        """Bring the sums to the result, or to the share's."""
        b, s, plan = self.b, self.s, self.plan
        store, base = s.store, self.k.outputs[0]
        at = b.add(self._offset("c"), s.c_offset)
        if plan.shares > 1:
            store, base = Types.of(s.arithmetic.total), self.partial
            at = b.add(at, b.mul(self.share, s.elements))
        for i in range(s.y.few):
            to = store.result_address(b, base, b.add(at, i * s.few[0]))
            frm = self._element(self.sums, i * s.x.few * plan.width)
            copy(
                b, self.k.target, store, Place(to, s.few[1], s.groups.c),
                Place(frm, plan.width, 1), s.x.few, self.groups,
            )  # fmt: skip
