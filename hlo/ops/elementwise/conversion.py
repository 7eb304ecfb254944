"""Conversions: between element types, between bit patterns, to a lower precision; copies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hlo.errors import InferError
from hlo.ops.attrs import INT32, need
from hlo.ops.elementwise.casts import convert, float_info, widen
from hlo.ops.factors import FactorRule, Rule, forwarded, pointwise
from hlo.ops.movement.factors import bitcast as bitcast_factors
from hlo.ops.rules import (
    array_operand,
    array_operands,
    array_result,
    merge_dims,
    need_type,
)
from hlo.ops.spec import Category, EvalContext, OpSpec, OpView, Trait, register
from hlo.values.layout import physical_bytes
from hlo.values.layout.packing import pack, unpack
from hlo.values.types import (
    ELEMENT_TYPES,
    UNBOUNDED,
    ArrayShape,
    ElementType,
    Layout,
    Shape,
    element_type_of,
    integer_range,
)

# --- convert ------------------------------------------------------------------------------------


def _infer_convert(op: OpView) -> Shape:
    return array_operand(op, 0).with_type(array_result(op).element_type)


def _evaluate_convert(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    return convert(args[0], array_result(op).element_type)


# --- bitcast-convert ----------------------------------------------------------------------------


def _infer_bitcast_convert(op: OpView) -> Shape:
    shape, et = array_operand(op, 0), array_result(op).element_type
    old = shape.element_type
    if old.is_complex != et.is_complex:
        raise InferError(
            f"bitcast-convert: {old} to {et}: complex only goes to complex", code="type-mismatch"
        )
    dims, dynamic = shape.dims, shape.dynamic
    have, want = old.bits, et.bits
    if max(have, want) % min(have, want):
        raise InferError(
            f"bitcast-convert: {old} to {et}: neither width is a multiple of the other",
            code="type-mismatch",
        )
    if have > want:
        dims = (*dims, have // want)
        dynamic = (*dynamic, False) if dynamic else ()
    elif have < want:
        ratio = want // have
        if not dims or dims[-1] != ratio:
            raise InferError(
                f"bitcast-convert: {shape.to_string(False)} to {et}: the last dimension has to be "
                f"the ratio of widths, {ratio}",
                operand=0,
            )
        dims, dynamic = dims[:-1], dynamic[:-1] if any(dynamic[:-1]) else ()
    return ArrayShape(et, dims, Layout.default(len(dims)), dynamic)


def _split_bits(a: np.ndarray, unit: int) -> np.ndarray:
    """Return the bits of each element in pieces of `unit` (1, 2, 4 or 8), lowest first.

    Shapes: [...] -> uint8 [..., pieces].
    """
    codes = np.ascontiguousarray(a).reshape(*a.shape, 1).view(np.uint8)
    shifts = np.arange(0, min(element_type_of(a.dtype).bits, 8), unit, dtype=np.uint8)
    pieces = (codes[..., None] >> shifts) & np.uint8((1 << unit) - 1)
    return pieces.reshape(*a.shape, codes.shape[-1] * len(shifts))


def _join_bits(pieces: np.ndarray, unit: int, et: ElementType) -> np.ndarray:
    """Return the elements whose bits are the pieces of the last dimension: `_split_bits` undone."""
    shifts = np.arange(0, min(et.bits, 8), unit, dtype=np.uint8)
    *outer, count = pieces.shape
    grouped = pieces.reshape(*outer, count // len(shifts), len(shifts)) << shifts
    octets = np.bitwise_or.reduce(grouped, axis=-1, dtype=np.uint8)
    if et.is_pred or (et.bits < 8 and not et.is_float):
        # How the unused bits of a stored number are filled is its type's business.
        return octets[..., 0].astype(et.dtype)
    return np.ascontiguousarray(octets).view(et.dtype)[..., 0]


def bitcast_elements(a: np.ndarray, et: ElementType) -> np.ndarray:
    """Reinterpret the bits of elements; a change of width splits or joins along a last dimension.

    Shapes: [...] -> [..., ratio] to a narrower type, [..., ratio] -> [...] to a wider one, the
    lowest bits first.
    """
    old, new = element_type_of(a.dtype).bits, et.bits
    if old == new and old >= 8 and not et.is_pred:
        return a.view(et.dtype)
    unit = min(old, new, 8)
    pieces = _split_bits(a, unit)
    if old > new:
        pieces = pieces.reshape(*a.shape, old // new, new // unit)
    elif old < new:
        pieces = pieces.reshape(*a.shape[:-1], new // unit)
    return _join_bits(pieces, unit, et)


def _evaluate_bitcast_convert(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    return bitcast_elements(args[0], array_result(op).element_type)


def _factors_of_bitcast_convert(op: OpView) -> FactorRule:
    rule = Rule(op)
    rule.pointwise(range(min(array_operand(op, 0).rank, array_result(op).rank)))
    return rule.done("the last dimension is one element of the wider type")


# --- reduce-precision ---------------------------------------------------------------------------


def _infer_reduce_precision(op: OpView) -> Shape:
    shape = need_type(op, 0, lambda et: et.is_float, "floating-point")
    for attr, least in (("exponent_bits", 1), ("mantissa_bits", 0)):
        if op.attrs[attr] < least:
            raise InferError(
                f"reduce-precision: {attr} is {op.attrs[attr]}, at least {least} is needed",
                attr=attr, code="bad-value",
            )  # fmt: skip
    return shape


def reduction_type(et: ElementType) -> ElementType:
    """Return the type in which precision is reduced: 8 bits and less go by way of 16, as in XLA.

    What the narrow types do without (an infinity, -0, an odd bias) is then no matter.
    """
    if et.bits > 8:
        return et
    return ELEMENT_TYPES["bf16" if et.name == "f8e8m0fnu" else "f16"]


def reduce_precision(x: np.ndarray, exponent_bits: int, mantissa_bits: int) -> np.ndarray:
    """Round to a format of fewer bits and back, in the type of `x` or a wider one.

    Ties go to even; too large gives infinity (what the type has for it), too small for the format's
    normal numbers a zero; NaN stays. More bits than the type has change nothing.
    """
    et = element_type_of(x.dtype)
    wide = reduction_type(et)
    if wide is not et:
        return convert(reduce_precision(convert(x, wide), exponent_bits, mantissa_bits), et)
    mantissa = float_info(et).nmant
    bits = x.view(f"u{x.dtype.itemsize}")
    kind = bits.dtype.type
    infinity, one = (kind(np.asarray(v).astype(x.dtype).view(bits.dtype)) for v in (math.inf, 1.0))
    with np.errstate(all="ignore"):
        sign = bits & kind(1 << (et.bits - 1))
        size = bits ^ sign
        if mantissa_bits < mantissa:
            cut = kind(mantissa - mantissa_bits)
            odd = (size >> cut) & kind(1)
            # Just under half a unit, and half where the last bit kept is odd. The carry out of the
            # mantissa is right as it is: it raises the exponent.
            size = ((size + (kind(1) << (cut - kind(1))) - kind(1) + odd) >> cut) << cut
        if exponent_bits < et.bits - 1 - mantissa:
            bias, reduced = int(one) >> mantissa, (1 << (exponent_bits - 1)) - 1
            exponent = (size >> kind(mantissa)).astype(np.int64)
            size = np.where(exponent > bias + reduced, infinity, size)
            size = np.where(exponent <= bias - reduced, kind(0), size)
        return np.where(np.isnan(widen(x)), x, (sign | size).view(x.dtype))


def _evaluate_reduce_precision(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    return reduce_precision(args[0], op.exponent_bits, op.mantissa_bits)


# --- stochastic-convert -------------------------------------------------------------------------


def _infer_stochastic_convert(op: OpView) -> Shape:
    value = need_type(op, 0, lambda et: et.is_float, "floating-point")
    random = need_type(op, 1, lambda et: et.is_integer and not et.is_signed, "unsigned integer")
    if value.element_type.bits != random.element_type.bits:
        raise InferError(
            f"stochastic-convert: operand 1 has element type {random.element_type}, "
            f"as many bits as {value.element_type} has are needed",
            operand=1, code="type-mismatch",
        )  # fmt: skip
    et = array_result(op).element_type
    if not et.is_signed:
        # XLA's verifier takes these, and its compiler refuses all of them.
        raise InferError(
            f"stochastic-convert: to {et} has no defined result: only signed integers have",
            code="type-mismatch",
        )
    return merge_dims(op, array_operands(op)).with_type(et)


def stochastic_convert(x: np.ndarray, random: np.ndarray, et: ElementType) -> np.ndarray:
    """Round floats to a signed integer, at random, up as often as the fraction is large.

    That is away from zero where `random / 2**bits` is below the fraction. Saturates; NaN gives 0.
    """
    low, high = integer_range(et)
    with np.errstate(all="ignore"):
        value = widen(x).astype(np.float64)
        size = np.abs(value)
        whole = np.floor(size)
        # The fraction, as a number of as many bits as the random one has, is cut off to an integer.
        fraction = np.ldexp(size - whole, element_type_of(random.dtype).bits)
        up = np.isfinite(size) & (random < convert(fraction, element_type_of(random.dtype)))
        rounded = np.copysign(whole + up, value)
        # Saturation looks at the operand: what is rounded up to the end is there already.
        ends = np.where(value >= high, np.inf, np.where(value <= low, -np.inf, rounded))
        return convert(np.where(np.isnan(value), 0, ends), et)


def _evaluate_stochastic_convert(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    return stochastic_convert(args[0], args[1], array_result(op).element_type)


# --- copy, bitcast ------------------------------------------------------------------------------


def _infer_copy(op: OpView) -> Shape:
    return op.operand_shapes[0]


def _evaluate_copy(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    # Values are never written to, so that sharing one is as good as copying it.
    return args[0]


def _infer_bitcast(op: OpView) -> Shape:
    operand, result = array_operand(op, 0), array_result(op)
    if UNBOUNDED in (*operand.dims, *result.dims):
        return result
    have, want = physical_bytes(operand), physical_bytes(result)
    if have != want:
        raise InferError(
            f"bitcast: {operand} takes {have} bytes, the result {result} {want}", operand=0
        )
    return result


def bitcasts_a_scalar(op: OpView) -> bool:
    """True for a bitcast of one element to another of as many bits: it can run on whole arrays."""
    shapes = (op.operand_shapes[0], op.shape)
    types = [s.element_type for s in shapes if isinstance(s, ArrayShape) and not s.dims]
    if len(types) != 2:
        return False
    old, new = types
    return old is new or (old.bits == new.bits >= 8 and not old.is_pred and not new.is_pred)


def _evaluate_bitcast(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    operand, result = array_operand(op, 0), array_result(op)
    if bitcasts_a_scalar(op):
        same = operand.element_type is result.element_type
        return args[0] if same else bitcast_elements(args[0], result.element_type)
    row_major = all(s.layout is None or s.layout.is_default for s in (operand, result))
    if row_major and operand.element_type is result.element_type:
        return args[0].reshape(result.dims)
    return unpack(pack(args[0], operand), result)


register(
    OpSpec(
        "convert", 1, _infer_convert, _evaluate_convert, Category.ELEMENTWISE,
        "003: ConvertElementType",
        (
            "s8[7] convert(f32[7] x)",
            "bf16[7] convert(f32[7] x)",
            "f32[7] convert(s4[7] x)",
            "pred[7] convert(s32[7] x)",
        ),
        traits=Trait.ELEMENTWISE,
        factors=pointwise,
    )
)  # fmt: skip
register(
    OpSpec(
        "bitcast-convert", 1, _infer_bitcast_convert, _evaluate_bitcast_convert,
        Category.ELEMENTWISE, "003: BitcastConvertType",
        (
            "u32[7] bitcast-convert(f32[7] x)",
            "u8[7,4] bitcast-convert(f32[7] x)",
            "s16[7] bitcast-convert(u4[7,4] x)",
        ),
        cost=0.0,
        traits=Trait.INDEXABLE,
        factors=_factors_of_bitcast_convert,
    )
)  # fmt: skip
register(
    OpSpec(
        "reduce-precision", 1, _infer_reduce_precision, _evaluate_reduce_precision,
        Category.ELEMENTWISE, "003: ReducePrecision",
        ("f32[7] reduce-precision(f32[7] x), exponent_bits=5, mantissa_bits=10",),
        attrs={"exponent_bits": need(INT32), "mantissa_bits": need(INT32)},
        traits=Trait.ELEMENTWISE,
        factors=pointwise,
    )
)  # fmt: skip
register(
    OpSpec(
        "stochastic-convert", 2, _infer_stochastic_convert, _evaluate_stochastic_convert,
        Category.ELEMENTWISE, "XLA hlo_evaluator.cc: HandleStochasticConvert",
        ("s8[7] stochastic-convert(f32[7] x, u32[7] random)",),
        traits=Trait.ELEMENTWISE,
        factors=pointwise,
    )
)  # fmt: skip
register(
    OpSpec(
        "copy", 1, _infer_copy, _evaluate_copy, Category.MOVEMENT, "XLA hlo_opcode.h: copy",
        ("f32[2,3] copy(f32[2,3] x)", "f32[2,3]{0,1} copy(f32[2,3]{1,0} x)"),
        traits=Trait.INFERABLE | Trait.VIEW | Trait.INDEXABLE,
        cost=0.0,
        moved=slice(1),
        factors=forwarded("each element of the tuple is copied"),
    )
)  # fmt: skip
register(
    OpSpec(
        "bitcast", 1, _infer_bitcast, _evaluate_bitcast, Category.MOVEMENT,
        "XLA hlo_opcode.h: the same buffer under another shape",
        (
            "f32[6] bitcast(f32[2,3] x)",
            "f32[3,2]{0,1} bitcast(f32[2,3]{1,0} x)",
            "u32[3,2]{1,0} bitcast(f32[2,3]{0,1} x)",
        ),
        factors=bitcast_factors,
    )
)  # fmt: skip
