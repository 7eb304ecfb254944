"""Conversions against XLA and against exact arithmetic."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from hlo.ops.elementwise.casts import convert, narrow
from hlo.values.types import ELEMENT_TYPES, element_type
from tests.harness.oracle import assert_same
from tests.harness.run_both import errors, run, run_both
from tests.ops.test_ops_elementwise import float_values, integer_values, program

# jaxlib does not take s1 and u1 (they have a test of their own), and computes nothing with f6.
TYPES = [t for t in ELEMENT_TYPES if t not in ("s1", "u1") and not t.startswith("f6")]
REAL = [t for t in TYPES if not element_type(t).is_complex]
EDGES = [
    127.5, 127.4999, -128.9, -129, 255.9, 256, 300, 448, 464, 480, 57344, 61440, 65504, 65520, 7e4,
    3e9, -3e9, 9.3e18, 1.9e19, -1e19, 3e38, 1.00390625, 1.01171875, 5.0, 7.0,
]  # fmt: skip
# XLA:CPU saturates 6 in f4 to 127 in s8, and takes the least e8m0 for 0: it is left out below.
UNLIKE_XLA = {"f4e2m1fn": 6.0}


def values_of(et: str) -> np.ndarray:
    t = element_type(et)
    if t.is_pred:
        return np.array([False, True])
    if t.is_integer:
        many = [16777217, 33554433, 2**53 + 1, 2**31 + 129, 2**62 + 2**37 + 1, 2**40 + 2**16 + 1]
        kept = [v for v in [*many, 65519, 65520, 257, 511] if v.bit_length() < t.bits]
        return np.concatenate([integer_values(et), np.array(kept, np.int64).astype(t.dtype)])
    with np.errstate(over="ignore"):
        values = np.concatenate([float_values(et), np.array(EDGES).astype(t.dtype)])
        wide = np.abs(values.astype(np.float64))
    # XLA:CPU flushes denormals, of the f32 that it converts through too.
    kept_lanes = ~((wide > 0) & (wide < np.finfo(np.float32).tiny)) & (wide != UNLIKE_XLA.get(et))
    return values[kept_lanes]


@pytest.mark.parametrize("et", REAL)
def test_conversion_to_every_type_is_what_xla_computes(et: str) -> None:
    x = values_of(et)
    # One type at a time to f8e8m0fnu and f64 -> f4 would be no different: all go in one module.
    calls = [f"{to}[{x.size}] convert(p0)" for to in TYPES]
    run_both(program([f"{et}[{x.size}]"], calls), [x], ulps=0)


@pytest.mark.parametrize("et", ["c64", "c128"])
def test_conversion_of_complex_drops_the_imaginary_part(et: str) -> None:
    x = np.array([1.5 + 2j, -3e9 - 1j, 0.25 + np.inf * 1j], element_type(et).dtype)
    calls = [f"{to}[3] convert(p0)" for to in ("c64", "c128", "f32", "f64", "bf16", "s32", "u8")]
    run_both(program([f"{et}[3]"], calls), [x], ulps=0)


def test_conversion_to_and_from_one_bit() -> None:
    x = np.array([0, 1, -1, 2, 3, 100], np.int32)
    calls = ["s1[6] convert(p0)", "u1[6] convert(p0)", "s32[6] convert(r0)", "s32[6] convert(r1)"]
    _, _, signed, unsigned = run(program(["s32[6]"], calls), [x])
    assert signed.tolist() == [0, -1, -1, 0, -1, 0]
    assert unsigned.tolist() == [0, 1, 1, 0, 1, 0]
    (clipped,) = run(
        program(["f32[4]"], ["u1[4] convert(p0)"]), [np.float32([-3, 0.9, 1.9, np.nan])]
    )
    assert clipped.astype(int).tolist() == [0, 0, 1, 0]


@pytest.mark.parametrize("to", ["bf16", "f16", "f8e4m3fn", "f8e5m2"])
def test_narrowing_rounds_once(to: str) -> None:
    """A value just beside a halfway point: rounding to f32 first would put it on the point."""
    t = element_type(to)
    step = 2.0 ** -ml_dtypes.finfo(t.dtype).nmant
    x = np.array([1 + step / 2 + 2.0**-50, 1 + 3 * step / 2 - 2.0**-50, 1 + step / 2])
    assert_same(narrow(x, t), np.array([1 + step, 1 + step, 1]).astype(t.dtype), ulps=0)
    assert_same(narrow(-x, t), np.array([-1 - step, -1 - step, -1]).astype(t.dtype), ulps=0)


@pytest.mark.parametrize("kind", ["s64", "u64"])
def test_64_bit_integers_round_once(kind: str) -> None:
    rng = np.random.default_rng(5)
    t, to = element_type(kind), element_type("bf16")
    x = rng.integers(0, 1 << 63, 500, np.int64) >> rng.integers(0, 63, 500)
    # The halfway points of bf16, and their neighbours far below the precision of f64.
    half = (np.int64(257) << np.arange(0, 54)) + np.arange(-1, 2)[:, None]
    x = np.concatenate([x, half.reshape(-1)])
    x = np.concatenate([x, -x]) if t.is_signed else x.astype(np.uint64)
    got = convert(x, to).astype(np.float64)
    above, below = (np.nextafter(convert(x, to), to.dtype.type(s)) for s in (np.inf, -np.inf))
    for v, g, a, b in zip(x.tolist(), got.tolist(), above.tolist(), below.tolist(), strict=True):
        error = abs(Fraction(g) - v)
        assert error <= abs(Fraction(float(a)) - v) and error <= abs(Fraction(float(b)) - v), v


# --- bitcast-convert ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wide", "narrow_type"),
    [
        ("f32", "u8"), ("f64", "u32"), ("u64", "f16"), ("u8", "s4"), ("u8", "u2"), ("u16", "s4"),
        ("f32", "u4"), ("s4", "u2"), ("s8", "f4e2m1fn"), ("f32", "s32"), ("f16", "bf16"),
        ("s4", "u4"), ("s8", "f8e5m2"),
    ],
)  # fmt: skip
def test_bits_are_kept_between_widths(wide: str, narrow_type: str) -> None:
    a, b = element_type(wide), element_type(narrow_type)
    ratio = a.bits // b.bits
    rng = np.random.default_rng(3)
    x = np.asarray(rng.integers(0, 1 << min(a.bits, 8), (6, a.dtype.itemsize))).astype(np.uint8)
    x = x.view(a.dtype)[:, 0] if a.bits >= 8 else x[:, 0].astype(a.dtype)
    parts = "6" if ratio == 1 else f"6,{ratio}"
    calls = [f"{narrow_type}[{parts}] bitcast-convert(p0)", f"{wide}[6] bitcast-convert(r0)"]
    _, back = run_both(program([f"{wide}[6]"], calls), [x])
    assert back.tobytes() == x.tobytes()


def test_pred_is_a_byte_that_is_zero_or_not() -> None:
    calls = ["pred[4] bitcast-convert(p0)", "u8[4] bitcast-convert(r0)"]
    pred, back = run(program(["u8[4]"], calls), [np.array([0, 1, 2, 255], np.uint8)])
    assert pred.tolist() == [False, True, True, True]
    assert back.tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize(
    ("parameter", "result", "code"),
    [
        ("f32[2]", "u8[2] bitcast-convert(p0)", "shape-mismatch"),
        ("u8[2,3]", "f32[2] bitcast-convert(p0)", "shape-mismatch"),
        ("u8[]", "f32[] bitcast-convert(p0)", "shape-mismatch"),
        ("f32[2,2]", "c64[2] bitcast-convert(p0)", "type-mismatch"),
        ("f32[2]", "f32[3] convert(p0)", "shape-mismatch"),
        ("(f32[2])", "f32[2] convert(p0)", "type-mismatch"),
        ("f32[2]", "(f32[2]) convert(p0)", "type-mismatch"),
        ("u8[2]", "u8[2] reduce-precision(p0), exponent_bits=5, mantissa_bits=2", "type-mismatch"),
        ("f32[2]", "f32[2] reduce-precision(p0), exponent_bits=0, mantissa_bits=2", "bad-value"),
        ("f32[2]", "f32[2] reduce-precision(p0), exponent_bits=2, mantissa_bits=-1", "bad-value"),
        ("f32[2]", "f32[2] reduce-precision(p0), exponent_bits=2", "missing-attribute"),
        ("f32[2]", "f32[3] bitcast(p0)", "shape-mismatch"),
        ("u32[2]", "s8[2] stochastic-convert(p0, p0)", "type-mismatch"),
        ("f32[2]", "s8[2] stochastic-convert(p0, p0)", "type-mismatch"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(parameter: str, result: str, code: str) -> None:
    assert [c for c, _ in errors(program([parameter], [result]))] == [code]


@pytest.mark.parametrize("et", ["bf16", "u8", "pred", "c64"])
def test_only_conversions_to_signed_integers_are_stochastic(et: str) -> None:
    text = program(["f32[2]", "u32[2]"], [f"{et}[2] stochastic-convert(p0, p1)"])
    ((code, message),) = errors(text)
    assert code == "type-mismatch" and f"to {et} has no defined result" in message


# --- reduce-precision ---------------------------------------------------------------------------


@pytest.mark.parametrize("et", ["f32", "f64", "f16", "bf16", "f8e4m3fn", "f8e5m2fnuz"])
def test_reduced_precision_is_what_xla_computes(et: str) -> None:
    x = values_of(et)
    calls = [
        f"{et}[{x.size}] reduce-precision(p0), exponent_bits={e}, mantissa_bits={m}"
        for e in (1, 2, 5, 8, 20)
        for m in (0, 1, 7, 10, 30)
    ]
    run_both(program([f"{et}[{x.size}]"], calls), [x], ulps=0, signed_zero=True)


@pytest.mark.parametrize(("et", "e", "m"), [("f16", 5, 2), ("f8e4m3", 4, 3), ("bf16", 8, 7)])
def test_reduced_precision_is_the_conversion_there_and_back(et: str, e: int, m: int) -> None:
    """For a format that ml_dtypes has, denormals apart (reduce-precision makes them zero)."""
    through = {(5, 2): "f8e5m2", (4, 3): "f8e4m3", (8, 7): "bf16"}[e, m]
    t, u = element_type(et), element_type(through)
    x = np.arange(1 << t.bits, dtype=f"u{t.dtype.itemsize}").view(t.dtype)
    call = f"{et}[{x.size}] reduce-precision(p0), exponent_bits={e}, mantissa_bits={m}"
    (got,) = run(program([f"{et}[{x.size}]"], [call]), [x])
    want = convert(convert(x, u), t)
    normal = np.abs(x.astype(np.float32)) >= float(ml_dtypes.finfo(u.dtype).tiny)
    lanes = normal if (e, m) != (8, 7) else np.ones(x.shape, bool)
    assert_same(got[lanes], want[lanes], ulps=0)


# --- stochastic-convert, copy, bitcast ----------------------------------------------------------


def test_stochastic_conversion_rounds_up_as_often_as_the_fraction_says() -> None:
    x = np.array(
        [1.5, 1.5, -1.5, -1.5, np.nan, np.inf, -np.inf, 300, -300, 0.25, 126.9], np.float32
    )
    random = np.array([2**31 - 1, 2**31, 2**31 - 1, 2**31, 0, 0, 0, 0, 0, 2**30, 0], np.uint32)
    text = program(["f32[11]", "u32[11]"], ["s8[11] stochastic-convert(p0, p1)"])
    # XLA's decomposition has no answer for NaN; its evaluator says 0.
    (got,) = run_both(text, [x, random])
    assert got.tolist() == [2, 1, -2, -1, 0, 127, -128, 127, -128, 0, 127]


def test_copy_keeps_everything() -> None:
    text = "HloModule m\n\nENTRY e {\n  a = (f32[2], s4[3]) parameter(0)\n  ROOT b = copy(a)\n}\n"
    a = (np.array([1, np.nan], np.float32), np.arange(3).astype(ml_dtypes.int4))
    assert_same(run(text, [a]), a)


@pytest.mark.parametrize(
    ("source", "result"),
    [
        ("f32[2,3]{1,0}", "f32[3,2]{0,1}"),
        ("f32[2,3]{0,1}", "f32[3,2]{1,0}"),
        ("f32[2,3]{1,0}", "f32[6]{0}"),
        ("f32[2,3]{1,0}", "u32[2,3]{1,0}"),
        ("f32[2,3]{1,0}", "u8[24]{0}"),
    ],
)
def test_bitcast_reads_the_same_buffer(source: str, result: str) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    (got,) = run(program([source], [f"{result} bitcast(p0)"]), [x])
    memory = x.tobytes("F" if "{0,1}" in source else "C")
    assert got.tobytes("F" if "{0,1}" in result else "C") == memory


def test_bitcast_of_tiles_moves_the_padding_along() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    calls = ["f32[8]{0} bitcast(p0)", "f32[2,3]{1,0:T(2,4)} bitcast(r0)"]
    flat, back = run(program(["f32[2,3]{1,0:T(2,4)}"], calls), [x])
    assert flat.tolist() == [0, 1, 2, 0, 3, 4, 5, 0]
    assert_same(back, x)
