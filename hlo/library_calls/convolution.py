"""Convolutions of cuDNN (MIOpen on ROCm, by the same names).

All have the window and the labels of the forward convolution as attributes; a gradient's result is
in the place of the array that it is the gradient of. Source: XLA's cublas_cudnn.h,
conv_rewriter.cc, cudnn_fused_conv_rewriter.cc and gpu_conv_runner.cc.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from hlo.ir import Computation, Instruction
from hlo.library_calls import activations
from hlo.library_calls.call import Call, library_call
from hlo.ops.attrs.dims import ConvDims, WindowDim
from hlo.values.types import S32, ElementType

_SECTION = "cudnn_conv_backend_config"
# tsl/protobuf/dnn.proto, ActivationMode
_MODES = (
    "kNone", "kSigmoid", "kRelu", "kRelu6", "kReluX", "kTanh", "kBandPass", "kElu", "kLeakyRelu",
    "kGeluExact",
)  # fmt: skip
_ACTIVATIONS: dict[str, activations.Activation] = {
    "kSigmoid": activations.sigmoid, "kRelu": activations.relu, "kRelu6": activations.relu6,
    "kTanh": activations.tanh, "kElu": activations.elu, "kGeluExact": activations.gelu_erf,
}  # fmt: skip


@dataclass(frozen=True)
class Forward:
    """A forward convolution: what a call has as attributes."""

    window: tuple[WindowDim, ...]
    labels: ConvDims
    groups: int


def forward_of(c: Call) -> Forward:
    """Return what the attributes of a call say. Raises InferError."""
    attrs = c.inst.attrs
    window, labels = attrs.get("window"), attrs.get("dim_labels")
    if labels is None:
        raise c.wrong("dim_labels are missing")
    spatial = len(labels.input_spatial)
    if window is None and not spatial:
        window = ()
    if window is None or len(window) != spatial:
        raise c.wrong(f"the window has to have {spatial} dimensions, as dim_labels have")
    if c.config.flag("reordered_int8_nchw_vect"):
        raise c.wrong("a filter that is reordered for cuDNN is not known", "unsupported")
    if attrs.get("batch_group_count", 1) != 1:
        raise c.wrong("batch groups are feature groups here", "unsupported")
    return Forward(window, labels, attrs.get("feature_group_count", 1))


def convolve(
    c: Call, forward: Forward, lhs: Instruction, rhs: Instruction, et: ElementType,
    batch_groups: int = 1,
) -> Instruction:  # fmt: skip
    """Append a convolution of arrays as they are, its sums in a type.

    Integers are summed as such.
    """
    exact = et.is_float and not any(v.array_shape.element_type.is_float for v in (lhs, rhs))
    attrs: dict[str, Any] = {}
    if c.inst.attrs.get("operand_precision"):
        attrs["operand_precision"] = c.inst.operand_precision
    made = c.op(
        "convolution", lhs, rhs, window=forward.window, dim_labels=forward.labels,
        feature_group_count=forward.groups, batch_group_count=batch_groups, **attrs,
    )  # fmt: skip
    made.shape = made.array_shape.with_type(S32 if exact else et)
    return c.convert(made, et)


@library_call("__cudnn$convForward", section=_SECTION)
def _forward(c: Call) -> Computation:
    c.need_operands(2)
    return c.done(c.times(_convolved(c, forward_of(c)), _scale(c)))


@library_call("__cudnn$convBiasActivationForward", section=_SECTION)
def _fused(c: Call) -> Computation:
    """`activation(scale * conv(input, filter) + side_scale * side_input + bias)`."""
    c.need_operands(3, 4)
    forward = forward_of(c)
    x = c.times(_convolved(c, forward), _scale(c))
    if len(c.operands) == 4:
        side = c.as_wide(c.plain(3))
        x = c.op("add", x, c.times(side, c.config.number("side_input_scale")))
    bias = c.as_wide(c.plain(2))
    x = c.op("add", x, _along_features(c, bias, forward.labels, x))
    return c.done(_activated(c, x))


def _scale(c: Call) -> float:
    return c.config.number("conv_result_scale", 1)


def _along_features(c: Call, bias: Instruction, d: ConvDims, x: Instruction) -> Instruction:
    """Return a bias for each element; features of vectors are those of one dimension, split."""
    dims, count = x.array_shape.dims, bias.array_shape.num_elements
    at = [d.output_feature, *d.output_unknown]
    if count != math.prod(dims[n] for n in at):
        raise c.wrong(
            f"the bias {bias.array_shape.to_string(False)} has no element for each output feature",
            "shape-mismatch",
        )
    return c.spread(c.reshape(bias, [dims[n] for n in at]), at, x)


def _activated(c: Call, x: Instruction) -> Instruction:
    mode = c.config.choice("activation_mode", _MODES)
    if mode == "kNone":
        return x
    if mode == "kLeakyRelu":
        return activations.leaky_relu(c, x, c.config.number("leakyrelu_alpha"))
    if mode not in _ACTIVATIONS:
        raise c.wrong(f"activation_mode {mode} is not known", "unsupported")
    return _ACTIVATIONS[mode](c, x)


# --- vectors of features ------------------------------------------------------------------------


def _convolved(c: Call, forward: Forward) -> Instruction:
    """Append the convolution; features in vectors (NCHW_VECT_C) become one dimension for it.

    There the last dimension of each array, which has no label, is the rest of the features.
    """
    lhs, rhs = c.operands[:2]
    d = forward.labels
    if not (d.input_unknown or d.kernel_unknown or d.output_unknown):
        return convolve(c, forward, lhs, rhs, c.wide)
    unknown = (d.input_unknown, d.kernel_unknown, d.output_unknown)
    if any(len(u) != 1 for u in unknown):
        raise c.wrong("more than one dimension has no label", "unsupported")
    (x_at,), (k_at,), (y_at,) = unknown
    lhs, rhs = _merged(c, lhs, d.input_feature, x_at), _merged(c, rhs, d.kernel_input, k_at)
    plain = ConvDims(
        _without(d.input_batch, x_at),
        _without(d.input_feature, x_at),
        tuple(_without(n, x_at) for n in d.input_spatial),
        _without(d.kernel_input, k_at),
        _without(d.kernel_output, k_at),
        tuple(_without(n, k_at) for n in d.kernel_spatial),
        _without(d.output_batch, y_at),
        _without(d.output_feature, y_at),
        tuple(_without(n, y_at) for n in d.output_spatial),
    )
    made = convolve(c, replace(forward, labels=plain), lhs, rhs, c.wide)
    size = c.wanted[0].dims[y_at] if y_at < c.wanted[0].rank else 1
    feature = plain.output_feature
    dims = list(made.array_shape.dims)
    if dims[feature] % size:
        raise c.wrong(f"{dims[feature]} features are no vectors of {size}", "shape-mismatch")
    dims[feature : feature + 1] = [dims[feature] // size, size]
    split = c.reshape(made, dims)
    order = [n for n in range(len(dims)) if n != feature + 1]
    order.insert(y_at, feature + 1)
    return c.op("transpose", split, dimensions=tuple(order))


def _without(dim: int, gone: int) -> int:
    return dim - (dim > gone)


def _merged(c: Call, value: Instruction, feature: int, rest: int) -> Instruction:
    """Return an array with the dimension `rest` as the minor part of the feature dimension."""
    order = [n for n in range(value.array_shape.rank) if n != rest]
    order.insert(order.index(feature) + 1, rest)
    moved = c.op("transpose", value, dimensions=tuple(order))
    dims = list(moved.array_shape.dims)
    at = order.index(feature)
    dims[at : at + 2] = [dims[at] * dims[at + 1]]
    return c.reshape(moved, dims)


# --- gradients ----------------------------------------------------------------------------------


@library_call("__cudnn$convBackwardInput", section=_SECTION)
def _backward_input(c: Call) -> Computation:
    """The gradient by the input, of the output's gradient and the filter.

    It is the convolution of the first, with holes for strides, and the reversed filter.
    """
    c.need_operands(2)
    forward = forward_of(c)
    d = _need_plain(c, forward.labels)
    grad, kernel = c.operands
    window = []
    for w, x_at, y_at in zip(forward.window, d.input_spatial, d.output_spatial, strict=True):
        _need_no_holes(c, w)
        extent = w.dilated_size()
        low = extent - 1 - w.pad_low
        size = (grad.array_shape.dims[y_at] - 1) * w.stride + 1
        window.append(
            WindowDim(
                size=w.size, pad_low=low, pad_high=c.wanted[0].dims[x_at] + extent - 1 - size - low,
                lhs_dilate=w.stride, rhs_dilate=w.rhs_dilate, reversal=not w.reversal,
            )
        )  # fmt: skip
    labels = ConvDims(
        d.output_batch, d.output_feature, d.output_spatial, d.kernel_output, d.kernel_input,
        d.kernel_spatial, d.input_batch, d.input_feature, d.input_spatial,
    )  # fmt: skip
    kernel = _groups_to_inputs(c, kernel, d, forward.groups)
    backward = Forward(tuple(window), labels, forward.groups)
    return c.done(c.times(convolve(c, backward, grad, kernel, c.wide), _scale(c)))


def _groups_to_inputs(c: Call, kernel: Instruction, d: ConvDims, groups: int) -> Instruction:
    """Return a kernel [i, g * o] as [g * i, o], the dimensions where they are."""
    if groups == 1:
        return kernel
    i, o, dims = d.kernel_input, d.kernel_output, list(kernel.array_shape.dims)
    if dims[o] % groups:
        raise c.wrong(f"{dims[o]} output features are not in {groups} groups", "shape-mismatch")
    split = c.reshape(kernel, [*dims[:o], groups, dims[o] // groups, *dims[o + 1 :]])
    # The groups are dimension o of the split array, and what comes after is one further.
    order = [n + (n >= o) for n in range(len(dims))]
    order.insert(i, o)
    moved = c.op("transpose", split, dimensions=tuple(order))
    dims[i], dims[o] = dims[i] * groups, dims[o] // groups
    return c.reshape(moved, dims)


@library_call("__cudnn$convBackwardFilter", section=_SECTION)
def _backward_filter(c: Call) -> Computation:
    """The gradient by the filter, of the input and the output's gradient.

    It is the convolution of the two in which batches are what is summed over.
    """
    c.need_operands(2)
    forward = forward_of(c)
    d = _need_plain(c, forward.labels)
    x, grad = c.operands
    window = []
    for w, x_at, y_at, k_at in zip(
        forward.window, d.input_spatial, d.output_spatial, d.kernel_spatial, strict=True
    ):
        _need_no_holes(c, w)
        size = grad.array_shape.dims[y_at]
        covered = (c.wanted[0].dims[k_at] - 1) * w.rhs_dilate + (size - 1) * w.stride + 1
        window.append(
            WindowDim(
                size=size, stride=w.rhs_dilate, rhs_dilate=w.stride, pad_low=w.pad_low,
                pad_high=covered - x.array_shape.dims[x_at] - w.pad_low,
            )
        )  # fmt: skip
    labels = ConvDims(
        d.input_feature, d.input_batch, d.input_spatial, d.output_batch, d.output_feature,
        d.output_spatial, d.kernel_input, d.kernel_output, d.kernel_spatial,
    )  # fmt: skip
    backward = Forward(tuple(window), labels, 1)
    made = convolve(c, backward, x, grad, c.wide, batch_groups=forward.groups)
    reversed_ = [
        at for w, at in zip(forward.window, d.kernel_spatial, strict=True) if w.reversal
    ]  # fmt: skip
    if reversed_:
        made = c.op("reverse", made, dimensions=tuple(reversed_))
    return c.done(c.times(made, _scale(c)))


def _need_plain(c: Call, d: ConvDims) -> ConvDims:
    if d.input_unknown or d.kernel_unknown or d.output_unknown:
        raise c.wrong("a gradient with features in vectors is not known", "unsupported")
    return d


def _need_no_holes(c: Call, w: WindowDim) -> None:
    if w.lhs_dilate != 1:
        raise c.wrong("the forward convolution has no holes in its input", "unsupported")
