"""Arithmetic of the elementwise operations on pred, integers and floats, as numpy functions.

Every function takes arrays in the working type (see `casts`) that broadcast against each other and
returns what the operation yields for each element; rounding to the declared type is the caller's
(`run`). Floating-point warnings are off while they run.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from hlo.ops.elementwise.casts import narrow, widen, working_dtype
from hlo.values.types import ELEMENT_TYPES, F32, ElementType, element_type_of

Fn = Callable[..., np.ndarray]

C64 = ELEMENT_TYPES["c64"]

# Elements worked on at a time: the temporaries of one block stay in the processor's cache.
_BLOCK = 1 << 15
_WIDE = {"f32": np.dtype(np.float64), "c64": np.dtype(np.complex128)}


@dataclass(frozen=True, eq=False)
class Kernel:
    """An operation's arithmetic: one function for each class of element types that it accepts.

    integer: any integer type, width irrelevant; signed: signed integers alone; sized: integers,
    called with the logical width in bits first. wide_real: f32 is computed in f64 and rounded once,
    for functions that f32 libraries give only approximately; wide_complex: c64 in c128 likewise.
    """

    pred: Fn | None = None
    integer: Fn | None = None
    signed: Fn | None = None
    sized: Fn | None = None
    real: Fn | None = None
    complex: Fn | None = None
    wide_real: bool = False
    wide_complex: bool = False

    def function(self, et: ElementType) -> Fn | None:
        """Return the function for an element type, or None where the operation is not defined."""
        if et.is_pred:
            return self.pred
        if et.is_float:
            return self.real
        if et.is_complex:
            return self.complex
        if self.sized is not None:
            sized, bits = self.sized, et.bits
            return lambda *args: sized(bits, *args)
        return self.integer or (self.signed if et.is_signed else None)


def run(kernel: Kernel, args: Sequence[np.ndarray], result: ElementType) -> np.ndarray:
    """Return what `kernel` yields for arrays of one type, in the type `result`, block by block.

    Shapes: arguments broadcast against each other.
    """
    fn, work = _bound(kernel, args[0].dtype)
    return run_blocks(fn, args, result, work)


@functools.cache
def _bound(kernel: Kernel, dtype: np.dtype) -> tuple[Fn, np.dtype]:
    """Return a kernel's function for a type, and the type to compute in."""
    et = element_type_of(dtype)
    fn = kernel.function(et)
    assert fn is not None, "inference has checked the type"
    wide = (kernel.wide_real and et is F32) or (kernel.wide_complex and et is C64)
    return fn, _WIDE[et.name] if wide else working_dtype(et)


def run_blocks(
    fn: Fn, args: Sequence[np.ndarray], result: ElementType, work: np.dtype
) -> np.ndarray:
    """Return `fn` of arrays, taken to the type `work` first and to the type `result` afterwards."""
    first = args[0]
    if first.size <= _BLOCK and all(a.dtype == work and a.shape == first.shape for a in args):
        # The way of scalars, of which a loop makes very many.
        with np.errstate(all="ignore"):
            return narrow(fn(*args), result)

    def step(parts: Sequence[np.ndarray]) -> np.ndarray:
        return narrow(fn(*(widen(p).astype(work, copy=False) for p in parts)), result)

    shape = np.broadcast_shapes(*(a.shape for a in args))
    size = math.prod(shape)
    with np.errstate(all="ignore"):
        if size <= _BLOCK:
            return step(args)
        out = np.empty(size, result.dtype)
        flat = [
            a.reshape(()) if a.size == 1 else np.broadcast_to(a, shape).reshape(-1) for a in args
        ]
        for start in range(0, size, _BLOCK):
            block = slice(start, start + _BLOCK)
            out[block] = step([a[block] if a.ndim else a for a in flat])
        return out.reshape(shape)


def exactly_f32(fn: Fn) -> Fn:
    """Return a function of floats that rounds to the nearest f32 where it is given such.

    Libraries may be off by some units, which a second rounding, to a type of few bits, shows.
    """

    def rounded(*args: np.ndarray) -> np.ndarray:
        if args[0].dtype != np.float32:
            return np.asarray(fn(*args))
        return np.asarray(fn(*(a.astype(np.float64) for a in args)).astype(np.float32))

    return rounded


# --- integers -----------------------------------------------------------------------------------


def _as_unsigned(bits: int, x: np.ndarray) -> np.ndarray:
    """Return the low `bits` bits as unsigned numbers."""
    u = x.view(f"u{x.dtype.itemsize}")
    return u & u.dtype.type((1 << bits) - 1) if bits < 8 else u


def _as_signed(bits: int, x: np.ndarray) -> np.ndarray:
    """Return the low `bits` bits as two's complement numbers."""
    s = x.view(f"i{x.dtype.itemsize}")
    return (s << s.dtype.type(8 - bits)) >> s.dtype.type(8 - bits) if bits < 8 else s


def integer_divide(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Divide, rounding towards zero; x / 0 has all bits set, and the one overflow wraps."""
    zero = y == 0
    if x.dtype.kind == "u":
        return np.where(zero, np.iinfo(x.dtype).max, x // np.where(zero, 1, y).astype(y.dtype))
    unsigned = f"u{x.dtype.itemsize}"
    magnitude = np.abs(x).view(unsigned) // np.where(zero, 1, np.abs(y).view(unsigned))
    quotient = magnitude.astype(unsigned).view(x.dtype)
    return np.where(zero, -1, np.where((x < 0) != (y < 0), -quotient, quotient)).astype(x.dtype)


def integer_remainder(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the remainder of `integer_divide`, with the sign of x; x rem 0 is x."""
    zero = y == 0
    # Minus one divides everything, but the machine's division traps on INT_MIN / -1.
    trivial = zero | (y == -1) if x.dtype.kind == "i" else zero
    rest = np.fmod(x, np.where(trivial, 1, y).astype(y.dtype))
    return np.where(zero, x, rest)


def integer_power(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Raise by squaring, wrapping; of a negative power only 1 and -1 keep anything (0 gives 0)."""
    exponent = np.maximum(y, 0)
    result = np.ones(np.broadcast_shapes(x.shape, y.shape), x.dtype)
    base = x
    while exponent.any():
        result = np.where(exponent & 1, result * base, result)
        base = base * base
        exponent = exponent >> 1
    if x.dtype.kind == "u":
        return result
    odd = np.where(y & 1, -1, 1)
    inverse = np.where(x == 1, 1, np.where(x == -1, odd, 0)).astype(x.dtype)
    return np.where(y < 0, inverse, result)


def multiply_high(bits: int, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the upper half of the product of twice the width."""
    if bits < 64:
        wide = "u8" if x.dtype.kind == "u" else "i8"
        return ((x.astype(wide) * y.astype(wide)) >> bits).astype(x.dtype)
    a, b, low = x.view("u8"), y.view("u8"), np.uint64(0xFFFFFFFF)
    a1, a0, b1, b0 = a >> 32, a & low, b >> 32, b & low
    middle = a1 * b0 + ((a0 * b0) >> 32)
    carry = a0 * b1 + (middle & low)
    high = a1 * b1 + (middle >> 32) + (carry >> 32)
    if x.dtype.kind == "i":
        # A negative factor is 2**64 less than its bits say.
        high = high - np.where(x < 0, b, 0).astype("u8") - np.where(y < 0, a, 0).astype("u8")
    return np.asarray(high).view(x.dtype)


def shift_left(bits: int, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Shift left by y, read as unsigned; 0 when y is the width or more."""
    inside = _as_unsigned(bits, y) < bits
    return np.where(inside, x << np.where(inside, y, 0).astype(y.dtype), 0).astype(x.dtype)


def shift_right_logical(bits: int, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Shift zeros in from the left; 0 when y, read as unsigned, is the width or more."""
    value, amount = _as_unsigned(bits, x), _as_unsigned(bits, y)
    inside = amount < bits
    shifted = value >> np.where(inside, amount, 0).astype(amount.dtype)
    return np.where(inside, shifted, 0).astype(x.dtype)


def shift_right_arithmetic(bits: int, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Shift copies of the top bit in, also for unsigned types; all of them when y is large."""
    value = _as_signed(bits, x)
    amount = np.minimum(_as_unsigned(bits, y), bits - 1).astype(value.dtype)
    return (value >> amount).astype(x.dtype)


def count_leading_zeros(bits: int, x: np.ndarray) -> np.ndarray:
    """Count the zeros above the highest bit set; the width for 0."""
    value, step = _as_unsigned(bits, x), 1
    while step < bits:
        value = value | (value >> value.dtype.type(step))
        step *= 2
    return (bits - np.bitwise_count(value)).astype(x.dtype)


def count_ones(bits: int, x: np.ndarray) -> np.ndarray:
    """Count the bits that are set."""
    return np.bitwise_count(_as_unsigned(bits, x)).astype(x.dtype)


# --- floats -------------------------------------------------------------------------------------


def maximum(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the greater; NaN if either is NaN; 0 is greater than -0."""
    result = np.maximum(x, y)
    zero = (result == 0) & (x == y)
    # numpy takes either zero; their sum is -0 only where both are.
    return np.where(zero, x + y, result) if zero.any() else result


def minimum(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the lesser; NaN if either is NaN; -0 is less than 0."""
    result = np.minimum(x, y)
    zero = (result == 0) & (x == y)
    return np.where(zero, -(-x - y), result) if zero.any() else result


def sign(x: np.ndarray) -> np.ndarray:
    """Return -1 or 1; zeros keep their sign and NaN stays."""
    return np.where((x == 0) | np.isnan(x), x, np.copysign(x.dtype.type(1), x))


def round_half_away(x: np.ndarray) -> np.ndarray:
    """Round to the nearest integer, halves away from zero; -0.3 gives -0."""
    whole = np.trunc(x)
    # The fraction is exact, where adding 0.5 first would round 0.49999997 up.
    away = (np.abs(x - whole) >= 0.5).astype(x.dtype)
    return np.copysign(np.abs(whole) + away, x)


def rsqrt(x: np.ndarray) -> np.ndarray:
    """Return 1 / sqrt(x); -0 gives -inf."""
    return 1 / np.sqrt(x)


def logistic(x: np.ndarray) -> np.ndarray:
    """Return 1 / (1 + exp(-x)) without overflow."""
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


# Chebyshev fits, in powers of a variable that runs from -1 to 1, highest power first.
# erf(x) / x over x**2 in [0, 1], relative error 2e-19:
_ERF_NEAR = (
    1.4543887079465116e-14, -3.8078824063194953e-13, 9.167619596865806e-12, -2.035228405815769e-10,
    4.115800583208149e-09, -7.511569286591727e-08, 1.223382738359897e-06, -1.7537169441124866e-05,
    0.00021751715604159932, -0.0022854855611441132, 0.019852496688983708, -0.1405360890227171,
    0.9654687386698673,
)  # fmt: skip
# erfc(x) * exp(x**2) over (x - 2.5) / (x + 2.5) for x in [1, 6], relative error 3e-18:
_ERFC_FAR = (
    3.17573442453833e-13, 1.8957068751698897e-13, -9.676861510440885e-12, -2.6735971530694944e-11,
    2.3591444936182627e-10, 1.2856630606650748e-09, -6.150780388050397e-09, -5.139835408777203e-08,
    2.3120236305540374e-07, 1.9887464434159513e-06, -1.4819868337719933e-05, -5.053711010065196e-05,
    0.0012493997404180494, -0.009374321292819175, 0.04499721517041165, -0.15798058438192047,
    0.21394805165754288,
)  # fmt: skip
_ERFC_FROM, _ERFC_TO = (1 - 2.5) / (1 + 2.5), (6 - 2.5) / (6 + 2.5)


def _polynomial(coefficients: Sequence[float], u: np.ndarray) -> np.ndarray:
    value = np.full_like(u, coefficients[0])
    for c in coefficients[1:]:
        value *= u
        value += u.dtype.type(c)
    return value


def erf(x: np.ndarray) -> np.ndarray:
    """Return the error function, within 2 ulp of f64 (1 ulp of f32 when computed there)."""
    shape, x = x.shape, np.atleast_1d(x)
    size = np.abs(x)
    result = x * _polynomial(_ERF_NEAR, 2 * np.minimum(size, 1) ** 2 - 1)
    far = size > 1
    if far.any():
        # From 6 on, erf is 1 in f64.
        y = np.minimum(size[far], 6)
        u = ((y - 2.5) / (y + 2.5) - _ERFC_FROM) * (2 / (_ERFC_TO - _ERFC_FROM)) - 1
        value = 1 - np.exp(-y * y) * _polynomial(_ERFC_FAR, u)
        result[far] = np.copysign(value, x[far])
    return result.reshape(shape)


# --- order --------------------------------------------------------------------------------------


def total_order_key(x: np.ndarray) -> np.ndarray:
    """Return integers in the order -NaN < -inf < ... < -0 < 0 < ... < inf < NaN of floats.

    The NaN of a type that has one, in place of -0, is a negative one.
    """
    et = element_type_of(x.dtype)
    bits = x.view(f"i{x.dtype.itemsize}")
    if et.name == "f8e8m0fnu":  # has no sign bit
        return bits.view(np.uint8)
    kind = bits.dtype.type
    size = bits & kind((1 << (et.bits - 1)) - 1)
    if et.name.endswith("fnuz"):
        size = (size - kind(1)) & kind(127)
    return np.where((bits >> kind(et.bits - 1)) & 1 == 1, ~size, bits)


def weak_order_key(x: np.ndarray) -> np.ndarray:
    """Return integers in the order -inf < ... < -0 == 0 < ... < inf < NaN of floats."""
    with np.errstate(invalid="ignore"):  # signalling NaNs
        wide = widen(x)
    wide = np.where(wide == 0, wide.dtype.type(0), wide)
    return total_order_key(np.where(np.isnan(wide), wide.dtype.type(np.nan), wide))
