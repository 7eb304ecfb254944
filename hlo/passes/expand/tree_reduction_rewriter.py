"""Long reductions by trees of windows."""

from __future__ import annotations

from hlo.errors import HloError
from hlo.expansions import Draft
from hlo.ir import Computation, Instruction, Module
from hlo.ops.attrs import WindowDim
from hlo.passes.expand._inline import expand_instructions, rounds
from hlo.passes.expand._reducers import identity, reducer, without_overflow
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites


@module_pass
def tree_reduction_rewriter(
    module: Module, rewrites: Rewrites, *, reduce_window_size: int = 32
) -> None:
    """Reduce long dimensions by windows first, so that rounding errors grow more slowly.

    reduce_window_size: how many elements are reduced one after the other, 2 or more. Sums of
    floats are in f64 until the end: in f32 windows overflow where the whole does not.
    """
    if reduce_window_size < 2:
        raise HloError.at(
            "bad-pass-option", "tree-reduction-rewriter: reduce_window_size is 2 or more"
        )

    def expansion(inst: Instruction) -> Computation | None:
        return _expanded(inst, reduce_window_size)

    rule = "tree_reduction_rewriter.rewrite"
    expand_instructions(module, rewrites, rule, ["reduce"], expansion, approximate=rounds)


def _expanded(inst: Instruction, most: int) -> Computation | None:
    op = reducer(inst)
    dims = inst.dimensions
    if op is None or inst.operands[0].array_shape.is_dynamic:
        return None
    if all(inst.operands[0].array_shape.dims[n] <= most for n in dims):
        return None
    d = Draft(inst)
    et, to_apply = without_overflow(inst, op)
    x, init = (d.convert(p, et) for p in d.parameters)
    none = identity(d, op, et)
    while any(x.array_shape.dims[n] > most for n in dims):
        shape = x.array_shape
        window = []
        for n, size in enumerate(shape.dims):
            width = min(most, size) if n in dims and size else 1
            window.append(WindowDim(width, width, 0, -size % width))
        x = d.op("reduce-window", x, none, window=tuple(window), to_apply=to_apply)
    total = d.op("reduce", x, init, dimensions=dims, to_apply=to_apply)
    shape = inst.array_shape
    return d.done(d.relaid(d.convert(total, shape.element_type), shape))
