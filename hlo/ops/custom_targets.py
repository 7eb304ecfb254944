"""Custom-call targets whose meaning does not depend on a library.

Most are notes to a partitioner, a layout pass or a memory planner: on one device they return their
operand. JAX's own kernels are in `jax_targets`. Any other target is a function that the user
registers with the host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hlo.errors import InferError
from hlo.ops.ffi_attributes import ffi_values
from hlo.ops.jax_targets import csr_product, tridiagonal_solve_perturbed
from hlo.ops.linalg import triangular_solve_shape
from hlo.ops.linalg_eval import cholesky_and_info, triangular_solve
from hlo.ops.outside import zeros
from hlo.ops.rules import array_operand
from hlo.ops.sorting_eval import key_order
from hlo.ops.spec import OpView
from hlo.types import S32, ArrayShape, BufferShape, Shape, TupleShape, array, compatible
from hlo.values import DynamicArray, at_bounds, with_sizes

Target = Callable[[OpView, Sequence[Any]], Any]

# Names of the annotations that the Shardy partitioner leaves begin so.
_SHARDY = "xla.sdy."


def _content(shape: Shape) -> Shape:
    return shape.element if isinstance(shape, BufferShape) else shape


def is_annotation(name: str) -> bool:
    """True for targets that return their operand as it is."""
    return name.startswith(_SHARDY) or name in _ANNOTATIONS


def need_annotation(op: OpView) -> None:
    """Raise InferError unless an annotation returns its operand, or nothing."""
    name, shapes = op.attrs["custom_call_target"], op.operand_shapes
    if op.shape == TupleShape():
        return
    if len(shapes) == 1 and compatible(_content(shapes[0]), _content(op.shape)):
        return
    raise InferError(
        f"custom-call: {name} turns ({', '.join(s.to_string(False) for s in op.operand_shapes)}) "
        f"into {op.shape.to_string(False)}: a partitioner has to expand it",
        code="unsupported-participants",
    )


def _annotation(op: OpView, args: Sequence[Any]) -> Any:
    """Return the operand; an annotation without a result returns the empty tuple."""
    need_annotation(op)
    return () if op.shape == TupleShape() else args[0]


def _first_operand(op: OpView, args: Sequence[Any]) -> Any:
    """Return the first operand; the others only say something of it."""
    return args[0]


def _fresh(op: OpView, args: Sequence[Any]) -> Any:
    """Return a new buffer; it has no stated content, here it is zeros."""
    return zeros(op.shape)


def need_top_k(op: OpView) -> tuple[ArrayShape, ArrayShape]:
    """Return the shapes of the values and positions that TopK finds. Raises InferError."""
    operand = array_operand(op, 0)
    results = op.shape.elements if isinstance(op.shape, TupleShape) else ()
    if len(results) != 2 or not all(isinstance(s, ArrayShape) and s.rank for s in results):
        raise InferError(
            f"custom-call: TopK returns values and positions, not {op.shape.to_string(False)}",
            code="bad-value",
        )
    values, positions = results
    assert isinstance(values, ArrayShape) and isinstance(positions, ArrayShape)
    k = values.dims[-1]
    wanted = (*operand.dims[:-1], k)
    if values.dims != wanted or positions.dims != wanted or k > operand.dims[-1]:
        raise InferError(
            f"custom-call: TopK of {operand.to_string(False)} does not return "
            f"{op.shape.to_string(False)}",
            code="bad-value",
        )
    return values, positions


def _top_k(op: OpView, args: Sequence[Any]) -> Any:
    """Return the largest elements of the last dimension, largest first, and their positions."""
    values, positions = need_top_k(op)
    k = values.dims[-1]
    order = key_order(args[0], descending=True, total_order=True)[..., :k]
    return np.take_along_axis(args[0], order, -1), order.astype(positions.element_type.dtype)


def _pad_to_static(op: OpView, args: Sequence[Any]) -> Any:
    """Return an array of dynamic dimensions at its bounds, and its sizes as s32 scalars."""
    value = args[0]
    sizes = value.sizes if isinstance(value, DynamicArray) else value.shape
    return at_bounds(value), *(np.asarray(n, S32.dtype) for n in sizes)


def _slice_to_dynamic(op: OpView, args: Sequence[Any]) -> Any:
    """Return an array of dynamic dimensions from its content at the bounds and its sizes."""
    data, sizes = args[0], [int(n) for n in args[1:]]
    fits = len(sizes) == data.ndim and all(
        0 <= n <= d for n, d in zip(sizes, data.shape, strict=True)
    )
    if not fits:
        raise InferError(
            f"custom-call: SliceToDynamic: sizes {sizes} do not fit into "
            f"{op.operand_shapes[0].to_string(False)}",
            code="index-out-of-range",
        )
    return with_sizes(data, sizes)


# --- triangular systems -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Triangle:
    """A solve with a triangular matrix: what `triangular-solve` has as attributes."""

    left_side: bool
    lower: bool
    unit_diagonal: bool
    transpose: str


_SOLVES = {f"lapack_{t}trsm_ffi" for t in "sdcz"}
_TRANSPOSES = {"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}


def triangle(op: OpView) -> Triangle | None:
    """Return what JAX's triangular solve asks for, None for any other target."""
    name = op.attrs["custom_call_target"]
    if name not in _SOLVES:
        return None
    return Triangle(
        _letter(op, "side", "LR") == "L", _letter(op, "uplo", "LU") == "L",
        _letter(op, "diag", "UN") == "U", _TRANSPOSES[_letter(op, "trans_x", "NTC")],
    )  # fmt: skip


def _letter(op: OpView, key: str, allowed: str) -> str:
    """Return the letter whose code is an attribute of a call. Raises InferError."""
    value = ffi_values(op).get(key)
    letter = chr(value) if isinstance(value, int) and 0 < value < 128 else ""
    if letter not in tuple(allowed):
        raise InferError(
            f"custom-call: {op.attrs['custom_call_target']}: {key} is {value!r}, the code of one "
            f"of {', '.join(allowed)} is needed",
            code="bad-value",
        )
    return letter


def _triangular_solve(op: OpView, args: Sequence[Any]) -> Any:
    """Solve as LAPACK's trsm does; no library is needed for it."""
    solve = triangle(op)
    assert solve is not None
    triangular_solve_shape(op, solve.left_side)
    return triangular_solve(
        args[0], args[1], left_side=solve.left_side, lower=solve.lower,
        unit_diagonal=solve.unit_diagonal, transpose=solve.transpose,
        et=array_operand(op, 1).element_type,
    )  # fmt: skip


# --- Cholesky factors ---------------------------------------------------------------------------

_FACTORS = {f"lapack_{t}potrf_ffi" for t in "sdcz"}


@dataclass(frozen=True, slots=True)
class Factor:
    """A Cholesky factorization as LAPACK has it: of matrices of this shape, in which triangle."""

    shape: ArrayShape
    lower: bool


def factor(op: OpView) -> Factor | None:
    """Return what a call of LAPACK's potrf asks for, None for any other target.

    Raises InferError for shapes and attributes that the routine does not take.
    """
    name = op.attrs["custom_call_target"]
    if name not in _FACTORS:
        return None
    shape = array_operand(op, 0)
    if len(op.operand_shapes) != 1 or shape.rank < 2 or shape.dims[-1] != shape.dims[-2]:
        raise InferError(
            f"custom-call: {name}: one array of square matrices is needed, "
            f"{shape.to_string(False)} is no such", operand=0, code="bad-value",
        )  # fmt: skip
    if _LETTERS.get(shape.element_type.name) != name[len("lapack_")]:
        raise InferError(
            f"custom-call: {name} on {shape.to_string(False)}: the type is not the routine's",
            operand=0, code="bad-value",
        )  # fmt: skip
    result = TupleShape((shape, array(S32, shape.dims[:-2])))
    if not compatible(result, op.shape):
        raise InferError(
            f"custom-call: {name} returns {result.to_string(False)}, not "
            f"{op.shape.to_string(False)}", code="bad-value",
        )  # fmt: skip
    return Factor(shape, _letter(op, "uplo", "LU") == "L")


_LETTERS = {"f32": "s", "f64": "d", "c64": "c", "c128": "z"}


def _potrf(op: OpView, args: Sequence[Any]) -> Any:
    """Factor as LAPACK's potrf does: the other triangle stays, the second result is its `info`."""
    wanted = factor(op)
    assert wanted is not None
    (a,) = args
    found, info = cholesky_and_info(a, wanted.lower, wanted.shape.element_type)
    triangle = np.tri(a.shape[-1], dtype=np.bool_)
    return np.where(triangle if wanted.lower else triangle.T, found, a), info


_ANNOTATIONS = frozenset(
    {
        "Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "InspectSharding",
        "AssumeGatherIndicesInBound", "LayoutConstraint", "annotate_device_placement",
        "MoveToHost", "MoveToDevice", "PinToDevice", "PinToDeviceSram", "Pin", "Unpin",
        "dce_sink",
    }
)  # fmt: skip
_TARGETS: dict[str, Target] = {
    **dict.fromkeys(_ANNOTATIONS, _annotation),
    **dict.fromkeys(_SOLVES, _triangular_solve),
    **dict.fromkeys(_FACTORS, _potrf),
    "SetBound": _first_operand,
    "AllocateBuffer": _fresh,
    "CreateBuffer": _fresh,
    "TopK": _top_k,
    "PadToStatic": _pad_to_static,
    "SliceToDynamic": _slice_to_dynamic,
    "cpu_csr_sparse_dense_ffi": csr_product,
    "tridiagonal_solve_perturbed_ffi": tridiagonal_solve_perturbed,
}


def builtin_targets() -> list[str]:
    """Return the names of all targets that need no library."""
    return list(_TARGETS)


def builtin_target(name: str) -> Target | None:
    """Return the meaning of a target that needs no library, or None."""
    return _annotation if name.startswith(_SHARDY) else _TARGETS.get(name)
