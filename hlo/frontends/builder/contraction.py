"""Sums of products: dot, convolution, and the solvers and transforms built of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hlo.errors import InferError
from hlo.frontends.builder.coercion import TypeLike, type_of
from hlo.frontends.builder.core import BuilderCore, XlaOp, emit, operation, value_of
from hlo.frontends.builder.dimension_numbers import (
    DotDimensionNumbers,
    RaggedDotDimensionNumbers,
)
from hlo.support.signature import shown
from hlo.values.types import ElementType

Precision = str | Sequence[str] | None
"""`default`, `high` or `highest`, for all operands or for each."""


def precisions(precision: Precision, operands: int) -> dict[str, Any]:
    """Return the attribute of a precision for each operand. Raises InferError for unknown names."""
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


def preferred(element_type: TypeLike | None) -> ElementType | None:
    """Return the element type that a result has to have, None if that is open."""
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

    >>> from hlo.builder import DotDimensionNumbers
    >>> b = hlo.XlaBuilder("m")
    >>> numbers = DotDimensionNumbers([2], [1], [0], [0])
    >>> y = b.dot_general(b.parameter(0, "f32[8,2,3]"), b.parameter(1, "f32[8,3,4]"), numbers)
    >>> print(y.shape)
    f32[8,2,4]{2,1,0}
    """
    return emit(
        builder, "dot", lhs, rhs, element_type=preferred(preferred_element_type),
        **dimension_numbers.attrs(), **precisions(precision_config, 2),
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

    >>> from hlo.builder import DotDimensionNumbers
    >>> b = hlo.XlaBuilder("m")
    >>> x, y = b.parameter(0, "f8e4m3fn[4,64]"), b.parameter(1, "f8e4m3fn[64,8]")
    >>> sx, sy = b.parameter(2, "f8e8m0fnu[4,2]"), b.parameter(3, "f8e8m0fnu[2,8]")
    >>> print(b.scaled_dot(x, sx, y, sy, DotDimensionNumbers([1], [0])).shape)
    f8e4m3fn[4,8]{1,0}
    """
    return emit(
        builder, "scaled-dot", lhs, rhs, lhs_scale, rhs_scale,
        element_type=preferred(preferred_element_type),
        **dimension_numbers.attrs(), **precisions(precision_config, 2),
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

    >>> from hlo.builder import DotDimensionNumbers, RaggedDotDimensionNumbers
    >>> b = hlo.XlaBuilder("m")
    >>> x, y = b.parameter(0, "f32[8,3]"), b.parameter(1, "f32[2,3,4]")
    >>> sizes = b.parameter(2, "s32[2]")
    >>> numbers = RaggedDotDimensionNumbers(DotDimensionNumbers([1], [1]), [0], [0])
    >>> print(b.ragged_dot(x, y, sizes, numbers).shape)
    f32[8,4]{1,0}
    """
    return emit(
        builder, "ragged-dot", lhs, rhs, group_sizes,
        element_type=preferred(preferred_element_type), **dimension_numbers.attrs(),
        **precisions(precision_config, 2),
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

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.fft(b.constant([1 + 0j, 2, 3, 4]), "FFT", [4])).array
    array([10.+0.j, -2.+2.j, -2.+0.j, -2.-2.j], dtype=complex64)
    """
    return emit(builder, "fft", operand, fft_type=fft_type.upper(), fft_length=tuple(fft_length))


@operation
def cholesky(builder: BuilderCore[XlaOp], a: XlaOp, lower: bool) -> XlaOp:
    """Append the Cholesky factors of positive definite matrices, lower or upper triangles.

    a: floats [..., n, n], of which one triangle is read.
    The result has its shape.

    Raises HloError for others. Source: "Cholesky" (002, 003).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.cholesky(b.constant([[4.0, 2.0], [2.0, 5.0]]), lower=True)).array
    array([[2., 0.],
           [1., 2.]], dtype=float32)
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

    >>> b = hlo.XlaBuilder("m")
    >>> a, y = b.constant([[2.0, 0.0], [1.0, 1.0]]), b.constant([[4.0], [5.0]])
    >>> x = b.triangular_solve(a, y, left_side=True, lower=True, unit_diagonal=False)
    >>> b.compute_constant(x).array
    array([[2.],
           [3.]], dtype=float32)
    """
    return emit(
        builder, "triangular-solve", a, b, left_side=left_side, lower=lower,
        unit_diagonal=unit_diagonal, transpose_a=transpose_a.upper(),
    )  # fmt: skip
