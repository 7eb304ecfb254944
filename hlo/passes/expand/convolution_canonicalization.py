"""Convolutions with their dimensions in the order that kernels want."""

from __future__ import annotations

from dataclasses import replace

from hlo.expansions import Draft
from hlo.ir import Computation, Instruction, Module
from hlo.passes.expand._inline import expand_instructions
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.values.types import array


@module_pass
def convolution_canonicalization(module: Module, rewrites: Rewrites) -> None:
    """Canonicalize convolutions to b01f_01io->b01f by transposes."""
    rule = "convolution_canonicalization.canonicalize"
    expand_instructions(module, rewrites, rule, ["convolution"], _expanded)


def _expanded(inst: Instruction) -> Computation | None:
    labels = inst.dim_labels
    if inst.sparsity_config is not None:
        return None
    if any(i.array_shape.is_dynamic for i in (*inst.operands, inst)):
        return None
    space = tuple(range(len(labels.input_spatial)))
    inner, rank = tuple(1 + n for n in space), len(space) + 2
    wanted = replace(
        labels, input_batch=0, input_spatial=inner, input_feature=rank - 1,
        kernel_spatial=space, kernel_input=rank - 2, kernel_output=rank - 1,
        output_batch=0, output_spatial=inner, output_feature=rank - 1,
    )  # fmt: skip
    if labels == wanted:
        return None
    d = Draft(inst)
    x = _moved(
        d, d.parameters[0], (labels.input_batch, *labels.input_spatial, labels.input_feature)
    )
    w = _moved(
        d, d.parameters[1], (*labels.kernel_spatial, labels.kernel_input, labels.kernel_output)
    )
    order = (labels.output_batch, *labels.output_spatial, labels.output_feature)
    shape = inst.array_shape
    out = array(shape.element_type, [shape.dims[n] for n in order])
    result = d.op("convolution", x, w, shape=out, **{**inst.attrs, "dim_labels": wanted})
    back = tuple(order.index(n) for n in range(rank))
    return d.done(d.relaid(_moved(d, result, back), shape))


def _moved(d: Draft, value: Instruction, order: tuple[int, ...]) -> Instruction:
    if order == tuple(range(len(order))):
        return value
    return d.op("transpose", value, dimensions=order)
