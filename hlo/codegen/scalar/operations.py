"""Elementwise operations on SSA scalars, for every element type.

`representation` says how values are represented. Arithmetic on floats below f32 is that of f32,
rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hlo.codegen.llvm import Builder, Index, Val
from hlo.codegen.scalar.convert import (
    bitcast,
    convert,
    float_to_float,
    reduce_precision,
    round_to,
    stochastic_convert,
)
from hlo.codegen.scalar.math.complex_arithmetic import Complex
from hlo.codegen.scalar.math.expr import INF, Num
from hlo.codegen.scalar.native import NATIVE, Native, Precision
from hlo.codegen.scalar.representation import (
    Cplx,
    Value,
    constant,
    from_bits,
    from_memory,
    load,
    memory_type,
    select,
    ssa_type,
    store,
    to_bits,
    to_memory,
)
from hlo.ir import Instruction
from hlo.ops import OPS, Trait
from hlo.values.types import S64, ArrayShape, ElementType, complex_part


def from_index(b: Builder, at: Index, et: ElementType) -> Value:
    """Return an index as a value of any type (iota)."""
    return convert(b, Val("i64", str(at)), S64, et)


def to_index(b: Builder, value: Value, et: ElementType) -> Index:
    """Return an integer value as an i64 index; unsigned values above 2**63 - 1 stay large."""
    assert isinstance(value, Val)
    if value.name.lstrip("-").isdigit():
        number = int(value.name)
        return number if et.is_signed or number >= 0 else number + (1 << et.bits)
    if et.bits == 64:
        if et.is_signed:
            return value.name
        top = Val("i64", str(2**63 - 1))
        return b.intrinsic("umin", "i64", [value, top]).name
    return b.cast("sext" if et.is_signed else "zext", value, "i64").name


CONTRACTS = "contracts"
"""The attribute of a product that may be contracted into the sum that a kernel adds it to."""


def elementwise(b: Builder, inst: Instruction, args: Sequence[Value]) -> Value:
    """Return the result of an elementwise instruction on scalars."""
    shape = inst.array_shape
    operand_types = []
    for s in inst.operand_shapes:
        assert isinstance(s, ArrayShape)
        operand_types.append(s.element_type)
    special = _SPECIAL.get(inst.opcode)
    if special is not None:
        return special(b, inst, shape.element_type, operand_types, args)
    return arithmetic(b, inst.opcode, operand_types[0], args, contracts=CONTRACTS in inst.attrs)


def arithmetic(
    b: Builder, opcode: str, et: ElementType, args: Sequence[Value], *, contracts: bool = False
) -> Value:
    """Return an operation on operands of one type that is determined by its opcode.

    contracts: it may be contracted with what follows; else its result is rounded.
    """
    native = NATIVE[opcode]
    if et.is_complex:
        return _complex_op(b, native, args)
    values = [a for a in args if isinstance(a, Val)]
    if et.is_float:
        return _float_op(b, opcode, et, values, contracts)
    function = (native.pred if et.is_pred else None) or native.integer
    assert function is not None, f"{opcode} on {et}"
    return function(b, et.is_signed, *values)


def combine(b: Builder, opcode: str, et: ElementType, x: Val, y: Val) -> Val:
    """Return a binary elementwise operation on two values of one type that is not complex."""
    result = arithmetic(b, opcode, et, [x, y])
    assert isinstance(result, Val)
    return result


# --- floats -------------------------------------------------------------------------------------

# Types whose largest number is no whole one, or that have neither sign nor fractions.
_ROUNDED = ("f8e8m0fnu", "f6e2m3fn")


def _float_op(
    b: Builder, opcode: str, et: ElementType, args: Sequence[Val], contracts: bool
) -> Val:
    native = NATIVE[opcode]
    is_strict = native.is_short and not contracts
    in_double = b.module.is_strict and OPS[opcode].has(Trait.TRANSCENDENTAL)

    def write(b: Builder, args: Sequence[Val]) -> Val:
        return _real_op(native, [Num(b, a, is_strict) for a in args], in_double).val

    value = write(b, args) if native.is_short else b.shared(f"math.{opcode}", args, write)
    if value.type == "double" and et.bits < 64:
        if et.name == "f8e8m0fnu" or native.through_f32 or in_double:
            # f8e8m0fnu has no zero: what is one in f32 is NaN.
            value = Num(b, value).to("float").val
        return float_to_float(b, value, et)
    # The types of which -0 is NaN round it as well.
    if OPS[opcode].has(Trait.EXACT) and et.name not in _ROUNDED and not et.name.endswith("fnuz"):
        return value
    return round_to(b, et, value, keeps_nan=native.keeps_nan)


def _real_op(native: Native, args: Sequence[Num], in_double: bool) -> Num:
    """Apply an operation to floats or doubles; of floats the result may be a double.

    in_double: it is one, as good as that of doubles.
    """
    assert native.real is not None
    if in_double:
        return native.real(*(a.to("double") for a in args))
    match native.precision:
        case Precision.OPERANDS:
            return native.real(*args)
        case Precision.DOUBLE:
            return native.real(*(a.to("double") for a in args))
        case Precision.ROUGH:
            is_rough = args[0].type == "float"
            return native.real(*(a.to("double") for a in args), rough=is_rough)


# --- complex numbers ----------------------------------------------------------------------------


def _complex_op(b: Builder, native: Native, args: Sequence[Value]) -> Value:
    parts = []
    for a in args:
        assert isinstance(a, Cplx)
        parts.append(Complex(*(Num(b, part, native.is_short) for part in (a.re, a.im))))
    result = _on_complex(native, parts)
    if isinstance(result, Num):
        return result.val
    return Cplx(result.re.val, result.im.val)


def _on_complex(native: Native, args: Sequence[Complex]) -> Complex | Num:
    assert native.complex is not None
    if native.own_parts:
        return native.complex(*args)
    return native.complex(*(z.to("double") for z in args)).to(args[0].re.type)


# --- operations with attributes -----------------------------------------------------------------

_PREDICATES = {"EQ": "eq", "NE": "ne", "LT": "lt", "LE": "le", "GT": "gt", "GE": "ge"}


def _compare(
    b: Builder, inst: Instruction, _: ElementType, ets: list[ElementType], args: Sequence[Value]
) -> Value:
    direction, et = _PREDICATES[inst.direction], ets[0]
    order = inst.comparison_type
    x, y = args
    if isinstance(x, Cplx):
        assert isinstance(y, Cplx)
        part = complex_part(et)
        re, im = (
            Num(b, _compare_parts(b, direction, part, order, *pair))
            for pair in ((x.re, y.re), (x.im, y.im))
        )
        return (re & im if direction == "eq" else re | im).val
    assert isinstance(y, Val)
    return _compare_parts(b, direction, et, order, x, y)


def _compare_parts(
    b: Builder, direction: str, et: ElementType, order: str | None, x: Val, y: Val
) -> Val:
    if et.is_float and order == "WEAKORDER":
        return _compare_weakly(b, direction, x, y)
    if et.is_float and order != "TOTALORDER":
        predicate = "une" if direction == "ne" else f"o{direction}"
        return b.fcmp(predicate, x, y)
    signed = et.is_signed
    if et.is_float:
        x, y = (_total_order_key(b, et, v) for v in (x, y))
        signed = et.name != "f8e8m0fnu"
    prefix = "" if direction in ("eq", "ne") else "s" if signed else "u"
    return b.icmp(f"{prefix}{direction}", x, y)


def _compare_weakly(b: Builder, direction: str, x: Val, y: Val) -> Val:
    """Compare floats of which zeros are equal, and so are NaNs, which are above all others."""
    opposite = {"ne": "eq", "ge": "lt", "le": "gt"}.get(direction)
    if opposite is not None:
        return b.binary("xor", _compare_weakly(b, opposite, x, y), "true")
    if direction == "gt":
        x, y = y, x
    if direction == "eq":
        both = [b.fcmp("uno", v, v) for v in (x, y)]
        return b.binary("or", b.fcmp("oeq", x, y), b.binary("and", both[0], both[1]))  # fmt: skip
    number = b.fcmp("ord", x, x)
    return b.binary("and", number, b.fcmp("ult", x, y))


def _total_order_key(b: Builder, et: ElementType, x: Val) -> Val:
    """Return an integer in the order -NaN, -inf, .., -0, 0, .., inf, NaN, as the bits say."""
    raw = Num(b, to_bits(b, et, x))
    if et.name == "f8e8m0fnu":  # has no sign bit
        return raw.val
    sign = raw.ashr(et.bits - 1)
    if et.name.endswith("fnuz"):
        # The bits of -0 are NaN in these: it is ordered before the other negative values.
        raw = (raw + sign) | (sign & 128)
    return (raw ^ sign.lshr(1)).val


def _select(
    b: Builder, _i: Instruction, _r: ElementType, _o: list[ElementType], args: Sequence[Value]
) -> Value:
    condition, yes, no = args
    assert isinstance(condition, Val)
    return select(b, condition, yes, no)


def _convert(
    b: Builder, _: Instruction, et: ElementType, ets: list[ElementType], args: Sequence[Value]
) -> Value:
    return convert(b, args[0], ets[0], et)


def _bitcast(
    b: Builder, _: Instruction, et: ElementType, ets: list[ElementType], args: Sequence[Value]
) -> Value:
    return bitcast(b, args[0], ets[0], et)


def _reduce_precision(
    b: Builder, inst: Instruction, et: ElementType, _: list[ElementType], args: Sequence[Value]
) -> Value:
    (x,) = args
    assert isinstance(x, Val)
    return reduce_precision(b, x, et, inst.exponent_bits, inst.mantissa_bits)


def _stochastic_convert(
    b: Builder, _: Instruction, et: ElementType, ets: list[ElementType], args: Sequence[Value]
) -> Value:
    x, random = args
    assert isinstance(x, Val) and isinstance(random, Val)
    return stochastic_convert(b, x, random, ets[0], et)


def _constant(
    b: Builder, inst: Instruction, et: ElementType, _o: list[ElementType], _a: Sequence[Value]
) -> Value:
    return constant(et, inst.literal.value[()])


def _identity(
    b: Builder, _i: Instruction, _r: ElementType, _o: list[ElementType], args: Sequence[Value]
) -> Value:
    return args[0]


def _is_finite(
    b: Builder, _: Instruction, _r: ElementType, _o: list[ElementType], args: Sequence[Value]
) -> Value:
    (x,) = args
    assert isinstance(x, Val)
    return (Num(b, x).abs() < INF).val


def _join(
    b: Builder, _: Instruction, _r: ElementType, _o: list[ElementType], args: Sequence[Value]
) -> Value:
    re, im = args
    assert isinstance(re, Val) and isinstance(im, Val)
    return Cplx(re, im)


_Special = Callable[[Builder, Instruction, ElementType, list[ElementType], Sequence[Value]], Value]
_SPECIAL: dict[str, _Special] = {
    "compare": _compare,
    "select": _select,
    "convert": _convert,
    "bitcast-convert": _bitcast,
    "reduce-precision": _reduce_precision,
    "stochastic-convert": _stochastic_convert,
    "constant": _constant,
    "is-finite": _is_finite,
    "complex": _join,
    **{name: _identity for name, spec in OPS.items() if spec.has(Trait.VIEW)},  # of one element
}

__all__ = [
    "Cplx",
    "Value",
    "arithmetic",
    "combine",
    "constant",
    "convert",
    "elementwise",
    "from_bits",
    "from_index",
    "from_memory",
    "load",
    "memory_type",
    "select",
    "ssa_type",
    "store",
    "to_bits",
    "to_index",
    "to_memory",
]
