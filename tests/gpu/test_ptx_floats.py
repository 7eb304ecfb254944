"""Semantics of PTX's floating-point instructions, against fractions and numpy."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.gpu.instructions import floats, run

# Conversions of numpy that tests compare with may overflow.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
_COUNT = 400
# Register, bits of the mantissa, least exponent of a normal number, numpy's type of bits.
_FORMATS = {
    "f16": ("%rs", 10, -14, np.float16, np.uint16),
    "bf16": ("%rs", 7, -126, ml_dtypes.bfloat16, np.uint16),
    "f32": ("%r", 23, -126, np.float32, np.uint32),
    "f64": ("%rd", 52, -1022, np.float64, np.uint64),
}


def rounded(value: Fraction, mantissa: int, least: int, largest: int, mode: str = "rn") -> float:
    """Return a number rounded to a format. largest: the exponent that numbers stay below."""
    if not value:
        return 0.0
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent = max(least, exponent - (size < Fraction(2) ** exponent))
    unit = Fraction(2) ** (exponent - mantissa)
    whole: dict[str, Callable[[Fraction], int]] = {
        "rn": round, "rz": math.trunc, "rm": math.floor, "rp": math.ceil,
    }  # fmt: skip
    found = whole[mode](value / unit) * unit
    limit = Fraction(2) ** largest
    if abs(found) < limit:
        return math.copysign(float(found), 1 if value > 0 else -1)
    stays = mode == "rz" or (mode == "rm" and value > 0) or (mode == "rp" and value < 0)
    biggest = float(limit - Fraction(2) ** (largest - 1 - mantissa))
    return math.copysign(biggest if stays else math.inf, 1 if value > 0 else -1)


def values_of(type_: str, rng: np.random.Generator, count: int = _COUNT) -> np.ndarray:
    """Return numbers of a PTX type."""
    dtype = _FORMATS[type_][3]
    if dtype is ml_dtypes.bfloat16:
        drawn = rng.integers(0, 1 << 16, count, np.uint16).view(dtype)
        near = (rng.integers(-512, 512, count) / 8.0).astype(dtype)
        return np.where(rng.random(count) < 0.5, drawn, near)
    return floats(rng, dtype, count)


def compute(name: str, type_: str, *operands: np.ndarray) -> np.ndarray:
    """Return what an instruction of a type does."""
    register, _, _, dtype, bits = _FORMATS[type_]
    names = ", ".join(f"{register}{n}" for n in range(1, len(operands) + 2))
    found: np.ndarray = run(f"{name} {names}", *(o.view(bits) for o in operands))
    return found.view(dtype).astype(np.float64)


def same(got: float, expected: float) -> bool:
    """Return whether numbers are equal, with their signs; all NaN are."""
    if math.isnan(expected):
        return math.isnan(got)
    return got == expected and math.copysign(1, got) == math.copysign(1, expected)


def check_exact(
    name: str, type_: str, count: int, exact: Callable[..., Fraction], mode: str = "rn"
) -> None:
    """Compare with exact results, rounded once, where operands are finite."""
    rng = np.random.default_rng(len(name))
    operands = [values_of(type_, rng) for _ in range(count)]
    got = compute(name, type_, *operands)
    _, mantissa, least, _, _ = _FORMATS[type_]
    largest = 1 - least + 1
    for found, *numbers in zip(got.tolist(), *[o.tolist() for o in operands], strict=True):
        if not all(map(math.isfinite, numbers)):
            continue
        try:
            value = exact(*map(Fraction, numbers))
        except ZeroDivisionError:
            continue
        if value:
            expected = rounded(value, mantissa, least, largest, mode)
            assert same(found, expected), (name, numbers, found, expected)
        else:
            assert found == 0


@pytest.mark.parametrize("type_", ["f16", "bf16", "f32", "f64"])
def test_sums_and_products_are_rounded_once(type_: str) -> None:
    check_exact(f"add.rn.{type_}", type_, 2, lambda a, b: a + b)
    check_exact(f"sub.rn.{type_}", type_, 2, lambda a, b: a - b)
    check_exact(f"mul.rn.{type_}", type_, 2, lambda a, b: a * b)
    check_exact(f"fma.rn.{type_}", type_, 3, lambda a, b, c: a * b + c)


@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
def test_other_rounding_modes(mode: str) -> None:
    check_exact(f"add.{mode}.f32", "f32", 2, lambda a, b: a + b, mode)
    check_exact(f"mul.{mode}.f32", "f32", 2, lambda a, b: a * b, mode)
    check_exact(f"fma.{mode}.f32", "f32", 3, lambda a, b, c: a * b + c, mode)
    check_exact(f"div.{mode}.f32", "f32", 2, lambda a, b: a / b, mode)
    check_exact(f"rcp.{mode}.f32", "f32", 1, lambda a: 1 / a, mode)


def test_quotients() -> None:
    for type_ in ("f32", "f64"):
        check_exact(f"div.rn.{type_}", type_, 2, lambda a, b: a / b)
        check_exact(f"rcp.rn.{type_}", type_, 1, lambda a: 1 / a)


def test_fused_products_where_a_second_rounding_would_show() -> None:
    one = np.float32(1)
    tiny, near = np.float32(2.0**-24), np.float32(1 + 2.0**-23)
    # 1 + 2^-23 + 2^-47 + 2^-24 lies above the middle of two neighbours only by the last bit.
    got = compute("fma.rn.f32", "f32", near, near, tiny)
    assert got == float(rounded(Fraction(float(near)) ** 2 + Fraction(2) ** -24, 23, -126, 128))
    assert compute("fma.rn.f32", "f32", one, tiny, one) == 1.0
    assert compute("fma.rn.f32", "f32", one, np.float32(2.0**-24 + 2.0**-47), one) == 1 + 2.0**-23


@pytest.mark.parametrize("type_", ["f32", "f64"])
def test_special_values(type_: str) -> None:
    dtype = _FORMATS[type_][3]

    def one(name: str, *operands: float) -> float:
        return float(compute(f"{name}.{type_}", type_, *[np.array(o, dtype) for o in operands]))

    inf, nan = math.inf, math.nan
    assert same(one("add.rn", inf, -inf), nan)
    assert same(one("add.rn", -0.0, -0.0), -0.0)
    assert same(one("add.rn", 0.0, -0.0), 0.0)
    assert same(one("fma.rn", 0.0, inf, 1.0), nan)
    assert same(one("div.rn", 1.0, -0.0), -inf)
    assert same(one("sqrt.rn", -0.0), -0.0)
    assert same(one("sqrt.rn", -1.0), nan)
    assert same(one("min", 0.0, -0.0), -0.0)
    assert same(one("max", -0.0, 0.0), 0.0)
    assert same(one("min", nan, 2.0), 2.0)
    assert same(one("max", nan, nan), nan)
    assert same(one("copysign", -1.0, 3.0), -3.0)
    assert same(one("neg", 0.0), -0.0)
    assert same(one("abs", -inf), inf)


def test_extremes_with_nan() -> None:
    nan, one = np.array(np.nan, np.float32), np.array(1, np.float32)
    assert np.isnan(compute("max.NaN.f32", "f32", nan, one))
    assert np.isnan(compute("min.NaN.f32", "f32", one, nan))
    assert compute("max.f32", "f32", one, np.array(3, np.float32), np.array(2, np.float32)) == 3


def test_roots_are_those_of_numpy() -> None:
    rng = np.random.default_rng(1)
    for type_, dtype in (("f32", np.float32), ("f64", np.float64)):
        x = np.abs(floats(rng, dtype, _COUNT))
        expected = np.sqrt(x).astype(np.float64)
        assert np.array_equal(compute(f"sqrt.rn.{type_}", type_, x), expected, equal_nan=True)


def test_approximate_functions() -> None:
    x = np.linspace(-3, 3, 101, dtype=np.float32)
    functions: dict[str, Callable[[Any], Any]] = {
        "ex2.approx.f32": np.exp2, "sin.approx.f32": np.sin, "cos.approx.f32": np.cos,
        "tanh.approx.f32": np.tanh,
    }  # fmt: skip
    for name, function in functions.items():
        expected = function(x.astype(np.float64)).astype(np.float32)
        np.testing.assert_allclose(compute(name, "f32", x), expected, rtol=1e-6)
    positive = np.abs(x) + np.float32(0.25)
    for name, function in {
        "lg2.approx.f32": np.log2, "rsqrt.approx.f32": lambda v: 1 / np.sqrt(v),
        "rcp.approx.f32": lambda v: 1 / v, "sqrt.approx.f32": np.sqrt,
    }.items():  # fmt: skip
        expected = function(positive.astype(np.float64))
        np.testing.assert_allclose(compute(name, "f32", positive), expected, rtol=1e-6, atol=1e-7)


def test_saturation_and_flushing() -> None:
    x = np.array([-1, 0.5, 2, np.nan], np.float32)
    zero = np.zeros(4, np.float32)
    assert compute("add.sat.f32", "f32", x, zero).tolist() == [0, 0.5, 1, 0]
    small = np.array([2.0**-127, -(2.0**-127)], np.float32)
    got = compute("add.ftz.f32", "f32", small, np.array(0, np.float32))
    assert got.tolist() == [0, 0]
    got = compute("mul.ftz.f32", "f32", np.array([2.0**-100], np.float32), np.float32(2.0**-30))
    assert got.tolist() == [0]


def test_pairs_of_halves() -> None:
    a = np.array([1.5, -2.0], np.float16).view(np.uint32)
    b = np.array([0.25, 65504.0], np.float16).view(np.uint32)
    for name, expected in {
        "add.rn.f16x2": [1.75, 65504.0], "mul.rn.f16x2": [0.375, -np.inf],
        "max.f16x2": [1.5, 65504.0],
    }.items():  # fmt: skip
        got = run(f"{name} %r1, %r2, %r3", a, b).view(np.float16)
        assert got.tolist() == expected, name
    one = np.array([1, 1], ml_dtypes.bfloat16).view(np.uint32)
    got = run("fma.rn.bf16x2 %r1, %r2, %r3, %r4", one, one, one).view(ml_dtypes.bfloat16)
    assert got.astype(float).tolist() == [2, 2]
    got = run("neg.f16x2 %r1, %r2", a).view(np.float16)
    assert got.tolist() == [-1.5, 2.0]
    got = run("fma.rn.relu.f16x2 %r1, %r2, %r3, %r4", a, a, a).view(np.float16)
    assert got.tolist() == [3.75, 2.0]


def test_comparisons() -> None:
    values = [-1.0, -0.0, 0.0, 1.0, math.inf, math.nan]
    a, b = (np.array(v.ravel(), np.float64) for v in np.meshgrid(values, values))
    unordered = np.isnan(a) | np.isnan(b)
    table = {
        "eq": a == b, "ne": (a != b) & ~unordered, "lt": a < b, "le": a <= b, "gt": a > b,
        "ge": a >= b, "num": ~unordered, "nan": unordered,
    }  # fmt: skip
    table |= {f"{how}u": table[how] | unordered for how in ("eq", "lt", "le", "gt", "ge")}
    table["neu"] = (a != b) | unordered
    for name, expected in table.items():
        for type_, register in (("f32", "%r"), ("f64", "%rd"), ("f16", "%rs")):
            dtype, bits = _FORMATS[type_][3], _FORMATS[type_][4]
            got = run(
                f"setp.{name}.{type_} %p1, {register}1, {register}2",
                a.astype(dtype).view(bits), b.astype(dtype).view(bits),
            )  # fmt: skip
            assert got.tolist() == expected.tolist(), (name, type_)


def test_comparisons_of_pairs() -> None:
    a = np.array([1, 2], np.float16).view(np.uint32)
    b = np.array([1, 3], np.float16).view(np.uint32)
    got = run("setp.eq.f16x2 %p1|%p2, %r1, %r2", a, b)
    assert [bool(p[0]) for p in got] == [True, False]


def test_kinds_of_numbers() -> None:
    x = np.array([1, 0, 2.0**-130, np.inf, np.nan], np.float32).view(np.uint32)
    for kind, expected in {
        "finite": [1, 1, 1, 0, 0], "infinite": [0, 0, 0, 1, 0], "number": [1, 1, 1, 1, 0],
        "notanumber": [0, 0, 0, 0, 1], "normal": [1, 0, 0, 0, 0], "subnormal": [0, 0, 1, 0, 0],
    }.items():  # fmt: skip
        assert run(f"testp.{kind}.f32 %p1, %r1", x).tolist() == expected, kind


# --- conversions ----------------------------------------------------------------------------------


def test_between_integers() -> None:
    x = np.array([0, 127, 128, 255, 256, 0x7FFF, 0xFFFF], np.uint16)
    assert run("cvt.u32.u16 %r1, %rs1", x).tolist() == x.tolist()
    got = run("cvt.s32.s16 %r1, %rs1", x).astype(np.int32)
    assert got.tolist() == x.astype(np.int16).tolist()
    # A register may be wider than what is read of it, or written to it.
    assert run("cvt.u32.u8 %r1, %rs1", x).tolist() == [v & 255 for v in x.tolist()]
    got = run("cvt.s16.s8 %rs1, %rs2", x).view(np.int16)
    assert got.tolist() == x.astype(np.uint8).view(np.int8).tolist()
    wide = np.array([1 << 40, 5], np.uint64)
    assert run("cvt.u32.u64 %r1, %rd1", wide).tolist() == [0, 5]
    assert run("cvt.sat.u8.u32 %rs1, %r1", np.array([300, 7], np.uint32)).tolist() == [255, 7]
    negative = np.array([-1, -300, 200], np.int32).view(np.uint32)
    assert run("cvt.sat.s8.s32 %r1, %r2", negative).view(np.int32).tolist() == [-1, -128, 127]
    assert run("cvt.sat.u16.s32 %rs1, %r2", negative).tolist() == [0, 0, 200]
    assert run("cvt.u64.u32 %rd1, %r2", negative).tolist() == negative.tolist()
    assert run("cvt.s64.s32 %rd1, %r2", negative).view(np.int64).tolist() == [-1, -300, 200]


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize(("target", "source"), [("f32", "f64"), ("f16", "f32"), ("f16", "f64")])
def test_to_narrower_floats(target: str, source: str, mode: str) -> None:
    rng = np.random.default_rng(2)
    x = values_of(source, rng, 2000)
    # Many in the range of the narrower format, and in the middle of two of its numbers.
    x[::2] = (rng.standard_normal(1000) * 2.0 ** rng.integers(-26, 17, 1000)).astype(x.dtype)
    x[1::4] = x[1::4].astype(_FORMATS[target][3])
    to, mantissa, least, dtype, _ = _FORMATS[target]
    register, _, _, _, bits = _FORMATS[source]
    got = run(f"cvt.{mode}.{target}.{source} {to}1, {register}2", x.view(bits)).view(dtype)
    for found, value in zip(got.tolist(), x.tolist(), strict=True):
        if math.isfinite(value) and value:
            assert same(found, rounded(Fraction(value), mantissa, least, 2 - least, mode)), value
        else:
            assert same(found, value)


def test_to_wider_floats() -> None:
    every = np.arange(1 << 16, dtype=np.uint16)
    for name, dtype in (("f16", np.float16), ("bf16", ml_dtypes.bfloat16)):
        got = run(f"cvt.f32.{name} %r1, %rs1", every).view(np.float32)
        assert np.array_equal(got, every.view(dtype).astype(np.float32), equal_nan=True)
        assert np.array_equal(np.signbit(got), every >= 1 << 15)
        # And back.
        back = run(f"cvt.rn.{name}.f32 %rs1, %r1", got.view(np.uint32))
        numbers = ~np.isnan(got)
        assert np.array_equal(back[numbers], every[numbers])
        assert set(back[~numbers].tolist()) == {0x7FFF}


def test_to_pairs_of_bf16() -> None:
    rng = np.random.default_rng(3)
    a, b = (floats(rng, np.float32, 1000) for _ in "ab")
    got = run("cvt.rn.bf16x2.f32 %r1, %r2, %r3", a.view(np.uint32), b.view(np.uint32))
    for half, x in ((got >> 16, a), (got & 0xFFFF, b)):
        found = half.astype(np.uint16).view(ml_dtypes.bfloat16).astype(np.float32)
        expected = x.astype(ml_dtypes.bfloat16).astype(np.float32)
        assert np.array_equal(found, expected, equal_nan=True)


@pytest.mark.parametrize(
    ("name", "dtype", "largest"),
    [("e4m3x2", ml_dtypes.float8_e4m3fn, 448), ("e5m2x2", ml_dtypes.float8_e5m2, 57344)],
)
def test_floats_of_8_bits(name: str, dtype: Any, largest: float) -> None:
    rng = np.random.default_rng(4)
    x = (rng.standard_normal(2000) * 2.0 ** rng.integers(-18, 18, 2000)).astype(np.float32)
    x[:6] = [np.inf, -np.inf, np.nan, 0, -0.0, largest]
    zero = np.zeros(2000, np.uint32)
    got = run(f"cvt.rn.satfinite.{name}.f32 %rs1, %r1, %r2", zero, x.view(np.uint32))
    expected = x.clip(-largest, largest).astype(dtype)
    found = got.astype(np.uint8).view(dtype).astype(np.float32)
    assert np.array_equal(found, expected.astype(np.float32), equal_nan=True)
    # All of them are exact as f16.
    every = np.arange(256, dtype=np.uint16)
    halves = run(f"cvt.rn.f16x2.{name} %r1, %rs1", every << 8 | every)
    low, high = ((halves >> s).astype(np.uint16).view(np.float16) for s in (0, 16))
    expected_halves = every.astype(np.uint8).view(dtype).astype(np.float16)
    assert np.array_equal(low, expected_halves, equal_nan=True)
    assert np.array_equal(high, expected_halves, equal_nan=True)


def test_to_tf32() -> None:
    x = np.array([1 + 2.0**-11, 1 + 2.0**-10, -(1 + 2.0**-11)], np.float32)
    got = run("cvt.rna.tf32.f32 %r1, %r2", x.view(np.uint32)).view(np.float32)
    assert got.tolist() == [1 + 2.0**-10, 1 + 2.0**-10, -(1 + 2.0**-10)]


def test_from_integers() -> None:
    rng = np.random.default_rng(5)
    drawn = rng.integers(0, 1 << 64, 500, np.uint64)
    drawn[:3] = [0, (1 << 64) - 1, 1 << 63]
    for type_, dtype in (("f32", np.float32), ("f64", np.float64)):
        register = _FORMATS[type_][0]
        for sign, view in (("u", np.uint64), ("s", np.int64)):
            got = run(f"cvt.rn.{type_}.{sign}64 {register}1, %rd2", drawn).view(dtype)
            expected = [float(dtype(float_of(int(v), type_))) for v in drawn.view(view)]
            assert got.astype(float).tolist() == expected
    got = run("cvt.rz.f32.u64 %r1, %rd2", drawn).view(np.float32)
    expected = [rounded(Fraction(int(v)), 23, -126, 128, "rz") for v in drawn]
    assert got.astype(float).tolist() == expected
    words = drawn.astype(np.uint32)
    got = run("cvt.rn.f16.s32 %rs1, %r2", words).view(np.float16)
    expected = [rounded(Fraction(int(v)), 10, -14, 16) for v in words.view(np.int32)]
    assert got.astype(float).tolist() == expected


def float_of(value: int, type_: str) -> float:
    """Return an integer rounded to a format."""
    _, mantissa, least, _, _ = _FORMATS[type_]
    return rounded(Fraction(value), mantissa, least, 2 - least)


@pytest.mark.parametrize("source", ["f32", "f64", "f16"])
def test_to_integers(source: str) -> None:
    rng = np.random.default_rng(6)
    register, _, _, dtype, bits = _FORMATS[source]
    x = floats(rng, dtype, 500)
    x[:8] = np.array([0.5, 1.5, -0.5, 2.5, 1e4, -1e4, np.inf, np.nan], dtype)
    whole: dict[str, Callable[[float], int]] = {
        "rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil,
    }  # fmt: skip
    for mode, function in whole.items():
        for target, to in (
            ("s32", "%r"),
            ("u32", "%r"),
            ("s64", "%rd"),
            ("u64", "%rd"),
            ("s16", "%rs"),
        ):
            width, sign = int(target[1:]), target[0] == "s"
            low = -(1 << (width - 1)) if sign else 0
            high = low + (1 << width) - 1
            got = run(f"cvt.{mode}.{target}.{source} {to}1, {register}2", x.view(bits))
            for found, value in zip(got.tolist(), x.tolist(), strict=True):
                if math.isnan(value):
                    expected = 1 << (width - 1) if source == "f64" or width == 64 else 0
                elif math.isinf(value):
                    expected = high if value > 0 else low
                else:
                    expected = max(low, min(high, function(value)))
                assert found == expected & ((1 << width) - 1), (mode, target, value)


def test_to_whole_floats() -> None:
    x = np.array([0.5, 1.5, -0.5, 2.7, np.inf], np.float32)
    for mode, expected in {
        "rni": [0, 2, -0.0, 3, np.inf], "rzi": [0, 1, -0.0, 2, np.inf],
        "rmi": [0, 1, -1, 2, np.inf], "rpi": [1, 2, -0.0, 3, np.inf],
    }.items():  # fmt: skip
        got = compute(f"cvt.{mode}.f32.f32", "f32", x)
        assert all(map(same, got.tolist(), expected)), mode
