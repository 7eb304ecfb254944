"""Compiled sorts and selections against the interpreter and XLA."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from hlo.eval import interpret
from hlo.frontends.text import parse
from hlo.testing.sampling import random_array
from hlo.values.types import ELEMENT_TYPES
from tests.harness.oracle import assert_same, xla_run
from tests.harness.run_compiled import check, compiled_for

RNG = np.random.default_rng(5)
EXACT: dict[str, Any] = {"ulps": 0, "signed_zero": True}


def plain(t: str, direction: str = "LT") -> str:
    total = ", type=TOTALORDER" if ELEMENT_TYPES[t].is_float else ""
    return (
        f"f {{ a = {t}[] parameter(0) b = {t}[] parameter(1)\n"
        f"  ROOT c = pred[] compare(a, b), direction={direction}{total} }}\n"
    )


# How frontends compare floats: zeros are equal, and so are NaNs, which come last.
CANONICAL = """f { a = T[] parameter(0) b = T[] parameter(1)
  most = T[] constant(nan) zero = T[] constant(0)
  an = pred[] compare(a, a), direction=NE az = pred[] compare(a, zero), direction=EQ
  as = T[] select(az, zero, a) ak = T[] select(an, most, as)
  bn = pred[] compare(b, b), direction=NE bz = pred[] compare(b, zero), direction=EQ
  bs = T[] select(bz, zero, b) bk = T[] select(bn, most, bs)
  ROOT c = pred[] compare(ak, bk), direction=LT, type=TOTALORDER }
"""


def sort_one(function: str, t: str, dims: str, dim: int, layout: str = "", out: str = "") -> str:
    return (
        f"HloModule m\n{function}"
        f"ENTRY e {{ x = {t}[{dims}]{layout} parameter(0)\n"
        f"  ROOT r = {t}[{dims}]{out} sort(x), dimensions={{{dim}}}, is_stable=true, to_apply=f }}"
    )


def data(t: str, dims: str) -> np.ndarray:
    return random_array(RNG, ELEMENT_TYPES[t], tuple(map(int, dims.split(","))), edges=True)


# dims, dimension: short and long lines, one or many, along memory or across.
SIZES = [("1", 0), ("5", 0), ("9,20", 1), ("40,9", 0), ("3,300", 1), ("2100,3", 0), ("0,4", 1)]


@pytest.mark.parametrize(("dims", "dim"), SIZES)
@pytest.mark.parametrize(
    ("t", "direction"),
    [
        ("f32", "LT"), ("f32", "GT"), ("f64", "LT"), ("bf16", "GT"), ("f8e4m3fn", "LT"),
        ("f4e2m1fn", "GT"), ("s32", "GT"), ("u64", "LT"), ("s8", "LT"), ("u4", "GT"),
        ("pred", "LT"), ("s64", "GT"),
    ],
)  # fmt: skip
def test_sort_by_value(t: str, direction: str, dims: str, dim: int) -> None:
    check(sort_one(plain(t, direction), t, dims, dim), [data(t, dims)], **EXACT)


@pytest.mark.parametrize(("dims", "dim"), [("3,300", 1), ("70000", 0)])
@pytest.mark.parametrize("t", ["f32", "f64", "bf16"])
def test_sort_with_equal_zeros_and_nans(t: str, dims: str, dim: int) -> None:
    check(sort_one(CANONICAL.replace("T[]", f"{t}[]"), t, dims, dim), [data(t, dims)], **EXACT)


# What makes bad pivots, and equal keys at the bounds of buckets.
def patterns(t: str, n: int) -> list[np.ndarray]:
    at, dtype = np.arange(n), ELEMENT_TYPES[t].dtype
    found = [
        at, at[::-1], at * 0, RNG.integers(0, 3, n), np.minimum(at, at[::-1]), at * 7919 % 17,
        np.where(at % 9 == 4, 5, at), 2.0 ** (at % (dtype.itemsize * 8 - 2)), at // 64 % 2 * n - at,
    ]  # fmt: skip
    if dtype.kind != "f":
        ends = np.iinfo(dtype)
        found += [np.where(at % 3 > 0, ends.max, ends.min)]
        return [x.astype(dtype) for x in found]
    # NaN with different bits, some of them signalling, and both zeros and infinities.
    bits = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1.0], dtype).view(
        f"i{dtype.itemsize}"
    )
    odd = np.concatenate([bits, bits[4:6] + 3, bits[2:4] + 5])
    found.append(odd[RNG.integers(0, len(odd), n)].view(dtype))
    with np.errstate(over="ignore"):
        return [np.asarray(x).astype(dtype) if x.dtype != dtype else x for x in found]


def sort_rows(comparator: str, t: str, lengths: Sequence[int], count: int) -> str:
    lines = [f"HloModule m\n{comparator}ENTRY e {{"]
    for n in lengths:
        shape = f"{t}[{count},{n}]"
        lines.append(f"  x{n} = {shape} parameter({lengths.index(n)})")
        lines.append(f"  r{n} = {shape} sort(x{n}), dimensions={{1}}, is_stable=true, to_apply=f")
    results = ", ".join(f"r{n}" for n in lengths)
    shapes = ", ".join(f"{t}[{count},{n}]" for n in lengths)
    return "\n".join([*lines, f"  ROOT t = ({shapes}) tuple({results}) }}"])


@pytest.mark.parametrize("t", ["f32", "f64", "s32", "u64"])
@pytest.mark.parametrize("lengths", [(15, 16, 17, 32, 33, 65, 100), (64, 63, 129, 1000)])
def test_rows_of_keys_that_are_hard_to_divide(t: str, lengths: tuple[int, ...]) -> None:
    args = [np.stack(patterns(t, n)) for n in lengths]
    comparator = CANONICAL.replace("T[]", f"{t}[]") if t[0] == "f" else plain(t, "GT")
    check(sort_rows(comparator, t, lengths, len(args[0])), args, **EXACT)


# Some keys stand for many elements, whose order has to stay.
COUNTED_AS = """f { a = f32[] parameter(0) b = f32[] parameter(1)
  zero = f32[] constant(0) two = f32[] constant(2)
  an = pred[] compare(a, zero), direction=LT as = f32[] select(an, two, a)
  bn = pred[] compare(b, zero), direction=LT bs = f32[] select(bn, two, b)
  ROOT c = pred[] compare(as, bs), direction=GT, type=TOTALORDER }
"""
OTHERWISE = COUNTED_AS.replace("LT as", "GE as").replace("LT bs", "GE bs")
OTHERWISE = OTHERWISE.replace("two, a)", "a, two)").replace("two, b)", "b, two)")
UNORDERED = plain("f32").replace(", type=TOTALORDER", "")


@pytest.mark.parametrize(
    "comparator", [COUNTED_AS, OTHERWISE, UNORDERED], ids=["counted as", "otherwise", "unordered"]
)
@pytest.mark.parametrize("n", [40, 70000])
def test_elements_that_keys_do_not_tell_keep_their_order(comparator: str, n: int) -> None:
    x = RNG.integers(-4, 5, (2, n)).astype(np.float32)
    x[0] *= np.where(RNG.integers(0, 2, n), -1, 1).astype(np.float32)
    one, two = (
        compiled_for(sort_rows(comparator, "f32", (n,), 2), threads)(x)[0] for threads in (1, 2)
    )
    (wanted,) = interpret(parse(sort_rows(comparator, "f32", (n,), 2)), [x])
    assert one.tobytes() == two.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("t", ["f32", "s64"])
def test_long_rows_of_keys_that_are_hard_to_divide(t: str) -> None:
    args = [np.stack(patterns(t, 66_000)[:8]), np.stack(patterns(t, 66_001)[-3:])]
    comparator = CANONICAL.replace("T[]", f"{t}[]") if t[0] == "f" else plain(t)
    for x in args:
        check(sort_rows(comparator, t, (x.shape[1],), len(x)), [x], **EXACT)


COUNTED = ["s8", "u8", "f8e5m2", "f8e4m3fn", "f8e4m3b11fnuz", "s4", "pred"]


@pytest.mark.parametrize("t", COUNTED)
@pytest.mark.parametrize(("dims", "dim"), [("3,255", 1), ("2,256", 1), ("300,5", 0), ("66000", 0)])
@pytest.mark.parametrize("direction", ["LT", "GT"])
def test_sort_of_bytes(t: str, dims: str, dim: int, direction: str) -> None:
    x = data(t, dims)
    check(sort_one(plain(t, direction), t, dims, dim), [x], **EXACT)
    if ELEMENT_TYPES[t].is_float:
        unordered = plain(t, direction).replace(", type=TOTALORDER", "")
        # Where NaN comes is not specified.
        x = np.where(np.isnan(x), np.ones_like(x), x)
        check(sort_one(unordered, t, dims, dim), [x], **EXACT)


@pytest.mark.parametrize("t", ["s16", "u16", "f16"])
@pytest.mark.parametrize("count", [1, 9])
def test_long_rows_of_16_bits(t: str, count: int) -> None:
    x = np.stack(patterns(t, 65_537)[-count:])
    comparator = CANONICAL.replace("T[]", f"{t}[]") if t[0] == "f" else plain(t)
    check(sort_rows(comparator, t, (65_537,), count), [x], **EXACT)


@pytest.mark.parametrize(("t", "n"), [("s16", 600_001), ("bf16", 262_145), ("u8", 1_000_000)])
def test_sort_by_counts_of_blocks(t: str, n: int) -> None:
    comparator = CANONICAL.replace("T[]", f"{t}[]") if t[0] == "b" else plain(t, "GT")
    check(sort_one(comparator, t, str(n), 0), [data(t, str(n))], **EXACT)


@pytest.mark.parametrize("layout", ["{2,1,0}", "{0,1,2}", "{1,0,2}"])
@pytest.mark.parametrize("out", ["{2,1,0}", "{0,2,1}"])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_sort_layouts(layout: str, out: str, dim: int) -> None:
    dims = "30,20,210"
    check(sort_one(plain("s32"), "s32", dims, dim, layout, out), [data("s32", dims)])


@pytest.mark.parametrize("layout", ["{1,0}", "{0,1}"])
@pytest.mark.parametrize("out", ["{1,0}", "{0,1}"])
@pytest.mark.parametrize("dims", ["300,9", "9,300", "65536,2"])
def test_layouts_of_sorts_that_count(dims: str, layout: str, out: str) -> None:
    t, dim = "s16" if dims[0] == "6" else "s8", int(dims[0] == "9")
    check(sort_one(plain(t), t, dims, dim, layout, out), [data(t, dims)], **EXACT)


THREE = """HloModule m
f { a = f32[] parameter(0) b = f32[] parameter(1) c = s16[] parameter(2) d = s16[] parameter(3)
  i = s32[] parameter(4) j = s32[] parameter(5)
BODY }
ENTRY e { x = f32[DIMS] parameter(0) y = s16[DIMS] parameter(1)
  i = s32[DIMS] iota(), iota_dimension=0
  ROOT r = (f32[DIMS], s16[DIMS], s32[DIMS]) sort(x, y, i), dimensions={0}, is_stable=true,
    to_apply=f }"""
BODIES = {
    "first key": "  ROOT l = pred[] compare(a, b), direction=GT, type=TOTALORDER",
    "second key": "  ROOT l = pred[] compare(c, d), direction=LT",
    "both keys": "  l = pred[] compare(c, d), direction=LT q = pred[] compare(c, d), direction=EQ\n"
    "  m = pred[] compare(a, b), direction=LT, type=TOTALORDER n = pred[] and(q, m)\n"
    "  ROOT o = pred[] or(l, n)",
    "no key": "  k = s16[] constant(3) u = s16[] remainder(c, k) v = s16[] remainder(d, k)\n"
    "  lt = pred[] compare(u, v), direction=LT gt = pred[] compare(v, u), direction=LT\n"
    "  no = pred[] not(gt) ROOT o = pred[] and(lt, no)",
    "not strict": "  ROOT l = pred[] compare(c, d), direction=GE",
}


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("dims", ["7", "60", "500,3", "33000"])
def test_sort_of_several_operands(body: str, dims: str) -> None:
    text = THREE.replace("BODY", BODIES[body]).replace("DIMS", dims)
    check(text, [data("f32", dims), data("s16", dims)], **EXACT)


@pytest.mark.parametrize("dims", ["40", "5000", "100000"])
def test_argsort_agrees_with_xla(dims: str) -> None:
    text = f"""HloModule m
f {{ a = s32[] parameter(0) b = s32[] parameter(1) i = s32[] parameter(2) j = s32[] parameter(3)
  ROOT l = pred[] compare(a, b), direction=LT }}
ENTRY e {{ x = s32[{dims}] parameter(0) i = s32[{dims}] iota(), iota_dimension=0
  r = (s32[{dims}], s32[{dims}]) sort(x, i), dimensions={{0}}, is_stable=true, to_apply=f
  ROOT g = s32[{dims}] get-tuple-element(r), index=1 }}"""
    x = RNG.integers(0, 1000, int(dims)).astype(np.int32)
    assert_same(check(text, [x]), xla_run(text, [x]))


def test_two_sorts_may_need_different_results() -> None:
    text = """HloModule m
f { a = s32[] parameter(0) b = s32[] parameter(1) i = s32[] parameter(2) j = s32[] parameter(3)
  ROOT l = pred[] compare(a, b), direction=LT }
ENTRY e { x = s32[300] parameter(0) i = s32[300] iota(), iota_dimension=0
  p = (s32[300], s32[300]) sort(x, i), dimensions={0}, is_stable=true, to_apply=f
  q = (s32[300], s32[300]) sort(x, i), dimensions={0}, is_stable=true, to_apply=f
  g = s32[300] get-tuple-element(p), index=1 h = s32[300] get-tuple-element(q), index=0
  ROOT t = (s32[300], s32[300]) tuple(g, h) }"""
    check(text, [data("s32", "300")])


@pytest.mark.parametrize("function", [plain("f32"), BODIES["not strict"]])
def test_threads_do_not_change_a_sort(function: str) -> None:
    x = data("f32", "70000")
    if "a = f32" in function:
        text = sort_one(function, "f32", "70000", 0)
        one, two = (compiled_for(text, threads)(x) for threads in (1, 2))
        assert one.tobytes() == two.tobytes()
        return
    text = THREE.replace("BODY", function).replace("DIMS", "70000")
    one, two = (compiled_for(text, threads)(x, data("s16", "70000") * 0) for threads in (1, 2))
    assert all(a.tobytes() == b.tobytes() for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize("t", ["f32", "bf16", "s32", "f64", "u8", "f8e5m2"])
@pytest.mark.parametrize("largest", ["true", "false"])
@pytest.mark.parametrize(
    ("dims", "k"), [("7", 0), ("7", 7), ("3,40", 5), ("2,1000", 10), ("2,1000", 900), ("5000", 100)]
)
def test_topk(t: str, largest: str, dims: str, k: int) -> None:
    kept = ",".join([*dims.split(",")[:-1], str(k)])
    text = f"({t}[{kept}], s32[{kept}]) topk({t}[{dims}] x), k={k}, largest={largest}"
    check(text, [data(t, dims)], **EXACT)


@pytest.mark.parametrize(("t", "worst"), [("s32", -(2**31)), ("u32", 0), ("f64", -np.nan)])
def test_topk_where_all_are_as_bad_as_can_be(t: str, worst: float) -> None:
    x = np.full((2, 70), worst, ELEMENT_TYPES[t].dtype)
    x[1, 69] = 1
    check(f"({t}[2,4], s32[2,4]) topk({t}[2,70] x), k=4, largest=true", [x], **EXACT)


@pytest.mark.parametrize("order", [1, -1])
def test_topk_of_ordered_rows(order: int) -> None:
    text = "(f32[20], s32[20]) topk(f32[3000] x), k=20, largest=true"
    check(text, [np.arange(3000, dtype=np.float32)[::order].copy()])


# --- comparators that are no order ---------------------------------------------------------------

HOSTILE = {
    "LT with NaN": "ROOT c = pred[] compare(a, b), direction=LT",
    "GE": "ROOT c = pred[] compare(a, b), direction=GE",
    "LE": "ROOT c = pred[] compare(a, b), direction=LE",
    "NE": "ROOT c = pred[] compare(a, b), direction=NE",
    "always": "ROOT c = pred[] constant(true)",
    "never": "ROOT c = pred[] constant(false)",
    # Whether the bits of the sum are odd: symmetric, and as good as random.
    "random": "s = f32[] add(a, b) u = u32[] bitcast-convert(s) k = u32[] constant(2654435761)\n"
    "  m = u32[] multiply(u, k) t = u32[] constant(2147483648)\n"
    "  ROOT c = pred[] compare(m, t), direction=LT",
    "circle": "d = f32[] subtract(a, b) z = f32[] sine(d) o = f32[] constant(0)\n"
    "  ROOT c = pred[] compare(z, o), direction=LT",
}


def hostile_sorts(body: str, lengths: Sequence[int]) -> tuple[str, list[np.ndarray]]:
    """Return a module that sorts lines of several lengths with their positions, and arguments."""
    args = []
    lines = ["HloModule m"]
    for kind, more in (("one", ""), ("two", "i = s32[] parameter(2) j = s32[] parameter(3)")):
        lines.append(f"{kind} {{ a = f32[] parameter(0) b = f32[] parameter(1) {more}\n {body} }}")
    lines.append("ENTRY e {")
    for at, n in enumerate(lengths):
        x = np.round(RNG.standard_normal(n) * 4).astype(np.float32)
        x[RNG.random(n) < 0.3] = np.nan
        args.append(x)
        lines.append(
            f"  x{at} = f32[{n}] parameter({at}) i{at} = s32[{n}] iota(), iota_dimension=0\n"
            f"  a{at} = f32[{n}] sort(x{at}), dimensions={{0}}, to_apply=one\n"
            f"  b{at} = (f32[{n}], s32[{n}]) sort(x{at}, i{at}), dimensions={{0}}, to_apply=two"
        )
    results = ", ".join(f"a{at}, b{at}" for at in range(len(lengths)))
    shapes = ", ".join(f"f32[{n}], (f32[{n}], s32[{n}])" for n in lengths)
    return "\n".join([*lines, f"  ROOT t = ({shapes}) tuple({results}) }}"]), args


# Small runs, merges, what radix sorts take, and blocks that threads share.
@pytest.mark.parametrize("lengths", [(0, 1, 7, 17, 31, 126, 300), (40000,)], ids=["short", "long"])
@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
def test_a_sort_is_a_permutation_whatever_the_comparator(
    body: str, lengths: tuple[int, ...]
) -> None:
    text, args = hostile_sorts(body, lengths)
    runs = [compiled_for(text, 2)(*args)]
    if len(lengths) > 1:
        runs.append(interpret(parse(text), args))
    for result in runs:
        for x, alone, (keys, places) in zip(args, result[::2], result[1::2], strict=True):
            assert_same(np.sort(alone), np.sort(x))
            np.testing.assert_array_equal(np.sort(places), np.arange(len(x)))
            assert_same(keys, x[places])
