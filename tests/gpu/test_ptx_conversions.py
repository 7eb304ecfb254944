"""Semantics of PTX's conversions, against fractions and numpy."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.gpu.floats import FORMATS, compute, rounded, same, values_of
from tests.gpu.instructions import floats, run

# Conversions of numpy that tests compare with may overflow.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


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
    x[1::4] = x[1::4].astype(FORMATS[target][3])
    to, mantissa, least, dtype, _ = FORMATS[target]
    register, _, _, _, bits = FORMATS[source]
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
        register = FORMATS[type_][0]
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
    _, mantissa, least, _, _ = FORMATS[type_]
    return rounded(Fraction(value), mantissa, least, 2 - least)


@pytest.mark.parametrize("source", ["f32", "f64", "f16"])
def test_to_integers(source: str) -> None:
    rng = np.random.default_rng(6)
    register, _, _, dtype, bits = FORMATS[source]
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
