"""Products, softmax and layer normalization of oneDNN, which XLA calls on x86 processors.

Source: XLA's service/cpu/onednn_config.proto, onednn_matmul.cc, onednn_util.cc,
onednn_layer_norm.cc and onednn_softmax.cc.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from hlo.ir import Computation, Instruction
from hlo.library_calls import activations
from hlo.library_calls.call import Call, library_call
from hlo.library_calls.config import Config
from hlo.library_calls.gemm import DotNumbers, product

_FUSIONS = (
    "UNDEFINED", "BIAS", "RELU", "TANH", "GELU_ERF", "GELU_TANH", "BINARY_ADD", "LINEAR", "ELU",
    "RELU6", "SIGMOID", "SUM", "SWISH",
)  # fmt: skip
_ACTIVATIONS: dict[str, activations.Activation] = {
    "RELU": activations.relu, "TANH": activations.tanh, "GELU_ERF": activations.gelu_erf,
    "GELU_TANH": activations.gelu, "ELU": activations.elu, "RELU6": activations.relu6,
    "SIGMOID": activations.sigmoid, "SWISH": activations.swish,
}  # fmt: skip


def float_of_bits(bits: int) -> float:
    """Return the f32 whose bits are an integer: some fields of configurations are written so."""
    return float(struct.unpack("<f", struct.pack("<i", bits))[0])


def need_known(c: Call) -> None:
    """Raise InferError for weights in a format of oneDNN's own, and for quantized factors."""
    options = c.config.section("optimization_config")
    if options.flag("weights_prepacked") or c.config.flag("weights_prepacked"):
        raise c.wrong("weights in oneDNN's own format (weights_prepacked) are not known",
                      "unsupported")  # fmt: skip
    if any(o.array_shape.element_type.name in ("s8", "u8") for o in c.operands[:2]):
        raise c.wrong("products of quantized factors are not known", "unsupported")


def fused(c: Call, x: Instruction, feature: int) -> Instruction:
    """Apply the fused operations, in order, with the operands after the second.

    feature: the dimension along which a bias is a vector.
    """
    fusions = c.config.section("fusions")
    # Until 2024 they were in the configuration itself.
    source, key = (fusions, "ops") if "ops" in fusions else (c.config, "fused_ops")
    operands, factors = iter(range(2, len(c.operands))), _factors(fusions, c.config)
    for name in source.choices(key, _FUSIONS):
        if name in _ACTIVATIONS:
            x = _ACTIVATIONS[name](c, x)
        elif name == "LINEAR":
            factor = next(factors, None)
            if factor is None:
                raise c.wrong("LINEAR has no factor in alpha")
            x = c.times(x, factor)
        elif name in ("BIAS", "BINARY_ADD", "SUM"):
            number = next(operands, None)
            if number is None:
                raise c.wrong(f"no operand is left for {name}", "operand-count")
            addend = c.as_wide(c.plain(number))
            is_vector = addend.array_shape.rank == 1 and x.array_shape.rank > 1
            fits = addend.array_shape.dims == x.array_shape.dims[feature : feature + 1]
            x = c.op(
                "add", x,
                c.spread(addend, (feature,), x) if is_vector and fits else c.fitted(addend, x),
            )  # fmt: skip
        else:
            raise c.wrong(f"fused operation {name} is not known", "unsupported")
    if next(operands, None) is not None:
        raise c.wrong("the fused operations do not use all operands", "operand-count")
    return x


def _factors(fusions: Config, config: Config) -> Iterator[float]:
    if "alpha" in fusions:
        return iter(fusions.numbers("alpha"))
    holder = fusions if "alpha_typecast" in fusions else config
    if "alpha_typecast" in holder:
        return iter([float_of_bits(holder.integer("alpha_typecast"))])
    return iter(())


@library_call("__onednn$matmul", section="onednn_matmul_config")
def _matmul(c: Call) -> Computation:
    """The product of matrices, the last two dimensions; those in front are the batch."""
    c.need_operands(2, len(c.operands))
    need_known(c)
    a = _oriented(c, c.operands[0], "lhs", transposed=c.config.flag("transpose_a"))
    b = _oriented(c, c.operands[1], "rhs", transposed=c.config.flag("transpose_b"))
    ranks = a.array_shape.rank, b.array_shape.rank
    batch = tuple(range(max(0, min(ranks) - 2)))
    if max(ranks) - min(ranks) > 1 or min(ranks) < 1:
        raise c.wrong("the factors have no common batch dimensions", "shape-mismatch")
    dims = DotNumbers(batch, batch, (ranks[0] - 1,), (max(0, ranks[1] - 2),))
    x = product(c, dims, a, b, c.wide)
    x = fused(c, x, x.array_shape.rank - 1)
    order = _order(c, "result")
    return c.done(_permuted(c, x, sorted(range(len(order)), key=order.__getitem__)))


def _oriented(c: Call, value: Instruction, side: str, *, transposed: bool) -> Instruction:
    """Return a factor as the product has it."""
    value, rank = _permuted(c, value, _order(c, side)), value.array_shape.rank
    if not transposed or rank < 2:
        return value
    return _permuted(c, value, [*range(rank - 2), rank - 1, rank - 2])


def _order(c: Call, side: str) -> list[int]:
    """Return which dimension of an array comes first in the product, and so on; empty if all do."""
    order = [n - 1 for n in c.config.section(side).section("tensor").integers("dimensions")]
    if sorted(order) != list(range(len(order))):
        raise c.wrong(f"{side}.tensor.dimensions are no permutation of 1 to {len(order)}")
    return order


def _permuted(c: Call, value: Instruction, order: list[int]) -> Instruction:
    if order == sorted(order):
        return value
    if len(order) != value.array_shape.rank:
        raise c.wrong(f"{len(order)} dimensions for {value.array_shape.to_string(False)}")
    return c.op("transpose", value, dimensions=tuple(order))


@library_call("__onednn$softmax", section="onednn_softmax_config")
def _softmax(c: Call) -> Computation:
    c.need_operands(1)
    x = c.as_wide(c.plain(0))
    axis, rank = c.config.integer("softmax_axis"), x.array_shape.rank
    if not -rank <= axis < rank:
        raise c.wrong(f"softmax_axis is {axis}, of {rank} dimensions", "bad-dimension")
    most = c.total(x, [axis % rank], "maximum")
    kept = tuple(n for n in range(rank) if n != axis % rank)
    powers = c.op("exponential", c.op("subtract", x, c.spread(most, kept, x)))
    total = c.spread(c.total(powers, [axis % rank]), kept, x)
    return c.done(c.op("divide", powers, total))


@library_call("__onednn$layernorm", section="onednn_layer_norm_config")
def _layer_norm(c: Call) -> Computation:
    """The last dimension is normalized; scale and shift are vectors along it."""
    kinds = ("UNDEFINED", "SCALE", "SHIFT", "SCALE_AND_SHIFT")
    key = "rescale" if "rescale" in c.config else "fused_ops"
    kind = c.config.choice(key, kinds)
    parts = [p for p in kind.split("_") if p in ("SCALE", "SHIFT")]
    c.need_operands(1 + len(parts))
    x = c.as_wide(c.plain(0))
    rank = x.array_shape.rank
    kept, epsilon = tuple(range(rank - 1)), float_of_bits(c.config.integer("epsilon_typecast"))
    centered = c.op("subtract", x, c.spread(c.mean(x, [rank - 1]), kept, x))
    variance = c.mean(c.op("multiply", centered, centered), [rank - 1])
    factor = c.op("rsqrt", c.op("add", variance, c.number(epsilon, variance)))
    y = c.op("multiply", centered, c.spread(factor, kept, x))
    for n, part in enumerate(parts, 1):
        vector = c.as_wide(c.plain(n))
        vector = c.spread(c.reshape(vector, x.array_shape.dims[-1:]), (rank - 1,), x)
        y = c.op("multiply" if part == "SCALE" else "add", y, vector)
    return c.done(y)
