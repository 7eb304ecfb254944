"""Semantics of PTX's floating-point instructions, against fractions and numpy."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.gpu.floats import COUNT, FORMATS, compute, rounded, same, values_of
from tests.gpu.instructions import floats, run

# Conversions of numpy that tests compare with may overflow.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def check_exact(
    name: str, type_: str, count: int, exact: Callable[..., Fraction], mode: str = "rn"
) -> None:
    """Compare with exact results, rounded once, where operands are finite."""
    rng = np.random.default_rng(len(name))
    operands = [values_of(type_, rng) for _ in range(count)]
    got = compute(name, type_, *operands)
    _, mantissa, least, _, _ = FORMATS[type_]
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
    dtype = FORMATS[type_][3]

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
        x = np.abs(floats(rng, dtype, COUNT))
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
            dtype, bits = FORMATS[type_][3], FORMATS[type_][4]
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
