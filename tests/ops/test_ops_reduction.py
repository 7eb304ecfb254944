"""reduce, map and scan against XLA, and by themselves where XLA says nothing."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from hlo.testing.sampling import random_array
from hlo.values.types import ELEMENT_TYPES
from tests.harness.oracle import assert_same
from tests.harness.run_both import errors, run, run_both

INTS = ["s4", "u4", "s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"]
FLOATS = ["f8e4m3fn", "f8e5m2", "bf16", "f16", "f32", "f64"]
BITWISE = ["and", "or", "xor"]
ARITHMETIC = ["add", "multiply"]
EXTREMES = ["maximum", "minimum"]


def combiners(t: str) -> list[str]:
    if t in ("c64", "c128"):
        return ARITHMETIC
    if t.startswith("f8"):
        return EXTREMES  # XLA rounds at every step: next to nothing is exact
    return ARITHMETIC + EXTREMES + ([] if t in FLOATS else BITWISE)


def binary(op: str, t: str) -> str:
    return (
        f"{op}_{t} {{ a = {t}[] parameter(0) b = {t}[] parameter(1) ROOT c = {t}[] {op}(a, b) }}\n"
    )


def module(computations: str, lines: list[str], results: list[tuple[str, str]]) -> str:
    """Return a module whose result is the tuple of `(name, shape)`."""
    shapes, names = ", ".join(s for _, s in results), ", ".join(n for n, _ in results)
    body = "\n".join("  " + line for line in lines)
    return (
        f"HloModule m\n{computations}ENTRY e {{\n{body}\n"
        f"  ROOT result = ({shapes}) tuple({names})\n}}\n"
    )


def integral(t: str, dims: tuple[int, ...], seed: int) -> np.ndarray:
    """Return small whole numbers, of which every sum and product below is exact."""
    values = np.random.default_rng(seed).integers(-1, 3, dims)
    return np.asarray(np.abs(values) if t[0] == "u" else values).astype(ELEMENT_TYPES[t].dtype)


@pytest.mark.parametrize("types", [["pred", *INTS], FLOATS, ["c64", "c128"]], ids=lambda t: t[-1])
def test_one_operation_reduces_every_type(types: list[str]) -> None:
    computations, lines, results, args = "", [], [], []
    rng = np.random.default_rng(0)
    for t in types:
        et = ELEMENT_TYPES[t]
        n = len(args)
        lines += [f"x_{t} = {t}[3,4,5] parameter({n})", f"i_{t} = {t}[] parameter({n + 1})"]
        exact = et.is_float or et.is_complex
        args += [
            integral(t, (3, 4, 5), n) if exact else random_array(rng, et, (3, 4, 5), edges=True),
            np.ones((), et.dtype),
        ]
        if et.is_float:
            lines.append(f"y_{t} = {t}[3,4,5] parameter({n + 2})")
            args.append(random_array(rng, et, (3, 4, 5), edges=True))
            # The parameters of the next type come after this one.
        for op in combiners(t):
            computations += binary(op, t)
            x = "y" if et.is_float and op in ("maximum", "minimum") else "x"
            name = f"r_{op}_{t}"
            lines.append(
                f"{name} = {t}[4] reduce({x}_{t}, i_{t}), dimensions={{2,0}}, to_apply={op}_{t}"
            )
            results.append((name, f"{t}[4]"))
    run_both(module(computations, lines, results), args)


def test_dimensions_may_be_none_all_or_empty() -> None:
    lines = ["x = f32[2,3] parameter(0)", "z = f32[0,3] parameter(1)", "i = f32[] parameter(2)"]
    lines += [
        # XLA drops the initial value here, which is right for what the specification asks of it.
        "zero = f32[] constant(0)",
        "a = f32[2,3] reduce(x, zero), dimensions={}, to_apply=add_f32",
        "b = f32[] reduce(x, i), dimensions={1,0}, to_apply=add_f32",
        "c = f32[3] reduce(z, i), dimensions={0}, to_apply=add_f32",
        "d = f32[0] reduce(z, i), dimensions={1}, to_apply=add_f32",
        "e = f32[3] reduce(z, i), dimensions={0}, to_apply=fn",
        "g = f32[] reduce(i, zero), dimensions={}, to_apply=add_f32",
        "h = f32[] reduce(i, zero), dimensions={}, to_apply=fn",
        "f = f32[2,3] reduce(x, zero), dimensions={}, to_apply=fn",
    ]
    fn = (
        "fn { a = f32[] parameter(0) b = f32[] parameter(1) s = f32[] add(a, b) "
        "p = f32[] multiply(a, b) ROOT r = f32[] subtract(s, p) }\n"
    )
    shapes = ["f32[2,3]", "f32[]", "f32[3]", "f32[0]", "f32[3]", "f32[2,3]"]
    shapes += ["f32[]", "f32[]"]
    results = list(zip("abcdefgh", shapes, strict=True))
    args = [integral("f32", (2, 3), 1), np.zeros((0, 3), np.float32), np.float32(5)]
    # The initial value takes part once in each result, also where there is nothing to reduce.
    run_both(module(binary("add", "f32") + fn, lines, results), args)


ARGMAX = """
argmax {
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  gt = pred[] compare(a, b), direction=GT
  unordered = pred[] compare(a, a), direction=NE
  first = pred[] or(gt, unordered)
  eq = pred[] compare(a, b), direction=EQ
  lower = pred[] compare(i, j), direction=LT
  tie = pred[] and(eq, lower)
  keep = pred[] or(first, tie)
  v = f32[] select(first, a, b)
  k = s32[] select(keep, i, j)
  ROOT r = (f32[], s32[]) tuple(v, k)
}
"""


def argmax(dims: str, out: str, axes: str, iota: int) -> str:
    lines = [
        f"x = f32[{dims}] parameter(0)",
        f"k = s32[{dims}] iota(), iota_dimension={iota}",
        "least = f32[] constant(-inf)",
        "zero = s32[] constant(0)",
        f"r = (f32[{out}], s32[{out}]) reduce(x, k, least, zero), dimensions={{{axes}}}, "
        "to_apply=argmax",
        f"v = f32[{out}] get-tuple-element(r), index=0",
        f"j = s32[{out}] get-tuple-element(r), index=1",
    ]
    return module(ARGMAX, lines, [("v", f"f32[{out}]"), ("j", f"s32[{out}]")])


def test_argmax_of_ties_and_nan() -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(0, 4, (6, 200)).astype(np.float32)
    x[2, 50], x[3, 7] = np.nan, np.inf
    x[5] = -np.inf
    run_both(argmax("6,200", "6", "1", 1), [x])
    run_both(argmax("6,200", "200", "0", 0), [x])


def test_argmax_of_many_elements() -> None:
    x = np.random.default_rng(4).standard_normal(3_000_001).astype(np.float32)
    value, index = run(argmax("3000001", "", "0", 0), [x])
    assert (value, index) == (x.max(), x.argmax())


LOGADDEXP = """
logaddexp {
  a = f64[] parameter(0)
  b = f64[] parameter(1)
  m = f64[] maximum(a, b)
  d = f64[] subtract(a, b)
  e = f64[] abs(d)
  n = f64[] negate(e)
  x = f64[] exponential(n)
  l = f64[] log-plus-one(x)
  ROOT r = f64[] add(m, l)
}
"""


@pytest.mark.parametrize("n", [17, 5000])
def test_any_function_reduces(n: int) -> None:
    x = np.random.default_rng(5).standard_normal((n, 3))
    lines = [
        f"x = f64[{n},3] parameter(0)",
        "least = f64[] constant(-1000)",
        "r = f64[3] reduce(x, least), dimensions={0}, to_apply=logaddexp",
    ]
    (got,) = run_both(module(LOGADDEXP, lines, [("r", "f64[3]")]), [x], rtol=1e-12)
    assert_same(got, np.log(np.exp(x).sum(0)), rtol=1e-12)


def test_several_values_are_reduced_together() -> None:
    # A product of complex numbers whose parts are separate arrays.
    product = """
    mul { a = f64[] parameter(0) b = f64[] parameter(1)
      c = f64[] parameter(2) d = f64[] parameter(3)
      ac = f64[] multiply(a, c) bd = f64[] multiply(b, d)
      ad = f64[] multiply(a, d) bc = f64[] multiply(b, c)
      re = f64[] subtract(ac, bd) im = f64[] add(ad, bc)
      ROOT t = (f64[], f64[]) tuple(re, im) }
    """
    lines = [
        "x = f64[2,7] parameter(0)",
        "y = f64[2,7] parameter(1)",
        "one = f64[] constant(1)",
        "zero = f64[] constant(0)",
        "r = (f64[2], f64[2]) reduce(x, y, one, zero), dimensions={1}, to_apply=mul",
        "u = f64[2] get-tuple-element(r), index=0",
        "v = f64[2] get-tuple-element(r), index=1",
    ]
    x, y = np.random.default_rng(6).standard_normal((2, 2, 7))
    text = module(product, lines, [("u", "f64[2]"), ("v", "f64[2]")])
    re, im = run_both(text, [x, y], rtol=1e-12)
    want = np.prod(x + 1j * y, axis=1)
    assert_same((re, im), (want.real, want.imag), rtol=1e-12)


def test_accumulators_may_be_wider_than_elements() -> None:
    x = np.full(4000, 1, ELEMENT_TYPES["bf16"].dtype)
    text = (
        f"HloModule m\n{binary('add', 'f32')}"
        "ENTRY e { x = bf16[4000] parameter(0) i = f32[] constant(0.5)\n"
        "  ROOT r = f32[] reduce(x, i), dimensions={0}, to_apply=add_f32 }"
    )
    assert_same(run(text, [x]), np.float32(4000.5), ulps=0)


@pytest.mark.parametrize(("t", "bits"), [("f32", 23), ("bf16", 7), ("f16", 10), ("f8e5m2", 2)])
def test_a_float_sum_rounds_once(t: str, bits: int) -> None:
    text = (
        f"HloModule m\n{binary('add', t)}"
        f"ENTRY e {{ x = {t}[3] parameter(0) i = {t}[] constant(-0)\n"
        f"  ROOT r = {t}[] reduce(x, i), dimensions={{0}}, to_apply=add_{t} }}"
    )
    dtype = ELEMENT_TYPES[t].dtype
    # Halfway to the next number, and a bit more than f32 would see.
    half = 2.0 ** -(bits + 1)
    more = max(2.0**-50, float(ml_dtypes.finfo(dtype).smallest_subnormal))
    got = run(text, [np.array([1, half, more]).astype(dtype)])
    assert got == np.asarray(1 + 2 * half).astype(dtype)
    zero = run(text, [np.array([-0.0, -0.0, -0.0]).astype(dtype)])
    assert np.signbit(zero.astype(np.float64))


def test_map_takes_any_number_of_arrays() -> None:
    fn = (
        "fn { a = f32[] parameter(0) b = s32[] parameter(1) c = f32[] convert(b) "
        "ROOT r = pred[] compare(a, c), direction=LT }\n"
    )
    lines = ["x = f32[2,3] parameter(0)", "y = s32[2,3] parameter(1)", "u = f32[] parameter(2)"]
    lines += [
        "a = pred[2,3] map(x, y), dimensions={0,1}, to_apply=fn",
        "b = f32[] map(u, u), dimensions={}, to_apply=add_f32",
        "c = f32[2,3] map(x, x), to_apply=add_f32",
    ]
    x = np.random.default_rng(7).standard_normal((2, 3)).astype(np.float32)
    y = np.arange(-3, 3, dtype=np.int32).reshape(2, 3)
    results = [("a", "pred[2,3]"), ("b", "f32[]"), ("c", "f32[2,3]")]
    run_both(module(fn + binary("add", "f32"), lines, results), [x, y, np.float32(2)])


STEP = """
step { x = f32[] parameter(0) c = f32[] parameter(1)
  s = f32[] add(x, c) p = f32[] multiply(x, c) ROOT t = (f32[], f32[]) tuple(p, s) }
"""


@pytest.mark.parametrize("reverse", ["", ", is_reverse=true"])
def test_scan_goes_along_a_dimension(reverse: str) -> None:
    text = (
        f"HloModule m\n{STEP}ENTRY e {{ x = f32[5] parameter(0) c = f32[] parameter(1)\n"
        f"  ROOT r = (f32[5], f32[]) scan(x, c), dimensions={{0}}, num_carries=1{reverse}, "
        "is_associative=false, to_apply=step }"
    )
    run_both(text, [np.arange(5, dtype=np.float32), np.float32(2)])
    # Its expansion to a loop in XLA cannot do this one.
    empty = run(text.replace("f32[5]", "f32[0]"), [np.zeros(0, np.float32), np.float32(2)])
    assert_same(empty, (np.zeros(0, np.float32), np.float32(2)))


def test_scan_forms() -> None:
    twice = "f { c = f32[] parameter(0) n = f32[] add(c, c) ROOT t = (f32[], f32[]) tuple(n, n) }\n"
    # Nothing to scan over: the result tells the number of steps.
    run_both(
        f"HloModule m\n{twice}ENTRY e {{ c = f32[] parameter(0)\n"
        "  ROOT r = (f32[7], f32[]) scan(c), dimensions={0}, num_carries=1, to_apply=f }",
        [np.float32(1)],
    )
    # Nothing carried; the function returns a value and not a tuple.
    run_both(
        "HloModule m\nf { c = f32[2] parameter(0) ROOT n = f32[2] add(c, c) }\n"
        "ENTRY e { x = f32[2,3] parameter(0)\n"
        "  ROOT r = f32[2,3] scan(x), dimensions={1}, num_carries=0, to_apply=f }",
        [np.arange(6, dtype=np.float32).reshape(2, 3)],
    )


ADD = binary("add", "f32")
BAD = {
    "reduce: dimension out of range": (
        ADD, "f32[2] reduce(x, i), dimensions={2}, to_apply=add_f32", "bad-dimension",
    ),
    "reduce: dimension twice": (
        ADD, "f32[2] reduce(x, i), dimensions={1,1}, to_apply=add_f32", "bad-dimension",
    ),
    "reduce: initial value of another type": (
        ADD, "f32[2] reduce(x, k), dimensions={1}, to_apply=add_f32", "bad-computation",
    ),
    "reduce: initial value is no scalar": (
        ADD, "f32[2] reduce(x, x), dimensions={1}, to_apply=add_f32", "shape-mismatch",
    ),
    "reduce: function of other types": (
        binary("add", "s32"), "f32[2] reduce(x, i), dimensions={1}, to_apply=add_s32",
        "bad-computation",
    ),
    "reduce: odd number of operands": (
        ADD, "f32[2] reduce(x, i, i), dimensions={1}, to_apply=add_f32", "operand-count",
    ),
    "reduce: function of one value for two": (
        ADD, "(f32[2], f32[2]) reduce(x, x, i, i), dimensions={1}, to_apply=add_f32",
        "bad-computation",
    ),
    "map: some dimensions": (
        ADD, "f32[2,3] map(x, x), dimensions={0}, to_apply=add_f32", "bad-dimension",
    ),
    "map: number of arguments": (
        ADD, "f32[2,3] map(x), dimensions={0,1}, to_apply=add_f32", "bad-computation",
    ),
    "scan: carries": (
        STEP, "(f32[5], f32[]) scan(y, i), dimensions={0}, num_carries=3, to_apply=step",
        "bad-value",
    ),
    "scan: dimension": (
        STEP, "(f32[5], f32[]) scan(y, i), dimensions={1}, num_carries=1, to_apply=step",
        "bad-dimension",
    ),
    "scan: slices of another shape": (
        STEP, "(f32[2,3], f32[]) scan(x, i), dimensions={1}, num_carries=1, to_apply=step",
        "bad-computation",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_broken_rules_are_named(case: str) -> None:
    computations, line, code = BAD[case]
    text = (
        f"HloModule m\n{computations}ENTRY e {{ x = f32[2,3] parameter(0) y = f32[5] parameter(1)\n"
        f"  i = f32[] parameter(2) k = s32[] parameter(3)\n  ROOT r = {line} }}"
    )
    found = errors(text)
    assert [c for c, _ in found] == [code], found
    assert f"{case.split(':')[0]}: " in found[0][1]
