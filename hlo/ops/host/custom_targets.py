"""Built-in custom-call targets: one declaration each, like operations.

Most are annotations for a partitioner, a layout pass or a memory planner: on one device they
return their operand. JAX's own kernels are in `jax_targets`, the signatures of LAPACK's in
`lapack_targets`. Any other target is a function that the user registers with the host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hlo.errors import InferError
from hlo.ops.contract.linalg_eval import cholesky_and_info, triangular_solve
from hlo.ops.factors import FactorRule, Factors, Rule, forwarded, structural, whole
from hlo.ops.host.jax_targets import (
    csr_product,
    need_csr_product,
    need_tridiagonal_solve,
    tridiagonal_solve_perturbed,
)
from hlo.ops.host.lapack_targets import is_lapack, lapack_targets, letter_of, routine
from hlo.ops.host.outside import zeros
from hlo.ops.host.sharding_rules import CUSTOM_PARTITIONING, rule_in_text
from hlo.ops.reduce.factors import top_k
from hlo.ops.reduce.sorting_eval import key_order
from hlo.ops.rules import (
    array_operand,
    array_result,
    need_compatible,
    need_memory,
    need_type,
    unbuffered,
)
from hlo.ops.spec import OpView
from hlo.values.arrays import DynamicArray, with_sizes, zero_padded
from hlo.values.types import S32, UNBOUNDED, ArrayShape, TupleShape, array, compatible

Target = Callable[[OpView, Sequence[Any]], Any]

# Names of the annotations that the Shardy partitioner leaves begin so.
_SHARDY = "xla.sdy."


def is_annotation(name: str) -> bool:
    """True for targets that return their operand as it is."""
    return name.startswith(_SHARDY) or name in _ANNOTATIONS | _SHARDINGS


def need_annotation(op: OpView) -> None:
    """Raise InferError unless an annotation returns its operand, or nothing."""
    name, shapes = op.custom_call_target, op.operand_shapes
    if op.shape == TupleShape():
        return
    if len(shapes) == 1 and compatible(unbuffered(shapes[0]), unbuffered(op.shape)):
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
    """Return the first operand; the others only annotate it."""
    return args[0]


def _need_bounded(op: OpView) -> None:
    """Check that there is an operand, and that the result is of its shape."""
    _need_operands(op, 1)
    need_compatible(op, op.shape, op.operand_shapes[0], "SetBound returns its operand")


def _need_operands(op: OpView, count: int) -> None:
    if len(op.operand_shapes) != count:
        raise InferError(
            f"custom-call: {op.custom_call_target} takes {count} operands here, not "
            f"{len(op.operand_shapes)}",
            code="operand-count",
        )


def _fresh(op: OpView, args: Sequence[Any]) -> Any:
    """Return a new buffer; its content is unspecified, here zeros."""
    need_memory(op, unbuffered(op.shape))
    return zeros(op.shape)


def need_top_k(op: OpView) -> tuple[ArrayShape, ArrayShape]:
    """Return the shapes of the values and positions that TopK finds. Raises InferError."""
    _need_operands(op, 1)
    operand = need_type(op, 0, lambda t: not t.is_complex, "a type with an order")
    results = op.shape.elements if isinstance(op.shape, TupleShape) else ()
    if len(results) != 2 or not all(isinstance(s, ArrayShape) and s.rank for s in results):
        raise InferError(
            f"custom-call: TopK returns values and positions, not {op.shape.to_string(False)}",
            code="bad-value",
        )
    values, positions = results
    assert isinstance(values, ArrayShape) and isinstance(positions, ArrayShape)
    k = values.dims[-1]
    wanted = operand.dims and (*operand.dims[:-1], k)
    if (
        values.dims != wanted or positions.dims != wanted
        or (k > operand.dims[-1] and operand.dims[-1] != UNBOUNDED)
        or values.element_type is not operand.element_type or positions.element_type is not S32
    ):  # fmt: skip
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


def _need_pad_to_static(op: OpView) -> None:
    """Check that the result is the array padded to its bounds, with an s32 size for each
    dimension."""
    _need_operands(op, 1)
    operand = array_operand(op, 0)
    data = array(operand.element_type, operand.dims)
    need_compatible(
        op, op.shape, TupleShape((data, *[array(S32, ())] * operand.rank)),
        f"PadToStatic of {operand.to_string(False)} and what it returns",
    )  # fmt: skip


def _pad_to_static(op: OpView, args: Sequence[Any]) -> Any:
    """Return an array padded to its bounds, and its sizes as s32 scalars.

    Padding is zero.
    """
    value = args[0]
    sizes = value.sizes if isinstance(value, DynamicArray) else value.shape
    return zero_padded(value), *(np.asarray(n, S32.dtype) for n in sizes)


def _need_slice_to_dynamic(op: OpView) -> None:
    """Check that an array comes with an s32 scalar for each of the result's dimensions.

    The result may have other bounds, as in XLA: then no size may be above those of either side.
    Of a static dimension of the result the size has to be that very one, which a run finds out.
    """
    result = array_result(op)
    _need_operands(op, 1 + result.rank)
    data = array_operand(op, 0)
    fits = data.rank == result.rank and all(
        result.is_dynamic_dim(i) or result.dims[i] <= d for i, d in enumerate(data.dims)
    )
    if data.is_dynamic or not fits or data.element_type != result.element_type:
        raise InferError(
            f"custom-call: SliceToDynamic of {data.to_string(False)} does not return "
            f"{result.to_string(False)}",
            code="shape-mismatch",
        )
    for n in range(1, 1 + result.rank):
        if not compatible(op.operand_shapes[n], array(S32, ())):
            raise InferError(
                f"custom-call: SliceToDynamic: operand {n} is "
                f"{op.operand_shapes[n].to_string(False)}, a size is s32[]",
                operand=n, code="type-mismatch",
            )  # fmt: skip


def _slice_to_dynamic(op: OpView, args: Sequence[Any]) -> Any:
    """Return an array of dynamic dimensions from its content at the bounds and its sizes."""
    data, sizes = args[0], [int(n) for n in args[1:]]
    result = array_result(op)
    bounds = [d if b == UNBOUNDED else b for d, b in zip(data.shape, result.dims, strict=True)]
    least = list(map(min, data.shape, bounds))
    if not all(0 <= n <= d for n, d in zip(sizes, least, strict=True)):
        raise InferError(
            f"custom-call: SliceToDynamic: sizes {sizes} do not fit into "
            f"{op.operand_shapes[0].to_string(False)} and {result.to_string(False)}",
            code="index-out-of-range",
        )
    for dim, n in enumerate(sizes):
        if not result.is_dynamic_dim(dim) and n != result.dims[dim]:
            raise InferError(
                f"custom-call: SliceToDynamic: the size of dimension {dim} is {n}; "
                f"{result.to_string(False)} has {result.dims[dim]}, static",
                code="index-out-of-range",
            )
    need_memory(op, array(result.element_type, bounds))
    if list(data.shape) != bounds:
        there = tuple(slice(0, n) for n in least)
        data, content = np.zeros(bounds, data.dtype), data[there]
        data[there] = content
    return with_sizes(data, sizes)


# --- LAPACK -------------------------------------------------------------------------------------

_TRANSPOSES = {"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}


@dataclass(frozen=True, slots=True)
class Triangle:
    """A solve with a triangular matrix: what `triangular-solve` has as attributes."""

    left_side: bool
    lower: bool
    unit_diagonal: bool
    transpose: str


def triangle(op: OpView) -> Triangle | None:
    """Return the parameters of JAX's triangular solve, None for any other target."""
    if not is_lapack(op.custom_call_target) or routine(op).name != "trsm":
        return None
    return Triangle(
        letter_of(op, "side", "LR") == "L", letter_of(op, "uplo", "LU") == "L",
        letter_of(op, "diag", "UN") == "U", _TRANSPOSES[letter_of(op, "trans_x", "NTC")],
    )  # fmt: skip


def _triangular_solve(op: OpView, args: Sequence[Any]) -> Any:
    """Solve as LAPACK's trsm does; no library is needed for it."""
    solve = triangle(op)
    assert solve is not None
    return triangular_solve(
        args[0], args[1], left_side=solve.left_side, lower=solve.lower,
        unit_diagonal=solve.unit_diagonal, transpose=solve.transpose,
        et=array_operand(op, 1).element_type,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Factor:
    """A Cholesky factorization as LAPACK has it: of matrices of this shape, in which triangle."""

    shape: ArrayShape
    lower: bool


def factor(op: OpView) -> Factor | None:
    """Return the parameters of LAPACK's potrf, None for any other target.

    Raises InferError for shapes and attributes that the routine does not take.
    """
    if not is_lapack(op.custom_call_target) or routine(op).name != "potrf":
        return None
    return Factor(array_operand(op, 0), letter_of(op, "uplo", "LU") == "L")


def _potrf(op: OpView, args: Sequence[Any]) -> Any:
    """Factor as LAPACK's potrf does: the other triangle stays, the second result is its `info`."""
    wanted = factor(op)
    assert wanted is not None
    (a,) = args
    found, info = cholesky_and_info(a, wanted.lower, wanted.shape.element_type)
    triangle = np.tri(a.shape[-1], dtype=np.bool_)
    return np.where(triangle if wanted.lower else triangle.T, found, a), info


def _routine_factors(op: OpView) -> FactorRule:
    """Return the rule of a routine: it runs on each matrix of a batch."""
    rule, batch = Rule(op), len(routine(op).batch)
    rule.pointwise(range(batch), rule.operands, rule.results)
    return rule.done("LAPACK's routine takes whole matrices")


def _bound_factors(op: OpView) -> FactorRule:
    rule = Rule(op)
    rule.pointwise(range(array_result(op).rank))
    return rule.done()


def _given_factors(op: OpView) -> FactorRule:
    return rule_in_text(op) or _UNDECLARED(op)


_UNDECLARED = whole("what a part of it computes is not declared")
_UNKNOWN = whole("nothing is known of its target")
_ANNOTATIONS = frozenset(
    {
        "AssumeGatherIndicesInBound", "LayoutConstraint", "annotate_device_placement",
        "MoveToHost", "MoveToDevice", "PinToDevice", "PinToDeviceSram", "Pin", "Unpin",
        "control_dep", "dce_sink",
    }
)  # fmt: skip
_SHARDINGS = frozenset(
    {
        "Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "InspectSharding",
        "ShardBarrierFrom", "ShardBarrierTo",
    }
)  # fmt: skip
# The name under which code generation has memory that holds nothing yet; programs may not.
UNINITIALIZED = "hlo.uninitialized"
# Of a size and its bound: ends a compiled program where the size is outside; says so in its
# `backend_config`.
CHECK_SIZE = "hlo.check_size"
# The end of a collective that only starts elsewhere: see `hlo.analysis.started`.
WAIT = "hlo.wait"


@dataclass(frozen=True, slots=True)
class CustomTarget:
    """A target that is known.

    verify: raises InferError unless operands, result and attributes fit. evaluate: its meaning;
    None where the host has it. factors: which dimensions are one index.
    """

    verify: Callable[[OpView], object]
    evaluate: Target | None = None
    factors: Factors = _UNDECLARED


# A partitioner may change the shape of an annotated value: that is an error only in a run.
_ANNOTATION = CustomTarget(
    lambda op: None, _annotation, forwarded("each element of the tuple is handed on")
)
_SHARDING = CustomTarget(
    lambda op: None, _annotation, structural("it tells how its operand is distributed")
)
_TARGETS: dict[str, CustomTarget] = {
    **dict.fromkeys(_ANNOTATIONS, _ANNOTATION),
    **dict.fromkeys(_SHARDINGS, _SHARDING),
    **dict.fromkeys(lapack_targets(), CustomTarget(routine, factors=_routine_factors)),
    **dict.fromkeys(
        (f"lapack_{t}trsm_ffi" for t in "sdcz"),
        CustomTarget(routine, _triangular_solve, _routine_factors),
    ),
    **dict.fromkeys(
        (f"lapack_{t}potrf_ffi" for t in "sdcz"), CustomTarget(routine, _potrf, _routine_factors)
    ),
    CUSTOM_PARTITIONING: CustomTarget(rule_in_text, factors=_given_factors),
    "SetBound": CustomTarget(_need_bounded, _first_operand, _bound_factors),
    "AllocateBuffer": CustomTarget(lambda op: None, _fresh),
    "CreateBuffer": CustomTarget(lambda op: None, _fresh),
    "TopK": CustomTarget(need_top_k, _top_k, top_k),
    "PadToStatic": CustomTarget(_need_pad_to_static, _pad_to_static),
    "SliceToDynamic": CustomTarget(_need_slice_to_dynamic, _slice_to_dynamic),
    "cpu_csr_sparse_dense_ffi": CustomTarget(need_csr_product, csr_product),
    "tridiagonal_solve_perturbed_ffi": CustomTarget(
        need_tridiagonal_solve, tridiagonal_solve_perturbed
    ),
}


def builtin_targets() -> list[str]:
    """Return the names of all targets that need no library."""
    return [name for name, target in _TARGETS.items() if target.evaluate is not None]


def builtin_target(name: str) -> Target | None:
    """Return the declaration of a target that needs no library, or None."""
    known = _known(name)
    return known.evaluate if known is not None else None


def is_declared(name: str) -> bool:
    """Return whether it is known what calls of a target do."""
    return _known(name) is not None


def verify_target(op: OpView) -> None:
    """Raise InferError if a custom call does not fit its target, as far as that is known."""
    known = _known(op.custom_call_target)
    if known is not None:
        known.verify(op)


def _known(name: str) -> CustomTarget | None:
    return _SHARDING if name.startswith(_SHARDY) else _TARGETS.get(name)


def target_factors(op: OpView) -> FactorRule:
    """Return the factor rule of a custom call, which is that of its target."""
    known = _known(op.custom_call_target)
    return (known.factors if known is not None else _UNKNOWN)(op)
