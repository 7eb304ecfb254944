"""Products of a matrix and a vector, as products of matrices."""

from __future__ import annotations

from hlo.ir import Instruction, Module
from hlo.ir.builder import Builder
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import RuleSet

_RULES = RuleSet("gemv_rewriter")


@module_pass
def gemv_rewriter(module: Module, rewrites: Rewrites) -> None:
    """Turn matrix-vector dots into matrix-matrix dots with a dimension of size one."""
    _RULES.apply(module, rewrites)


@_RULES.rule("dot", "[m, n] x [n] = reshape([m, n] x [n, 1])", static=True)
def with_matrix(inst: Instruction, b: Builder) -> Instruction | None:
    if len(inst.operands) != 2:
        return None
    free = [_free_dims(inst, side) for side in ("lhs", "rhs")]
    if sorted(free) != [0, 1]:
        return None
    operands = list(inst.operands)
    which = free.index(0)
    operands[which] = b.reshape(operands[which], (*operands[which].array_shape.dims, 1))
    product = b.op("dot", *operands, **inst.attrs)
    et = inst.array_shape.element_type
    product.shape = product.array_shape.with_type(et)
    return b.reshape(product, inst.array_shape.dims)


def _free_dims(dot: Instruction, side: str) -> int:
    taken = len(dot.attrs[f"{side}_batch_dims"]) + len(dot.attrs[f"{side}_contracting_dims"])
    return dot.operands[side == "rhs"].array_shape.rank - taken
