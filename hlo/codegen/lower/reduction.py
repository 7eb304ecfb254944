"""Large windows, top-k and in-place updates, as other operations."""

from __future__ import annotations

import math

from hlo.codegen.kernels.reduce.combiner import Combiner
from hlo.expansions import Draft, expansion, sorted_topk
from hlo.expansions.starts import scalar_starts
from hlo.ir import Computation, Instruction
from hlo.ops.attrs import WindowDim
from hlo.values.types import array

# --- windows ------------------------------------------------------------------------------------

# Smaller windows are reduced in one pass.
_LARGE_WINDOW = 64


@expansion("reduce-window")
def _large_windows(inst: Instruction) -> Computation | None:
    """Windows that are large in several dimensions, one dimension at a time.

    The time is then proportional to the sum of a window's sizes, not to their product.
    """
    combiner = Combiner.of(inst.to_apply)
    shape, window = inst.operands[0].array_shape, inst.window
    sliding = [n for n, w in enumerate(window) if w != WindowDim()]
    volume = math.prod(min(window[n].size, shape.dims[n]) for n in sliding)
    if combiner.known is None or len(sliding) < 2 or volume <= _LARGE_WINDOW:
        return None
    d, (held,) = Draft(inst), combiner.held
    x, start = (
        d.convert(d.convert(p, et), held)
        for p, et in zip(d.parameters, reversed(combiner.parameters), strict=True)
    )
    nothing = d.constant(held, combiner.neutral())
    for n in reversed(sliding):
        single = tuple(w if m == n else WindowDim() for m, w in enumerate(window))
        step = Draft(inst, [array(held, ())] * 2)
        body = step.done(step.op(combiner.known, *step.parameters))
        init = start if n == sliding[0] else nothing
        x = d.op("reduce-window", x, init, window=single, to_apply=body)
        x.shape = x.array_shape.with_layout(shape.layout)
    want = inst.array_shape
    rounded = d.convert(d.convert(x, combiner.parameters[0]), want.element_type)
    return d.done(d.relaid(rounded, want))


# --- topk ---------------------------------------------------------------------------------------

# Selecting this many elements, or more than one in so many of a row, takes longer than sorting the
# row.
_SELECTED, _SELECTED_PART = 32, 64
_SORTED_LINE = 512


@expansion("topk")
def _topk(inst: Instruction) -> Computation | None:
    """A sort of elements and indices and a slice of the first k; none for small k."""
    shape, k = inst.operands[0].array_shape, inst.k
    n = shape.dims[-1]
    if n < _SORTED_LINE or k <= _SELECTED or k * _SELECTED_PART < n:
        return None
    return sorted_topk(inst)


# --- in-place updates ---------------------------------------------------------------------------


@expansion("dynamic-update-slice", "scatter")
def _laid_out(inst: Instruction) -> Computation | None:
    """The same operation on operands in its results' layouts, since they share its results'
    buffers."""
    results = [s for _, s in inst.shape.leaves()]
    changed = inst.operands[: len(results)]
    if all(o.shape == s for o, s in zip(changed, results, strict=True)):
        return scalar_starts(inst) if inst.opcode == "dynamic-update-slice" else None
    d = Draft(inst)
    moved = [d.relaid(p, s) for p, s in zip(d.parameters, results, strict=False)]
    same = inst.clone([*moved, *d.parameters[len(results) :]])
    return d.done(d.comp.add(same))
