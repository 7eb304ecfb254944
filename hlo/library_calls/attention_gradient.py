"""The gradient of cuDNN's attention, from the logarithms that the forward call has returned.

Operands: Q, K, V, those logarithms, the gradient of the output, the bias, the output, and the
lengths where padding is masked. Results: the gradients by Q, K, V and, if asked for, by the bias.
"""

from __future__ import annotations

from hlo.ir import Computation, Instruction
from hlo.library_calls.attention import (
    SECTION,
    biased_scores,
    grouped_product,
    has_padding,
    mask,
    need_known,
    scale_of,
)
from hlo.library_calls.call import Call, is_scratch, library_call
from hlo.library_calls.gemm import DotNumbers, product


@library_call("__cudnn$fmhaSoftmaxBackward", "__cudnn$fmhaSoftmaxDropoutBackward", section=SECTION)
def _softmax(c: Call) -> Computation:
    return _gradient(c, has_bias=False)


@library_call(
    "__cudnn$fmhaScaleBiasSoftmaxBackward", "__cudnn$fmhaScaleBiasSoftmaxDropoutBackward",
    section=SECTION,
)  # fmt: skip
def _bias_softmax(c: Call) -> Computation:
    return _gradient(c, has_bias=True)


def _gradient(c: Call, *, has_bias: bool) -> Computation:
    need_known(c)
    lengths = 2 * has_padding(c)
    c.need_operands(6 + has_bias + lengths)
    q, k, v, _, grad = c.operands[:5]
    output = c.plain(5 + has_bias)
    by_k, by_q, by_v, by_p = (
        DotNumbers.of(c.config, f"{name}_dot_dimension_numbers")
        for name in ("bmm1_grad_gemm1", "bmm1_grad_gemm2", "bmm2_grad_gemm1", "bmm2_grad_gemm2")
    )
    # The gradient by P is that of the output times V, as the scores are Q times K.
    scores = biased_scores(c, by_p, q, k, 5 if has_bias else None)
    shape, narrow = scores.array_shape, q.array_shape.element_type
    rows = tuple(range(shape.rank - 1))
    log_sum = c.reshape(c.as_wide(c.plain(3)), shape.dims[:-1])
    p = c.op("exponential", c.op("subtract", scores, c.spread(log_sum, rows, scores)))
    kept = mask(c, scores, len(c.operands) - lengths if lengths else None)
    if kept is not None:
        p = c.op("select", kept, p, c.number(0, p))
    grad_p = grouped_product(c, by_p, grad, v)
    level = _row_products(c, by_p, grad, output)
    grad_s = c.op("multiply", p, c.op("subtract", grad_p, c.spread(level, rows, grad_p)))
    narrow_p, narrow_s = c.convert(p, narrow), c.convert(grad_s, narrow)
    results = [
        c.times(grouped_product(c, by_q, narrow_s, k), scale_of(c)),
        _over_groups(c, c.times(product(c, by_k, narrow_s, q, c.wide), scale_of(c)), 1),
        _over_groups(c, product(c, by_v, narrow_p, grad, c.wide), 2),
    ]
    if has_bias and len(c.wanted) > 3 and not is_scratch(c.wanted[3]):
        results.append(_over_ones(c, grad_s, c.wanted[3].dims))
    return c.done(*results)


def _row_products(c: Call, dims: DotNumbers, a: Instruction, b: Instruction) -> Instruction:
    """Return the sums of products of rows, [batch, head, query], of arrays of the same shape."""
    both = c.op("multiply", *(c.as_wide(c.relaid(v, b.array_shape)) for v in (a, b)))
    rank = both.array_shape.rank
    kept = [n for n in range(rank) if n not in dims.lhs_contracting]
    order = [*dims.lhs_batch, *(n for n in kept if n not in dims.lhs_batch)]
    total = c.total(both, dims.lhs_contracting)
    positions = tuple(kept.index(n) for n in order)
    if positions == tuple(range(len(positions))):
        return total
    return c.op("transpose", total, dimensions=positions)


def _over_groups(c: Call, value: Instruction, result: int) -> Instruction:
    """Return the sum over the heads that share one head of keys and values."""
    have = value.array_shape.dims
    want = c.wanted[result].dims if result < len(c.wanted) else have
    if len(have) != len(want) or have[1] == want[1] or not want[1] or have[1] % want[1]:
        return value
    split = c.reshape(value, (have[0], want[1], have[1] // want[1], *have[2:]))
    return c.total(split, [2])


def _over_ones(c: Call, value: Instruction, dims: tuple[int, ...]) -> Instruction:
    """Return the sum over the dimensions that are of size 1 in the result."""
    have = value.array_shape.dims
    if len(dims) != len(have):
        return value
    summed = [n for n, (a, b) in enumerate(zip(have, dims, strict=True)) if b == 1 != a]
    return c.reshape(c.total(value, summed), dims) if summed else value
