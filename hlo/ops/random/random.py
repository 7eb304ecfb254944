"""Random numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hlo.errors import InferError
from hlo.ops import rules
from hlo.ops.attrs import INT, enum, need
from hlo.ops.elementwise import casts
from hlo.ops.factors import FactorKind, FactorRule, Rule, whole
from hlo.ops.random.bits import RNG_KEY, philox_bits, threefry_bits
from hlo.ops.spec import Category, EvalContext, OpSpec, OpView, Trait, register
from hlo.values.types import U64, ArrayShape, ElementType, Shape, TupleShape, array

# --- rng ----------------------------------------------------------------------------------------


def _infer_rng(op: OpView) -> Shape:
    normal = op.distribution == "rng_normal"
    what = "a floating-point type" if normal else "a floating-point, integer or pred type"
    for i in range(2):
        rules.need_type(op, i, lambda t: t.is_float or not (normal or t.is_complex), what)
        rules.need_rank(op, i, 0)
    et = rules.need_same_type(op, 0, 1)
    return array(et, rules.array_result(op).dims)


def _words(ctx: EvalContext, dims: tuple[int, ...], bits: int) -> np.ndarray:
    """Return random words at the host's counter, which moves on by the counters they take."""
    state = ctx.host.rng_state
    (_, *after), words = philox_bits((RNG_KEY, state % 2**64, state >> 64), dims, bits)
    ctx.host.rng_state = after[0] | after[1] << 64
    return words


def _unit(words: np.ndarray, wide: Any) -> np.ndarray:
    """Return random words as numbers in [0, 1), multiples of the type's precision."""
    digits = np.finfo(wide).nmant + 1
    top = words >> words.dtype.type(8 * words.itemsize - digits)
    return top.astype(wide) * wide(2.0**-digits)


def _normal(
    mean: np.ndarray, deviation: np.ndarray, dims: tuple[int, ...], et: ElementType, ctx: Any
) -> np.ndarray:
    """Return normally distributed values; two uniform numbers make one (Box and Muller)."""
    wide: Any = np.float64 if et.name == "f64" else np.float32
    first, second = _unit(_words(ctx, (2, *dims), et.bits), wide)
    radius = np.sqrt(wide(-2) * np.log(wide(1) - first))
    value = radius * np.cos(second * wide(2 * np.pi))
    return casts.narrow(mean.astype(wide) + deviation.astype(wide) * value, et)


def _uniform(
    low: np.ndarray, high: np.ndarray, dims: tuple[int, ...], et: ElementType, ctx: Any
) -> np.ndarray:
    """Return values in `[low, high)`; all are `low` where that is empty."""
    words = _words(ctx, dims, et.bits)
    if et.is_float:
        wide: Any = np.float64 if et.name == "f64" else np.float32
        a, b = low.astype(wide), high.astype(wide)
        if not a < b:
            return np.full(dims, low, et.dtype)
        u = _unit(words, wide)
        # The sum of two products, since b - a may overflow.
        value = casts.narrow(a * (wide(1) - u) + b * u, et)
        return np.where(value >= high, np.nextafter(high, low), value)
    first, last = int(low), int(high)
    if not first < last:
        return np.full(dims, low, et.dtype)
    offset = words % words.dtype.type(last - first)
    return _bits_as(words.dtype.type(first % 2 ** (8 * words.itemsize)) + offset, et)


def _evaluate_rng(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    shape = rules.array_result(op)
    rules.need_memory(op, shape, scratch_bytes=64 * shape.num_elements)
    et = shape.element_type
    if et.is_pred:
        # The one range that is not empty holds one value.
        return np.full(shape.dims, args[0])
    draw = _normal if op.distribution == "rng_normal" else _uniform
    with np.errstate(all="ignore"):
        return np.asarray(draw(args[0], args[1], shape.dims, et, ctx))


register(
    OpSpec(
        "rng", 2, _infer_rng, _evaluate_rng, Category.RANDOM, "RngNormal, RngUniform",
        examples=(
            "f32[2,3] rng(f32[] a, f32[] b), distribution=rng_uniform",
            "bf16[4] rng(bf16[] mu, bf16[] sigma), distribution=rng_normal",
        ),
        attrs={"distribution": need(enum("rng_uniform", "rng_normal", any_case=True))},
        traits=Trait.NO_FOLD,
        factors=whole("numbers are drawn in the order of the whole array"),
    )
)  # fmt: skip

# --- rng-bit-generator --------------------------------------------------------------------------

# The default is what XLA:CPU takes.
_ALGORITHMS = {
    "rng_default": (philox_bits, (2, 3)),
    "rng_three_fry": (threefry_bits, (2,)),
    "rng_philox": (philox_bits, (2, 3)),
}


def _infer_rng_bit_generator(op: OpView) -> Shape:
    state = rules.need_type(op, 0, lambda t: t is U64, "u64")
    rules.need_rank(op, 0, 1)
    algorithm = op.algorithm
    _, sizes = _ALGORITHMS[algorithm]
    if state.dims[0] not in sizes:
        raise InferError(
            f"rng-bit-generator: the state of {algorithm} has {' or '.join(map(str, sizes))} "
            f"elements, not {state.dims[0]}",
            operand=0,
        )
    result = op.shape
    if not (
        isinstance(result, TupleShape)
        and len(result.elements) == 2
        and isinstance(result.elements[1], ArrayShape)
    ):
        raise InferError(
            f"rng-bit-generator: the result is a pair of the state and an array, "
            f"not {result.to_string(False)}",
            code="type-mismatch",
        )
    data = result.elements[1]
    et = data.element_type
    if et.is_complex or et.is_pred:
        raise InferError(
            f"rng-bit-generator: random bits are of an integer or floating-point type, not {et}",
            code="type-mismatch",
        )
    return TupleShape((array(U64, state.dims), array(et, data.dims)))


def _bits_as(values: np.ndarray, et: ElementType) -> np.ndarray:
    """Return the low bits of uint32s or uint64s as values of a type of that many bits."""
    if et.bits >= 8:
        return values.astype(f"u{et.byte_width}").view(et.dtype)
    low = (values & np.uint32(2**et.bits - 1)).astype(np.uint8)
    if et.is_float:
        return low.view(et.dtype)
    if et.is_signed:
        sign = np.int8(1 << (et.bits - 1))
        return ((low.view(np.int8) ^ sign) - sign).astype(et.dtype)
    return low.astype(et.dtype)


def _factors_of_bits(op: OpView) -> FactorRule:
    """Return the rule of bits that are counted through, in the order of the whole array."""
    rule, (_, bits) = Rule(op), [s for _, s in op.shape.leaves()]
    assert isinstance(bits, ArrayShape)
    rule.pointwise(range(bits.rank), (), (1,), FactorKind.PERMUTATION)
    return rule.done("all devices have one state")


def _evaluate_rng_bit_generator(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    assert isinstance(op.shape, TupleShape)
    data = op.shape.elements[1]
    assert isinstance(data, ArrayShape)
    # The rounds keep about eight words an element at a time.
    rules.need_memory(op, op.shape, scratch_bytes=64 * data.num_elements)
    generate, _ = _ALGORITHMS[op.algorithm]
    et = data.element_type
    state, values = generate(tuple(int(v) for v in args[0]), data.dims, et.bits)
    return np.array(state, np.uint64), _bits_as(np.asarray(values), et)


register(
    OpSpec(
        "rng-bit-generator", 1, _infer_rng_bit_generator, _evaluate_rng_bit_generator,
        Category.RANDOM, "RngBitGenerator",
        examples=(
            "(u64[2], u32[3,5]) rng-bit-generator(u64[2] state), algorithm=rng_three_fry",
            "(u64[3], u64[7]) rng-bit-generator(u64[3] state), algorithm=rng_philox",
            "(u64[2], u8[9]) rng-bit-generator(u64[2] state), algorithm=rng_default",
        ),
        attrs={"algorithm": need(enum(*_ALGORITHMS, any_case=True))},
        factors=_factors_of_bits,
    )
)  # fmt: skip

# --- rng-get-and-update-state -------------------------------------------------------------------


def _infer_rng_state(op: OpView) -> Shape:
    return array(U64, (2,))


def _evaluate_rng_state(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    """Return the host's 128-bit counter, low half first, and then add the delta to it."""
    state = ctx.host.rng_state
    ctx.host.rng_state = (state + op.delta) % 2**128
    return np.array([state % 2**64, state >> 64], np.uint64)


register(
    OpSpec(
        "rng-get-and-update-state", 0, _infer_rng_state, _evaluate_rng_state, Category.RANDOM,
        "RngGetAndUpdateState",
        examples=("u64[2] rng-get-and-update-state(), delta=3",),
        attrs={"delta": need(INT)},
        traits=Trait.SIDE_EFFECT | Trait.NO_FOLD,
        factors=whole("the host has one state"),
    )
)  # fmt: skip
