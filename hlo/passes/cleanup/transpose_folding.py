"""Transposes of what is multiplied."""

from __future__ import annotations

from dataclasses import replace

from hlo.ir import Instruction, Module
from hlo.ir.builder import Builder
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import RuleSet

_RULES = RuleSet("transpose_folding")


@module_pass
def transpose_folding(module: Module, rewrites: Rewrites) -> None:
    """Fold transposes into the dimension numbers of dots and convolutions."""
    _RULES.apply(module, rewrites)


# Where elements lie elsewhere, sums may be added in another order.
@_RULES.rule(
    "dot",
    "dot(transpose(x), y) = dot(x, y), where x's free dimensions keep their order",
    approximate=True,
)
def dot_of_transpose(inst: Instruction, b: Builder) -> Instruction | None:
    operands, attrs = list(inst.operands), dict(inst.attrs)
    for n, side in enumerate(("lhs", "rhs")):
        batch, contracting = f"{side}_batch_dims", f"{side}_contracting_dims"
        while _is_plain_transpose(operands[n]):
            order = operands[n].dimensions
            free = [
                order[d] for d in range(len(order)) if d not in (*attrs[batch], *attrs[contracting])
            ]
            if free != sorted(free):
                break
            attrs[batch] = tuple(order[d] for d in attrs[batch])
            attrs[contracting] = tuple(order[d] for d in attrs[contracting])
            operands[n] = operands[n].operands[0]
    if operands == inst.operands:
        return None
    return b.op("dot", *operands, shape=inst.shape, **attrs)


@_RULES.rule(
    "convolution",
    "convolution(transpose(x), y) = convolution(x, y), by other labels",
    approximate=True,
)
def convolution_of_transpose(inst: Instruction, b: Builder) -> Instruction | None:
    operands, labels = list(inst.operands), inst.dim_labels
    while _is_plain_transpose(operands[0]):
        order = operands[0].dimensions
        labels = replace(
            labels,
            input_batch=order[labels.input_batch],
            input_feature=order[labels.input_feature],
            input_spatial=tuple(order[d] for d in labels.input_spatial),
            input_unknown=tuple(order[d] for d in labels.input_unknown),
        )
        operands[0] = operands[0].operands[0]
    while _is_plain_transpose(operands[1]):
        order = operands[1].dimensions
        labels = replace(
            labels,
            kernel_input=order[labels.kernel_input],
            kernel_output=order[labels.kernel_output],
            kernel_spatial=tuple(order[d] for d in labels.kernel_spatial),
            kernel_unknown=tuple(order[d] for d in labels.kernel_unknown),
        )
        operands[1] = operands[1].operands[0]
    if operands == inst.operands:
        return None
    attrs = {**inst.attrs, "dim_labels": labels}
    return b.op("convolution", *operands, shape=inst.shape, **attrs)


def _is_plain_transpose(inst: Instruction) -> bool:
    if inst.opcode != "transpose":
        return False
    return not inst.array_shape.is_dynamic
