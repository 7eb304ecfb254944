"""Dots with trivial batch dimensions."""

from __future__ import annotations

from hlo.ir import Instruction, Module
from hlo.ir.builder import Builder
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import RuleSet
from hlo.values.types import array

_RULES = RuleSet("batch_dot_simplification")


@module_pass
def batch_dot_simplification(module: Module, rewrites: Rewrites) -> None:
    """Remove batch dimensions of size one from dots."""
    _RULES.apply(module, rewrites)


@_RULES.rule("dot", "dot(x, y) = reshape(dot(reshape(x), reshape(y))), without batches of one",
             static=True)  # fmt: skip
def without_batches_of_one(inst: Instruction, b: Builder) -> Instruction | None:
    shape = inst.array_shape
    lhs, rhs = (o.array_shape.dims for o in inst.operands)
    batch = list(zip(inst.lhs_batch_dims, inst.rhs_batch_dims, strict=True))
    gone = [pair for pair in batch if lhs[pair[0]] == 1]
    if not gone:
        return None
    operands, attrs = [], dict(inst.attrs)
    for side, x, dims in (("lhs", inst.operands[0], lhs), ("rhs", inst.operands[1], rhs)):
        dropped = {pair[side == "rhs"] for pair in gone}
        kept = [d for d in range(len(dims)) if d not in dropped]
        operands.append(b.reshape(x, [dims[d] for d in kept]))
        for key in (f"{side}_batch_dims", f"{side}_contracting_dims"):
            attrs[key] = tuple(kept.index(d) for d in inst.attrs[key] if d in kept)
    # The result begins with the batch dimensions.
    ones = {n for n, pair in enumerate(batch) if pair in gone}
    sizes = tuple(n for d, n in enumerate(shape.dims) if d not in ones)
    made = b.op("dot", *operands, shape=array(shape.element_type, sizes), **attrs)
    return b.reshape(made, shape.dims)
