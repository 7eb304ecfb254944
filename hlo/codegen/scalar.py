"""Elementwise operations on SSA scalars, for every element type.

How a value of each type is held:
  pred            i1
  integers        an LLVM integer of exactly the type's bits, so that arithmetic wraps by itself
  f64             double
  f32 and below   float; a narrower type's value is always one that the type has (rounded after each
                  operation)
  complex         a `Cplx` of two such values
In memory, pred and integers below a byte take a byte, bf16 and f16 two bytes, f8 and f4 one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from hlo.codegen import floats, mathlib
from hlo.codegen.llvm import Builder, Index, Val, float_const, int_const
from hlo.ir import Instruction
from hlo.types import S64, ArrayShape, ElementType, complex_part


@dataclass(frozen=True, slots=True)
class Cplx:
    """A complex value: real and imaginary part."""

    re: Val
    im: Val


Value = Val | Cplx


def ssa_type(et: ElementType) -> str:
    """Return the LLVM type of a held value (of its parts, when complex)."""
    if et.is_pred:
        return "i1"
    if et.is_integer:
        return f"i{et.bits}"
    return "double" if complex_part(et).name == "f64" else "float"


def memory_type(et: ElementType) -> str:
    """Return the LLVM type that an element (or complex part) takes in memory."""
    if et.is_pred:
        return "i8"
    if et.is_integer:
        return f"i{max(et.bits, 8)}"
    return {64: "double", 32: "float", 16: "i16"}.get(complex_part(et).bits, "i8")


def load(b: Builder, et: ElementType, base: str, index: Index, note: str = "") -> Value:
    """Load element `index` of an unpacked array at `base`. `note` is metadata for the load."""
    mem = memory_type(et)
    if et.is_complex:
        at = b.mul(index, 2)
        parts = [
            b.effect(mem, f"load {mem}, ptr {b.element_address(base, mem, b.add(at, k))}{note}")
            for k in (0, 1)
        ]
        return Cplx(*parts)
    raw = b.effect(mem, f"load {mem}, ptr {b.element_address(base, mem, index)}{note}")
    return from_memory(b, et, raw)


def store(
    b: Builder, et: ElementType, value: Value, base: str, index: Index, note: str = ""
) -> None:
    """Store a value as element `index` of an unpacked array at `base`."""
    mem = memory_type(et)
    if isinstance(value, Cplx):
        at = b.mul(index, 2)
        for k, part in enumerate((value.re, value.im)):
            b.write(f"store {part}, ptr {b.element_address(base, mem, b.add(at, k))}{note}")
        return
    raw = to_memory(b, et, value)
    b.write(f"store {raw}, ptr {b.element_address(base, mem, index)}{note}")


def from_memory(b: Builder, et: ElementType, raw: Val) -> Val:
    """Return the held value of an element's bits in memory."""
    if et.is_pred:
        return b.op("i1", f"icmp ne {raw}, 0")
    if et.is_integer:
        return raw if et.bits >= 8 else b.op(ssa_type(et), f"trunc {raw} to {ssa_type(et)}")
    return raw if raw.type in ("float", "double") else floats.decode(b, et, raw)


def to_memory(b: Builder, et: ElementType, value: Val) -> Val:
    """Return the bits in memory of a held value."""
    if et.is_pred:
        return b.op("i8", f"zext {value} to i8")
    if et.is_integer:
        if et.bits >= 8:
            return value
        return b.op("i8", f"{'sext' if et.is_signed else 'zext'} {value} to i8")
    return value if memory_type(et) == value.type else floats.encode(b, et, value)


def constant(et: ElementType, value: np.generic | np.ndarray) -> Value:
    """Return the constant of a numpy scalar of the type."""
    if et.is_complex:
        part = ssa_type(et)
        return Cplx(float_const(part, float(value.real)), float_const(part, float(value.imag)))
    if et.is_pred:
        return int_const(1, int(bool(value)))
    if et.is_integer:
        return int_const(et.bits, int(value))
    return float_const(ssa_type(et), float(value))


def from_index(b: Builder, at: Index, et: ElementType) -> Value:
    """Return an index as a value of any type (iota)."""
    held = Val("i64", str(at))
    return convert(b, held, S64, et)


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
        return b.intrinsic("umin.i64", "i64", [value, top]).name
    return b.op("i64", f"{'sext' if et.is_signed else 'zext'} {value} to i64").name


def select(b: Builder, condition: Val, yes: Value, no: Value) -> Value:
    """Return one of two values."""
    if isinstance(yes, Cplx):
        assert isinstance(no, Cplx)
        return Cplx(b.select(condition, yes.re, no.re), b.select(condition, yes.im, no.im))
    assert isinstance(no, Val)
    return b.select(condition, yes, no)


# --- conversion ---------------------------------------------------------------------------------


def convert(b: Builder, value: Value, source: ElementType, target: ElementType) -> Value:
    """Convert between any two types as the `convert` operation does.

    Float to integer truncates, saturates at the ends and takes NaN to 0; anything but zero is true.
    """
    if source is target:
        return value
    if target.is_complex:
        part = complex_part(target)
        if isinstance(value, Cplx):
            inner = complex_part(source)
            re, im = (convert(b, v, inner, part) for v in (value.re, value.im))
            assert isinstance(re, Val) and isinstance(im, Val)
            return Cplx(re, im)
        re = convert(b, value, source, part)
        assert isinstance(re, Val)
        return Cplx(re, float_const(re.type, 0.0))
    if isinstance(value, Cplx):
        return convert(b, value.re, complex_part(source), target)
    if target.is_pred:
        if source.is_float:
            return b.op("i1", f"fcmp une {value}, {float_const(value.type, 0.0).name}")
        return b.op("i1", f"icmp ne {value}, 0")
    if target.is_integer:
        if source.is_float:
            return _float_to_int(b, value, target)
        signed = source.is_signed and not source.is_pred
        return _resize(b, value, target.bits, signed)
    if source.is_float:
        return _float_to_float(b, value, target)
    wide = "double" if target.name == "f64" or source.bits > 24 else "float"
    how = "sitofp" if source.is_signed else "uitofp"
    if target.name == "f32":
        wide = "float"
    raw = b.op(wide, f"{how} {value} to {wide}")
    return _float_to_float(b, raw, target)


def _resize(b: Builder, value: Val, bits: int, signed: bool) -> Val:
    have = int(value.type[1:])
    if have == bits:
        return value
    how = "trunc" if have > bits else "sext" if signed else "zext"
    return b.op(f"i{bits}", f"{how} {value} to i{bits}")


def _float_to_int(b: Builder, value: Val, target: ElementType) -> Val:
    name = "fptosi" if target.is_signed else "fptoui"
    kind = "f64" if value.type == "double" else "f32"
    bits = max(target.bits, 8)
    raw = b.intrinsic(f"{name}.sat.i{bits}.{kind}", f"i{bits}", [value])
    if bits == target.bits:
        return raw
    lo, hi = (-(1 << target.bits - 1), (1 << target.bits - 1) - 1) if target.is_signed else (
        0, (1 << target.bits) - 1)  # fmt: skip
    s = "s" if target.is_signed else "u"
    raw = b.intrinsic(f"{s}max.i8", "i8", [raw, Val("i8", str(lo))])
    raw = b.intrinsic(f"{s}min.i8", "i8", [raw, Val("i8", str(hi))])
    return b.op(f"i{target.bits}", f"trunc {raw} to i{target.bits}")


def _float_to_float(b: Builder, value: Val, target: ElementType) -> Val:
    want = ssa_type(target)
    if value.type != want:
        how = "fpext" if want == "double" else "fptrunc"
        value = b.op(want, f"{how} {value} to {want}")
    return round_to(b, target, value)


def round_to(b: Builder, et: ElementType, value: Val) -> Val:
    """Round a `float` to a narrower type's nearest value; f32 and f64 are as they are."""
    return value if et.bits >= 32 else floats.round_to(b, et, value)


# --- operations ---------------------------------------------------------------------------------


def elementwise(b: Builder, inst: Instruction, args: Sequence[Value]) -> Value:
    """Return the result of an elementwise instruction on scalars."""
    shape = inst.shape
    assert isinstance(shape, ArrayShape)
    operand_types = []
    for s in inst.operand_shapes:
        assert isinstance(s, ArrayShape)
        operand_types.append(s.element_type)
    special = _SPECIAL.get(inst.opcode)
    if special is not None:
        return special(b, inst, shape.element_type, operand_types, args)
    et = operand_types[0]
    if et.is_complex:
        return mathlib.complex_op(b, inst.opcode, complex_part(et), args)
    values = [a for a in args if isinstance(a, Val)]
    if et.is_float:
        return _float_op(b, inst.opcode, et, values)
    return _integer_op(b, inst.opcode, et, values)


_FLOAT_BINARY = {
    "add": "fadd contract", "subtract": "fsub contract", "multiply": "fmul contract",
    "divide": "fdiv", "remainder": "frem",
}  # fmt: skip
# Exact on a narrower type's values: no rounding needed.
_EXACT = frozenset({"abs", "negate", "floor", "ceil", "round-nearest-even", "round-nearest-afz",
                    "sign", "maximum", "minimum", "clamp", "copy"})  # fmt: skip


def _float_op(b: Builder, opcode: str, et: ElementType, args: Sequence[Val]) -> Val:
    if opcode in _FLOAT_BINARY:
        x, y = args
        if opcode == "remainder":
            value = mathlib.remainder(b, x, y)
        else:
            value = b.op(x.type, f"{_FLOAT_BINARY[opcode]} {x}, {y.name}")
    else:
        value = mathlib.float_op(b, opcode, et, args)
    return value if opcode in _EXACT else round_to(b, et, value)


_INT_BINARY = {
    "add": "add", "subtract": "sub", "multiply": "mul", "and": "and", "or": "or", "xor": "xor",
}  # fmt: skip


def combine(b: Builder, opcode: str, et: ElementType, x: Val, y: Val) -> Val:
    """Return a binary elementwise operation on two values of one type that is not complex."""
    if et.is_float:
        return _float_op(b, opcode, et, [x, y])
    return _integer_op(b, opcode, et, [x, y])


def _integer_op(b: Builder, opcode: str, et: ElementType, args: Sequence[Val]) -> Val:
    x = args[0]
    t = x.type
    signed = et.is_signed
    if et.is_pred:
        # On truth values add and maximum are "or", multiply and minimum are "and".
        opcode = {"add": "or", "maximum": "or", "multiply": "and", "minimum": "and"}.get(
            opcode, opcode
        )
    bits = int(t[1:])
    if opcode in _INT_BINARY:
        return b.op(t, f"{_INT_BINARY[opcode]} {x}, {args[1].name}")
    match opcode:
        case "copy":
            return x
        case "not":
            return b.op(t, f"xor {x}, -1" if t != "i1" else f"xor {x}, true")
        case "negate":
            return b.op(t, f"sub {t} 0, {x.name}")
        case "abs":
            return b.intrinsic(f"abs.{t}", t, [x, Val("i1", "false")]) if signed else x
        case "maximum" | "minimum":
            kind = ("s" if signed else "u") + opcode[:3]
            return b.intrinsic(f"{kind}.{t}", t, list(args))
        case "sign":
            if not signed:
                return b.op(t, f"zext i1 {b.op('i1', f'icmp ne {x}, 0').name} to {t}")
            limited = b.intrinsic(f"smin.{t}", t, [x, int_const(bits, 1)])
            return b.intrinsic(f"smax.{t}", t, [limited, int_const(bits, -1)])
        case "divide" | "remainder":
            return _divide(b, opcode, signed, x, args[1])
        case "shift-left" | "shift-right-logical" | "shift-right-arithmetic":
            return _shift(b, opcode, bits, x, args[1])
        case "clamp":
            lo, value, hi = args
            s = "s" if signed else "u"
            return b.intrinsic(f"{s}min.{t}", t, [b.intrinsic(f"{s}max.{t}", t, [lo, value]), hi])
        case "popcnt":
            return b.intrinsic(f"ctpop.{t}", t, [x])
        case "count-leading-zeros":
            return b.intrinsic(f"ctlz.{t}", t, [x, Val("i1", "false")])
        case "mulhi":
            wide = f"i{2 * bits}"
            how = "sext" if signed else "zext"
            p, q = (b.op(wide, f"{how} {v} to {wide}") for v in (x, args[1]))
            product = b.op(wide, f"mul {p}, {q.name}")
            return b.op(t, f"trunc {wide} {b.op(wide, f'lshr {product}, {bits}').name} to {t}")
        case "power":
            return mathlib.integer_power(b, signed, x, args[1])
    raise AssertionError(f"no emission rule for {opcode} on {et}")


def _divide(b: Builder, opcode: str, signed: bool, x: Val, y: Val) -> Val:
    """x / 0 is all ones, x % 0 is x; the lowest number by -1 is itself, the remainder 0."""
    t = x.type
    bits = int(t[1:])
    zero = b.op("i1", f"icmp eq {y}, 0")
    unsafe = zero
    if signed:
        lowest = b.op("i1", f"icmp eq {x}, {int_const(bits, 1 << bits - 1).name}")
        minus = b.op("i1", f"icmp eq {y}, -1")
        overflow = b.both(lowest, minus)
        unsafe = b.op("i1", f"or {zero}, {overflow.name}")
    one = int_const(bits, 1) if bits > 1 else TRUE_BIT
    safe = b.select(unsafe, one, y)
    s = "s" if signed else "u"
    if opcode == "divide":
        # The lowest number divided by one is what overflow has to give.
        return b.select(zero, int_const(bits, -1), b.op(t, f"{s}div {x}, {safe.name}"))
    value = b.select(zero, x, b.op(t, f"{s}rem {x}, {safe.name}"))
    return value


TRUE_BIT = Val("i1", "true")


def _shift(b: Builder, opcode: str, bits: int, x: Val, y: Val) -> Val:
    """Shifting by the width or more (or by a negative count) shifts everything out."""
    t = x.type
    name = {"shift-left": "shl", "shift-right-logical": "lshr"}.get(opcode, "ashr")
    inside = (
        b.op("i1", f"icmp ult {y}, {bits}")
        if bits > 2
        else b.op("i1", f"icmp {'ult' if bits == 2 else 'eq'} {y}, {'2' if bits == 2 else 'false'}")
    )
    zero = int_const(bits, 0)
    shifted = b.op(t, f"{name} {x}, {b.select(inside, y, zero).name}")
    if name == "ashr":
        top = int_const(bits, bits - 1)
        return b.op(t, f"ashr {x}, {b.select(inside, y, top).name}")
    return b.select(inside, shifted, zero)


_ORDERED = {"EQ": "oeq", "NE": "une", "LT": "olt", "LE": "ole", "GT": "ogt", "GE": "oge"}


def _compare(
    b: Builder, inst: Instruction, _: ElementType, ets: list[ElementType], args: Sequence[Value]
) -> Value:
    direction = inst.attrs["direction"]
    x, y = args
    et = ets[0]
    if isinstance(x, Cplx):
        assert isinstance(y, Cplx)
        predicate = _ORDERED[direction]
        re = b.op("i1", f"fcmp {predicate} {x.re}, {y.re.name}")
        im = b.op("i1", f"fcmp {predicate} {x.im}, {y.im.name}")
        return b.both(re, im) if direction == "EQ" else b.op("i1", f"or {re}, {im.name}")
    assert isinstance(y, Val)
    if et.is_float:
        if inst.attrs["type"] == "TOTALORDER":
            x, y = (mathlib.total_order_key(b, v) for v in (x, y))
            return b.op("i1", f"icmp {_int_predicate(direction, True)} {x}, {y.name}")
        return b.op("i1", f"fcmp {_ORDERED[direction]} {x}, {y.name}")
    return b.op("i1", f"icmp {_int_predicate(direction, et.is_signed)} {x}, {y.name}")


def _int_predicate(direction: str, signed: bool) -> str:
    if direction in ("EQ", "NE"):
        return direction.lower()
    return ("s" if signed else "u") + direction.lower()


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


def _constant(
    b: Builder, inst: Instruction, et: ElementType, _o: list[ElementType], _a: Sequence[Value]
) -> Value:
    return constant(et, inst.attrs["literal"].value[()])


def _identity(
    b: Builder, _i: Instruction, _r: ElementType, _o: list[ElementType], args: Sequence[Value]
) -> Value:
    return args[0]


def _is_finite(
    b: Builder, _: Instruction, _r: ElementType, ets: list[ElementType], args: Sequence[Value]
) -> Value:
    (x,) = args
    assert isinstance(x, Val)
    # x - x is NaN exactly for the infinities and NaN.
    zero = b.op(x.type, f"fsub {x}, {x.name}")
    return b.op("i1", f"fcmp ord {zero}, {zero.name}")


_Special = Callable[[Builder, Instruction, ElementType, list[ElementType], Sequence[Value]], Value]
_SPECIAL: dict[str, _Special] = {
    "compare": _compare,
    "select": _select,
    "convert": _convert,
    "constant": _constant,
    "is-finite": _is_finite,
    **dict.fromkeys(("copy", "reshape", "broadcast", "transpose", "reverse", "bitcast"), _identity),
}
