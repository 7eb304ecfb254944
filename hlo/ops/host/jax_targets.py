"""Custom calls that JAX makes on CPU for kernels of its own, and what it calls elsewhere.

They are written in numpy, so they need no library. LAPACK's are declared in `lapack_targets`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hlo.errors import InferError
from hlo.ops.spec import OpView
from hlo.values.types import ArrayShape


def _fail(op: OpView, message: str, code: str = "bad-value") -> InferError:
    return InferError(f"custom-call: {op.custom_call_target}: {message}", code=code)


def _arrays(op: OpView, count: int) -> tuple[ArrayShape, ...]:
    """Return the shapes of operands and result, all arrays. Raises InferError."""
    shapes = (*op.operand_shapes, op.shape)
    if len(shapes) != count + 1 or not all(
        isinstance(s, ArrayShape) and not s.is_dynamic for s in shapes
    ):
        raise _fail(op, f"{count} arrays of static size are needed, and one is returned")
    return shapes  # type: ignore[return-value]


def _said(shapes: Sequence[ArrayShape]) -> str:
    *operands, result = (s.to_string(False) for s in shapes)
    return f"({', '.join(operands)}) -> {result} does not fit"


# --- sparse matrices ----------------------------------------------------------------------------


def need_csr_product(op: OpView) -> tuple[ArrayShape, ...]:
    """Return the shapes of operands and result of a sparse product. Raises InferError."""
    shapes = _arrays(op, 4)
    values, starts, columns, dense, result = shapes
    if (
        [s.rank for s in shapes[:3]] != [1, 1, 1] or dense.rank not in (1, 2)
        or values.dims != columns.dims or not starts.dims[0]
        or not values.element_type == dense.element_type == result.element_type
        or any(s.element_type.dtype.kind not in "iu" for s in (starts, columns))
        or result.dims != (starts.dims[0] - 1, *dense.dims[1:])
    ):  # fmt: skip
        raise _fail(op, _said(shapes), "shape-mismatch")
    return shapes


def csr_product(op: OpView, args: Sequence[Any]) -> Any:
    """Multiply a sparse matrix by a dense vector or matrix.

    args: values [n], where rows start [rows + 1], columns of the values [n], what to multiply.
    """
    shapes = need_csr_product(op)
    values, starts, columns, dense = args
    counts = np.diff(starts.astype(np.int64))
    used = int(counts.sum())
    if (starts.size and starts[0] != 0) or np.any(counts < 0) or used > len(values):
        raise _fail(op, f"rows start at {starts}, of {len(values)} values", "index-out-of-range")
    at = columns[:used].astype(np.int64)
    if np.any((at < 0) | (at >= len(dense))):
        raise _fail(op, f"a column is outside [0, {len(dense)})", "index-out-of-range")
    dtype = shapes[4].element_type.dtype
    wide = dtype if dtype.kind in "iub" else np.result_type(np.float64, dtype)
    scale = values[:used].astype(wide).reshape(-1, *[1] * (dense.ndim - 1))
    result = np.zeros(shapes[4].dims, wide)
    with np.errstate(all="ignore"):
        np.add.at(result, np.repeat(np.arange(len(counts)), counts), scale * dense.astype(wide)[at])
        return result.astype(dtype)


# --- tridiagonal systems ------------------------------------------------------------------------


def need_tridiagonal_solve(op: OpView) -> tuple[ArrayShape, ...]:
    """Return the shapes of operands and result of a tridiagonal solve. Raises InferError."""
    shapes = _arrays(op, 4)
    dims = shapes[3].dims
    fits = (
        len(dims) >= 2 and shapes[4].dims == dims and all(s.dims == dims[:-1] for s in shapes[:3])
    )
    types = {s.element_type for s in shapes}
    if not fits or len(types) != 1 or shapes[4].element_type.dtype not in ("f4", "f8", "c8", "c16"):
        raise _fail(op, _said(shapes), "shape-mismatch")
    return shapes


def tridiagonal_solve_perturbed(op: OpView, args: Sequence[Any]) -> Any:
    """Solve tridiagonal systems that may be singular, as LAPACK's lagtf and lagts do.

    args: lower, main and upper diagonal [..., n], right-hand sides [..., n, k]. Pivots that are too
    small to divide by grow by about epsilon times the largest element of the upper factor.
    """
    dims = need_tridiagonal_solve(op)[3].dims
    n, k = dims[-2:]
    lower, main, upper = (np.reshape(a, (-1, n)) for a in args[:3])
    x = np.reshape(args[3], (len(main), n, k)).copy()
    if x.size:
        with np.errstate(all="ignore"):
            upper = np.where(np.arange(n) < n - 1, upper, upper.dtype.type(0))
            factor, pivot_step = _eliminate(lower, main, upper, x)
            _substitute(factor, pivot_step, x)
    return x.reshape(dims)


def _eliminate(
    lower: np.ndarray, main: np.ndarray, upper: np.ndarray, x: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Bring systems [count, n] into upper triangular form, and `x` along with them.

    Returns the factor's three diagonals [count, n, 3], and by how much small pivots may be changed.
    """
    count, n = main.shape
    u = np.zeros((count, n, 3), main.dtype)
    u[:, 0, 0], u[:, 0, 1] = main[:, 0], upper[:, 0]
    start = np.abs(u[:, 0]).max(-1)
    scale = np.abs(u[:, 0]).sum(-1)
    zero = np.zeros_like(main[:, 0])
    for i in range(n - 1):
        here = u[:, i].copy()
        below = np.stack([lower[:, i + 1], main[:, i + 1], upper[:, i + 1]], -1)
        scale_below = np.abs(below).sum(-1)
        pivot = np.where(here[:, 0] == 0, 0, np.abs(here[:, 0]) / scale)
        # Rows change places where the one below has the larger first element for its size.
        swap = (below[:, 0] != 0) & (np.abs(below[:, 0]) / scale_below > pivot)
        top = np.where(swap[:, None], below, here)
        rest = np.where(swap[:, None], here, below)
        by = np.where(rest[:, 0] == 0, zero, rest[:, 0] / top[:, 0])
        u[:, i] = top
        u[:, i + 1, :2] = rest[:, 1:] - by[:, None] * top[:, 1:]
        scale = np.where(swap, np.abs(u[:, i + 1]).sum(-1), scale_below)
        upper_x = np.where(swap[:, None], x[:, i + 1], x[:, i])
        lower_x = np.where(swap[:, None], x[:, i], x[:, i + 1])
        x[:, i], x[:, i + 1] = upper_x, lower_x - by[:, None] * upper_x
    # All rows but the last but one count, as in JAX.
    parts = (np.abs(u[:, : max(0, n - 2)]).reshape(count, -1), start[:, None], np.abs(u[:, -1, :1]))
    return u, np.finfo(main.dtype).eps * np.concatenate(parts, -1).max(-1)


def _substitute(u: np.ndarray, step: np.ndarray, x: np.ndarray) -> None:
    """Solve upper triangular systems in place, last row first."""
    n = u.shape[1]
    for i in range(n - 1, -1, -1):
        row = x[:, i]
        for offset in range(1, min(3, n - i)):
            row = row - u[:, i, offset, None] * x[:, i + offset]
        pivot, row = _safe(u[:, i, 0], row, step)
        x[:, i] = row * (1 / pivot)[:, None]


def _safe(pivot: np.ndarray, row: np.ndarray, step: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return pivots and rows so that their quotients do not overflow."""
    tiny = np.finfo(pivot.dtype).tiny
    big = 1 / tiny
    step = np.copysign(np.maximum(step, tiny), pivot.real)
    largest, size = np.abs(row).max(-1), np.abs(pivot)
    active = size < 1
    while active.any():
        small = size < tiny
        over = np.where(small, (size == 0) | (largest * tiny > size), largest > size * big)
        grow, rescale = active & over, active & small & ~over
        pivot = np.where(grow, pivot + step, np.where(rescale, pivot * big, pivot))
        row = np.where(rescale[:, None], row * big, row)
        step = np.where(grow, 2 * step, step)
        size = np.abs(pivot)
        active = grow & (size < 1)
    return pivot, row


# --- elsewhere ----------------------------------------------------------------------------------

_OTHER_DEVICES = (
    "__cufft$", "__triton", "cublas_", "cudnn",
    "cusolver_", "cusparse_", "hipblas_", "hipsolver_", "hipsparse_", "mosaic_gpu",
    "tpu_custom_call",
)  # fmt: skip


def foreign_target(name: str) -> str | None:
    """Return what to do about a target that no function outside its device can be."""
    if name.startswith(_OTHER_DEVICES):
        return (
            "it is code for another device: export the module for CPU, or give its function: "
            "hlo-run --load FILE (.so or .py), Host(custom_calls=...) in Python"
        )
    return None
