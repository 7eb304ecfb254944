"""Elementwise operations against XLA and against exact arithmetic, on the values that break things.

Many operations run in one module, since XLA's compile time is most of the cost. XLA:CPU runs with
denormals flushed to zero, which IEEE 754 and the specification do not allow for: lanes that touch
one are left out of the comparison and have tests of their own.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Sequence

import ml_dtypes
import numpy as np
import pytest

from hlo.frontends.text import parse
from hlo.values.types import ELEMENT_TYPES, element_type, element_type_of, integer_range
from tests.harness.oracle import assert_same, xla_run
from tests.harness.run_both import errors, run

UNARY = """abs cbrt ceil cosine erf exponential exponential-minus-one floor log log-plus-one
logistic negate real imag round-nearest-afz round-nearest-even rsqrt sign sine sqrt tan
tanh""".split()
# XLA:CPU has no code for these in f32, f64 and f16 (its error is "UNIMPLEMENTED: acos").
NOT_IN_XLA: dict[str, Callable[[float], float]] = {
    "acos": math.acos, "acosh": math.acosh, "asin": math.asin, "asinh": math.asinh,
    "atanh": math.atanh, "cosh": math.cosh, "sinh": math.sinh,
}  # fmt: skip
BINARY = "add subtract multiply divide remainder power atan2 maximum minimum".split()
COMPARE = [f"compare(p0, p1), direction={d}" for d in "EQ NE LT LE GT GE".split()]
TOTAL_ORDER = [c + ", type=TOTALORDER" for c in COMPARE]
# Those of six bits are only text to XLA.
F8 = [t.name for t in ELEMENT_TYPES.values() if t.is_float and t.bits in (4, 8)]
INTEGERS = [t.name for t in ELEMENT_TYPES.values() if t.is_integer and t.bits > 1]


def program(parameters: Sequence[str], results: Sequence[str]) -> str:
    """Return a module that computes every result; each starts with its shape."""
    lines = [f"p{i} = {shape} parameter({i})" for i, shape in enumerate(parameters)]
    lines += [f"r{i} = {r}" for i, r in enumerate(results)]
    shapes = ", ".join(r.split(" ")[0] for r in results)
    names = ", ".join(f"r{i}" for i in range(len(results)))
    body = "\n  ".join([*lines, f"ROOT out = ({shapes}) tuple({names})"])
    return f"HloModule m\n\nENTRY e {{\n  {body}\n}}\n"


def compare(et: str, args: Sequence[np.ndarray], calls: Sequence[str], **tolerance: float) -> None:
    """Compare `calls` on 1-d arguments with XLA; a call is `RESULT_TYPE op(...)` or `op(...)`."""
    shapes = [f"{et}[{a.size}]" for a in args]
    results = []
    for call in calls:
        word, _, rest = call.partition(" ")
        results.append(
            f"{word}[{args[0].size}] {rest}" if "(" not in word else f"{shapes[0]} {call}"
        )
    text = program(shapes, results)
    got, want = run(text, list(args)), xla_run(text, list(args))
    for call, g, w in zip(calls, got, want, strict=True):
        lanes = ~(denormal(g) | np.any([denormal(a) for a in args], axis=0))
        assert_same(g[lanes], w[lanes], what=call, **tolerance)


def denormal(a: np.ndarray) -> np.ndarray:
    """Return which elements are zero to XLA:CPU although they are not."""
    if a.dtype.kind == "c":
        return denormal(a.real) | denormal(a.imag)
    et = element_type_of(a.dtype)
    if not et.is_float or (et.bits <= 8 and et.name != "f8e8m0fnu"):
        return np.zeros(a.shape, bool)  # the denormals of f8 are normal in the f32 it computes in
    least = float(np.finfo(np.float32).tiny if et.bits == 8 else ml_dtypes.finfo(a.dtype).tiny)
    with np.errstate(invalid="ignore"):
        size = np.abs(a.astype(np.float64))
    return (size > 0) & (size < least)


def pairs(values: np.ndarray) -> list[np.ndarray]:
    return [np.repeat(values, values.size), np.tile(values, values.size)]


def float_values(et: str) -> np.ndarray:
    """Return the values at which float operations change their mind, and some ordinary ones."""
    dtype = element_type(et).dtype
    info = ml_dtypes.finfo(dtype)
    values = [
        np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, 10.0, -10.0,
        100.0, -100.0, 88.8, 1e-4, -1e-4, math.pi, 0.99999, -0.99999, 0.49999997, 8388609.0,
        float(info.max), float(info.min), float(info.tiny), float(-info.tiny),
        float(info.smallest_subnormal), 0.3, -7.7,
    ]  # fmt: skip
    with np.errstate(over="ignore"):
        return np.array(values).astype(dtype)


def integer_values(et: str) -> np.ndarray:
    t = element_type(et)
    low, high = integer_range(t)
    some = {low, low + 1, high, high - 1, high // 3, t.bits - 1, t.bits, t.bits + 1}
    kept = sorted(v for v in some | {0, 1, 2, 3, 5, -1, -2, -3, -7} if low <= v <= high)
    return np.array(kept, np.int64 if t.is_signed else np.uint64).astype(t.dtype)


# --- floats -------------------------------------------------------------------------------------


@pytest.mark.parametrize("et", ["f32", "f64", "f16", "bf16"])
def test_float_unary_is_what_xla_computes(et: str) -> None:
    compare(et, [float_values(et)], [f"{op}(p0)" for op in UNARY] + ["pred is-finite(p0)"],
            signed_zero=True)  # fmt: skip


@pytest.mark.parametrize("et", ["f32", "f64", "f16", "bf16"])
def test_float_binary_is_what_xla_computes(et: str) -> None:
    calls = [f"{op}(p0, p1)" for op in BINARY]
    calls += [f"pred {c}" for c in COMPARE + TOTAL_ORDER]
    compare(et, pairs(float_values(et)), calls, signed_zero=True)


@pytest.mark.parametrize("et", F8)
def test_every_value_of_a_narrow_float_type(et: str) -> None:
    t = element_type(et)
    x = np.arange(1 << t.bits, dtype=np.uint8).view(t.dtype)
    unary = """abs negate ceil floor round-nearest-afz exponential tanh log sqrt erf
    logistic""".split()
    compare(et, [x], [f"{op}(p0)" for op in unary])
    binary = [f"{op}(p0, p1)" for op in "add subtract multiply divide maximum minimum".split()]
    calls = binary + [f"pred {c}" for c in COMPARE + TOTAL_ORDER]
    compare(et, [np.tile(x, 2), np.concatenate([x[::-1], np.roll(x, 1)])], calls)


@pytest.mark.parametrize("et", ["f32", "f64"])
@pytest.mark.parametrize("op", [*NOT_IN_XLA, "erf", "tan", "log-plus-one", "exponential-minus-one"])
def test_transcendentals_are_within_one_or_two_ulp(op: str, et: str) -> None:
    function = NOT_IN_XLA.get(op) or {
        "erf": math.erf, "tan": math.tan, "log-plus-one": math.log1p,
        "exponential-minus-one": math.expm1,
    }[op]  # fmt: skip
    dtype = element_type(et).dtype
    x = np.concatenate([np.linspace(-7, 7, 997), 10.0 ** -np.arange(1, 20)]).astype(dtype)

    def exact(value: float) -> float:
        try:
            return function(value)
        except ValueError:  # outside the domain, or a pole
            return math.copysign(math.inf, value) if op == "atanh" and abs(value) == 1 else math.nan

    want = np.array([exact(float(v)) for v in x]).astype(dtype)
    (got,) = run(program([f"{et}[{x.size}]"], [f"{et}[{x.size}] {op}(p0)"]), [x])
    # numpy's vectorized f64 functions are good to about two units; f32 goes through them.
    assert_same(got, want, ulps=1 if et == "f32" else 4, signed_zero=True)


@pytest.mark.parametrize("et", ["f32", "f64", "bf16"])
def test_denormals_are_numbers(et: str) -> None:
    dtype = element_type(et).dtype
    least = ml_dtypes.finfo(dtype).smallest_subnormal
    tiny = ml_dtypes.finfo(dtype).tiny
    x, y = np.array([least, -least, tiny, least]), np.array([1, 2, 0.5, np.inf])
    calls = ["sign(p0)", "ceil(p0)", "add(p0, p0)", "multiply(p0, p1)", "remainder(p0, p0)"]
    sign, up, double, product, rest = run(
        program([f"{et}[4]"] * 2, [f"{et}[4] {c}" for c in calls]),
        [x.astype(dtype), y.astype(dtype)],
    )
    half = (tiny.astype(np.float64) * 0.5).astype(dtype)
    assert_same(sign, np.array([1, -1, 1, 1]).astype(dtype))
    assert_same(up, np.array([1, -0.0, 1, 1]).astype(dtype), signed_zero=True)
    assert_same(double, (2 * x.astype(np.float64)).astype(dtype), ulps=0)
    assert_same(product, np.array([least, -2 * least, half, np.inf]).astype(dtype), ulps=0)
    assert_same(rest, np.array([0, -0.0, 0, 0]).astype(dtype), signed_zero=True)


def test_zero_times_infinity_and_friends_make_no_noise() -> None:
    """Warnings are errors in these tests, so that nothing raised is enough; rank 0 stays rank 0."""
    for value in (0.0, math.inf, math.nan, 3e38):
        x = np.array(value, np.float32)
        calls = [f"f32[] {op}(p0)" for op in UNARY if op not in ("real", "imag")]
        calls += [f"f32[] {op}(p0, p0)" for op in BINARY] + [
            "s8[] convert(p0)",
            "f8e4m3fn[] convert(p0)",
        ]
        for result in run(program(["f32[]"], calls), [x]):
            assert isinstance(result, np.ndarray) and result.shape == ()


# --- integers and pred --------------------------------------------------------------------------


@pytest.mark.parametrize("et", INTEGERS)
def test_integer_operations_are_what_xla_computes(et: str) -> None:
    values = integer_values(et)
    signed = element_type(et).is_signed
    unary = "negate not count-leading-zeros".split() + (["abs", "sign"] if signed else [])
    # XLA:CPU counts the sign-extended byte of s4 and s2: 8 ones in -1.
    unary += [] if signed and element_type(et).bits < 8 else ["popcnt"]
    compare(et, [values], [f"{op}(p0)" for op in unary])
    binary = """add subtract multiply divide remainder maximum minimum and or xor shift-left
    shift-right-arithmetic shift-right-logical""".split()
    compare(et, pairs(values), [f"{op}(p0, p1)" for op in binary] + [f"pred {c}" for c in COMPARE])


@pytest.mark.parametrize("et", [*INTEGERS, "s1", "u1"])
def test_integer_power_multiplies_and_wraps(et: str) -> None:
    """XLA:CPU looks at six bits of the exponent only, so the answer is Python's, not XLA's."""
    t = element_type(et)
    x, y = pairs(integer_values(et))
    (got,) = run(program([f"{et}[{x.size}]"] * 2, [f"{et}[{x.size}] power(p0, p1)"]), [x, y])
    for base, exponent, result in zip(x.tolist(), y.tolist(), got.tolist(), strict=True):
        base, exponent = int(base), int(exponent)
        if exponent < 0:
            exact = {1: 1, -1: -1 if exponent % 2 else 1}.get(base, 0)
        else:
            exact = pow(base, exponent, 1 << t.bits)
        assert (int(result) - exact) % (1 << t.bits) == 0, (base, exponent)


@pytest.mark.parametrize("et", [*INTEGERS, "s1", "u1"])
def test_bit_counts_and_high_products_are_exact(et: str) -> None:
    t = element_type(et)
    x, y = pairs(integer_values(et))
    n, mask = x.size, (1 << t.bits) - 1
    calls = ["popcnt(p0)", "count-leading-zeros(p0)", "mulhi(p0, p1)"]
    ones, zeros, high = run(program([f"{et}[{n}]"] * 2, [f"{et}[{n}] {c}" for c in calls]), [x, y])
    for i in range(n):
        a, b = int(x[i]), int(y[i])
        assert (int(ones[i]) - (a & mask).bit_count()) & mask == 0
        assert (int(zeros[i]) - (t.bits - (a & mask).bit_length())) & mask == 0
        assert int(high[i]) == (a * b) >> t.bits


def test_pred_arithmetic_is_logic() -> None:
    x, y = pairs(np.array([False, True]))
    ops = "add multiply maximum minimum and or xor".split()
    calls = [f"pred {op}(p0, p1)" for op in ops] + ["pred not(p0)"]
    compare("pred", [x, y], calls + [f"pred {c}" for c in COMPARE])


# --- complex ------------------------------------------------------------------------------------


@pytest.mark.parametrize("et", ["c64", "c128"])
def test_complex_operations_are_what_xla_computes(et: str) -> None:
    rng = np.random.default_rng(2)
    x, y = (rng.standard_normal((2, 200, 2)) * 2).astype(np.float64).view(np.complex128)[..., 0]
    part = "f32" if et == "c64" else "f64"
    unary = """cosine exponential exponential-minus-one log log-plus-one logistic negate rsqrt sign
    sine sqrt tan tanh""".split()
    calls = [f"{op}(p0)" for op in unary]
    calls += [f"{part} {op}(p0)" for op in ("abs", "real", "imag")]
    calls += [f"{op}(p0, p1)" for op in "add subtract multiply divide power atan2".split()]
    dtype = element_type(et).dtype
    compare(et, [x.astype(dtype), y.astype(dtype)], calls + [f"pred {c}" for c in COMPARE[:2]])


@pytest.mark.parametrize("op", ["acos", "acosh", "asin", "asinh", "atanh", "cosh", "sinh"])
def test_complex_functions_that_xla_lacks(op: str) -> None:
    x = np.array([0.3 + 0.4j, -2 + 1e-3j, 5 - 7j, -0.5j, 1.5 + 0j, 1.5 - 0j], np.complex64)
    (got,) = run(program(["c64[6]"], [f"c64[6] {op}(p0)"]), [x])
    function = getattr(cmath, op)
    assert_same(got, np.array([function(complex(v)) for v in x], np.complex64), ulps=1)


def test_complex_edges_follow_c99() -> None:
    """XLA:CPU gives NaN for several of these; C99 Annex G, and XLA's own evaluator, do not."""
    inf, nan = math.inf, math.nan
    cases: list[tuple[str, complex, complex]] = [
        ("abs", complex(nan, inf), inf),
        ("exponential", complex(-inf, nan), 0),
        ("exponential-minus-one", complex(-inf, inf), -1),
        ("exponential-minus-one", complex(1e-20, 1e-20), complex(1e-20, 1e-20)),
        ("log-plus-one", complex(1e-20, -1e-20), complex(1e-20, -1e-20)),
        ("log", complex(0, 0), complex(-inf, 0)),
        ("sqrt", complex(-1, -0.0), complex(0, -1)),
        ("sqrt", complex(nan, inf), complex(inf, inf)),
        ("sine", complex(0, 1e-4), complex(0, 1.0000000016666667e-4)),
        ("tanh", complex(100, 3), complex(1, 0)),
        ("logistic", complex(inf, nan), complex(1, 0)),
        ("sign", complex(0, 0), 0),
        ("sign", complex(-3, 4), complex(-0.6, 0.8)),
    ]
    for op, x, want in cases:
        shape = "f64[]" if op == "abs" else "c128[]"
        (got,) = run(program(["c128[]"], [f"{shape} {op}(p0)"]), [np.array(x)])
        assert_same(got, np.asarray(want, got.dtype), ulps=2, what=f"{op}({x})")


def test_complex_division_keeps_range_and_infinities() -> None:
    inf = math.inf
    cases = [
        (complex(1e300, 1e300), complex(1e300, 1e300), complex(1, 0)),
        (complex(1, 1), complex(1e-310, 0), complex(inf, inf)),
        (complex(1, 2), complex(0, 0), complex(inf, inf)),
        (complex(inf, 1), complex(1, 1), complex(inf, -inf)),
        (complex(1, 1), complex(inf, 1), complex(0, 0)),
        (complex(0, 0), complex(0, 0), complex(math.nan, math.nan)),
    ]
    x, y, want = (np.array(column) for column in zip(*cases, strict=True))
    (got,) = run(program(["c128[6]"] * 2, ["c128[6] divide(p0, p1)"]), [x, y])
    assert_same(got, want, ulps=2)


def test_complex_order_and_powers_of_zero() -> None:
    x = np.array([1 + 2j, 1 + 2j, 0, 0, 0], np.complex64)
    y = np.array([1 + 1j, 0 + 9j, 0, 2 + 1j, 0.5], np.complex64)
    calls = ["c64[5] maximum(p0, p1)", "c64[5] minimum(p0, p1)", "c64[5] power(p0, p1)"]
    most, least, power = run(program(["c64[5]"] * 2, calls), [x, y])
    assert_same(most[:2], x[:2])
    assert_same(least[:2], y[:2])
    assert_same(power[2:], np.array([1, 0, 0], np.complex64))


def test_complex_joins_two_parts_untouched() -> None:
    re, im = np.array([np.inf, -0.0, 1], np.float32), np.array([np.nan, 0.0, -0.0], np.float32)
    calls = ["c64[3] complex(p0, p1)", "f32[3] real(r0)", "f32[3] imag(r0)"]
    _, real, imag = run(program(["f32[3]"] * 2, calls), [re, im])
    assert_same(real, re, signed_zero=True)
    assert_same(imag, im, signed_zero=True)


# --- select and clamp ---------------------------------------------------------------------------


@pytest.mark.parametrize("et", ["f32", "bf16", "s32", "u8", "f8e5m2", "pred", "s4"])
def test_select_and_clamp(et: str) -> None:
    t = element_type(et)
    values = float_values(et) if t.is_float else np.array([0, 1]).astype(t.dtype)
    values = integer_values(et) if t.is_integer else values
    n = values.size
    x, y, z = values, values[::-1].copy(), np.roll(values, 3)
    which = np.arange(n) % 3 == 0
    text = program(
        [f"{et}[{n}]"] * 3 + [f"{et}[]", f"pred[{n}]", "pred[]"],
        [
            f"{et}[{n}] clamp(p1, p0, p2)", f"{et}[{n}] clamp(p3, p0, p2)",
            f"{et}[{n}] select(p4, p0, p1)", f"{et}[{n}] select(p5, p0, p1)",
        ],
    )  # fmt: skip
    args = [x, y, z, x[n // 2], which, np.array(False)]
    got, want = run(text, args), xla_run(text, args)
    for g, w in zip(got, want, strict=True):
        lanes = ~(denormal(x) | denormal(y) | denormal(z) | denormal(g))
        assert_same(g[lanes], w[lanes])


def test_clamp_of_nan_is_nan_on_any_side() -> None:
    nan, one = np.array(np.nan, np.float32), np.array(1, np.float32)
    text = program(["f32[]"] * 3, ["f32[] clamp(p0, p1, p2)"])
    for args in ([nan, one, one], [one, nan, one], [one, one, nan]):
        assert np.isnan(run(text, args)[0])


def test_a_large_array_gives_what_its_pieces_give() -> None:
    """Arrays are worked on in blocks; scalars and whole arrays mix."""
    x = np.linspace(-3, 3, 100_003).astype(np.float32)
    (got,) = run(program([f"f32[{x.size}]"], [f"f32[{x.size}] logistic(p0)"]), [x])
    (first,) = run(program(["f32[5]"], ["f32[5] logistic(p0)"]), [x[:5]])
    (last,) = run(program(["f32[5]"], ["f32[5] logistic(p0)"]), [x[-5:]])
    assert_same(np.concatenate([got[:5], got[-5:]]), np.concatenate([first, last]), ulps=0)
    low = np.array(0.25, np.float32)
    calls = [f"f32[{x.size}] clamp(p1, p0, p0)"]
    (clamped,) = run(program([f"f32[{x.size}]", "f32[]"], calls), [x, low])
    assert_same(clamped, np.minimum(np.maximum(x, low), x), ulps=0)


# --- what is rejected ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "result", "code"),
    [
        (["f32[2]", "bf16[2]"], "f32[2] add(p0, p1)", "type-mismatch"),
        (["f32[2]", "f32[3]"], "f32[2] add(p0, p1)", "shape-mismatch"),
        (["f32[1]", "f32[3]"], "f32[3] add(p0, p1)", "shape-mismatch"),
        (["f32[2]"], "f32[3] negate(p0)", "shape-mismatch"),
        (["pred[2]", "pred[2]"], "pred[2] subtract(p0, p1)", "type-mismatch"),
        (["f32[2]", "f32[2]"], "f32[2] and(p0, p1)", "type-mismatch"),
        (["f32[2]", "f32[2]"], "f32[2] shift-left(p0, p1)", "type-mismatch"),
        (["u8[2]"], "u8[2] abs(p0)", "type-mismatch"),
        (["u8[2]"], "u8[2] sign(p0)", "type-mismatch"),
        (["s32[2]"], "s32[2] tanh(p0)", "type-mismatch"),
        (["s32[2]", "s32[2]"], "s32[2] atan2(p0, p1)", "type-mismatch"),
        (["c64[2]"], "c64[2] erf(p0)", "type-mismatch"),
        (["c64[2]", "c64[2]"], "c64[2] remainder(p0, p1)", "type-mismatch"),
        (["bf16[2]", "bf16[2]"], "c64[2] complex(p0, p1)", "type-mismatch"),
        (["c64[2]", "c64[2]"], "pred[2] compare(p0, p1), direction=LT", "bad-value"),
        (["f32[2]", "f32[2]"], "f32[2] compare(p0, p1), direction=LT", "type-mismatch"),
        (["s32[2]", "f32[2]"], "f32[2] select(p0, p1, p1)", "type-mismatch"),
        (["pred[3]", "f32[2]"], "f32[2] select(p0, p1, p1)", "shape-mismatch"),
        (["pred[2]", "(f32[2])"], "(f32[2]) select(p0, p1, p1)", "type-mismatch"),
        (["f32[2]", "f32[]"], "f32[2] clamp(p0, p1, p0)", "shape-mismatch"),
        (["f32[2]"], "f32[2] tanh(p0), result_accuracy={tolerance={ulps=-3}}", "bad-value"),
        (["f32[2]"], "f32[2] tanh(p0), result_accuracy={mode=best}", "bad-value"),
        (["f32[2]"], "f32[2] negate(p0), result_accuracy={mode=highest}", "unknown-attribute"),
        (["f32[2]", "f32[2]"], "pred[2] compare(p0, p1)", "missing-attribute"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(parameters: list[str], result: str, code: str) -> None:
    found = errors(program(parameters, [result]))
    assert [c for c, _ in found] == [code], found


def test_accuracy_prints_as_it_is_read() -> None:
    for value in ("{mode=highest}", "{tolerance={atol=0.03125,rtol=0.5,ulps=2}}"):
        text = f"f32[2] tanh(f32[2] x), result_accuracy={value}"
        assert f"result_accuracy={value}" in str(parse(text))
    default = parse("f32[2] tanh(f32[2] x), result_accuracy={mode=default}")
    assert "result_accuracy" not in str(default)
