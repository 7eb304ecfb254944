"""dot, ragged-dot and scaled-dot: sums of products over matching dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hlo.errors import InferError
from hlo.ops.attrs import INTS, PRECISIONS, Attr, enum
from hlo.ops.attrs.operand_configs import BLOCK_SCALING_CONFIG, SPARSITY_CONFIG
from hlo.ops.contract import factors as rules
from hlo.ops.contract.contraction_eval import (
    DotDims,
    Products,
    contract,
    ragged_contract,
    ragged_prefix,
    scale_blocks,
)
from hlo.ops.contract.operand_configs import (
    add_products,
    dense_operand,
    factors,
    need_configured_operands,
    need_dense,
)
from hlo.ops.rules import (
    array_operand,
    higher_precision,
    need_dims,
    need_memory,
    need_one_dim,
    need_type,
)
from hlo.ops.spec import Category, EvalContext, OpSpec, OpView, Trait, register
from hlo.values.types import UNBOUNDED, ArrayShape, ElementType, array

# Arithmetic that hardware may use instead. A hint: the reference computes exactly.
ALGORITHM = enum(
    "unset",
    "dot_any_f8_any_f8_f32",
    "dot_any_f8_any_f8_f32_fast_accum",
    "dot_f16_f16_f16",
    "dot_f16_f16_f32",
    "dot_bf16_bf16_bf16",
    "dot_bf16_bf16_f32",
    "dot_bf16_bf16_f32_x3",
    "dot_bf16_bf16_f32_x6",
    "dot_bf16_bf16_f32_x9",
    "dot_bf16_bf16_fp8x3",
    "dot_bf16_bf16_fp8x4",
    "dot_tf32_tf32_f32",
    "dot_tf32_tf32_f32_x3",
    "dot_f32_f32_f32",
    "dot_f64_f64_f64",
    any_case=True,
)
DEFAULT_PRECISIONS = ("default", "default")

_DIMS = {
    "lhs_batch_dims": Attr(INTS, default=()),
    # XLA prints the contracting dimensions even where there are none.
    "lhs_contracting_dims": Attr(INTS, default=(), always=True),
    "rhs_batch_dims": Attr(INTS, default=()),
    "rhs_contracting_dims": Attr(INTS, default=(), always=True),
}
_PRECISION = {"operand_precision": Attr(PRECISIONS, default=DEFAULT_PRECISIONS)}
_ALGORITHM = {"algorithm": Attr(ALGORITHM, default="unset")}
_CONFIGS = {
    "sparsity_config": Attr(SPARSITY_CONFIG),
    "block_scaling_config": Attr(BLOCK_SCALING_CONFIG),
}

# --- rules --------------------------------------------------------------------------------------


def sizes_agree(a: int, b: int) -> bool:
    """True for equal sizes, or when one of them is unbounded."""
    return a == b or UNBOUNDED in (a, b)


def factor_shape(op: OpView, side: int) -> ArrayShape:
    """Return the shape of operand 0 or 1 as it is multiplied."""
    return dense_operand(op, side) if op.opcode == "dot" else array_operand(op, side)


def dot_dims(op: OpView) -> DotDims:
    """Return the dimension numbers of a dot, after checking them against its operands."""
    dims = DotDims(
        op.lhs_batch_dims,
        op.rhs_batch_dims,
        op.lhs_contracting_dims,
        op.rhs_contracting_dims,
    )
    for side, batch, summed in (
        (0, dims.lhs_batch, dims.lhs_contract),
        (1, dims.rhs_batch, dims.rhs_contract),
    ):
        name, rank = ("lhs", "rhs")[side], factor_shape(op, side).rank
        seen: set[int] = set()
        for kind, numbers in (("batch", batch), ("contracting", summed)):
            for d in numbers:
                attr = f"{name}_{kind}_dims"
                if not 0 <= d < rank:
                    raise InferError(
                        f"{op.opcode}: {attr} names dimension {d}, outside [0, {rank})",
                        attr=attr, code="bad-dimension",
                    )  # fmt: skip
                if d in seen:
                    raise InferError(
                        f"{op.opcode}: {attr} names dimension {d} of {name} a second time",
                        attr=attr, code="bad-dimension",
                    )  # fmt: skip
                seen.add(d)
    _need_pairs(op, "batch", dims.lhs_batch, dims.rhs_batch)
    _need_pairs(op, "contracting", dims.lhs_contract, dims.rhs_contract)
    return dims


def _need_pairs(op: OpView, kind: str, lhs: Sequence[int], rhs: Sequence[int]) -> None:
    if len(lhs) != len(rhs):
        raise InferError(
            f"{op.opcode}: lhs has {len(lhs)} {kind} dimensions, rhs {len(rhs)}",
            attr=f"rhs_{kind}_dims", code="bad-dimension",
        )  # fmt: skip
    left, right = factor_shape(op, 0), factor_shape(op, 1)
    for i, j in zip(lhs, rhs, strict=True):
        if not sizes_agree(left.dims[i], right.dims[j]):
            raise InferError(
                f"{op.opcode}: {kind} dimensions differ in size: "
                f"dimension {i} of lhs {left.to_string(False)}, {left.dims[i]}, and "
                f"dimension {j} of rhs {right.to_string(False)}, {right.dims[j]}",
                operand=1,
            )  # fmt: skip


def product_type(op: OpView, *operands: ElementType) -> ElementType:
    """Return the element type of a contraction's result: the declared one, any that it states.

    A text without a shape gets the operands' common type.
    """
    if isinstance(op.shape, ArrayShape):
        return op.shape.element_type
    return higher_precision(*operands)


def need_precisions(op: OpView) -> None:
    """Check that no more precisions are given than there are operands."""
    given, count = len(op.operand_precision), len(op.operand_shapes)
    if given > count:
        raise InferError(
            f"{op.opcode}: {given} precisions for {count} operands",
            attr="operand_precision", code="bad-value",
        )  # fmt: skip


def _result(
    op: OpView, dims: DotDims, *, groups: int | None = None, group_dim: int | None = None
) -> ArrayShape:
    lhs, rhs = factor_shape(op, 0), factor_shape(op, 1)
    kept = [(lhs, d) for d in dims.lhs_batch + dims.lhs_free(lhs.rank)]
    kept += [(rhs, d) for d in dims.rhs_free(rhs.rank) if d != group_dim]
    sizes = [s.dims[d] for s, d in kept]
    dynamic = [s.is_dynamic_dim(d) for s, d in kept]
    if groups is not None:
        sizes, dynamic = [groups, *sizes], [False, *dynamic]
    return array(product_type(op, lhs.element_type, rhs.element_type), sizes, dynamic)


def _infer_dot(op: OpView) -> ArrayShape:
    need_precisions(op)
    shape = _result(op, dot_dims(op))
    need_configured_operands(op)
    return shape


def _ragged_dims(op: OpView) -> tuple[DotDims, int, int | None]:
    """Return the dimension numbers, the ragged one of lhs and the group one of rhs, checked."""
    dims, lhs, rhs = dot_dims(op), array_operand(op, 0), array_operand(op, 1)
    ragged, group = op.lhs_ragged_dims, op.rhs_group_dims
    for attr, numbers, rank in (
        ("lhs_ragged_dims", ragged, lhs.rank),
        ("rhs_group_dims", group, rhs.rank),
    ):
        need_dims(op, numbers, rank, attr)
    free = need_one_dim(op, attr="lhs_ragged_dims") in dims.lhs_free(lhs.rank)
    if len(group) != int(free):
        kind = "neither batch nor contracting" if free else "a batch or contracting dimension"
        raise InferError(
            f"{op.opcode}: the ragged dimension is {kind}, rhs_group_dims has to name "
            f"{int(free)} dimensions, not {len(group)}",
            attr="rhs_group_dims", code="bad-dimension",
        )  # fmt: skip
    if free and group[0] not in dims.rhs_free(rhs.rank):
        raise InferError(
            f"{op.opcode}: rhs_group_dims names dimension {group[0]}, which is batched or summed",
            attr="rhs_group_dims", code="bad-dimension",
        )  # fmt: skip
    return dims, ragged[0], group[0] if free else None


def _infer_ragged(op: OpView) -> ArrayShape:
    need_precisions(op)
    dims, ragged, group = _ragged_dims(op)
    lhs, rhs = array_operand(op, 0), array_operand(op, 1)
    sizes = need_type(op, 2, lambda t: t.is_integer, "an integer type")
    prefix = [lhs.dims[d] for d in ragged_prefix(dims, lhs.rank, ragged)]
    if sizes.rank not in (1, len(prefix) + 1):
        raise InferError(
            f"{op.opcode}: group sizes have shape {sizes.to_string(False)}, rank 1 or rank "
            f"{len(prefix) + 1} is needed",
            operand=2,
        )
    if sizes.rank > 1 and not all(map(sizes_agree, sizes.dims, prefix)):
        raise InferError(
            f"{op.opcode}: group sizes have dimensions {sizes.dims_string()}, "
            f"[{','.join(map(str, prefix))},{sizes.dims[-1]}] are needed",
            operand=2,
        )
    groups = sizes.dims[-1]
    if group is not None and not sizes_agree(rhs.dims[group], groups):
        raise InferError(
            f"{op.opcode}: group dimension {group} of rhs has size {rhs.dims[group]}, "
            f"there are {groups} group sizes",
            operand=1,
        )
    summed = ragged in dims.lhs_contract
    return _result(op, dims, groups=groups if summed else None, group_dim=group)


def _infer_scaled(op: OpView) -> ArrayShape:
    need_precisions(op)
    for i in range(4):
        need_type(op, i, lambda t: t.is_float, "a floating-point type")
    for i, name in ((0, "lhs"), (1, "rhs")):
        operand, scale = array_operand(op, i), array_operand(op, i + 2)
        if scale.rank != operand.rank or not all(map(_divides, scale.dims, operand.dims)):
            raise InferError(
                f"{op.opcode}: {name} scale {scale.to_string(False)} does not divide "
                f"{name} {operand.to_string(False)} into blocks",
                operand=i + 2,
            )
    return _result(op, dot_dims(op))


def _divides(part: int, whole: int) -> bool:
    return UNBOUNDED in (part, whole) or part == whole or (part > 0 and whole % part == 0)


# --- evaluation ---------------------------------------------------------------------------------


def products_of(op: OpView) -> Products:
    """Return the arithmetic of a contraction of operands 0 and 1."""
    lhs, rhs = array_operand(op, 0).element_type, array_operand(op, 1).element_type
    assert isinstance(op.shape, ArrayShape)
    return Products.of(higher_precision(lhs, rhs), op.shape.element_type)


def _need_room(op: OpView, *args: np.ndarray) -> None:
    # Operands are copied where they have to be transposed.
    need_memory(op, op.shape, scratch_bytes=sum(a.nbytes for a in args))


def _dot(op: OpView, args: Sequence[Any], ctx: EvalContext) -> np.ndarray:
    need_dense(op)
    _need_room(op, *args[:2])
    dims, products = dot_dims(op), products_of(op)
    return add_products([contract(lhs, rhs, dims, products) for lhs, rhs in factors(op, args)])


def _ragged_dot(op: OpView, args: Sequence[Any], ctx: EvalContext) -> np.ndarray:
    lhs, rhs, sizes = args
    _need_room(op, lhs, rhs)
    dims, ragged, group = _ragged_dims(op)
    if ragged in dims.lhs_batch:
        # Every batch has its own matrices already: where groups end makes no difference.
        return contract(lhs, rhs, dims, products_of(op))
    return ragged_contract(lhs, rhs, sizes, dims, ragged, group, products_of(op))


def _scaled_dot(op: OpView, args: Sequence[Any], ctx: EvalContext) -> np.ndarray:
    lhs, rhs, lhs_scale, rhs_scale = args
    need_memory(op, op.shape, scratch_bytes=16 * (lhs.size + rhs.size))
    lhs, rhs = scale_blocks(lhs, lhs_scale), scale_blocks(rhs, rhs_scale)
    return contract(lhs, rhs, dot_dims(op), products_of(op))


# --- declarations -------------------------------------------------------------------------------

register(
    OpSpec(
        name="dot",
        arity=(2, None),
        attrs=_DIMS | _PRECISION | _ALGORITHM | _CONFIGS,
        infer=_infer_dot,
        evaluate=_dot,
        category=Category.CONTRACTION,
        traits=Trait.INFERABLE | Trait.REREADS,
        source='"Dot" and "DotGeneral" (003); XLA service/shape_inference.cc',
        examples=(
            "f32[2,4] dot(f32[2,3] a, f32[3,4] b), lhs_contracting_dims={1}, "
            "rhs_contracting_dims={0}",
            "s32[5,2,4] dot(s8[2,3,5] a, s8[5,4,3] b), lhs_batch_dims={2}, "
            "lhs_contracting_dims={1}, rhs_batch_dims={0}, rhs_contracting_dims={2}",
            "f32[2,3] dot(f32[2] a, f32[3] b)",
            "f32[2,4] dot(bf16[2,8] a, bf16[8,4] b, f8e8m0fnu[2,2] as), "
            "lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
            "block_scaling_config={lhs={scale_idx=2 strides=1x4 steps=1x1}}",
        ),
        factors=rules.dot,
    )
)

register(
    OpSpec(
        name="ragged-dot",
        arity=3,
        attrs=_DIMS
        | _PRECISION
        | {
            "lhs_ragged_dims": Attr(INTS, default=()),
            "rhs_group_dims": Attr(INTS, default=()),
        },
        infer=_infer_ragged,
        evaluate=_ragged_dot,
        category=Category.CONTRACTION,
        traits=Trait.INFERABLE,
        source='"RaggedDot" (003), StableHLO chlo.ragged_dot; XLA service/shape_inference.cc',
        examples=(
            "f32[5,4] ragged-dot(f32[5,3] a, f32[2,3,4] b, s32[2] sizes), "
            "lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, "
            "rhs_group_dims={0}",
            "f32[2,5,4] ragged-dot(f32[5,3] a, f32[3,4] b, s32[2] sizes), "
            "lhs_contracting_dims={1}, rhs_contracting_dims={0}, lhs_ragged_dims={1}",
        ),
        factors=rules.ragged_dot,
    )
)

register(
    OpSpec(
        name="scaled-dot",
        arity=4,
        attrs=_DIMS | _PRECISION | _ALGORITHM,
        infer=_infer_scaled,
        evaluate=_scaled_dot,
        category=Category.CONTRACTION,
        traits=Trait.INFERABLE,
        source='"ScaledDot" (003); operand order lhs, rhs, lhs_scale, rhs_scale as in XLA\'s text',
        examples=(
            "f32[2,4] scaled-dot(f8e4m3fn[2,8] a, f8e5m2[8,4] b, f8e8m0fnu[2,2] as, "
            "f8e8m0fnu[2,4] bs), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        ),
        factors=rules.scaled_dot,
    )
)
