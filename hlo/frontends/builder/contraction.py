"""Sums of products: dot, convolution, and the solvers and transforms built of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hlo.errors import InferError
from hlo.frontends.builder.calls import query
from hlo.frontends.builder.coercion import TypeLike, type_of
from hlo.frontends.builder.core import BuilderCore, XlaOp, emit, operation, value_of
from hlo.frontends.builder.dimension_numbers import (
    ConvolutionDimensionNumbers,
    DotDimensionNumbers,
    Padding,
    RaggedDotDimensionNumbers,
    conv_dims,
    default_conv_dims,
    make_window,
    need_different,
)
from hlo.ops.attrs import ConvDims
from hlo.support.signature import shown
from hlo.values.types import MAX_RANK, ElementType

Precision = str | Sequence[str] | None
"""`default`, `high` or `highest`, for all operands or for each."""


def _precisions(precision: Precision, operands: int) -> dict[str, Any]:
    if precision is None:
        return {}
    each = [precision] * operands if isinstance(precision, str) else precision
    known = ("default", "high", "highest")
    for name in each:
        if name.lower() not in known:
            raise InferError(
                f"precision_config: {shown(name)} is not one of {', '.join(known)}",
                code="bad-value",
            )
    return {"operand_precision": tuple(name.lower() for name in each)}


def _preferred(element_type: TypeLike | None) -> ElementType | None:
    return None if element_type is None else type_of(element_type)


# --- dot ------------------------------------------------------------------------------------


@operation
def dot(
    builder: BuilderCore[XlaOp], lhs: Any, rhs: Any, precision_config: Precision = None,
    preferred_element_type: TypeLike | None = None,
) -> XlaOp:  # fmt: skip
    """Append the product of two scalars, vectors or matrices, summed as numpy's `dot` does.

    That is over the last dimension of `lhs` and the last but one of `rhs`, or its only one: [m,
    k] by [k, n] is [m, n], [m, k] by [k] is [m], [p, q, r] by [s, r, t] is [p, q, s, t]. One of
    them may be a number or a numpy array.

    Raises HloError where the two dimensions differ in size. Source: "Dot" (004, 000, 002, 003).

    >>> b = hlo.XlaBuilder("m")
    >>> y = b.dot(b.parameter(0, "s32[2,2]"), b.parameter(1, "s32[2]"))
    >>> hlo.interpret(b.build().module(), [[1, 2], [3, 4]], [1, 10])
    array([21, 43], dtype=int32)
    """
    lhs, rhs = value_of(builder, lhs, rhs), value_of(builder, rhs, lhs)
    contract = bool(lhs.rank and rhs.rank)
    numbers = DotDimensionNumbers(
        lhs_contracting_dimensions=[lhs.rank - 1] if contract else [],
        rhs_contracting_dimensions=[max(rhs.rank - 2, 0)] if contract else [],
    )
    return dot_general(builder, lhs, rhs, numbers, precision_config, preferred_element_type)


@operation
def dot_general(
    builder: BuilderCore[XlaOp], lhs: XlaOp, rhs: XlaOp, dimension_numbers: DotDimensionNumbers,
    precision_config: Precision = None, preferred_element_type: TypeLike | None = None,
) -> XlaOp:  # fmt: skip
    """Append sums of products over any dimensions, with any batch dimensions, which come first
    in the result.

    dimension_numbers: which dimensions are summed over, and which are of a batch. After the
    latter come the other dimensions of `lhs`, then those of `rhs`.

    Raises HloError where dimensions that belong together differ in number or size, or one is
    named twice. Source: "DotGeneral" (000, 002, 003).
    """
    return emit(
        builder, "dot", lhs, rhs, element_type=_preferred(preferred_element_type),
        **dimension_numbers.attrs(), **_precisions(precision_config, 2),
    )  # fmt: skip


@operation
def scaled_dot(
    builder: BuilderCore[XlaOp], lhs: XlaOp, lhs_scale: XlaOp, rhs: XlaOp, rhs_scale: XlaOp,
    dimension_numbers: DotDimensionNumbers, precision_config: Precision = None,
    preferred_element_type: TypeLike | None = None,
) -> XlaOp:  # fmt: skip
    """Append `dot_general` of operands that are multiplied, block by block, by scales.

    lhs_scale, rhs_scale: of the operand's rank; each size divides the operand's.
    dimension_numbers: as for `dot_general`, and so the result.

    Raises HloError for scales that make no blocks, and as for `dot_general`. Source:
    "ScaledDot" (003).
    """
    return emit(
        builder, "scaled-dot", lhs, rhs, lhs_scale, rhs_scale,
        element_type=_preferred(preferred_element_type),
        **dimension_numbers.attrs(), **_precisions(precision_config, 2),
    )  # fmt: skip


@operation
def ragged_dot(
    builder: BuilderCore[XlaOp], lhs: XlaOp, rhs: XlaOp, group_sizes: XlaOp,
    dimension_numbers: RaggedDotDimensionNumbers, precision_config: Precision = None,
    preferred_element_type: TypeLike | None = None,
) -> XlaOp:  # fmt: skip
    """Append products in groups of varying sizes along a dimension of `lhs`.

    group_sizes: integers, [groups]: how many positions of the ragged dimension each group has.
    dimension_numbers: with the ragged dimension of `lhs`. It may be one of its own: `rhs` has a
    dimension of groups, and the result is as for `dot_general`. It may be summed over: the
    result has a dimension of groups in front. It may be one of a batch: the groups change
    nothing.

    Raises HloError for dimensions and sizes that do not fit. Source: "RaggedDot" (003), which
    refers to StableHLO's `chlo.ragged_dot`.
    """
    return emit(
        builder, "ragged-dot", lhs, rhs, group_sizes,
        element_type=_preferred(preferred_element_type), **dimension_numbers.attrs(),
        **_precisions(precision_config, 2),
    )  # fmt: skip


# --- convolution ----------------------------------------------------------------------------


@query
def create_default_conv_dimension_numbers(num_spatial_dims: int = 2) -> ConvDims:
    """Return batch, feature, space for input and result, and output, input, space for the
    kernel.

    Raises HloError for numbers that no array has. Source: "C++ interface" (004), which has two
    spatial dimensions.
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
        builder, "convolution", lhs, rhs, element_type=_preferred(preferred_element_type),
        window=window, dim_labels=dims, feature_group_count=feature_group_count,
        batch_group_count=batch_group_count, **_precisions(precision_config, 2),
    )  # fmt: skip


# --- transforms and solvers -----------------------------------------------------------------


@operation
def fft(
    builder: BuilderCore[XlaOp], operand: XlaOp, fft_type: str, fft_length: Sequence[int]
) -> XlaOp:
    """Append a Fourier transform of the last dimensions: FFT, IFFT, RFFT or IRFFT.

    fft_type: FFT and IFFT are from complex to complex numbers, of one shape. RFFT is from real
    numbers, and keeps n // 2 + 1 of n elements in the last dimension; IRFFT is its inverse.
    fft_length: the sizes of those dimensions in the time domain, from 1 to 3 of them.

    Raises HloError for other sizes, and types other than f32, f64, c64 and c128. Source: "Fft"
    (002, 003).
    """
    return emit(builder, "fft", operand, fft_type=fft_type.upper(), fft_length=tuple(fft_length))


@operation
def cholesky(builder: BuilderCore[XlaOp], a: XlaOp, lower: bool) -> XlaOp:
    """Append the Cholesky factors of positive definite matrices, lower or upper triangles.

    a: floats [..., n, n], of which one triangle is read.
    The result has its shape.

    Raises HloError for others. Source: "Cholesky" (002, 003).
    """
    return emit(builder, "cholesky", a, lower=lower)


@operation
def triangular_solve(
    builder: BuilderCore[XlaOp],
    a: XlaOp, b: XlaOp, left_side: bool, lower: bool, unit_diagonal: bool,
    transpose_a: str = "NO_TRANSPOSE",
) -> XlaOp:  # fmt: skip
    """Append x with `op(a) x = b`, or with `x op(a) = b` if not `left_side`.

    a: [..., n, n], of which the triangle that `lower` names is read, or that without its
    diagonal, which is 1, if `unit_diagonal`.
    b: of the same batch, with n rows, or columns.
    transpose_a: what op is: NO_TRANSPOSE, TRANSPOSE or ADJOINT.
    The result has the shape of b.

    Raises HloError for others. Source: "TriangularSolve" (002, 003).
    """
    return emit(
        builder, "triangular-solve", a, b, left_side=left_side, lower=lower,
        unit_diagonal=unit_diagonal, transpose_a=transpose_a.upper(),
    )  # fmt: skip
