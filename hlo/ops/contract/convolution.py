"""convolution: windows of an input times a filter, in any number of spatial dimensions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hlo.errors import InferError
from hlo.ops.attrs import CONV_DIMS, INT, PRECISIONS, WINDOW, Attr, ConvDims, enum, need
from hlo.ops.attrs.operand_configs import BLOCK_SCALING_CONFIG, SPARSITY_CONFIG
from hlo.ops.contract import factors as rules
from hlo.ops.contract.contraction import (
    ALGORITHM,
    DEFAULT_PRECISIONS,
    need_precisions,
    product_type,
    products_of,
    sizes_agree,
)
from hlo.ops.contract.convolution_eval import Convolution
from hlo.ops.contract.operand_configs import (
    add_products,
    dense_operand,
    factors,
    need_configured_operands,
    need_dense,
)
from hlo.ops.reduce.window_rules import infer_window
from hlo.ops.rules import need_memory
from hlo.ops.spec import Category, EvalContext, OpSpec, OpView, Trait, register
from hlo.values.types import UNBOUNDED, ArrayShape, Shape, array

# --- rules --------------------------------------------------------------------------------------


def _need_labels(op: OpView, lhs: ArrayShape, rhs: ArrayShape) -> ConvDims:
    d = op.dim_labels
    if d.input_unknown or d.kernel_unknown or d.output_unknown:
        raise InferError(
            f"{op.opcode}: dim_labels name a dimension `?`, which only custom calls have",
            attr="dim_labels", code="bad-dimension",
        )  # fmt: skip
    rank = len(d.input_spatial) + 2
    for i, (name, shape) in enumerate((("lhs", lhs), ("rhs", rhs))):
        if shape.rank != rank:
            raise InferError(
                f"{op.opcode}: {name} has shape {shape.to_string(False)}, "
                f"dim_labels have {rank} dimensions",
                operand=i,
            )
    return d


def _need_groups(op: OpView, d: ConvDims, lhs: ArrayShape, rhs: ArrayShape) -> None:
    features, batches = op.feature_group_count, op.batch_group_count
    for attr, count in (("feature_group_count", features), ("batch_group_count", batches)):
        if count < 1:
            raise InferError(
                f"{op.opcode}: {attr} is {count}, at least 1 is needed",
                attr=attr, code="bad-value",
            )  # fmt: skip
    if features > 1 and batches > 1:
        raise InferError(
            f"{op.opcode}: feature_group_count {features} and batch_group_count {batches} "
            "are both greater than 1",
            attr="batch_group_count", code="bad-value",
        )  # fmt: skip
    parts = (
        ("input features", lhs.dims[d.input_feature], "feature_group_count", features),
        ("output features", rhs.dims[d.kernel_output], "feature_group_count", features),
        ("output features", rhs.dims[d.kernel_output], "batch_group_count", batches),
        ("input batch", lhs.dims[d.input_batch], "batch_group_count", batches),
    )
    for what, size, attr, count in parts:
        if size != UNBOUNDED and size % count:
            raise InferError(
                f"{op.opcode}: {what}, {size}, is not a multiple of {attr}, {count}", attr=attr
            )
    given, taken = lhs.dims[d.input_feature], rhs.dims[d.kernel_input]
    if not sizes_agree(given if given == UNBOUNDED else given // features, taken):
        raise InferError(
            f"{op.opcode}: lhs {lhs.to_string(False)} has {given} features in {features} groups, "
            f"rhs {rhs.to_string(False)} takes {taken} features a group",
            operand=1,
        )


def _infer(op: OpView) -> ArrayShape:
    need_precisions(op)
    lhs, rhs = dense_operand(op, 0), dense_operand(op, 1)
    need_configured_operands(op)
    d, window = _need_labels(op, lhs, rhs), op.window
    spatial = infer_window(op, [lhs.dims[i] for i in d.input_spatial], window)
    for i, (w, at) in enumerate(zip(window, d.kernel_spatial, strict=True)):
        if not sizes_agree(w.size, rhs.dims[at]):
            raise InferError(
                f"{op.opcode}: window dimension {i} has size {w.size}, "
                f"dimension {at} of rhs {rhs.to_string(False)} has {rhs.dims[at]}",
                attr="window",
            )
    _need_groups(op, d, lhs, rhs)
    if rhs.is_dynamic_dim(d.kernel_output):
        raise InferError(
            f"{op.opcode}: the output features of rhs {rhs.to_string(False)} are dynamic",
            operand=1, code="bad-dimension",
        )  # fmt: skip
    batch = lhs.dims[d.input_batch]
    sizes, dynamic = [0] * lhs.rank, [False] * lhs.rank
    sizes[d.output_batch] = batch if batch == UNBOUNDED else batch // op.batch_group_count
    sizes[d.output_feature] = rhs.dims[d.kernel_output]
    dynamic[d.output_batch] = lhs.is_dynamic_dim(d.input_batch)
    for i, at in enumerate(d.output_spatial):
        sizes[at] = spatial[i]
        dynamic[at] = lhs.is_dynamic_dim(d.input_spatial[i]) or rhs.is_dynamic_dim(
            d.kernel_spatial[i]
        )
    return array(product_type(op, lhs.element_type, rhs.element_type), sizes, dynamic)


# --- evaluation ---------------------------------------------------------------------------------


def _evaluate(op: OpView, args: Sequence[Any], ctx: EvalContext) -> np.ndarray:
    need_dense(op)
    pairs = factors(op, args)
    lhs, rhs = pairs[0]
    d, window = op.dim_labels, op.window
    # One position of a widely dilated window reaches over this many elements.
    reach = math.prod(w.dilated_size() for w in window)
    channels = lhs.shape[d.input_feature] // op.feature_group_count
    products = products_of(op)
    width = products.wide.itemsize
    need_memory(op, op.shape, scratch_bytes=width * (rhs.size + reach * channels))
    convolve = Convolution(d, window, op.feature_group_count, op.batch_group_count, products)
    assert isinstance(op.shape, ArrayShape)
    dims = op.shape.dims
    return add_products([convolve(lhs, rhs, dims) for lhs, rhs in pairs])


# --- parts --------------------------------------------------------------------------------------


def _resized(op: OpView, operands: Sequence[Shape], result: Shape) -> Mapping[str, Any]:
    """Return as many groups as the part has, and the sizes of its window."""
    lhs, rhs, *_ = operands
    assert isinstance(lhs, ArrayShape) and isinstance(rhs, ArrayShape)
    assert isinstance(result, ArrayShape)
    d, changed = op.dim_labels, {}
    # A group has as many input features as the kernel, and as many batches as the result.
    taken, batch = rhs.dims[d.kernel_input], result.dims[d.output_batch]
    if op.feature_group_count > 1 and taken:
        changed["feature_group_count"] = lhs.dims[d.input_feature] // taken
    if op.batch_group_count > 1 and batch:
        changed["batch_group_count"] = lhs.dims[d.input_batch] // batch
    return changed | {
        "window": tuple(
            replace(w, size=rhs.dims[at]) for w, at in zip(op.window, d.kernel_spatial, strict=True)
        )
    }


# --- declaration --------------------------------------------------------------------------------

register(
    OpSpec(
        name="convolution",
        arity=(2, None),
        attrs={
            "window": Attr(WINDOW, default=()),
            "dim_labels": need(CONV_DIMS),
            "feature_group_count": Attr(INT, default=1),
            "batch_group_count": Attr(INT, default=1),
            "convolution_kind": Attr(enum("unset", "fprop", "dgrad", "wgrad"), default="unset"),
            "operand_precision": Attr(PRECISIONS, default=DEFAULT_PRECISIONS),
            "algorithm": Attr(ALGORITHM, default="unset"),
            "sparsity_config": Attr(SPARSITY_CONFIG),
            "block_scaling_config": Attr(BLOCK_SCALING_CONFIG),
        },
        infer=_infer,
        evaluate=_evaluate,
        resized=_resized,
        category=Category.CONTRACTION,
        traits=Trait.INFERABLE | Trait.REREADS,
        source='"Conv" and "ConvGeneralDilated" (003); XLA service/shape_inference.cc',
        examples=(
            "f32[2,3,3,5] convolution(f32[2,6,6,4] a, f32[3,3,4,5] b), "
            "window={size=3x3 stride=2x2 pad=1_1x0_1}, dim_labels=b01f_01io->b01f",
            "f32[1,4,5] convolution(f32[1,4,5] a, f32[4,1,3] b), "
            "window={size=3 pad=1_1}, dim_labels=bf0_oi0->bf0, feature_group_count=4",
            "f32[4,4,3,4] convolution(f32[2,5,5,3] a, f32[2,4,4,4] b), "
            "window={size=4x4 pad=1_1x1_1}, dim_labels=f01b_i01o->01bf",
        ),
        factors=rules.convolution,
    )
)
