"""Floating-point arithmetic of f64, f32, f16, bf16 and pairs of the latter two.

A number of 16 bits is computed in doubles and rounded once. What PTX calls approximate is as
accurate here as the C library is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from hlo.gpu.simt.instructions.code import LLVM_TYPES, Code, double
from hlo.gpu.simt.instructions.formats import add_to_odd, halves, joined, narrow, widen
from hlo.gpu.simt.instructions.native import Form, native_ufuncs
from hlo.gpu.simt.instructions.operation import Scalar, Semantics, UnknownInstruction

_NATIVE = {"f32": "float", "f64": "double"}
_PAIRS = {"f16x2": "f16", "bf16x2": "bf16"}
_ROUNDING = frozenset(("rn", "rz", "rm", "rp"))
# Computes one number of the type from such.
One = Callable[[Code, str, Sequence[str]], str]


def one_by_one(
    modifiers: tuple[str, ...], count: int, one: One, type_: str | None = None
) -> Scalar:  # fmt: skip
    """Return semantics of an operation on numbers, or on both numbers of pairs."""
    whole = type_ or modifiers[-1]
    part = _PAIRS.get(whole, whole)
    if part not in ("f64", "f32", "f16", "bf16"):
        raise UnknownInstruction(f"no arithmetic of {whole} is known")
    finish = partial(_finished, modifiers, part)

    def emit(c: Code, v: Sequence[str]) -> list[str]:
        if whole == part:
            return [finish(c, one(c, part, _flushed(c, modifiers, part, v)))]
        columns = zip(*(halves(c, x) for x in v), strict=True)
        low, high = (finish(c, one(c, part, column)) for column in columns)
        return [joined(c, low, high)]

    return Scalar((whole,) * count, (whole,), emit)


def _flushed(
    c: Code, modifiers: tuple[str, ...], type_: str, values: Sequence[str]
) -> Sequence[str]:
    """Return operands with zeros for subnormal ones, where `.ftz` is."""
    if "ftz" in modifiers and type_ == "f32":
        return [_without_subnormal(c, v) for v in values]
    return values


def _without_subnormal(c: Code, value: str) -> str:
    size = c.intrinsic("fabs", "float", value)
    is_small = c.let(f"fcmp olt float {size}, {double(2.0**-126)}")
    zero = c.intrinsic("copysign", "float", "0.0", value)
    return c.select(is_small, "float", zero, value)


def _finished(modifiers: tuple[str, ...], type_: str, c: Code, value: str) -> str:
    """Apply `.ftz`, `.sat` and `.relu` to a result."""
    if "ftz" in modifiers and type_ == "f32":
        value = _without_subnormal(c, value)
    if "sat" in modifiers:
        wide = widen(c, type_, value)
        wide = c.intrinsic("maximumnum", "double", wide, "0.0")
        value = narrow(c, type_, c.intrinsic("minimumnum", "double", wide, "1.0"))
    if "relu" in modifiers:
        wide = widen(c, type_, value)
        value = narrow(c, type_, c.intrinsic("maximum", "double", wide, "0.0"))
    return value


def _rounding(modifiers: tuple[str, ...], type_: str) -> str:
    found = next((m for m in modifiers if m in _ROUNDING), "rn")
    if found != "rn" and type_ == "f64":
        raise UnknownInstruction(f"f64 arithmetic in rounding mode {found} is not known")
    return found


# --- sums, products, quotients --------------------------------------------------------------------


def _arithmetic(opcode: str) -> Semantics:
    def semantics(modifiers: tuple[str, ...], sources: int, results: int) -> Scalar:
        mode = _rounding(modifiers, modifiers[-1])

        def one(c: Code, type_: str, v: Sequence[str]) -> str:
            if type_ in _NATIVE and mode == "rn":
                return c.let(f"f{opcode} {_NATIVE[type_]} {v[0]}, {v[1]}")
            a, b = (widen(c, type_, x) for x in v)
            if opcode == "mul":
                return narrow(c, type_, c.let(f"fmul double {a}, {b}"), mode)
            if opcode == "div":
                return narrow(c, type_, _quotient_to_odd(c, a, b), mode)
            if opcode == "sub":
                b = c.let(f"fneg double {b}")
            # The sum of opposite numbers is -0 when rounded down.
            total = add_to_odd(c, a, b)
            if mode == "rm":
                total = _negative_zero(c, total, a, b)
            return narrow(c, type_, total, mode)

        return one_by_one(modifiers, 2, one)

    return semantics


def _quotient_to_odd(c: Code, a: str, b: str) -> str:
    """Return a / b, with a last bit that says if it is inexact."""
    found = c.let(f"fdiv double {a}, {b}")
    rest = c.intrinsic("fma", "double", found, c.let(f"fneg double {b}"), a)
    # Of the exact quotient, the found one lacks rest / b: only the sign counts.
    signs = c.let(f"fmul double {c.intrinsic('copysign', 'double', '1.0', b)}, {rest}")
    return _to_odd(c, found, signs)


def _to_odd(c: Code, value: str, error: str) -> str:
    """Return a rounded value so that its last bit is 1 if the error is not 0."""
    is_inexact = c.let(f"fcmp one double {error}, 0.0")
    bits = c.bitcast("double", value, "i64")
    is_even = c.let(f"icmp eq i64 {c.let(f'and i64 {bits}, 1')}, 0")
    away = c.let(f"xor i64 {bits}, {c.bitcast('double', error, 'i64')}")
    step = c.let(f"or i64 {c.let(f'ashr i64 {away}, 63')}, 1")
    wrong = c.let(f"and i1 {is_inexact}, {is_even}")
    return c.bitcast(
        "i64", c.select(wrong, "i64", c.let(f"add i64 {bits}, {step}"), bits), "double"
    )


def _negative_zero(c: Code, total: str, a: str, b: str) -> str:
    is_zero = c.let(f"fcmp oeq double {total}, 0.0")
    bits = [c.bitcast("double", x, "i64") for x in (a, b)]
    sign = c.bitcast("i64", c.let(f"or i64 {bits[0]}, {bits[1]}"), "double")
    return c.select(is_zero, "double", c.intrinsic("copysign", "double", "0.0", sign), total)


def fused(modifiers: tuple[str, ...], sources: int, results: int) -> Scalar:
    """`fma`, and `mad` of floating-point numbers: rounded once."""
    mode = _rounding(modifiers, modifiers[-1])

    def one(c: Code, type_: str, v: Sequence[str]) -> str:
        if type_ in _NATIVE and mode == "rn":
            return c.intrinsic("fma", _NATIVE[type_], *v)
        a, b, addend = (widen(c, type_, x) for x in v)
        product = c.let(f"fmul double {a}, {b}")
        total = add_to_odd(c, product, addend)
        if mode == "rm":
            total = _negative_zero(c, total, product, addend)
        return narrow(c, type_, total, mode)

    return one_by_one(modifiers, 3, one)


def reciprocal(modifiers: tuple[str, ...], sources: int, results: int) -> Scalar:
    """`rcp`."""
    return _from_double(modifiers, lambda c, v: _quotient_to_odd(c, "1.0", v), _reciprocal_of)


def _reciprocal_of(c: Code, type_: str, value: str) -> str:
    return c.let(f"fdiv {type_} 1.0, {value}")


def square_root(modifiers: tuple[str, ...], sources: int, results: int) -> Scalar:
    """`sqrt`."""

    def odd(c: Code, v: str) -> str:
        root = c.intrinsic("sqrt", "double", v)
        error = c.intrinsic("fma", "double", c.let(f"fneg double {root}"), root, v)
        return _to_odd(c, root, error)

    return _from_double(modifiers, odd, lambda c, type_, v: c.intrinsic("sqrt", type_, v))


def _from_double(
    modifiers: tuple[str, ...],
    odd: Callable[[Code, str], str],
    nearest: Callable[[Code, str, str], str],
) -> Scalar:
    """Return semantics of a function of one number, exactly rounded in any mode."""
    mode = _rounding(modifiers, modifiers[-1])

    def one(c: Code, type_: str, v: Sequence[str]) -> str:
        if type_ in _NATIVE and mode == "rn":
            return nearest(c, _NATIVE[type_], v[0])
        return narrow(c, type_, odd(c, widen(c, type_, v[0])), mode)

    return one_by_one(modifiers, 1, one)


def _approximate(function: Callable[[Code, str], str]) -> Semantics:
    """A function that is computed in doubles."""

    def semantics(modifiers: tuple[str, ...], sources: int, results: int) -> Scalar:
        def one(c: Code, type_: str, v: Sequence[str]) -> str:
            return narrow(c, type_, function(c, widen(c, type_, v[0])))

        return one_by_one(modifiers, 1, one)

    return semantics


def _inverse_root(c: Code, value: str) -> str:
    return c.let(f"fdiv double 1.0, {c.intrinsic('sqrt', 'double', value)}")


# --- signs, extremes, classes ---------------------------------------------------------------------


def negate(modifiers: tuple[str, ...], sources: int, results: int) -> Scalar:
    """`neg`: the other sign, of NaN too."""

    def one(c: Code, type_: str, v: Sequence[str]) -> str:
        if type_ in _NATIVE:
            return c.let(f"fneg {_NATIVE[type_]} {v[0]}")
        return c.let(f"xor i16 {v[0]}, {1 << 15}")

    return one_by_one(modifiers, 1, one)


def absolute(modifiers: tuple[str, ...], sources: int, results: int) -> Scalar:
    """`abs`: the sign is cleared, of NaN too."""

    def one(c: Code, type_: str, v: Sequence[str]) -> str:
        if type_ in _NATIVE:
            return c.intrinsic("fabs", _NATIVE[type_], v[0])
        return c.let(f"and i16 {v[0]}, {(1 << 15) - 1}")

    return one_by_one(modifiers, 1, one)


def copy_sign(modifiers: tuple[str, ...], sources: int, results: int) -> Scalar:
    """`copysign`: the second number with the sign of the first."""

    def one(c: Code, type_: str, v: Sequence[str]) -> str:
        return c.intrinsic("copysign", _NATIVE[type_], v[1], v[0])

    return one_by_one(modifiers, 2, one)


def _extreme(opcode: str) -> Semantics:
    """`min` and `max`: -0 is less than 0. NaN counts as missing, or is the result with `.NaN`."""

    def semantics(modifiers: tuple[str, ...], sources: int, results: int) -> Scalar:
        unknown = {m for m in modifiers[:-1]} - {"NaN", "ftz", "abs"}
        if unknown:
            raise UnknownInstruction(f"unknown modifiers {sorted(unknown)}")
        how = f"{opcode}imum" + ("" if "NaN" in modifiers else "num")

        def one(c: Code, type_: str, v: Sequence[str]) -> str:
            numbers = [widen(c, type_, x) for x in v]
            if "abs" in modifiers:
                numbers = [c.intrinsic("fabs", "double", x) for x in numbers]
            found = numbers[0]
            for x in numbers[1:]:
                found = c.intrinsic(how, "double", found, x)
            return narrow(c, type_, found)

        return one_by_one(modifiers, sources, one)

    return semantics


def test_property(modifiers: tuple[str, ...], sources: int, results: int) -> Scalar:
    """`testp`: what kind of number it is."""
    kind, type_ = modifiers
    least = 2.0 ** (-126 if type_ == "f32" else -1022)

    def emit(c: Code, v: Sequence[str]) -> list[str]:
        t = LLVM_TYPES[type_]
        size = c.intrinsic("fabs", t, v[0])
        infinity, least_ = double(float("inf")), double(least)
        is_finite = c.let(f"fcmp olt {t} {size}, {infinity}")
        is_normal = c.let(f"fcmp oge {t} {size}, {least_}")
        match kind:
            case "finite":
                return [is_finite]
            case "infinite":
                return [c.let(f"fcmp oeq {t} {size}, {infinity}")]
            case "number":
                return [c.let(f"fcmp ord {t} {size}, {size}")]
            case "notanumber":
                return [c.let(f"fcmp uno {t} {size}, {size}")]
            case "normal":
                return [c.let(f"and i1 {is_finite}, {is_normal}")]
            case "subnormal":
                below = c.let(f"fcmp olt {t} {size}, {least_}")
                return [c.let(f"and i1 {below}, {c.let(f'fcmp one {t} {size}, 0.0')}")]
        raise UnknownInstruction(f"unknown modifier {kind}")

    return Scalar((type_,), ("pred",), emit)


def _library(name: str) -> Callable[[Code, str], str]:
    return lambda c, v: c.intrinsic(name, "double", v)


@cache
def _fused_f64() -> Callable[..., Any]:
    form = Form("fma.rn.f64", fused(("rn", "f64"), 3, 1), (64, 64, 64), (64,))
    return native_ufuncs([form])[0]


def fused_f64(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Return a * b + c, rounded once."""
    found: np.ndarray = _fused_f64()(a.view(np.uint64), b.view(np.uint64), c.view(np.uint64))
    return found.view(np.float64)


SEMANTICS: dict[str, Semantics] = {
    "add": _arithmetic("add"),
    "sub": _arithmetic("sub"),
    "mul": _arithmetic("mul"),
    "div": _arithmetic("div"),
    "fma": fused,
    "mad": fused,
    "rcp": reciprocal,
    "sqrt": square_root,
    "rsqrt": _approximate(_inverse_root),
    "sin": _approximate(_library("sin")),
    "cos": _approximate(_library("cos")),
    "lg2": _approximate(_library("log2")),
    "ex2": _approximate(_library("exp2")),
    "tanh": _approximate(_library("tanh")),
    "neg": negate,
    "abs": absolute,
    "copysign": copy_sign,
    "min": _extreme("min"),
    "max": _extreme("max"),
    "testp": test_property,
}
