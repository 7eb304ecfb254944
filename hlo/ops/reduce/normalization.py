"""Batch normalization: training, inference and gradient.

All three compute in f64 and round each result once. Results have the types that shape inference
gives them: those of the operand.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from hlo.errors import InferError
from hlo.ops.attrs import FLOAT32, INT, need
from hlo.ops.elementwise.casts import narrow, widen
from hlo.ops.reduce import factors
from hlo.ops.rules import need_compatible, need_memory, need_type
from hlo.ops.spec import Category, EvalContext, OpSpec, OpView, Trait, register
from hlo.values.types import ArrayShape, Shape, TupleShape, array, element_type_of

# Elements handled at a time: the f64 values of a piece stay in cache.
_PIECE = 1 << 16


def _need_operand(op: OpView) -> tuple[ArrayShape, ArrayShape]:
    """Return the shape of the operand and that of its features."""
    operand = need_type(op, 0, lambda t: t.is_float, "a floating-point type")
    feature = op.feature_index
    if not 0 <= feature < operand.rank:
        raise InferError(
            f"{op.opcode}: feature_index={feature}, operand 0 has shape {operand.to_string(False)}",
            attr="feature_index", code="bad-dimension",
        )  # fmt: skip
    flags = (operand.is_dynamic_dim(feature),)
    return operand, array(operand.element_type, operand.dims[feature : feature + 1], flags)


def _need_features(op: OpView, names: Sequence[str], features: ArrayShape) -> None:
    """Check that operands 1, 2, ... are vectors with one element a feature."""
    for i, name in enumerate(names, 1):
        shape = need_type(op, i, lambda t: t.is_float, "a floating-point type")
        # XLA lets them differ in floating-point precision.
        need_compatible(
            op, shape.with_type(features.element_type), features, f"{name} and features", operand=i
        )


def _infer_training(op: OpView) -> Shape:
    operand, features = _need_operand(op)
    _need_features(op, ("scale", "offset"), features)
    return TupleShape((_plain(operand), features, features))


def _infer_inference(op: OpView) -> Shape:
    operand, features = _need_operand(op)
    _need_features(op, ("scale", "offset", "mean", "variance"), features)
    return _plain(operand)


def _infer_grad(op: OpView) -> Shape:
    operand, features = _need_operand(op)
    _need_features(op, ("scale", "mean", "variance"), features)
    gradient = need_type(op, 4, lambda t: t.is_float, "a floating-point type")
    need_compatible(
        op, gradient.with_type(operand.element_type), operand, "grad_output and operand", operand=4
    )
    return TupleShape((_plain(operand), features, features))


def _plain(shape: ArrayShape) -> ArrayShape:
    return array(shape.element_type, shape.dims, shape.dynamic)


# --- evaluation ---------------------------------------------------------------------------------


class _Batch:
    """An operand as `[outer, feature, inner]`, read and written in pieces."""

    def __init__(self, x: np.ndarray, feature: int) -> None:
        self.dims = x.shape
        self.blocked = (
            math.prod(x.shape[:feature]),
            x.shape[feature],
            math.prod(x.shape[feature + 1 :]),
        )
        # Elements a feature. A mean over none is 0 / 0.
        self.count = np.float64(self.blocked[0] * self.blocked[2])

    def pieces(self) -> Iterator[tuple[slice, slice, slice]]:
        """Yield slices that cover `[outer, feature, inner]`."""
        outer, features, inner = self.blocked
        inner_step = max(1, min(inner, _PIECE))
        feature_step = max(1, min(features, _PIECE // inner_step))
        outer_step = max(1, _PIECE // (inner_step * feature_step))
        for f in range(0, features, feature_step):
            for o in range(0, outer, outer_step):
                for i in range(0, inner, inner_step):
                    yield (
                        slice(o, o + outer_step),
                        slice(f, f + feature_step),
                        slice(i, i + inner_step),
                    )

    def block(self, x: np.ndarray) -> np.ndarray:
        return x.reshape(self.blocked)

    def total(self, *arrays: np.ndarray, of: Any) -> np.ndarray:
        """Return, for each feature, the sum of `of(pieces..., feature slice)`."""
        total = np.zeros(self.blocked[1])
        blocks = [self.block(a) for a in arrays]
        for piece in self.pieces():
            values = of(*(_f64(b[piece]) for b in blocks), piece[1])
            total[piece[1]] += values.sum(axis=(0, 2))
        return total

    def write(self, dtype: np.dtype, *arrays: np.ndarray, of: Any) -> np.ndarray:
        """Return the array of `of(pieces..., feature slice)`, rounded to `dtype`."""
        et = element_type_of(dtype)
        out = np.empty(self.blocked, dtype)
        blocks = [self.block(a) for a in arrays]
        for piece in self.pieces():
            out[piece] = narrow(of(*(_f64(b[piece]) for b in blocks), piece[1]), et)
        return out.reshape(self.dims)


def _f64(x: np.ndarray) -> np.ndarray:
    return np.asarray(widen(x).astype(np.float64))


def _features(x: np.ndarray) -> np.ndarray:
    """Return one value a feature in f64, to go with pieces of `[outer, feature, inner]`."""
    return _f64(x)[:, None]


def _evaluate_training(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    x, scale, offset = args
    need_memory(op, op.shape)
    batch, et = _Batch(x, op.feature_index), element_type_of(x.dtype)
    with np.errstate(all="ignore"):
        mean = batch.total(x, of=lambda v, f: v) / batch.count
        variance = batch.total(x, of=lambda v, f: (v - mean[f, None]) ** 2) / batch.count
        y = _normalize(op, batch, x, scale, offset, mean[:, None], variance[:, None])
    return y, narrow(mean, et), narrow(variance, et)


def _evaluate_inference(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    x, scale, offset, mean, variance = args
    need_memory(op, op.shape)
    batch = _Batch(x, op.feature_index)
    with np.errstate(all="ignore"):
        return _normalize(op, batch, x, scale, offset, _features(mean), _features(variance))


def _epsilon(op: OpView) -> float:
    """Return epsilon, which is an f32 whatever the type of the operand."""
    return float(np.float32(op.epsilon))


def _normalize(
    op: OpView,
    batch: _Batch,
    x: np.ndarray,
    scale: np.ndarray,
    offset: np.ndarray,
    mean: np.ndarray,
    variance: np.ndarray,
) -> np.ndarray:
    """Return `scale * (x - mean) / sqrt(variance + epsilon) + offset`."""
    deviation = np.sqrt(variance + _epsilon(op))
    factor, term = _features(scale), _features(offset)
    return batch.write(
        x.dtype, x, of=lambda v, f: factor[f] * (v - mean[f]) / deviation[f] + term[f]
    )


def _evaluate_grad(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    x, scale, mean, variance, grad = args
    need_memory(op, op.shape)
    batch, et = _Batch(x, op.feature_index), element_type_of(x.dtype)
    center, factor = _features(mean), _features(scale)
    with np.errstate(all="ignore"):
        spread = _features(variance) + _epsilon(op)
        deviation = np.sqrt(spread)
        grad_offset = batch.total(grad, of=lambda g, f: g)
        products = batch.total(x, grad, of=lambda v, g, f: g * (v - center[f]))
        level = (grad_offset / batch.count)[:, None]
        slope = (products / batch.count)[:, None] / spread
        grad_x = batch.write(
            x.dtype,
            x,
            grad,
            of=lambda v, g, f: (
                factor[f] / deviation[f] * (g - level[f] - slope[f] * (v - center[f]))
            ),
        )
        grad_scale = products / deviation[:, 0]
    return grad_x, narrow(grad_scale, et), narrow(grad_offset, et)


_ATTRS = {"epsilon": need(FLOAT32), "feature_index": need(INT)}

register(
    OpSpec(
        name="batch-norm-training",
        arity=3,
        attrs=_ATTRS,
        infer=_infer_training,
        evaluate=_evaluate_training,
        category=Category.REDUCTION,
        source="003 BatchNormTraining",
        traits=Trait.INFERABLE,
        examples=(
            "(f32[4,3,2], f32[3], f32[3]) batch-norm-training(f32[4,3,2] x, f32[3] scale, "
            "f32[3] offset), epsilon=0.001, feature_index=1",
        ),
        factors=factors.batch_norm,
    )
)
register(
    OpSpec(
        name="batch-norm-inference",
        arity=5,
        attrs=_ATTRS,
        infer=_infer_inference,
        evaluate=_evaluate_inference,
        category=Category.ELEMENTWISE,
        source="003 BatchNormInference",
        traits=Trait.INFERABLE,
        examples=(
            "f32[4,3] batch-norm-inference(f32[4,3] x, f32[3] scale, f32[3] offset, f32[3] mean, "
            "f32[3] variance), epsilon=1, feature_index=1",
        ),
        factors=factors.batch_norm,
    )
)
register(
    OpSpec(
        name="batch-norm-grad",
        arity=5,
        attrs=_ATTRS,
        infer=_infer_grad,
        evaluate=_evaluate_grad,
        category=Category.REDUCTION,
        source="003 BatchNormGrad",
        traits=Trait.INFERABLE,
        examples=(
            "(f32[4,3], f32[3], f32[3]) batch-norm-grad(f32[4,3] x, f32[3] scale, f32[3] mean, "
            "f32[3] variance, f32[4,3] grad_output), epsilon=1, feature_index=1",
        ),
        factors=factors.batch_norm,
    )
)
