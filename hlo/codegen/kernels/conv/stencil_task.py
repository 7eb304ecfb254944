"""The kernels of stencils: filters brought into order, and the tasks that run over panels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass

from hlo.codegen.kernels.conv.stencil_blocks import Blocks, filter_blocks
from hlo.codegen.kernels.conv.stencil_plan import StencilTiling
from hlo.codegen.kernels.conv.stencil_rows import (
    correlate_groups,
    correlate_row,
    filter_groups,
    filter_row,
)
from hlo.codegen.kernels.matmul.gemm import over_tasks
from hlo.codegen.kernels.matmul.panels import StridedMatrix, clear, copy
from hlo.codegen.kernels.matmul.product import Dim, Source, count, merged
from hlo.codegen.llvm import Index, i64, ptr
from hlo.codegen.loops.kernel import LIGHT_COST, Kernel, split_index
from hlo.codegen.loops.vectors import Types
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.targets.base import Extent


@dataclass(frozen=True)
class PackFactors:
    """Writes the filter as [outer][tap][input][feature] for vectors of features of the result.

    Otherwise it is [outer][group][tap].
    """

    plan: StencilTiling
    scratch: int

    def __call__(self, k: Kernel) -> Extent:
        b, plan, s = k.b, self.plan, self.plan.s
        groups, width = s.groups, plan.factor_width
        features = merged((groups, s.outputs), "b") or (Dim(1),)
        inner = features[-1]
        types = Types.of(s.b.et, s.arithmetic.total)
        base = k.scratch[self.scratch]
        # All of it takes little time beside what the factors are for.
        k.is_light = False
        if plan.across and width != s.features:
            clear(b, base, s.arithmetic.bytes, plan.factor_count)
        with b.loop(k.begin, k.end, plain=True) as at:
            sizes = [*(d.size for d in plan.factor_dims), s.y.few, s.x.few, s.inputs.size]
            *outer, i, j, n = split_index(b, at, sizes)
            frm: Index = b.add(b.mul(i, s.few[0]), b.mul(j, s.few[1]))
            frm = b.add(frm, b.mul(n, s.inputs.b))
            block: Index = 0
            for d, index in zip(plan.factor_dims, outer, strict=True):
                frm = b.add(frm, b.mul(index, d.b))
                block = b.add(b.mul(block, d.size), index)
            factor = b.add(b.mul(b.add(b.mul(i, s.x.few), j), s.inputs.size), n)
            source = b.element_address(s.b.address(k), scalar.memory_type(s.b.et), frm)
            if plan.across:
                to, step = b.mul(b.add(b.mul(block, plan.factors), factor), width), 1
            else:
                to, step = b.add(b.mul(block, plan.factors * groups.size), factor), plan.factors
            place = b.element_address(base, s.arithmetic.type, to)
            copy(
                b, k.target, types, StridedMatrix(place, inner.size * step, step),
                StridedMatrix(source, features[0].b, inner.b), count(features[:-1]), inner.size,
            )  # fmt: skip
        return Extent(count(plan.factor_dims) * plan.factors, s.features)


@dataclass(frozen=True)
class RunTasks:
    """Runs over the panels of all tasks."""

    plans: tuple[StencilTiling, ...]
    own: int
    slot_bytes: int
    factors: tuple[int, ...]
    partial: int

    def __call__(self, k: Kernel) -> Extent:
        cost = sum(1.5 * plan.s.work / plan.lanes for plan in self.plans)
        # Of panels of groups, each row is copied by itself.
        least = min(plan.width * plan.s.x.many if plan.across else cost for plan in self.plans)
        k.is_light = min(least, cost / self.plans[0].tasks) < 2 * LIGHT_COST

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
        self, k: Kernel, plan: StencilTiling, task: Index, slot: str, factors: str, partial: str
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
        self.features: Index = plan.width
        if s.features % plan.width:
            self.features = b.minimum(plan.width, b.sub(s.features, self.first))

    def write(self) -> None:
        if self.s.correlates:
            self._correlate()
        else:
            self._filter()

    # --- places in arrays -----------------------------------------------------------------------

    def _offset(self, side: str) -> Index:
        """Return the offset of the task's first group in an array."""
        b, s = self.b, self.s
        at = b.mul(b.udiv(self.first, s.outputs.size), s.groups.stride(side))
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
            clear(b, self.panel, s.arithmetic.bytes, plan.panel)
        types = Types.of(s.a.et, s.arithmetic.total)
        row0 = b.mul(first, y.step)
        above = b.add(row0, y.low)
        reach = b.add(b.mul(b.sub(rows, 1), y.step), (y.few - 1) * y.jump + 1)
        low = b.maximum(b.sub(0, above), 0)
        high = b.minimum(reach, b.sub(y.size, above))
        columns = x.reach(x.many)
        left, right = max(0, -x.low), min(columns, x.size - x.low)
        inputs = b.mul(b.udiv(self.features, s.outputs.size), s.inputs.size)
        for phase in range(min(x.step, columns)):
            i0, i1 = (max(0, -(-(edge - phase) // x.step)) for edge in (left, right))
            start = b.add(at, b.mul(b.add(row0, low), y.stride))
            start = b.add(start, (i0 * x.step + phase) * x.stride)
            to = b.add(b.mul(low, plan.row), phase * plan.phase + i0 * plan.input_width)
            number, step = b.sub(high, low), x.step * x.stride
            if not plan.across:
                copy(
                    b, self.k.target, types,
                    StridedMatrix(self._element(self.panel, to), plan.row, 1),
                    StridedMatrix(self._in(s.a, start), y.stride, step), number, i1 - i0,
                )  # fmt: skip
                continue
            with b.loop(0, number, plain=True) as r:
                place = self._element(self.panel, b.add(to, b.mul(r, plan.row)))
                frm = self._in(s.a, b.add(start, b.mul(r, y.stride)))
                copy(
                    b, self.k.target, types, StridedMatrix(place, plan.input_width, 1),
                    StridedMatrix(frm, step, s.inputs.a or s.groups.a), i1 - i0, inputs,
                )  # fmt: skip

    def _vectors(self) -> Iterator[tuple[int, Index]]:
        """Yield where each vector of features starts, and how many there are from it on."""
        for v in range(0, self.plan.width, self.plan.lanes):
            yield v, self.b.sub(self.features, v) if v else self.features

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
        w = b.mul(block, plan.factors * plan.factor_width)
        x_row, x_tap = plan.row * s.y.step, plan.row * s.y.jump
        panel = i64(x_row), i64(x_tap), i64(plan.phase)
        if plan.across:
            function = self._filter_function()
            w = b.add(w, self.first)
            for v, here in self._vectors():
                # A block may have fewer vectors than others.
                with b.when(b.compare("sgt", here, 0)) if v else nullcontext():
                    b.call_void(
                        function,
                        [
                            ptr(self._element(self.panel, s.of_inputs(v))), *panel,
                            i64(plan.input_width),
                            ptr(self._element(self.factors, b.add(w, v))),
                            i64(plan.factor_width), ptr(self._element(c, v)), i64(c_row),
                            i64(c_column), i64(rows), i64(s.x.many), i64(here),
                        ],
                    )  # fmt: skip
        else:
            function = filter_row(b.module, s.arithmetic, plan.taps, plan.lanes)
            w = b.add(w, b.mul(self.first, plan.factors))
            factors, counts = ptr(self._element(self.factors, w)), (i64(rows), i64(s.x.many))
            b.call_void(function, [ptr(self.panel), *panel, factors, ptr(c), i64(c_row), *counts])
        if plan.in_place:
            return
        if not plan.across:
            copy(
                b, self.k.target, s.store, StridedMatrix(result, s.many[0], s.many[1]),
                StridedMatrix(c, c_row, 1), rows, s.x.many,
            )  # fmt: skip
            return
        with b.loop(0, rows, plain=True) as r:
            place = s.store.result_address(b, result, b.mul(r, s.many[0]))
            frm = self._element(c, b.mul(r, c_row))
            copy(
                b, self.k.target, s.store, StridedMatrix(place, s.many[1], plan.feature_step),
                StridedMatrix(frm, c_column, 1), s.x.many, self.features,
            )  # fmt: skip

    def _filter_function(self) -> str:
        """Return the function for one vector of features."""
        module, s, plan = self.b.module, self.s, self.plan
        if s.inputs.size == 1:
            return filter_groups(module, s.arithmetic, plan.taps, plan.lanes)
        blocks = Blocks(s.inputs.size, s.outputs.size, plan.places)
        return filter_blocks(module, s.arithmetic, plan.taps, plan.lanes, blocks)

    # --- gradients of filters -------------------------------------------------------------------

    def _correlate(self) -> None:
        b, s, plan = self.b, self.s, self.plan
        clear(b, self.sums, s.arithmetic.bytes, plan.sums)
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
                    clear(b, self.other, s.arithmetic.bytes, plan.other)
                with b.loop(0, rows, plain=True) as r:
                    place = self._element(self.other, b.mul(r, plan.other_row))
                    frm = self._in(s.b, b.add(other, b.mul(r, y_row)))
                    copy(
                        b, self.k.target, types, StridedMatrix(place, plan.width, 1),
                        StridedMatrix(frm, y_column, s.groups.b), s.x.many, self.features,
                    )  # fmt: skip
            else:
                copy(
                    b, self.k.target, types, StridedMatrix(self.other, plan.other_row, 1),
                    StridedMatrix(y, y_row, y_column), rows, s.x.many,
                )  # fmt: skip
            y, y_row, y_column = self.other, plan.other_row, plan.width
        panel = i64(plan.row * s.y.step), i64(plan.row * s.y.jump), i64(plan.phase)
        if not plan.across:
            function = correlate_row(b.module, s.arithmetic, plan.taps, plan.lanes)
            sums, counts = ptr(self.sums), (i64(rows), i64(s.x.many))
            b.call_void(function, [ptr(self.panel), *panel, ptr(y), i64(y_row), sums, *counts])
            return
        function = correlate_groups(b.module, s.arithmetic, plan.taps, plan.lanes)
        for v, here in self._vectors():
            with b.when(b.compare("sgt", here, 0)) if v else nullcontext():
                b.call_void(
                    function,
                    [
                        ptr(self._element(self.panel, v)), *panel, i64(plan.width),
                        ptr(self._element(y, v)), i64(y_row), i64(y_column),
                        ptr(self._element(self.sums, v)), i64(plan.width), i64(rows),
                        i64(s.x.many),
                    ],
                )  # fmt: skip

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
                b, self.k.target, store, StridedMatrix(to, s.few[1], s.groups.c),
                StridedMatrix(frm, plan.width, 1), s.x.few, self.features,
            )  # fmt: skip
