"""Attention of cuDNN: `softmax(scale * Q K + bias) V`, with masks.

Operands: Q, K, V, the bias, and the lengths of queries and of keys where padding is masked. Scores
and softmax are f32; probabilities are rounded to the type of V. Source: XLA's cublas_cudnn.h,
backend_configs.proto (CudnnfMHABackendConfig), cudnn_custom_call_compiler.cc, and JAX's
cudnn/fused_attention_stablehlo.py.
"""

from __future__ import annotations

import math

from hlo.ir import Computation, Instruction
from hlo.library_calls.call import Call, is_scratch, library_call
from hlo.library_calls.gemm import DotNumbers, product
from hlo.values.types import PRED, S32, array

SECTION = "cudnn_fmha_backend_config"
_MASKS = ("NO_MASK", "PADDING", "CAUSAL", "PADDING_CAUSAL", "ALIBI")


@library_call("__cudnn$fmhaBmmBmm", section=SECTION)
def _bmm_bmm(c: Call) -> Computation:
    """Without a softmax."""
    need_known(c)
    c.need_operands(3)
    q, k, v = c.operands
    scores = grouped_product(c, DotNumbers.of(c.config, "bmm1_dot_dimension_numbers"), q, k)
    return c.done(_values(c, c.times(scores, scale_of(c)), v))


@library_call("__cudnn$fmhaSoftmax", "__cudnn$fmhaSoftmaxDropout", section=SECTION)
def _softmax(c: Call) -> Computation:
    return _attention(c, has_bias=False)


@library_call(
    "__cudnn$fmhaScaleBiasSoftmax", "__cudnn$fmhaScaleBiasSoftmaxDropout", section=SECTION
)
def _bias_softmax(c: Call) -> Computation:
    return _attention(c, has_bias=True)


def _attention(c: Call, *, has_bias: bool) -> Computation:
    """The output; for training also the logarithm of each row's sum of exponentials."""
    need_known(c)
    lengths = 2 * has_padding(c)
    c.need_operands(3 + has_bias + lengths)
    q, k, v = c.operands[:3]
    dims = DotNumbers.of(c.config, "bmm1_dot_dimension_numbers")
    scores = biased_scores(c, dims, q, k, 3 if has_bias else None)
    kept = mask(c, scores, len(c.operands) - lengths if lengths else None)
    if kept is not None:
        scores = c.op("select", kept, scores, c.number(-math.inf, scores))
    probabilities, log_sum = c.softmax(scores, scores.array_shape.rank - 1)
    output = _values(c, probabilities, v)
    if len(c.wanted) < 2 or is_scratch(c.wanted[1]):
        return c.done(output)
    # Until 2024 it was the probabilities themselves.
    is_old = c.wanted[1].dims == scores.array_shape.dims
    return c.done(output, probabilities if is_old else c.reshape(log_sum, _same(c, log_sum)))


def _same(c: Call, value: Instruction) -> tuple[int, ...]:
    want = c.wanted[1]
    return (
        want.dims if want.num_elements == value.array_shape.num_elements else value.array_shape.dims
    )


def _values(c: Call, probabilities: Instruction, v: Instruction) -> Instruction:
    dims = DotNumbers.of(c.config, "bmm2_dot_dimension_numbers")
    return grouped_product(c, dims, c.convert(probabilities, v.array_shape.element_type), v)


# --- shared with the gradient -------------------------------------------------------------------


def need_known(c: Call) -> None:
    """Raise InferError for an option whose meaning is not known."""
    rate = c.config.number("dropout_rate")
    if rate:
        raise c.wrong(
            f"dropout of rate {rate:g} draws random numbers as cuDNN does, which is not known",
            "unsupported",
        )
    if c.config.choice("mask_type", _MASKS) == "ALIBI":
        raise c.wrong("mask_type ALIBI is not known", "unsupported")
    if c.config.integer("max_seg_per_batch") > 1:
        raise c.wrong(
            "several segments in a batch (max_seg_per_batch) are not known", "unsupported"
        )
    if c.config.flag("is_paged_attention"):
        raise c.wrong("paged attention is not known", "unsupported")
    if c.inst.called_computations:
        raise c.wrong("a computation that changes scores is not known", "unsupported")


def scale_of(c: Call) -> float:
    return c.config.number("fmha_scale", 1)


def has_padding(c: Call) -> bool:
    return c.config.choice("mask_type", _MASKS).startswith("PADDING")


def biased_scores(
    c: Call, dims: DotNumbers, q: Instruction, k: Instruction, bias: int | None
) -> Instruction:
    """Append the scores [batch, head, query, key]. bias: the operand's number, None without one."""
    scores = c.times(grouped_product(c, dims, q, k), scale_of(c))
    if bias is None:
        return scores
    return c.op("add", scores, c.fitted(c.as_wide(c.plain(bias)), scores))


def mask(c: Call, scores: Instruction, lengths: int | None) -> Instruction | None:
    """Append which scores count, None if all do.

    lengths: the number of the operand with the lengths of queries; those of keys follow it.
    """
    shape, config = scores.array_shape, c.config
    rank = shape.rank
    kind, window = config.choice("mask_type", _MASKS), config.integer("sliding_window_length")
    is_causal = kind.endswith("CAUSAL") or config.flag("is_causal_mask")
    wanted: list[Instruction] = []
    if not (is_causal or window > 0 or lengths is not None):
        return None
    query, key = (
        c.op("iota", shape=array(S32, shape.dims), iota_dimension=rank - n) for n in (2, 1)
    )
    if is_causal or window > 0:
        wanted.append(c.compare(key, query, "LE"))
    if window > 0:
        wanted.append(
            c.compare(c.op("subtract", query, key), c.number(window, query), "LT")
        )  # fmt: skip
    if lengths is not None:
        for position, number in ((query, lengths), (key, lengths + 1)):
            length = c.convert(c.reshape(c.plain(number), shape.dims[:1]), S32)
            wanted.append(c.compare(position, c.spread(length, (0,), position), "LT"))
    kept = wanted[0]
    for more in wanted[1:]:
        kept = c.op("and", kept, more, shape=array(PRED, shape.dims))
    return kept


def grouped_product(c: Call, dims: DotNumbers, lhs: Instruction, rhs: Instruction) -> Instruction:
    """Append a product in which several heads of `lhs` may share one of `rhs`."""
    for at, have in zip(dims.lhs_batch, dims.rhs_batch, strict=False):
        rhs = repeated(c, rhs, have, _ratio(lhs.array_shape.dims[at], rhs.array_shape.dims[have]))
    return product(c, dims, lhs, rhs, c.wide)


def _ratio(many: int, few: int) -> int:
    return many // few if few and many % few == 0 else 1


def repeated(c: Call, value: Instruction, dim: int, times: int) -> Instruction:
    """Return an array with each index of a dimension repeated."""
    if times == 1:
        return value
    dims = value.array_shape.dims
    wide = (*dims[: dim + 1], times, *dims[dim + 1 :])
    made = c.op(
        "broadcast", c.relaid(value, array(value.array_shape.element_type, dims)),
        shape=array(value.array_shape.element_type, wide),
        dimensions=tuple(n for n in range(len(wide)) if n != dim + 1),
    )  # fmt: skip
    return c.reshape(made, (*dims[:dim], dims[dim] * times, *dims[dim + 1 :]))
