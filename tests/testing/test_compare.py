"""Comparing results: what rounding excuses, and what it does not."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from hlo.analysis.rounding import rounded_digits
from hlo.frontends.text import parse
from hlo.testing.compare import compare, nudged, spread


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
def test_a_nudge_is_one_unit_in_the_last_place(dtype: np.dtype) -> None:
    x = np.linspace(-3, 3, 50).astype(dtype)
    x[:4] = [0, np.inf, -np.inf, np.nan]
    y = nudged(x)
    off = x.view(f"u{x.itemsize}") - y.view(f"u{x.itemsize}")
    assert set(off[4:].tolist()) == {0, 1} and not off[:4].any()
    assert y.dtype == x.dtype


def test_a_nudge_is_as_large_as_rounding_on_the_way() -> None:
    x = np.array([1.5, -3.0, 5e-324, 0.0, np.nan])
    off = np.abs(x - nudged(x, 23))[:4]
    assert off.max() == 2 * 2.0**-23 and not off[2:].any()
    module = parse("""HloModule m
ENTRY e {
  a = f64[2] parameter(0)
  b = f32[2] convert(a)
  c = f8e4m3fn[2] convert(b)
  ROOT d = f64[2] convert(b)
}""")
    assert rounded_digits(module) == 23
    assert (
        rounded_digits(parse("f32[2] reduce-precision(f32[2] a), exponent_bits=8, mantissa_bits=9"))
        == 9
    )
    assert rounded_digits(parse("f32[2] convert(s32[2] a)")) is None
    assert np.array_equal(nudged(x, None), nudged(x, 99), equal_nan=True)


def test_a_nudge_leaves_integers_and_goes_into_tuples_and_complex_numbers() -> None:
    i, c = np.arange(5), np.full((3, 7), 1 + 2j, np.complex64)
    same, other = nudged((i, c))
    assert (same == i).all() and other.shape == c.shape
    assert 0 < np.abs(other - c).max() < 1e-6


def test_sensitivity_excuses_a_few_times_the_spread() -> None:
    want = np.array([1, 2, 3], np.float32)
    got = want + np.array([0, 0.05, 0], np.float32)
    assert not compare(got, want).same
    near = want + np.float32(0.01)
    found = compare(got, want, sensitivity=spread(want, near))
    assert found.same and "perturbing the inputs in their last bits" in str(found)
    assert not compare(got, want, sensitivity=spread(want, want)).same
    assert not compare(got + 1, want, sensitivity=spread(want, near)).same


def test_the_spread_is_of_finite_floats() -> None:
    a = np.array([1, np.inf, np.nan], np.float32)
    assert spread(a, np.array([1.5, 3, 4], np.float32)) == 0.5
    assert spread(np.arange(3), np.arange(3) + 1) == 0


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.complex64, ml_dtypes.bfloat16])
def test_subnormal_numbers_are_as_inexact_as_the_smallest_normal_one(dtype: np.dtype) -> None:
    info = ml_dtypes.finfo(dtype)
    step = float(info.smallest_subnormal)
    want = np.array([0, 3 * step], dtype)
    assert compare((want + step).astype(dtype), want).same
    assert not compare(want, want + dtype(info.smallest_normal)).same
    assert not compare((want + step).astype(dtype), want, 0.0, 0.0).same
