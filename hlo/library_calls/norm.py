"""Layer normalization of cuDNN. Source: XLA's cudnn_norm_rewriter.cc."""

from __future__ import annotations

from hlo.ir import Computation, Instruction
from hlo.library_calls.call import Call, library_call

_KINDS = ("LAYER_FWD_INFER", "LAYER_FWD_TRAIN", "LAYER_BWD")


@library_call("__cudnn$norm", section="cudnn_norm_backend_config")
def _norm(c: Call) -> Computation:
    """Rows, the elements of an index of dimension 0, are normalized.

    Results: the rows, for training also their means and `1 / sqrt(variance + epsilon)`. Backward,
    of x, scale, the gradient, means and those factors: the gradients by x, scale and bias.
    """
    if c.config.choice("kind", _KINDS) == "LAYER_BWD":
        return _gradient(c)
    c.need_operands(3)
    x, scale, bias = (c.as_wide(c.plain(n)) for n in range(3))
    inner = range(1, x.array_shape.rank)
    mean = c.mean(x, inner)
    centered = c.op("subtract", x, c.spread(mean, (0,), x))
    variance = c.mean(c.op("multiply", centered, centered), inner)
    factor = c.op("rsqrt", c.op("add", variance, c.number(c.config.number("epsilon"), variance)))
    y = c.op("multiply", centered, c.spread(factor, (0,), x))
    y = c.op("add", c.op("multiply", y, c.fitted(scale, x)), c.fitted(bias, x))
    if c.config.choice("kind", _KINDS) == "LAYER_FWD_INFER":
        return c.done(y)
    return c.done(y, *_in_result_shapes(c, mean, factor))


def _gradient(c: Call) -> Computation:
    c.need_operands(5)
    x, scale, grad, mean, factor = (c.as_wide(c.plain(n)) for n in range(5))
    inner, rows = range(1, x.array_shape.rank), x.array_shape.dims[:1]
    mean, factor = (c.spread(c.reshape(v, rows), (0,), x) for v in (mean, factor))
    normal = c.op("multiply", c.op("subtract", x, mean), factor)
    scaled = c.op("multiply", grad, c.fitted(scale, x))
    level = c.spread(c.mean(scaled, inner), (0,), x)
    slope = c.spread(c.mean(c.op("multiply", scaled, normal), inner), (0,), x)
    rest = c.op("subtract", c.op("subtract", scaled, level), c.op("multiply", normal, slope))
    by_scale, by_bias = (c.total(v, [0]) for v in (c.op("multiply", grad, normal), grad))
    return c.done(c.op("multiply", rest, factor), *_in_result_shapes(c, by_scale, by_bias))


def _in_result_shapes(c: Call, *values: Instruction) -> list[Instruction]:
    """Return the results after the first with the dimensions of size 1 that they have there."""
    found = []
    for value, want in zip(values, c.wanted[1:], strict=False):
        fits = want.num_elements == value.array_shape.num_elements
        found.append(c.reshape(value, want.dims) if fits else value)
    return found
