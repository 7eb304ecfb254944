"""convolution as products of strided matrices.

Positions of the window are rows, output features columns; taps and input features are summed over.
The input is read in place, and padded while it is packed. Holes of a dilated input are never
multiplied: positions that use the same taps are a product of their own, without holes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hlo.analysis.fusion.roles import Role
from hlo.codegen.kernels.conv.stencil import add_stencils
from hlo.codegen.kernels.conv.stencil_blocks import Blocks
from hlo.codegen.kernels.conv.stencil_plan import Line, Stencil
from hlo.codegen.kernels.matmul.arithmetic import Arithmetic
from hlo.codegen.kernels.matmul.contraction import (
    add_contraction,
    fill_with_zeros,
    operand_view,
    settled,
    source_of,
)
from hlo.codegen.kernels.matmul.gemm import Steps
from hlo.codegen.kernels.matmul.product import (
    Bound,
    Dim,
    Product,
    Source,
    SumTypes,
    is_exact,
    sums_of,
)
from hlo.codegen.kernels.views import StridedView, element_strides
from hlo.codegen.loops.kernel import planner
from hlo.codegen.loops.vectors import Types, lanes_of
from hlo.codegen.targets.base import Plan, Target
from hlo.ir import Instruction
from hlo.ops.attrs import ConvDims, WindowDim

# Runs of features shorter than this are packed together with adjacent taps.
_SHORT_RUN = 16


@planner("convolution")
def plan_convolution(inst: Instruction, roles: Mapping[Instruction, Role], target: Target) -> Plan:
    """Materialize operands that are not in memory, then multiply."""
    lhs, rhs = (o.array_shape for o in inst.operands)
    result = inst.array_shape
    if result.num_elements == 0:
        return Plan(())
    if lhs.num_elements == 0 or rhs.num_elements == 0:
        return Plan((fill_with_zeros,))
    sums = sums_of(lhs.element_type, rhs.element_type, result.element_type)
    steps = Steps()
    x, w = (_strided(steps, inst, n, roles, sums, target) for n in (0, 1))
    convolution = Convolution.of(inst, x, w, roles)
    phases = [phases_of(*sizes) for sizes in convolution.spatial]
    if any(p.taps == 0 for dim in phases for p in dim):
        steps.emitters.append(fill_with_zeros)
    stencils: list[Stencil] = []
    for chosen in itertools.product(*phases):
        if not all(p.taps for p in chosen):
            continue
        product = replace(convolution.product(chosen), store=sums.store, exact=is_exact(inst))
        stencil = None if sums.is_complex else convolution.stencil(product, chosen, sums, target)
        if stencil is not None and stencil.is_worthwhile:
            stencils.append(stencil)
        else:
            add_contraction(steps, _with_long_runs(product), sums, inst, target)
    add_stencils(steps, stencils, target)
    return steps.plan()


def _strided(
    steps: Steps, inst: Instruction, number: int, roles: Mapping[Instruction, Role],
    sums: SumTypes, target: Target,
) -> StridedView:  # fmt: skip
    """Return an operand as memory in which every dimension has one stride."""
    view = operand_view(steps, inst, number, roles, sums, target)
    if all(len(digits) == 1 for digits in view.dims):
        return view
    return settled(steps, inst, number, sums, target)


# --- positions and taps -------------------------------------------------------------------------


@dataclass(frozen=True)
class Phase:
    """Positions of a window in one dimension with the same alignment to the input, and their taps.

    Position `start + run + p * step`, for run < runs and p < positions, meets the input at taps
    `tap + run * drift + t * tap_step`, t < taps, in element `p * stride + t * jump + low`.
    """

    start: int
    runs: int
    positions: int
    step: int
    tap: int
    drift: int
    taps: int
    tap_step: int
    stride: int
    jump: int
    low: int

    def continues(self, other: Phase) -> bool:
        """True when this phase can continue the runs of another."""
        drift = self.tap - (other.tap + (other.runs - 1) * other.drift)
        same = replace(self, start=other.start, runs=other.runs, tap=other.tap, drift=other.drift)
        return (
            self.start == other.start + other.runs
            and same == other
            and (other.runs == 1 or drift == other.drift)
        )


def phases_of(positions: int, d: WindowDim) -> list[Phase]:
    """Return the phases of one dimension: one, unless the input is dilated."""
    return list(_phases(positions, d))


def _phases(positions: int, d: WindowDim) -> Iterator[Phase]:
    """Yield the phases of one dimension.

    Position p meets element i at tap t where `p * stride + t * rhs_dilate - pad_low` is
    `i * lhs_dilate`.
    """
    holes = d.lhs_dilate
    step = holes // math.gcd(d.stride, holes)
    common = math.gcd(d.rhs_dilate, holes)
    tap_step = holes // common
    last: Phase | None = None
    for start in range(min(step, positions)):
        base = start * d.stride - d.pad_low
        tap, taps, low = 0, 0, 0
        if base % common == 0:
            tap = -(base // common) * pow(d.rhs_dilate // common, -1, tap_step) % tap_step
            taps = max(0, -(-(d.size - tap) // tap_step))
            low = (base + tap * d.rhs_dilate) // holes
        phase = Phase(
            start, 1, -(-(positions - start) // step), step, tap, 0, taps, tap_step,
            step * d.stride // holes, tap_step * d.rhs_dilate // holes, low,
        )  # fmt: skip
        if not taps:
            phase = replace(phase, tap=0, low=0)
        if last is not None and phase.continues(last):
            drift = phase.tap - (last.tap + (last.runs - 1) * last.drift)
            last = replace(last, runs=last.runs + 1, drift=drift)
        else:
            if last is not None:
                yield last
            last = phase
    if last is not None:
        yield last


# --- the product --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Convolution:
    """Strides of the arrays by what their dimensions are, and sizes."""

    x: StridedView
    w: StridedView
    sources: tuple[Source, Source]
    dims: ConvDims
    window: tuple[WindowDim, ...]
    feature_groups: int
    batch_groups: int
    out: tuple[int, ...]
    out_strides: tuple[int, ...]

    @staticmethod
    def of(
        inst: Instruction, x: StridedView, w: StridedView, roles: Mapping[Instruction, Role]
    ) -> Convolution:
        result = inst.array_shape
        sources = (source_of(x, inst, roles), source_of(w, inst, roles))
        return Convolution(
            x, w, sources, inst.dim_labels, inst.window, inst.feature_group_count,
            inst.batch_group_count, result.dims, tuple(element_strides(result)),
        )  # fmt: skip

    @property
    def spatial(self) -> list[tuple[int, WindowDim]]:
        """The number of positions and the window, for each spatial dimension."""
        sizes = (self.out[d] for d in self.dims.output_spatial)
        return list(zip(sizes, self.window, strict=True))

    def product(self, phases: Sequence[Phase]) -> Product:
        """Return the product of a phase of each spatial dimension."""
        d, x, w = self.dims, self.x, self.w
        a, b = self.sources
        (images, by_image), (features, by_feature) = (
            x.dims[i][0] for i in (d.input_batch, d.input_feature)
        )
        (outputs, w_output), (inputs, w_input) = (
            w.dims[i][0] for i in (d.kernel_output, d.kernel_input)
        )
        c_image, c_output = (self.out_strides[i] for i in (d.output_batch, d.output_feature))
        groups = self.feature_groups * self.batch_groups
        assert features == inputs * self.feature_groups
        each, images = outputs // groups, images // self.batch_groups
        by_group = by_feature * inputs if self.feature_groups > 1 else by_image * images
        batch = [Dim(groups, by_group, w_output * each, c_output * each)]
        m, k = [Dim(images, a=by_image, c=c_image)], []
        bounds: list[Bound] = []
        a_offset, b_offset, c_offset = x.offset, w.offset, 0
        for i, phase in enumerate(phases):
            size, by_place = x.dims[d.input_spatial[i]][0]
            _, by_tap = w.dims[d.kernel_spatial[i]][0]
            c_place = self.out_strides[d.output_spatial[i]]
            window = self.window[i]
            if window.reversal:
                b_offset += (window.size - 1) * by_tap
                by_tap = -by_tap
            reach = (phase.positions - 1) * phase.stride + (phase.taps - 1) * phase.jump
            bounded = phase.low < 0 or phase.low + reach >= size
            names = (f"p{i}", f"t{i}") if bounded else ("", "")
            if bounded:
                bounds.append(Bound(*names, phase.stride, phase.jump, phase.low, size))
            a_offset += phase.low * by_place
            b_offset += phase.tap * by_tap
            c_offset += phase.start * c_place
            batch.append(Dim(phase.runs, b=phase.drift * by_tap, c=c_place))
            m.append(
                Dim(phase.positions, a=phase.stride * by_place, c=phase.step * c_place,
                    name=names[0])
            )  # fmt: skip
            k.append(
                Dim(phase.taps, a=phase.jump * by_place, b=phase.tap_step * by_tap, name=names[1])
            )
        k.append(Dim(inputs, a=by_feature, b=w_input))
        return Product(
            replace(a, offset=a_offset, bounds=tuple(bounds)), replace(b, offset=b_offset),
            tuple(batch), tuple(m), (Dim(each, b=w_output, c=c_output),), tuple(k),
            Arithmetic(x.et), Types.of(x.et), c_offset,
        )  # fmt: skip

    def stencil(
        self, p: Product, phases: Sequence[Phase], sums: SumTypes, target: Target
    ) -> Stencil | None:
        """Return a product of independent groups as a stencil, None if it is not one.

        p: the product of the phases, its dimensions in the order in which `product` gives them.
        """
        if not 1 <= len(phases) <= 2:
            return None
        group, *runs = p.batch
        images, *positions = p.m
        *taps, features = p.k
        (outputs,) = p.n
        arithmetic = Arithmetic(sums.total)
        lanes = lanes_of(target, sums.total)
        has_blocks = (
            Blocks.fit(features.size, outputs.size, lanes)
            and (features.a, outputs.c) == (1, 1)
            and (group.a, group.c) == (features.size, outputs.size)
        )
        correlates = features.size > 1 and not has_blocks
        if group.size == 1 or (correlates and (images.size > 1 or outputs.size > 1)):
            return None
        lines = []
        for i, phase in enumerate(phases):
            size, stride = self.x.dims[self.dims.input_spatial[i]][0]
            many, few = (phase.positions, phase.stride), (phase.taps, phase.jump)
            if correlates:
                many, few = few, many
            lines.append(Line(many[0], few[0], many[1], few[1], phase.low, size, stride))
        of_c, of_b = [d.c for d in positions], [d.b for d in taps]
        if len(phases) == 1:
            lines.insert(0, Line(1, 1, 1, 1, 0, 1, 0))
            of_c, of_b = [0, *of_c], [0, *of_b]
        outer = [d for d in (images, outputs, *runs) if d.size > 1]
        blocks: tuple[Dim, ...] = ()
        if has_blocks:
            blocks = features, outputs
            outer = [d for d in (images, *runs) if d.size > 1]
        many_strides, few_strides = (of_b, of_c) if correlates else (of_c, of_b)
        y, x = lines
        return Stencil(
            replace(p.a, bounds=()), p.b, group, tuple(outer),
            (features,) if correlates else (), y, x,
            (many_strides[0], many_strides[1]), (few_strides[0], few_strides[1]),
            correlates, arithmetic, sums.store, p.c_offset, math.prod(self.out), *blocks,
        )  # fmt: skip


def _with_long_runs(p: Product) -> Product:
    """Count taps and the few features that each has as one, where memory runs on between them."""
    *taps, features = p.k
    if features.size >= _SHORT_RUN:
        return p
    for tap in taps:
        follows = all(tap.stride(s) == features.stride(s) * features.size for s in "ab")
        bound = next((x for x in p.a.bounds if x.tap == tap.name), None)
        if follows and bound is not None:
            joined = replace(features, size=tap.size * features.size, name=tap.name)
            longer = replace(bound, unit=features.size)
            bounds = tuple(longer if x is bound else x for x in p.a.bounds)
            rest = tuple(t for t in taps if t is not tap)
            return replace(p, a=replace(p.a, bounds=bounds), k=(*rest, joined))
    return p
