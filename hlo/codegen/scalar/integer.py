"""Integer and pred arithmetic on SSA values."""

from __future__ import annotations

from collections.abc import Callable

from hlo.codegen.llvm import FALSE, TRUE, Builder, Val, int_const
from hlo.codegen.scalar.math.expr import Num

# Of a builder, whether the operands are signed, and the operands.
IntegerFunction = Callable[..., Val]


def binary(instruction: str) -> IntegerFunction:
    """Return the function that is one LLVM instruction on two operands."""

    def function(b: Builder, _signed: bool, x: Val, y: Val) -> Val:
        return b.binary(instruction, x, y)

    return function


def invert(b: Builder, _signed: bool, x: Val) -> Val:
    """Return x with all bits inverted."""
    return b.binary("xor", x, int_const(_bits(x), -1))


def negate(b: Builder, _signed: bool, x: Val) -> Val:
    return b.binary("sub", int_const(_bits(x), 0), x)


def absolute(b: Builder, _signed: bool, x: Val) -> Val:
    """Return |x|; of the lowest number it is that number."""
    return b.intrinsic("abs", x.type, [x, FALSE])


def maximum(b: Builder, signed: bool, x: Val, y: Val) -> Val:
    return b.intrinsic(f"{'s' if signed else 'u'}max", x.type, [x, y])


def minimum(b: Builder, signed: bool, x: Val, y: Val) -> Val:
    return b.intrinsic(f"{'s' if signed else 'u'}min", x.type, [x, y])


def clamp(b: Builder, signed: bool, low: Val, x: Val, high: Val) -> Val:
    return minimum(b, signed, maximum(b, signed, low, x), high)


def clamp_pred(b: Builder, _signed: bool, low: Val, x: Val, high: Val) -> Val:
    return b.binary("and", b.binary("or", low, x), high)


def sign(b: Builder, _signed: bool, x: Val) -> Val:
    """Return -1, 0 or 1, for signed x."""
    t, bits = x.type, _bits(x)
    limited = b.intrinsic("smin", t, [x, int_const(bits, 1)]) if bits > 1 else x
    return b.intrinsic("smax", t, [limited, int_const(bits, -1)])


def count_ones(b: Builder, _signed: bool, x: Val) -> Val:
    return b.intrinsic("ctpop", x.type, [x])


def count_leading_zeros(b: Builder, _signed: bool, x: Val) -> Val:
    """Return the number of zeros above the highest one: the width for x = 0."""
    return b.intrinsic("ctlz", x.type, [x, FALSE])


def _bits(x: Val) -> int:
    return int(x.type[1:])


def _number(x: Val) -> int | None:
    """Return the number that a constant is, without sign, or None for another value."""
    return int(x.name) % (1 << _bits(x)) if x.name.lstrip("-").isdigit() else None


def _is_zero(b: Builder, x: Val) -> Val:
    return b.icmp("eq", x, int_const(_bits(x), 0))


def _safe_divisor(b: Builder, signed: bool, x: Val, y: Val) -> Val:
    """Return y, or one where the machine would trap: for zero, and minus one if signed."""
    bits = _bits(x)
    unsafe = _is_zero(b, y)
    if signed and bits > 1:
        minus = b.icmp("eq", y, -1)
        unsafe = b.binary("or", unsafe, minus)
    return b.select(unsafe, int_const(bits, 1), y)


def divide(b: Builder, signed: bool, x: Val, y: Val) -> Val:
    """x / 0 has all bits set; the lowest number by -1 is itself."""
    bits = _bits(x)
    s = "s" if signed else "u"
    if bits == 1:
        # The only divisor is 1, or -1 if signed: the quotient by it is x, wrapped.
        return b.select(_is_zero(b, y), TRUE, x)
    quotient = b.binary(f"{s}div", x, _safe_divisor(b, signed, x, y))
    if signed:
        minus = b.icmp("eq", y, -1)
        quotient = b.select(minus, b.binary("sub", int_const(_bits(x), 0), x), quotient)
    return b.select(_is_zero(b, y), int_const(bits, -1), quotient)


def remainder(b: Builder, signed: bool, x: Val, y: Val) -> Val:
    """x % 0 is x; what minus one leaves is 0."""
    t = x.type
    s = "s" if signed else "u"
    if t == "i1":
        return b.select(_is_zero(b, y), x, FALSE)
    rest = b.binary(f"{s}rem", x, _safe_divisor(b, signed, x, y))
    return b.select(_is_zero(b, y), x, rest)


def either(b: Builder, _signed: bool, x: Val, y: Val) -> Val:
    """Return the bits that one of two values has: of two shifts of one value, it is a rotation."""
    shifts = {}
    for value in (x, y):
        name, source, count = b.remembered(("shifted", value)) or ("", x, 0)
        shifts[name] = source, count
    if shifts.keys() == {"shl", "lshr"}:
        source, count = shifts["shl"]
        if shifts["lshr"] == (source, _bits(x) - count):
            return b.intrinsic("fshl", x.type, [source, source, int_const(_bits(x), count)])
    return b.binary("or", x, y)


def shift_left(b: Builder, _signed: bool, x: Val, y: Val) -> Val:
    return _shift_in_zeros(b, "shl", x, y)


def shift_right_logical(b: Builder, _signed: bool, x: Val, y: Val) -> Val:
    return _shift_in_zeros(b, "lshr", x, y)


def shift_right_arithmetic(b: Builder, _signed: bool, x: Val, y: Val) -> Val:
    """Shift by y read as unsigned: by the width or more, only the sign is left."""
    t, bits = x.type, _bits(x)
    if bits == 1:
        return x
    return b.binary("ashr", x, b.intrinsic("umin", t, [y, int_const(bits, bits - 1)]))


def _shift_in_zeros(b: Builder, name: str, x: Val, y: Val) -> Val:
    """Shift by y read as unsigned: by the width or more, everything is shifted out."""
    bits = _bits(x)
    if bits == 1:
        return b.select(y, FALSE, x)
    count = _number(y)
    if count is not None:
        if count >= bits:
            return int_const(bits, 0)
        shifted = b.binary(name, x, y)
        b.remember(("shifted", shifted), (name, x, count))
        return shifted
    top = int_const(bits, bits - 1)
    inside = b.icmp("ule", y, top)
    # The count is masked, as machines do it themselves: only that spares poison.
    masked = b.binary("and", y, top)
    return b.select(inside, b.binary(name, x, masked), int_const(bits, 0))


def multiply_high(b: Builder, signed: bool, x: Val, y: Val) -> Val:
    """Return the upper half of the product of twice the width."""
    bits = _bits(x)
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
