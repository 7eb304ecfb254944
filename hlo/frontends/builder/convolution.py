"""Convolutions, and their dimension numbers."""

from __future__ import annotations

from collections.abc import Sequence

from hlo.errors import InferError
from hlo.frontends.builder.calls import query
from hlo.frontends.builder.coercion import TypeLike
from hlo.frontends.builder.contraction import Precision, precisions, preferred
from hlo.frontends.builder.core import BuilderCore, XlaOp, emit, operation
from hlo.frontends.builder.dimension_numbers import (
    ConvolutionDimensionNumbers,
    Padding,
    conv_dims,
    default_conv_dims,
    make_window,
    need_different,
)
from hlo.ops.attrs import ConvDims
from hlo.values.types import MAX_RANK


@query
def create_default_conv_dimension_numbers(num_spatial_dims: int = 2) -> ConvDims:
    """Return batch, feature, space for input and result, and output, input, space for the
    kernel.

    Raises HloError for numbers that no array has. Source: "C++ interface" (004), which has two
    spatial dimensions.

    >>> b = hlo.XlaBuilder("m")
    >>> numbers = b.create_default_conv_dimension_numbers(2)
    >>> numbers.input_spatial, numbers.kernel_output
    ((2, 3), 0)
    """
    if not 0 <= num_spatial_dims <= MAX_RANK - 2:
        raise InferError(
            f"create_default_conv_dimension_numbers: {num_spatial_dims} spatial dimensions, "
            f"0 to {MAX_RANK - 2} are possible", code="bad-value",
        )  # fmt: skip
    return default_conv_dims(num_spatial_dims)


@query
def create_conv_dimension_numbers(
    batch: int, feature: int, first_spatial: int, second_spatial: int,
    kernel_output_feature: int, kernel_input_feature: int, kernel_first_spatial: int,
    kernel_second_spatial: int,
) -> ConvDims:  # fmt: skip
    """Return the dimension numbers of a convolution over two dimensions.

    Input and result have the same.

    Raises HloError where two numbers conflict, or one is no dimension. Source: "C++ interface"
    (004).

    >>> b = hlo.XlaBuilder("m")
    >>> numbers = b.create_conv_dimension_numbers(0, 3, 1, 2, 3, 2, 0, 1)
    >>> numbers.input_spatial, numbers.kernel_output
    ((1, 2), 3)
    """
    need_different("input", [batch, feature, first_spatial, second_spatial])
    kernel = (kernel_first_spatial, kernel_second_spatial)
    need_different("kernel", [kernel_output_feature, kernel_input_feature, *kernel])
    space = (first_spatial, second_spatial)
    return ConvDims(
        batch, feature, space, kernel_input_feature, kernel_output_feature, kernel,
        batch, feature, space,
    )  # fmt: skip


@operation
def conv(
    builder: BuilderCore[XlaOp],
    lhs: XlaOp, rhs: XlaOp, window_strides: Sequence[int], padding: Padding,
    feature_group_count: int = 1, batch_group_count: int = 1,
    precision_config: Precision = None, preferred_element_type: TypeLike | None = None, *,
    lhs_dilation: Sequence[int] | None = None, rhs_dilation: Sequence[int] | None = None,
) -> XlaOp:  # fmt: skip
    """Append a convolution in default dimension numbers; `padding` is `VALID` or `SAME`.

    lhs: [batch, feature, space...].
    rhs: [output feature, input feature, window...].
    window_strides: one for each spatial dimension. `SAME` pads so that with strides of 1 the
    result is as large as the input.
    lhs_dilation, rhs_dilation: distances between elements, 1 unless given.
    The result is [batch, output feature, positions of the window...].

    Raises HloError for other ranks, features that differ, and strides below 1. Source: "Conv"
    (004, 000, 002, 003).

    >>> b = hlo.XlaBuilder("m")
    >>> x, w = b.constant([[[1, 2, 3]]]), b.constant([[[1, 10]]])
    >>> b.compute_constant(b.conv(x, w, [1], "VALID")).array
    array([[[21, 32]]], dtype=int32)
    """
    numbers = default_conv_dims(lhs.rank - 2)
    return conv_general_dilated(
        builder, lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation, numbers,
        feature_group_count, batch_group_count, precision_config, preferred_element_type,
    )  # fmt: skip


@operation
def conv_with_general_padding(
    builder: BuilderCore[XlaOp], lhs: XlaOp, rhs: XlaOp, window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]], feature_group_count: int = 1,
    batch_group_count: int = 1, precision_config: Precision = None,
    preferred_element_type: TypeLike | None = None, *,
    lhs_dilation: Sequence[int] | None = None, rhs_dilation: Sequence[int] | None = None,
) -> XlaOp:  # fmt: skip
    """Append a convolution in default dimension numbers; `padding` is a pair a dimension.

    Zeros are added before and after each spatial dimension; negative numbers take elements
    away. The dilations put holes between elements of the input and of the kernel, and are 1
    unless given. Shapes and errors as for `conv`.

    Source: "ConvWithGeneralPadding" (004, 000, 002, 003).

    >>> b = hlo.XlaBuilder("m")
    >>> x, w = b.constant([[[1, 2, 3]]]), b.constant([[[1, 10]]])
    >>> b.compute_constant(b.conv_with_general_padding(x, w, [1], [(1, 0)])).array
    array([[[10, 21, 32]]], dtype=int32)
    """
    return conv(
        builder, lhs, rhs, window_strides, padding, feature_group_count, batch_group_count,
        precision_config, preferred_element_type, lhs_dilation=lhs_dilation,
        rhs_dilation=rhs_dilation,
    )  # fmt: skip


@operation
def conv_with_general_dimensions(
    builder: BuilderCore[XlaOp],
    lhs: XlaOp, rhs: XlaOp, window_strides: Sequence[int], padding: Padding,
    dimension_numbers: ConvolutionDimensionNumbers, feature_group_count: int = 1,
    batch_group_count: int = 1, precision_config: Precision = None,
    preferred_element_type: TypeLike | None = None,
) -> XlaOp:  # fmt: skip
    """Append a convolution in any dimension numbers; `padding` is `VALID` or `SAME`.

    dimension_numbers: a `ConvDims`, or labels: `b01f_01io->b01f`. All else as for `conv`.

    Source: "C++ interface" (004), "ConvWithGeneralDimensions" (003).

    >>> b = hlo.XlaBuilder("m")
    >>> x, w = b.parameter(0, "f32[8,32,32,3]"), b.parameter(1, "f32[5,5,3,16]")
    >>> numbers = b.create_conv_dimension_numbers(0, 3, 1, 2, 3, 2, 0, 1)
    >>> print(b.conv_with_general_dimensions(x, w, [1, 1], "SAME", numbers).shape)
    f32[8,32,32,16]{3,2,1,0}
    """
    return conv_general_dilated(
        builder, lhs, rhs, window_strides, padding, None, None, dimension_numbers,
        feature_group_count, batch_group_count, precision_config, preferred_element_type,
    )  # fmt: skip


@operation
def conv_general(
    builder: BuilderCore[XlaOp], lhs: XlaOp, rhs: XlaOp, window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]], dimension_numbers: ConvolutionDimensionNumbers,
    feature_group_count: int = 1, batch_group_count: int = 1,
    precision_config: Precision = None, preferred_element_type: TypeLike | None = None,
) -> XlaOp:  # fmt: skip
    """Append a convolution in any dimension numbers; `padding` is a pair a dimension.

    Arguments, shapes and errors as for `conv_with_general_dimensions` and
    `conv_with_general_padding`.

    Source: "C++ interface" (004), "ConvGeneral" (003).

    >>> b = hlo.XlaBuilder("m")
    >>> x, w = b.parameter(0, "f32[8,32,3]"), b.parameter(1, "f32[5,3,16]")
    >>> print(b.conv_general(x, w, [2], [(2, 2)], "b0f_0io->b0f").shape)
    f32[8,16,16]{2,1,0}
    """
    return conv_with_general_dimensions(
        builder, lhs, rhs, window_strides, padding, dimension_numbers, feature_group_count,
        batch_group_count, precision_config, preferred_element_type,
    )  # fmt: skip


@operation
def conv_general_dilated(
    builder: BuilderCore[XlaOp],
    lhs: XlaOp, rhs: XlaOp, window_strides: Sequence[int] | None, padding: Padding,
    lhs_dilation: Sequence[int] | None, rhs_dilation: Sequence[int] | None,
    dimension_numbers: ConvolutionDimensionNumbers, feature_group_count: int = 1,
    batch_group_count: int = 1, precision_config: Precision = None,
    preferred_element_type: TypeLike | None = None,
    window_reversal: Sequence[bool] | None = None,
) -> XlaOp:  # fmt: skip
    """Append a convolution with holes between elements of the input and of the kernel.

    window_strides, lhs_dilation, rhs_dilation: one number for each spatial dimension, None for
    1 everywhere.
    padding: `VALID`, `SAME`, or a pair a dimension.
    dimension_numbers: a `ConvDims`, or labels: `b01f_01io->b01f`.
    feature_group_count, batch_group_count: how many convolutions stand side by side, with parts
    of the features or of the batch; one of the two is 1.
    window_reversal: the spatial dimensions in which the kernel is read backwards. Shapes and
    errors as for `conv`.

    Source: "ConvGeneralDilated" (003).

    >>> b = hlo.XlaBuilder("m")
    >>> x, w = b.parameter(0, "f32[8,32,3]"), b.parameter(1, "f32[5,3,16]")
    >>> y = b.conv_general_dilated(x, w, [1], [(0, 0)], [2], [1], "b0f_0io->b0f")
    >>> print(y.shape)
    f32[8,59,16]{2,1,0}
    """
    dims = conv_dims(dimension_numbers)
    for i, (operand, space) in enumerate(((lhs, dims.input_spatial), (rhs, dims.kernel_spatial))):
        if operand.rank != len(space) + 2:
            raise InferError(
                f"convolution: operand {i} has shape {operand.array_shape.to_string(False)}, "
                f"rank {len(space) + 2} is needed", operand=i,
            )  # fmt: skip
    window = make_window(
        "convolution",
        [lhs.dims[d] for d in dims.input_spatial],
        [rhs.dims[d] for d in dims.kernel_spatial],
        window_strides, padding, lhs_dilation, rhs_dilation, window_reversal,
    )  # fmt: skip
    return emit(
        builder, "convolution", lhs, rhs, element_type=preferred(preferred_element_type),
        window=window, dim_labels=dims, feature_group_count=feature_group_count,
        batch_group_count=batch_group_count, **precisions(precision_config, 2),
    )  # fmt: skip
