"""Conversions between floating-point formats in any rounding mode, in scalar code.

A double holds all values of the others exactly. Rounding to a format is rounding to an integer, in
multiples of the distance between neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass

from hlo.gpu.simt.instructions.code import BITS, LLVM_TYPES, Code, double


@dataclass(frozen=True)
class Format:
    """A floating-point format: bits of its exponent and mantissa.

    largest: the largest number. nan: the bits of the NaN that instructions make.
    """

    exponent: int
    mantissa: int
    largest: float
    nan: int
    has_infinity: bool = True

    @property
    def bias(self) -> int:
        return (1 << (self.exponent - 1)) - 1

    @property
    def width(self) -> int:
        return 1 + self.exponent + self.mantissa


FORMATS = {
    "f16": Format(5, 10, 65504.0, 0x7FFF),
    "bf16": Format(8, 7, float.fromhex("0x1.fep127"), 0x7FFF),
    "f32": Format(8, 23, float.fromhex("0x1.fffffep127"), 0x7FFFFFFF),
    "e4m3": Format(4, 3, 448.0, 0x7F, has_infinity=False),
    "e5m2": Format(5, 2, 57344.0, 0x7F),
    "tf32": Format(8, 10, float.fromhex("0x1.ffcp127"), 0x7FFFFFFF >> 13),
}
# LLVM's intrinsics that round to an integer, by PTX's modifiers.
ROUNDING = {"rn": "roundeven", "rz": "trunc", "rm": "floor", "rp": "ceil", "rna": "round"}
INTEGER_ROUNDING = {"rni": "roundeven", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}


def widen(code: Code, type_: str, value: str) -> str:
    """Return a value of a PTX type as a double."""
    if type_ == "f64":
        return value
    if type_ == "f32":
        return code.let(f"fpext float {value} to double")
    return _decode(code, FORMATS[type_], code.resize(LLVM_TYPES.get(type_, "i8"), value, "i64"))


def _decode(code: Code, form: Format, bits: str) -> str:
    """Return the double of a small format, in the low bits of an i64."""
    point = form.exponent + form.mantissa
    magnitude = code.let(f"and i64 {bits}, {(1 << point) - 1}")
    shifted = code.let(f"shl i64 {magnitude}, {52 - form.mantissa}")
    # The fields of a double with a wrong bias: a product corrects it, of subnormals too.
    wrong = code.bitcast("i64", shifted, "double")
    value = code.let(f"fmul double {wrong}, {double(2.0 ** (1023 - form.bias))}")
    finite = code.bitcast("double", value, "i64")
    if form.has_infinity:
        special = code.let(f"or i64 {shifted}, {0x7FF << 52}")
        limit = ((1 << form.exponent) - 1) << form.mantissa
        is_special = code.let(f"icmp uge i64 {magnitude}, {limit}")
    else:
        special = str(0x7FF8 << 48)
        is_special = code.let(f"icmp eq i64 {magnitude}, {form.nan}")
    found = code.select(is_special, "i64", special, finite)
    sign = code.let(f"shl i64 {code.let(f'lshr i64 {bits}, {point}')}, 63")
    return code.bitcast("i64", code.let(f"or i64 {found}, {sign}"), "double")


def narrow(
    code: Code, type_: str, value: str, rounding: str = "rn", *, finite: bool = False
) -> str:  # fmt: skip
    """Return a double rounded to a PTX type.

    finite: what is too large becomes the largest number, as `.satfinite` says.
    """
    if type_ == "f64":
        return value
    if type_ == "f32" and rounding == "rn" and not finite:
        return code.let(f"fptrunc double {value} to float")
    form = FORMATS[type_]
    rounded = round_to(code, form, value, rounding, finite=finite)
    if type_ == "f32":
        return code.let(f"fptrunc double {rounded} to float")
    return code.resize("i64", _encode(code, form, rounded), LLVM_TYPES.get(type_, "i8"))


def round_to(
    code: Code, form: Format, value: str, rounding: str = "rn", *, finite: bool = False
) -> str:  # fmt: skip
    """Return the number of a format that a double rounds to, as a double."""
    bits = code.bitcast("double", value, "i64")
    field = code.let(f"and i64 {bits}, {0x7FF << 52}")
    lowest = (1 - form.bias + 1023) << 52
    field = code.intrinsic("umax", "i64", field, str(lowest))
    unit = code.bitcast("i64", code.let(f"sub i64 {field}, {form.mantissa << 52}"), "double")
    # Units of infinity are as large as numbers get; it stays infinite.
    scaled = code.let(f"fdiv double {value}, {unit}")
    whole = code.intrinsic(ROUNDING[rounding], "double", scaled)
    rounded = code.let(f"fmul double {whole}, {unit}")
    size = code.intrinsic("fabs", "double", rounded)
    is_large = code.let(f"fcmp ogt double {size}, {double(form.largest)}")
    largest = code.intrinsic("copysign", "double", double(form.largest), value)
    infinity = code.intrinsic("copysign", "double", double(float("inf")), value)
    beyond = infinity
    if finite:
        beyond = largest
    elif not form.has_infinity:
        beyond = double(float("nan"))
    elif rounding != "rn":
        was_finite = code.let(f"fcmp one double {value}, {infinity}")
        stays = {"rz": was_finite}.get(rounding)
        if rounding in ("rm", "rp"):
            sign = "ogt" if rounding == "rm" else "olt"
            toward_zero = code.let(f"fcmp {sign} double {value}, 0.0")
            stays = code.let(f"and i1 {was_finite}, {toward_zero}")
        if stays is not None:
            beyond = code.select(stays, "double", largest, infinity)
    found = code.select(is_large, "double", beyond, rounded)
    # The sign of a zero that was a small number.
    return code.intrinsic("copysign", "double", found, value)


def _encode(code: Code, form: Format, value: str) -> str:
    """Return the bits of a double that is a number of the format, an i64."""
    size = code.intrinsic("fabs", "double", value)
    wrong = code.let(f"fmul double {size}, {double(2.0 ** (form.bias - 1023))}")
    fields = code.bitcast("double", wrong, "i64")
    finite = code.let(f"lshr i64 {fields}, {52 - form.mantissa}")
    infinity = ((1 << form.exponent) - 1) << form.mantissa
    is_infinite = code.let(f"fcmp oeq double {size}, {double(float('inf'))}")
    magnitude = code.select(is_infinite, "i64", str(infinity), finite)
    sign = code.let(f"lshr i64 {code.bitcast('double', value, 'i64')}, 63")
    sign = code.let(f"shl i64 {sign}, {form.width - 1}")
    found = code.let(f"or i64 {magnitude}, {sign}")
    is_nan = code.let(f"fcmp uno double {value}, {value}")
    return code.select(is_nan, "i64", str(form.nan), found)


def add_to_odd(code: Code, a: str, b: str) -> str:
    """Return the sum of doubles, rounded to odd: what is inexact ends in a 1.

    Rounding that to a format of 51 bits or less is the same as rounding the sum itself.
    """
    total = code.let(f"fadd double {a}, {b}")
    part = code.let(f"fsub double {total}, {a}")
    rest = code.let(f"fsub double {total}, {part}")
    left = code.let(f"fsub double {a}, {rest}")
    right = code.let(f"fsub double {b}, {part}")
    error = code.let(f"fadd double {left}, {right}")
    is_inexact = code.let(f"fcmp one double {error}, 0.0")
    bits = code.bitcast("double", total, "i64")
    is_even = code.let(f"icmp eq i64 {code.let(f'and i64 {bits}, 1')}, 0")
    away = code.let(f"xor i64 {bits}, {code.bitcast('double', error, 'i64')}")
    step = code.let(f"or i64 {code.let(f'ashr i64 {away}, 63')}, 1")
    moved = code.let(f"add i64 {bits}, {step}")
    wrong = code.let(f"and i1 {is_inexact}, {is_even}")
    return code.bitcast("i64", code.select(wrong, "i64", moved, bits), "double")


def halves(code: Code, value: str) -> list[str]:
    """Return the two i16 of an i32, the lower one first."""
    high = code.let(f"lshr i32 {value}, 16")
    return [code.let(f"trunc i32 {v} to i16") for v in (value, high)]


def joined(code: Code, low: str, high: str, part: str = "i16", whole: str = "i32") -> str:
    """Return two values in one of twice the width."""
    low, high = code.resize(part, low, whole), code.resize(part, high, whole)
    return code.let(f"or {whole} {code.let(f'shl {whole} {high}, {BITS[part]}')}, {low}")
