"""convolution: where positions are cut, devices get the input under their windows by halo exchange;
where the taps of the kernel are, that under their taps, and the partial sums are added up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hlo.ir import Instruction
from hlo.ops.attrs import WindowDim
from hlo.ops.factors import FactorKind, FactorRule
from hlo.spmd.builder import SpmdBuilder
from hlo.spmd.handlers.by_factors import by_factors
from hlo.spmd.handlers.contraction import sums
from hlo.spmd.handlers.registry import Wanted, handles
from hlo.spmd.handlers.windows import (
    Positions,
    array_of,
    by_windows,
    elements_at,
    positions_of,
    varies_in_size,
)
from hlo.spmd.mesh import Axes, PartitionSpec
from hlo.spmd.value import Sharded, Unsharded, Value


@handles("convolution")
def _convolution(
    b: SpmdBuilder, inst: Instruction, operands: Sequence[Value], wanted: Wanted
) -> Value:
    if len(operands) > 2 or varies_in_size(inst):
        return by_factors(b, inst, operands, wanted, sums(inst))

    def share(
        parts: Sequence[Sharded | Unsharded], specs: Sequence[PartitionSpec], _: Axes
    ) -> list[Instruction]:
        return [_share(b, inst, array_of(parts[0]), array_of(parts[1]), specs[0])]

    rule = _summed_taps(inst.spec.factors(inst), operands)
    return by_windows(b, inst, operands, wanted, share, sums(inst), rule)


def _summed_taps(rule: FactorRule, operands: Sequence[Value]) -> FactorRule:
    """Return the rule with positions that only operands have as what is summed over.

    An input that is whole there stays so: each device has what its taps meet.
    """
    kept = {f for dims in rule.results for factors in dims for f in factors}
    moved = {
        n for n, f in enumerate(rule.factors) if f.kind is FactorKind.PERMUTATION and n not in kept
    }
    factors = tuple(
        replace(f, kind=FactorKind.REDUCTION) if n in moved else f
        for n, f in enumerate(rule.factors)
    )
    lhs = operands[0]
    assert isinstance(lhs, Sharded)
    dims = tuple(
        () if not axes and moved & set(old) else old
        for old, axes in zip(rule.operands[0], lhs.spec.dims, strict=True)
    )
    return replace(rule, factors=factors, operands=(dims, *rule.operands[1:]))


def _share(
    b: SpmdBuilder, inst: Instruction, lhs: Sharded, rhs: Sharded, spec: PartitionSpec
) -> Instruction:
    """Append one device's convolution. spec: of the result."""
    shape = inst.array_shape
    d = inst.dim_labels
    if rhs.spec.dims[d.kernel_input]:
        lhs = b.masked(lhs, 0, [d.input_feature])
        rhs = b.masked(rhs, 0, [d.kernel_input])
    window = list(inst.window)
    for n, (w, i, k, o) in enumerate(
        zip(window, d.input_spatial, d.kernel_spatial, d.output_spatial, strict=True)
    ):
        if spec.dims[o] and replace(w, reversal=False) != WindowDim():
            positions = positions_of(b, w, shape.dims[o], spec.dims[o])
        elif rhs.spec.dims[k]:
            rhs = b.masked(rhs, 0, [k])
            positions = _under_taps(b, w, shape.dims[o], rhs.spec.dims[k])
            w = replace(w, size=rhs.local.array_shape.dims[k])
        else:
            continue
        found = elements_at(b, lhs, i, positions, 0)
        lhs = replace(lhs, local=found.local)
        p = found.padding
        window[n] = replace(w, pad_low=p.pad_low, pad_high=p.pad_high, lhs_dilate=p.lhs_dilate)
    result = b.mesh.local_shape(shape, spec)
    shapes = [lhs.local.shape, rhs.local.shape]
    attrs = {**inst.attrs, **inst.spec.resized(inst, shapes, result), "window": tuple(window)}
    return b.op("convolution", lhs.local, rhs.local, shape=result, **attrs)


def _under_taps(b: SpmdBuilder, window: WindowDim, count: int, axes: Axes) -> Positions:
    """Return the positions that each device's taps of a kernel meet, over all `count` windows.

    Shards may end behind the last tap. Those taps are zeros, and meet elements, or padding, too.
    """
    part = b.mesh.shard_size(window.size, axes)
    first = np.arange(b.mesh.count(axes)) * part
    if window.reversal:
        first = window.size - part - first
    length = (part - 1) * window.rhs_dilate + (count - 1) * window.stride + 1
    length = max(0, length if count else 0)
    return Positions(
        axes, first * window.rhs_dilate - window.pad_low, np.full(len(first), length), length,
        window.lhs_dilate,
    )  # fmt: skip
