"""Convolutions without spatial dimensions in which nothing happens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hlo.expansions import Draft
from hlo.ir import Computation, Instruction, Module
from hlo.ops.attrs import WindowDim
from hlo.passes.expand._inline import expand_instructions
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.values.types import array

# Kernels have up to three.
_MANY = 4


@module_pass
def convolution_4d_expander(module: Module, rewrites: Rewrites) -> None:
    """Drop trivial ones of four or more spatial dimensions: one element, one tap, no padding."""
    rule = "convolution_4d_expander.expand"
    expand_instructions(module, rewrites, rule, ["convolution"], _expanded)


def _expanded(inst: Instruction) -> Computation | None:
    labels = inst.dim_labels
    window: tuple[WindowDim, ...] = inst.window
    if inst.sparsity_config is not None or len(window) < _MANY:
        return None
    x, w, shape = (i.array_shape for i in (*inst.operands, inst))
    if x.is_dynamic or w.is_dynamic or shape.is_dynamic:
        return None
    keep = [
        n
        for n, dim in enumerate(window)
        if (dim.size, dim.pad_low, dim.pad_high) != (1, 0, 0)
        or x.dims[labels.input_spatial[n]] != 1
    ]
    if len(keep) == len(window):
        return None
    space = {
        "input": [labels.input_spatial[n] for n in keep],
        "kernel": [labels.kernel_spatial[n] for n in keep],
        "output": [labels.output_spatial[n] for n in keep],
    }
    parts = {
        "input": (labels.input_batch, labels.input_feature),
        "kernel": (labels.kernel_input, labels.kernel_output),
        "output": (labels.output_batch, labels.output_feature),
    }
    left = {side: sorted((*parts[side], *space[side])) for side in parts}
    at = {side: [left[side].index(n) for n in (*parts[side], *space[side])] for side in parts}
    new = replace(
        labels,
        input_batch=at["input"][0], input_feature=at["input"][1],
        input_spatial=tuple(at["input"][2:]),
        kernel_input=at["kernel"][0], kernel_output=at["kernel"][1],
        kernel_spatial=tuple(at["kernel"][2:]),
        output_batch=at["output"][0], output_feature=at["output"][1],
        output_spatial=tuple(at["output"][2:]),
    )  # fmt: skip
    d = Draft(inst)
    attrs = {**inst.attrs, "dim_labels": new, "window": tuple(window[n] for n in keep)}
    made = d.op(
        "convolution",
        d.reshape(d.parameters[0], _sizes(x.dims, left["input"])),
        d.reshape(d.parameters[1], _sizes(w.dims, left["kernel"])),
        shape=array(shape.element_type, _sizes(shape.dims, left["output"])),
        **attrs,
    )
    return d.done(d.relaid(d.reshape(made, shape.dims), shape))


def _sizes(dims: Sequence[int], places: Sequence[int]) -> tuple[int, ...]:
    return tuple(dims[n] for n in places)
