"""Reductions whose results lie as their operands do."""

from __future__ import annotations

from hlo.expansions import Draft
from hlo.ir import Computation, Instruction, Module
from hlo.passes.expand._inline import expand_instructions
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.values.types import ArrayShape, Layout, TupleShape


@module_pass
def reduce_decomposer(module: Module, rewrites: Rewrites) -> None:
    """Give results of `reduce` the layout of the remaining operand dimensions, then copy.

    So a reduction never also transposes.
    """
    expand_instructions(module, rewrites, "reduce_decomposer.decompose", ["reduce"], _expanded)


def _expanded(inst: Instruction) -> Computation | None:
    d, dims = Draft(inst), inst.dimensions
    results = inst.shape.elements if isinstance(inst.shape, TupleShape) else (inst.shape,)
    wanted = []
    for operand, result in zip(inst.operands, results, strict=False):
        assert isinstance(result, ArrayShape)
        wanted.append(_as_left(operand.array_shape, result, dims))
    if tuple(wanted) == results:
        return None
    shape = TupleShape(tuple(wanted)) if inst.shape.is_tuple else wanted[0]
    made = d.op("reduce", *d.parameters, shape=shape, **inst.attrs)
    return d.done(d.relaid(made, inst.shape))


def _as_left(operand: ArrayShape, result: ArrayShape, dims: tuple[int, ...]) -> ArrayShape:
    """Return the result in the order in which the dimensions that are left lie in the operand."""
    if operand.layout is None or result.layout is None:
        return result
    kept = [n for n in range(operand.rank) if n not in dims]
    order = tuple(kept.index(n) for n in operand.layout.minor_to_major if n in kept)
    if result.layout.minor_to_major == order:
        return result
    return result.with_layout(Layout(order, memory_space=result.layout.memory_space))
