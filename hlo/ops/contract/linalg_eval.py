"""Fourier transforms, Cholesky factors and triangular systems on numpy arrays.

All run in f64 or c128 (f8e8m0fnu, which has no zero: in f32) and are rounded once at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hlo.ops.elementwise import casts
from hlo.values.types import ElementType, element_type_of

_TRANSFORMS: dict[str, Callable[..., np.ndarray]] = {
    "FFT": np.fft.fftn,
    "IFFT": np.fft.ifftn,
    "RFFT": np.fft.rfftn,
    "IRFFT": np.fft.irfftn,
}


def _wide(a: np.ndarray) -> np.ndarray:
    x = casts.widen(a)
    if not casts.has_zero(element_type_of(a.dtype)):
        return np.array(x)  # what underflows is NaN, with f32's exponents, as it is elementwise
    return x.astype(np.complex128 if a.dtype.kind == "c" else np.float64)


def fourier(
    a: np.ndarray, kind: str, lengths: Sequence[int], shape: Sequence[int], et: ElementType
) -> np.ndarray:
    """Return the transform of the last `len(lengths)` dimensions; lengths are in the time domain.

    shape: that of the result.
    """
    if 0 in shape or 0 in a.shape:
        return np.zeros(tuple(shape), et.dtype)
    axes = tuple(range(-len(lengths), 0))
    with np.errstate(all="ignore"):
        return casts.narrow(_TRANSFORMS[kind](_wide(a), s=tuple(lengths), axes=axes), et)


def cholesky(a: np.ndarray, lower: bool, et: ElementType) -> np.ndarray:
    """Return the Cholesky factors of matrices `[..., n, n]`, zero in the other triangle.

    Only the triangle that `lower` names is read, and of the diagonal only the real part. A matrix
    that is not positive definite gives NaN throughout.
    """
    return cholesky_and_info(a, lower, et)[0]


def cholesky_and_info(a: np.ndarray, lower: bool, et: ElementType) -> tuple[np.ndarray, np.ndarray]:
    """Return what `cholesky` does, and for each matrix the order of its first leading minor that is
    not positive, 0 if there is none."""
    n = a.shape[-1]
    matrix = _wide(a)
    if not lower:
        matrix = np.conj(np.swapaxes(matrix, -1, -2))
    factor = np.zeros_like(matrix)
    info = np.zeros(matrix.shape[:-2], np.int32)
    with np.errstate(all="ignore"):
        for j in range(n):
            row = np.conj(factor[..., j, :j, None])
            column = matrix[..., j:, j] - np.matmul(factor[..., j:, :j], row)[..., 0]
            # The diagonal of a Hermitian matrix is real, whatever is stored there.
            pivot = np.real(column[..., 0])
            info = np.where((info == 0) & ~(pivot > 0), np.int32(j + 1), info)
            root = np.sqrt(pivot)
            factor[..., j:, j] = column / root[..., None]
            factor[..., j, j] = root
        factor[info != 0] = np.nan
        if not lower:
            factor = np.conj(np.swapaxes(factor, -1, -2))
        return casts.narrow(factor, et), info


def triangular_solve(
    a: np.ndarray,
    b: np.ndarray,
    *,
    left_side: bool,
    lower: bool,
    unit_diagonal: bool,
    transpose: str,
    et: ElementType,
) -> np.ndarray:
    """Return x with `op(a) x = b`, or `x op(a) = b`, by substitution; op is what `transpose` says.

    Only the triangle that `lower` names is read, and no diagonal that is taken to be one. A zero on
    the diagonal divides as floats do.
    """
    matrix, x = _wide(a), _wide(b)
    if transpose == "ADJOINT":
        matrix = np.conj(matrix)
    if (transpose != "NO_TRANSPOSE") == left_side:
        # Once for op, once more where x op(a) = b is solved as op(a)^T x^T = b^T.
        matrix, lower = np.swapaxes(matrix, -1, -2), not lower
    if not left_side:
        x = np.swapaxes(x, -1, -2)
    n = matrix.shape[-1]
    with np.errstate(all="ignore"):
        for i in range(n) if lower else reversed(range(n)):
            known = slice(0, i) if lower else slice(i + 1, n)
            if known.stop > known.start:
                x[..., i, :] -= np.matmul(matrix[..., i, None, known], x[..., known, :])[..., 0, :]
            if not unit_diagonal:
                x[..., i, :] /= matrix[..., i, i, None]
        return casts.narrow(x if left_side else np.swapaxes(x, -1, -2), et)
