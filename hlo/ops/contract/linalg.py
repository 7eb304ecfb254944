"""fft, cholesky and triangular-solve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hlo.errors import InferError
from hlo.ops.attrs import BOOL, INTS, Attr, enum, need
from hlo.ops.contract.factors import triangular_solve as triangular_solve_factors
from hlo.ops.contract.linalg_eval import cholesky, fourier, triangular_solve
from hlo.ops.factors import FactorRule, batched
from hlo.ops.rules import array_operand, need_memory, need_same_type, need_type
from hlo.ops.spec import Category, EvalContext, OpSpec, OpView, Trait, register
from hlo.values.types import UNBOUNDED, ArrayShape, ElementType, array, complex_of, complex_part

# --- rules --------------------------------------------------------------------------------------


def _differ(a: int, b: int) -> bool:
    return a != b and UNBOUNDED not in (a, b)


def _infer_fft(op: OpView) -> ArrayShape:
    kind, lengths = op.fft_type, op.fft_length
    if kind == "RFFT":
        shape = need_type(op, 0, lambda t: t.name in ("f32", "f64"), "f32 or f64")
    else:
        shape = need_type(op, 0, lambda t: t.is_complex, "a complex type")
    rank = len(lengths)
    if not 1 <= rank <= 3:
        raise InferError(
            f"{op.opcode}: fft_length has {rank} dimensions, 1 to 3 are supported",
            attr="fft_length", code="bad-value",
        )  # fmt: skip
    if shape.rank < rank:
        raise InferError(
            f"{op.opcode}: fft_length has {rank} dimensions, the operand "
            f"{shape.to_string(False)} has {shape.rank}",
            operand=0,
        )
    wanted = list(lengths)
    if any(n < 0 for n in wanted):
        raise InferError(
            f"{op.opcode}: fft_length {{{','.join(map(str, lengths))}}} has a negative length",
            attr="fft_length", code="bad-value",
        )  # fmt: skip
    dims = list(shape.dims)
    # An empty dimension stays empty, also where half of a transform is left out.
    half = wanted[-1] // 2 + 1 if wanted[-1] else 0
    if kind == "IRFFT":
        wanted[-1] = dims[-1] if dims[-1] == 0 == half else lengths[-1] // 2 + 1
    for at, n in zip(range(shape.rank - rank, shape.rank), wanted, strict=True):
        if _differ(dims[at], n):
            raise InferError(
                f"{op.opcode}: dimension {at} of {shape.to_string(False)} has size {dims[at]}, "
                f"{kind} with fft_length {{{','.join(map(str, lengths))}}} needs {n}",
                attr="fft_length",
            )
    et: ElementType = shape.element_type
    if kind == "RFFT":
        et, dims[-1] = complex_of(et), half
    elif kind == "IRFFT":
        et, dims[-1] = complex_part(et), lengths[-1]
    dynamic = list(shape.dynamic)
    if dynamic and dims[-1] != shape.dims[-1]:
        dynamic[-1] = False
    return array(et, dims, dynamic)


def _square(op: OpView) -> ArrayShape:
    """Return the shape of operand 0: square matrices of floats or complex numbers."""
    shape = need_type(
        op, 0, lambda t: t.is_float or t.is_complex, "a floating-point or complex type"
    )
    if shape.rank < 2 or _differ(*shape.dims[-2:]):
        raise InferError(
            f"{op.opcode}: operand 0 has shape {shape.to_string(False)}, "
            "square matrices [..., n, n] are needed",
            operand=0,
        )
    return shape


def _infer_cholesky(op: OpView) -> ArrayShape:
    a = _square(op)
    return array(a.element_type, a.dims, a.dynamic)


def triangular_solve_shape(op: OpView, left_side: bool) -> ArrayShape:
    """Return the shape of x in `a x = b`, or in `x a = b`. Raises InferError."""
    if len(op.operand_shapes) != 2:
        raise InferError(
            f"{op.opcode}: a solve takes 2 operands, not {len(op.operand_shapes)}",
            code="operand-count",
        )
    a, b = _square(op), array_operand(op, 1)
    need_same_type(op, 0, 1)
    shared = -2 if left_side else -1
    if a.rank != b.rank:
        raise InferError(
            f"{op.opcode}: operands differ in rank: {a.to_string(False)}, {b.to_string(False)}",
            operand=1,
        )
    if _differ(a.dims[-1], b.dims[shared]):
        raise InferError(
            f"{op.opcode}: dimension {b.rank + shared} of operand 1 {b.to_string(False)} has size "
            f"{b.dims[shared]}, operand 0 {a.to_string(False)} needs {a.dims[-1]}",
            operand=1,
        )
    if any(map(_differ, a.dims[:-2], b.dims[:-2])):
        raise InferError(
            f"{op.opcode}: operands differ in batch dimensions: "
            f"{a.to_string(False)}, {b.to_string(False)}",
            operand=1,
        )
    return array(b.element_type, b.dims, b.dynamic)


def _infer_triangular_solve(op: OpView) -> ArrayShape:
    return triangular_solve_shape(op, op.left_side)


# --- evaluation ---------------------------------------------------------------------------------


def _need_room(op: OpView, *args: np.ndarray) -> ArrayShape:
    assert isinstance(op.shape, ArrayShape)
    # Operands and result stand in f64 or c128 while the result is computed.
    wide = 16 if any(a.dtype.kind == "c" for a in args) or op.shape.element_type.is_complex else 8
    size = op.shape.num_elements + sum(a.size for a in args)
    need_memory(op, op.shape, scratch_bytes=wide * size)
    return op.shape


def _fft(op: OpView, args: Sequence[Any], ctx: EvalContext) -> np.ndarray:
    shape = _need_room(op, *args)
    kind, lengths = op.fft_type, op.fft_length
    return fourier(args[0], kind, lengths, shape.dims, shape.element_type)


def _cholesky(op: OpView, args: Sequence[Any], ctx: EvalContext) -> np.ndarray:
    return cholesky(args[0], op.lower, _need_room(op, *args).element_type)


def _triangular_solve(op: OpView, args: Sequence[Any], ctx: EvalContext) -> np.ndarray:
    return triangular_solve(
        args[0],
        args[1],
        left_side=op.left_side,
        lower=op.lower,
        unit_diagonal=op.unit_diagonal,
        transpose=op.transpose_a,
        et=_need_room(op, *args).element_type,
    )


# --- factors ------------------------------------------------------------------------------------


def _factors_of_fft(op: OpView) -> FactorRule:
    return batched(len(op.fft_length), "each element depends on all that are transformed")(op)


# --- declarations -------------------------------------------------------------------------------

register(
    OpSpec(
        name="fft",
        arity=1,
        attrs={
            "fft_type": need(enum("FFT", "IFFT", "RFFT", "IRFFT")),
            "fft_length": need(INTS),
        },
        infer=_infer_fft,
        evaluate=_fft,
        category=Category.LINALG,
        traits=Trait.INFERABLE | Trait.KEEPS_LAYOUT | Trait.REREADS,
        source='"Fft" (003); XLA service/shape_inference.cc',
        examples=(
            "c64[3,8] fft(c64[3,8] a), fft_type=FFT, fft_length={8}",
            "c64[4,3] fft(f32[4,4] a), fft_type=RFFT, fft_length={4,4}",
            "f64[2,5] fft(c128[2,3] a), fft_type=IRFFT, fft_length={5}",
        ),
        factors=_factors_of_fft,
    )
)

register(
    OpSpec(
        name="cholesky",
        arity=1,
        attrs={"lower": Attr(BOOL, default=False)},
        infer=_infer_cholesky,
        evaluate=_cholesky,
        category=Category.LINALG,
        traits=Trait.INFERABLE | Trait.KEEPS_LAYOUT,
        source='"Cholesky" (003); failure and the other triangle as in XLA\'s CPU backend',
        examples=("f32[2,3,3] cholesky(f32[2,3,3] a), lower=true",),
        factors=batched(2, "an element depends on all that are computed before it"),
    )
)

register(
    OpSpec(
        name="triangular-solve",
        arity=2,
        attrs={
            "left_side": Attr(BOOL, default=False),
            "lower": Attr(BOOL, default=False),
            "unit_diagonal": Attr(BOOL, default=False),
            "transpose_a": need(enum("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")),
        },
        infer=_infer_triangular_solve,
        evaluate=_triangular_solve,
        category=Category.LINALG,
        traits=Trait.INFERABLE | Trait.KEEPS_LAYOUT,
        source='"TriangularSolve" (003); XLA service/shape_inference.cc',
        examples=(
            "f32[2,3,4] triangular-solve(f32[2,3,3] a, f32[2,3,4] b), left_side=true, "
            "lower=true, transpose_a=NO_TRANSPOSE",
            "c64[4,3] triangular-solve(c64[3,3] a, c64[4,3] b), unit_diagonal=true, "
            "transpose_a=ADJOINT",
        ),
        factors=triangular_solve_factors,
    )
)
