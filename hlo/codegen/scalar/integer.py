"""Integer and pred arithmetic on SSA values."""

from __future__ import annotations

from collections.abc import Sequence

from hlo.codegen.llvm import FALSE, TRUE, Builder, Val, int_const
from hlo.codegen.scalar.math.expr import Num
from hlo.codegen.scalar.math.power import integer_power
from hlo.values.types import ElementType

_BINARY = {
    "add": "add", "subtract": "sub", "multiply": "mul", "and": "and", "or": "or", "xor": "xor",
}  # fmt: skip
# On truth values add and maximum are "or", multiply and minimum are "and".
_ON_PRED = {"add": "or", "maximum": "or", "multiply": "and", "minimum": "and"}


def integer_op(b: Builder, opcode: str, et: ElementType, args: Sequence[Val]) -> Val:
    """Return an elementwise operation on integers or pred."""
    x = args[0]
    t = x.type
    bits = int(t[1:])
    signed = et.is_signed
    s = "s" if signed else "u"
    if et.is_pred:
        opcode = _ON_PRED.get(opcode, opcode)
    if opcode in _BINARY:
        return b.binary(_BINARY[opcode], x, args[1])
    match opcode:
        case "not":
            return b.binary("xor", x, int_const(bits, -1))
        case "negate":
            return b.binary("sub", int_const(bits, 0), x)
        case "abs":
            return b.intrinsic("abs", t, [x, FALSE])
        case "maximum" | "minimum":
            return b.intrinsic(f"{s}{opcode[:3]}", t, list(args))
        case "sign":
            limited = b.intrinsic("smin", t, [x, int_const(bits, 1)]) if bits > 1 else x
            return b.intrinsic("smax", t, [limited, int_const(bits, -1)])
        case "divide":
            return _divide(b, signed, x, args[1])
        case "remainder":
            return _remainder(b, signed, x, args[1])
        case "shift-left" | "shift-right-logical" | "shift-right-arithmetic":
            return _shift(b, opcode, x, args[1])
        case "clamp":
            low, value, high = args
            raised = integer_op(b, "maximum", et, [low, value])
            return integer_op(b, "minimum", et, [raised, high])
        case "popcnt":
            return b.intrinsic("ctpop", t, [x])
        case "count-leading-zeros":
            return b.intrinsic("ctlz", t, [x, FALSE])
        case "mulhi":
            return _multiply_high(b, signed, x, args[1])
        case "power":
            return integer_power(b, signed, x, args[1])
    raise AssertionError(f"no emission rule for {opcode} on {et}")


def _is_zero(b: Builder, x: Val) -> Val:
    return b.icmp("eq", x, int_const(int(x.type[1:]), 0))


def _safe_divisor(b: Builder, signed: bool, x: Val, y: Val) -> Val:
    """Return y, or one where the machine would trap: for zero, and minus one if signed."""
    bits = int(x.type[1:])
    unsafe = _is_zero(b, y)
    if signed and bits > 1:
        minus = b.icmp("eq", y, -1)
        unsafe = b.binary("or", unsafe, minus)
    return b.select(unsafe, int_const(bits, 1), y)


def _divide(b: Builder, signed: bool, x: Val, y: Val) -> Val:
    """x / 0 has all bits set; the lowest number by -1 is itself."""
    t = x.type
    bits = int(t[1:])
    s = "s" if signed else "u"
    if bits == 1:
        # The only divisor is 1, or -1 if signed: the quotient by it is x, wrapped.
        return b.select(_is_zero(b, y), TRUE, x)
    quotient = b.binary(f"{s}div", x, _safe_divisor(b, signed, x, y))
    if signed:
        minus = b.icmp("eq", y, -1)
        quotient = b.select(minus, b.binary("sub", int_const(int(t[1:]), 0), x), quotient)
    return b.select(_is_zero(b, y), int_const(bits, -1), quotient)


def _remainder(b: Builder, signed: bool, x: Val, y: Val) -> Val:
    """x % 0 is x; what minus one leaves is 0."""
    t = x.type
    s = "s" if signed else "u"
    if t == "i1":
        return b.select(_is_zero(b, y), x, FALSE)
    rest = b.binary(f"{s}rem", x, _safe_divisor(b, signed, x, y))
    return b.select(_is_zero(b, y), x, rest)


def _shift(b: Builder, opcode: str, x: Val, y: Val) -> Val:
    """Shift by y read as unsigned: by the width or more, everything is shifted out."""
    t = x.type
    bits = int(t[1:])
    if bits == 1:
        return x if opcode == "shift-right-arithmetic" else b.select(y, FALSE, x)
    top = int_const(bits, bits - 1)
    if opcode == "shift-right-arithmetic":
        return b.binary("ashr", x, b.intrinsic("umin", t, [y, top]))
    inside = b.icmp("ule", y, top)
    name = "shl" if opcode == "shift-left" else "lshr"
    # The count is masked, as machines do it themselves: only that spares poison.
    masked = b.binary("and", y, top)
    return b.select(inside, b.binary(name, x, masked), int_const(bits, 0))


def _multiply_high(b: Builder, signed: bool, x: Val, y: Val) -> Val:
    """Return the upper half of the product of twice the width."""
    bits = int(x.type[1:])
    p, q = Num(b, x), Num(b, y)
    if bits < 64:
        product = p.to_int(2 * bits, signed) * q.to_int(2 * bits, signed)
        return product.lshr(bits).to_int(bits).val
    # In halves, since WebAssembly has to call a library for 128 bits; signed ones, since LLVM would
    # see through unsigned ones and put them together.
    low = 0xFFFFFFFF
    p1, p0, q1, q0 = p.ashr(32), p & low, q.ashr(32), q & low
    middle = p1 * q0 + (p0 * q0).lshr(32)
    carry = p0 * q1 + (middle & low)
    high = p1 * q1 + middle.ashr(32) + carry.ashr(32)
    if not signed:
        # A factor whose top bit is set is 2**64 more than its bits say as a signed number.
        high = high + (p.ashr(63) & q) + (q.ashr(63) & p)
    return high.val
