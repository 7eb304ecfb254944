"""Triangular solves of cuBLAS and Cholesky factors of cuSOLVER.

Source: XLA's triangular_solve_rewriter.cc and gpusolver_rewriter.cc.
"""

from __future__ import annotations

from hlo.ir import Computation
from hlo.library_calls.call import Call, library_call
from hlo.values.types import S32, array

_TRANSPOSES = ("TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")


@library_call("__cublas$triangularSolve", section="triangular_solve_options")
def _triangular_solve(c: Call) -> Computation:
    c.need_operands(2)
    transpose = c.config.choice("transpose_a", _TRANSPOSES)
    solved = c.op(
        "triangular-solve", c.plain(0), c.plain(1), left_side=c.config.flag("left_side"),
        lower=c.config.flag("lower"), unit_diagonal=c.config.flag("unit_diagonal"),
        transpose_a="NO_TRANSPOSE" if transpose == "TRANSPOSE_INVALID" else transpose,
    )  # fmt: skip
    return c.done(solved)


@library_call("__cusolver$cholesky", section="cholesky_options")
def _cholesky(c: Call) -> Computation:
    """The factor, scratch memory in the type of the matrix, and per matrix 0 or, without one, 1."""
    c.need_operands(1)
    if len(c.wanted) != 3:
        raise c.wrong("returns a factor, scratch memory and whether it failed", "shape-mismatch")
    factor = c.op("cholesky", c.plain(0), lower=c.config.flag("lower"))
    shape = factor.array_shape
    corner = factor
    for dim in (shape.rank - 2, shape.rank - 1):
        corner = c.sliced(corner, dim, 0, min(1, shape.dims[dim]))
    if not corner.array_shape.num_elements:
        failed = c.filled(S32, shape.dims[:-2], 0)
    else:
        if shape.element_type.is_complex:
            corner = c.op("real", corner)
        # A matrix without a factor becomes NaN as a whole.
        corner = c.reshape(corner, shape.dims[:-2])
        failed = c.convert(c.compare(corner, corner, "NE"), S32)
    scratch = c.zeros(array(shape.element_type, c.wanted[1].dims))
    return c.done(factor, scratch, failed)
