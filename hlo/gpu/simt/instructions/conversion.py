"""Conversions between types, and moves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hlo.gpu.simt.instructions.code import BITS, LLVM_TYPES, Code, is_float
from hlo.gpu.simt.instructions.formats import (
    FORMATS,
    INTEGER_ROUNDING,
    ROUNDING,
    add_to_odd,
    halves,
    joined,
    narrow,
    round_to,
    widen,
)
from hlo.gpu.simt.instructions.integer import is_signed
from hlo.gpu.simt.instructions.operation import Scalar, Semantics, UnknownInstruction

# Pairs of numbers: of what, and LLVM's types of a number and of the pair.
_PAIRS = {
    "f16x2": ("f16", "i16", "i32"),
    "bf16x2": ("bf16", "i16", "i32"),
    "e4m3x2": ("e4m3", "i8", "i16"),
    "e5m2x2": ("e5m2", "i8", "i16"),
}
_MODES = {*ROUNDING, *INTEGER_ROUNDING}
_KNOWN = {"sat", "satfinite", "relu", "ftz", *_MODES}


def convert(modifiers: tuple[str, ...], sources: int, results: int) -> Scalar:
    """`cvt`."""
    target, source = modifiers[-2:]
    unknown = set(modifiers[:-2]) - _KNOWN
    if unknown or "ftz" in modifiers:
        raise UnknownInstruction(f"unknown modifiers {sorted(unknown) or 'ftz'}")
    if target in _PAIRS or source in _PAIRS:
        return _pairs(modifiers, sources)
    if is_float(target) and is_float(source):
        return _between_floats(modifiers)
    if is_float(target):
        return _from_integer(modifiers)
    if is_float(source):
        return _to_integer(modifiers)
    return _between_integers(modifiers)


def _between_integers(modifiers: tuple[str, ...]) -> Scalar:
    target, source = modifiers[-2:]
    t, s = LLVM_TYPES[target], LLVM_TYPES[source]

    def emit(c: Code, v: Sequence[str]) -> list[str]:
        if "sat" not in modifiers:
            return [c.resize(s, v[0], t, signed=is_signed(source))]
        wide = c.resize(s, v[0], "i128", signed=is_signed(source))
        low, high = _range(target)
        wide = c.intrinsic("smin", "i128", c.intrinsic("smax", "i128", wide, low), high)
        return [c.let(f"trunc i128 {wide} to {t}")]

    return Scalar((source,), (target,), emit)


def _range(type_: str) -> tuple[str, str]:
    """Return the smallest and the largest integer of a type."""
    bits = BITS[LLVM_TYPES[type_]]
    if is_signed(type_):
        return str(-(1 << (bits - 1))), str((1 << (bits - 1)) - 1)
    return "0", str((1 << bits) - 1)


def _mode(modifiers: tuple[str, ...]) -> str:
    return next((m for m in modifiers if m in _MODES), "rn")


def _from_integer(modifiers: tuple[str, ...]) -> Scalar:
    target, source = modifiers[-2:]
    s, mode = LLVM_TYPES[source], _mode(modifiers)
    how = "sitofp" if is_signed(source) else "uitofp"

    def emit(c: Code, v: Sequence[str]) -> list[str]:
        if target in ("f32", "f64") and mode == "rn":
            return [c.let(f"{how} {s} {v[0]} to {LLVM_TYPES[target]}")]
        if s != "i64":
            return [narrow(c, target, c.let(f"{how} {s} {v[0]} to double"), mode)]
        # The two words are doubles without rounding, and their sum is rounded to odd.
        shift = "ashr" if is_signed(source) else "lshr"
        high = c.let(f"trunc i64 {c.let(f'{shift} i64 {v[0]}, 32')} to i32")
        high = c.let(f"fmul double {c.let(f'{how} i32 {high} to double')}, {float(2**32)}")
        low = c.let(f"uitofp i32 {c.let(f'trunc i64 {v[0]} to i32')} to double")
        return [narrow(c, target, add_to_odd(c, high, low), mode)]

    if target == "f64" and mode != "rn" and s == "i64":
        raise UnknownInstruction(f"rounding mode {mode} is not known")
    return Scalar((source,), (target,), emit)


def _to_integer(modifiers: tuple[str, ...]) -> Scalar:
    """Numbers that are out of range become the nearest integers."""
    target, source = modifiers[-2:]
    t, mode = LLVM_TYPES[target], _mode(modifiers)
    how = f"llvm.fpto{'s' if is_signed(target) else 'u'}i.sat.{t}.f64"
    bits = BITS[t]
    # What NaN becomes.
    missing = 1 << (bits - 1) if source == "f64" or bits == 64 else 0

    def emit(c: Code, v: Sequence[str]) -> list[str]:
        wide = widen(c, source, v[0])
        whole = c.intrinsic(INTEGER_ROUNDING[mode], "double", wide)
        found = c.call(how, t, ("double", whole))
        if missing:
            is_nan = c.let(f"fcmp uno double {wide}, {wide}")
            found = c.select(is_nan, t, str(missing), found)
        return [found]

    if mode not in INTEGER_ROUNDING:
        raise UnknownInstruction("a conversion to integers needs a rounding mode")
    return Scalar((source,), (target,), emit)


def _between_floats(modifiers: tuple[str, ...]) -> Scalar:
    target, source = modifiers[-2:]
    mode = _mode(modifiers)

    def emit(c: Code, v: Sequence[str]) -> list[str]:
        wide = widen(c, source, v[0])
        if mode in INTEGER_ROUNDING:
            wide = c.intrinsic(INTEGER_ROUNDING[mode], "double", wide)
        return [_narrowed(c, modifiers, target, wide)]

    return Scalar((source,), (target,), emit)


def _narrowed(c: Code, modifiers: tuple[str, ...], type_: str, wide: str) -> str:
    """Return a double as a number of a type, by the modifiers of a conversion."""
    mode, finite = _mode(modifiers), "satfinite" in modifiers
    if mode in INTEGER_ROUNDING:
        mode = "rn"
    if "sat" in modifiers:
        wide = c.intrinsic("maximumnum", "double", wide, "0.0")
        wide = c.intrinsic("minimumnum", "double", wide, "1.0")
    if "relu" in modifiers:
        wide = c.intrinsic("maximum", "double", wide, "0.0")
    if type_ == "tf32":
        rounded = round_to(c, FORMATS["tf32"], wide, mode, finite=finite)
        single = c.let(f"fptrunc double {rounded} to float")
        return c.bitcast("float", single, "i32")
    return narrow(c, type_, wide, mode, finite=finite)


def _pairs(modifiers: tuple[str, ...], sources: int) -> Scalar:
    """Two numbers to a pair, the first into the upper half; or a pair to a pair."""
    target, source = modifiers[-2:]
    if target not in _PAIRS:
        raise UnknownInstruction(f"no conversion to {target} is known")
    to, part, whole = _PAIRS[target]

    def emit(c: Code, v: Sequence[str]) -> list[str]:
        if source not in _PAIRS:
            values, of = [v[1], v[0]], source
        else:
            of, small, _ = _PAIRS[source]
            values = halves(c, v[0]) if small == "i16" else _bytes(c, v[0])
        low, high = (_narrowed(c, modifiers, to, widen(c, of, x)) for x in values)
        return [joined(c, low, high, part, whole)]

    return Scalar((source,) * sources, (target,), emit)


def _bytes(c: Code, value: str) -> list[str]:
    high = c.let(f"lshr i16 {value}, 8")
    return [c.let(f"trunc i16 {v} to i8") for v in (value, high)]


# --- moves ----------------------------------------------------------------------------------------


def move(modifiers: tuple[str, ...], sources: int, results: int) -> Scalar:
    """`mov`: of a number, or between a number and the parts that it consists of."""
    type_ = modifiers[-1]
    t = LLVM_TYPES.get(type_, "i128")
    if sources == results == 1:
        return Scalar((type_,), (type_,), lambda c, v: [v[0]], _same)
    if not sources or not results:
        raise UnknownInstruction("a value is expected")
    part = f"b{BITS[t] // max(sources, results)}"
    p = LLVM_TYPES[part]
    if results > 1:
        return Scalar((type_,), (part,) * results, lambda c, v: _split(c, t, p, v[0], results))
    return Scalar((part,) * sources, (type_,), lambda c, v: [_merged(c, t, p, v)])


def _same(values: np.ndarray) -> np.ndarray:
    return values


def _split(c: Code, whole: str, part: str, value: str, count: int) -> list[str]:
    if whole in ("float", "double"):
        value = c.bitcast(whole, value, f"i{BITS[whole]}")
        whole = f"i{BITS[whole]}"
    shifted = [c.let(f"lshr {whole} {value}, {n * BITS[part]}") for n in range(count)]
    return [c.let(f"trunc {whole} {v} to {part}") for v in shifted]


def _merged(c: Code, whole: str, part: str, values: Sequence[str]) -> str:
    t = f"i{BITS[whole]}"
    found = c.let(f"zext {part} {values[0]} to {t}")
    for n, value in enumerate(values[1:], 1):
        wide = c.let(f"zext {part} {value} to {t}")
        found = c.let(f"or {t} {found}, {c.let(f'shl {t} {wide}, {n * BITS[part]}')}")
    return c.bitcast(t, found, whole)


SEMANTICS: dict[str, Semantics] = {"cvt": convert, "mov": move}
