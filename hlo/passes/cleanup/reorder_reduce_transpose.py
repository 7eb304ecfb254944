"""Transposes after reductions, where there is less to move."""

from __future__ import annotations

from hlo.ir import Instruction, Module
from hlo.ir.builder import Builder
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import RuleSet
from hlo.values.types import ArrayShape

_RULES = RuleSet("reorder_reduce_transpose")


@module_pass
def reorder_reduce_transpose(module: Module, rewrites: Rewrites) -> None:
    """Reduce before transposing, which then moves less data, or none."""
    _RULES.apply(module, rewrites)


@_RULES.rule(
    "reduce", "reduce(transpose(x)) = transpose(reduce(x)), where what is reduced keeps its order"
)
def reduce_of_transpose(inst: Instruction, b: Builder) -> Instruction | None:
    return None if _has_floats(inst) else _reduced_first(inst, b)


@_RULES.rule(
    "reduce",
    "reduce(transpose(x)) = transpose(reduce(x)) for floats, but for the order of additions",
    approximate=True,
)
def reduce_of_transpose_of_floats(inst: Instruction, b: Builder) -> Instruction | None:
    return _reduced_first(inst, b) if _has_floats(inst) else None


def _has_floats(inst: Instruction) -> bool:
    leaves = [s for _, s in inst.shape.leaves()]
    return any(
        isinstance(s, ArrayShape) and (s.element_type.is_float or s.element_type.is_complex)
        for s in leaves
    )


def _reduced_first(inst: Instruction, b: Builder) -> Instruction | None:
    count = len(inst.operands) // 2
    inputs, inits = inst.operands[:count], inst.operands[count:]
    if any(x.opcode != "transpose" or x.shape.is_dynamic for x in inputs):
        return None
    orders = {x.dimensions for x in inputs}
    if len(orders) != 1:
        return None
    order = orders.pop()
    dims = inst.dimensions
    # Elements are combined in row-major order of these.
    reduced = [order[d] for d in sorted(dims)]
    if reduced != sorted(reduced):
        return None
    kept = [order[d] for d in range(len(order)) if d not in dims]
    sources = [x.operands[0] for x in inputs]
    new = b.op("reduce", *sources, *inits, dimensions=tuple(reduced), to_apply=inst.to_apply)
    back = tuple(sorted(kept).index(d) for d in kept)
    if count == 1:
        return _moved(b, new, back)
    return b.tuple(*(_moved(b, b.element(new, n), back) for n in range(count)))


def _moved(b: Builder, value: Instruction, order: tuple[int, ...]) -> Instruction:
    if order == tuple(range(len(order))):
        return value
    return b.op("transpose", value, dimensions=order)
