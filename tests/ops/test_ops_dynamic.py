"""Dynamic dimensions: reading and setting sizes, and every operation on arrays that have them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from hlo.errors import HloError
from hlo.eval import interpret
from hlo.frontends.text import parse
from hlo.values.arrays import DynamicArray, actual
from hlo.values.types import ArrayShape
from hlo.verifier import verify
from tests.harness.oracle import assert_same, xla_run

COMPUTATIONS = """
add {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT r = f32[] add(p, q)
}
ge {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT r = pred[] compare(p, q), direction=GE
}
lt {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT r = pred[] compare(p, q), direction=LT
}
twice {
  p = f32[<=6,4] parameter(0)
  ROOT r = f32[<=6,4] add(p, p)
}
same {
  p = f32[<=6,4] parameter(0)
  ROOT r = f32[<=6,4] negate(p)
}
going {
  p = (s32[], f32[<=6,4]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  three = s32[] constant(3)
  ROOT r = pred[] compare(i, three), direction=LT
}
step {
  p = (s32[], f32[<=6,4]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  x = f32[<=6,4] get-tuple-element(p), index=1
  y = f32[<=6,4] add(x, x)
  ROOT r = (s32[], f32[<=6,4]) tuple(j, y)
}
scanned {
  p = f32[4] parameter(0)
  q = f32[4] parameter(1)
  c = f32[4] parameter(2)
  s = f32[4] add(p, c)
  t = f32[4] multiply(q, s)
  ROOT r = (f32[4], f32[4]) tuple(t, s)
}
scanned_column {
  p = f32[<=6] parameter(0)
  q = f32[<=6] parameter(1)
  c = f32[<=6] parameter(2)
  s = f32[<=6] add(p, c)
  t = f32[<=6] multiply(q, s)
  ROOT r = (f32[<=6], f32[<=6]) tuple(t, s)
}
larger {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT r = f32[] maximum(p, q)
}
last {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  h = f32[] constant(0.5)
  s = f32[] multiply(p, h)
  ROOT r = f32[] add(s, q)
}
above {
  p = (s32[], f32[6,4]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  three = s32[] constant(3)
  ROOT r = pred[] compare(i, three), direction=LT
}
shrink {
  p = (s32[], f32[6,4]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  x = f32[6,4] get-tuple-element(p), index=1
  h = s32[] get-dimension-size(x), dimensions={0}
  g = s32[] subtract(h, one)
  k = s32[] maximum(g, one)
  y = f32[6,4] set-dimension-size(x, k), dimensions={0}
  ROOT r = (s32[], f32[6,4]) tuple(j, y)
}
"""


DYNAMIC = {
    "zero": "f32[] constant(0)",
    "d": "f32[<=6,4] set-dimension-size(a, n), dimensions={0}",
    "e": "f32[<=6,4] set-dimension-size(b, m), dimensions={0}",
    "c": "f32[6,<=4] set-dimension-size(a, m), dimensions={1}",
    "k": "s32[<=6] set-dimension-size(i, n), dimensions={0}",
}


def program(lines: str) -> str:
    """Return a module whose result is `x` with the size of each of its dynamic dimensions.

    The parameters are a: f32[6,4], b: f32[6,4], i: s32[6], n: s32[] and m: s32[]; `DYNAMIC` has
    what is made of them where it is used.
    """
    used = [f"  {v} = {text}" for v, text in DYNAMIC.items() if re.search(rf"\b{v}\b", lines)]
    head = f"""HloModule dynamic
{COMPUTATIONS}
ENTRY main {{
  a = f32[6,4] parameter(0)
  b = f32[6,4] parameter(1)
  i = s32[6] parameter(2)
  n = s32[] parameter(3)
  m = s32[] parameter(4)
"""
    body = head + "\n".join([*used, "  " + lines])
    shape = parse(body + "\n}\n").entry.root.shape
    assert isinstance(shape, ArrayShape)
    dims = [d for d in range(shape.rank) if shape.is_dynamic_dim(d)]
    sizes = "".join(f"\n  size{d} = s32[] get-dimension-size(x), dimensions={{{d}}}" for d in dims)
    operands = ", ".join(["x", *(f"size{d}" for d in dims)])
    kinds = ", ".join([shape.to_string(False), *("s32[]" for _ in dims)])
    return f"{body}{sizes}\n  ROOT out = ({kinds}) tuple({operands})\n}}\n"


def arguments(n: int, m: int) -> list[Any]:
    rng = np.random.default_rng(abs(n) * 10 + m)
    a, b = (rng.standard_normal((6, 4)).astype(np.float32) for _ in range(2))
    index = rng.integers(-1, 7, 6).astype(np.int32)
    return [a, b, index, np.array(n, np.int32), np.array(m, np.int32)]


def run(text: str, args: list[Any]) -> Any:
    module = parse(text)
    verify(module)
    return interpret(module, args)


SIZES = ((6, 4), (4, 3), (1, 1), (0, 2))


def check(lines: str, sizes: Sequence[tuple[int, int]] = SIZES) -> None:
    """Compare the sizes with XLA, and the elements that are meant."""
    text = program(lines)
    for n, m in sizes:
        args = arguments(n, m)
        got, want = run(text, args), xla_run(text, args)
        assert [int(s) for s in got[1:]] == [int(s) for s in want[1:]], f"sizes at n={n}, m={m}"
        value = actual(got[0])
        # XLA hands a dynamic array out packed.
        inside = want[0].reshape(-1)[: value.size].reshape(value.shape)
        assert_same(value, inside, rtol=1e-5, atol=1e-5, what=f"n={n}, m={m}")


CASES = {
    "get": "x = s32[] get-dimension-size(d), dimensions={0}",
    "get static": "x = s32[] get-dimension-size(d), dimensions={1}",
    "unary": "x = f32[<=6,4] negate(d)",
    "binary with static": "x = f32[<=6,4] add(b, d)",
    "binary of both": "x = f32[<=6,<=4] add(c, d)",
    "convert": "x = s32[<=6,4] convert(d)",
    "select": "y = pred[<=6,4] compare(d, b), direction=LT\n  x = f32[<=6,4] select(y, d, b)",
    "clamp": "x = f32[<=6,4] clamp(zero, d, b)",
    "reduce rows": "x = f32[4] reduce(d, zero), dimensions={0}, to_apply=add",
    "reduce columns": "x = f32[<=6] reduce(d, zero), dimensions={1}, to_apply=add",
    "reduce all": "x = f32[] reduce(d, zero), dimensions={0,1}, to_apply=add",
    "map": "x = f32[<=6,4] map(d, b), dimensions={0,1}, to_apply=add",
    "transpose": "x = f32[4,<=6] transpose(d), dimensions={1,0}",
    "reverse": "x = f32[<=6,4] reverse(d), dimensions={0}",
    "concatenate rows": "x = f32[<=12,4] concatenate(d, b), dimensions={0}",
    "concatenate two": "x = f32[<=12,4] concatenate(d, e), dimensions={0}",
    "concatenate columns": "x = f32[<=6,8] concatenate(d, b), dimensions={1}",
    "pad": "x = f32[<=9,4] pad(d, zero), padding=1_2x0_0",
    "slice columns": "x = f32[<=6,2] slice(d), slice={[0:6], [1:3]}",
    "broadcast": "x = f32[3,<=6,4] broadcast(d), dimensions={1,2}",
    "reshape merged": "x = f32[<=24] reshape(d)",
    "reshape split": "y = f32[<=24] reshape(d)\n  x = f32[<=6,2,2] reshape(y)",
    "reshape added one": "x = f32[1,<=6,4] reshape(d)",
    "dynamic-reshape": "four = s32[] constant(4)\n  x = f32[4,<=6] dynamic-reshape(d, four, n)",
    "dot contracting": "x = f32[4,4] dot(d, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    "dot rows": "x = f32[<=6,6] dot(d, b), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    "dot batch": "x = f32[<=6] dot(d, b), lhs_batch_dims={0}, rhs_batch_dims={0}, "
    "lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    "sort": "x = f32[<=6,4] sort(d), dimensions={0}, to_apply=lt",
    "gather rows": "x = f32[<=6,4] gather(b, k), offset_dims={1}, collapsed_slice_dims={0}, "
    "start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}",
    "gather columns": "x = f32[<=6,6] gather(d, i), offset_dims={0}, collapsed_slice_dims={1}, "
    "start_index_map={1}, index_vector_dim=1, slice_sizes={6,1}",
    "scatter rows": "x = f32[6,4] scatter(a, k, b), update_window_dims={1}, "
    "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
    "scatter into dynamic": "x = f32[<=6,4] scatter(d, i, b), update_window_dims={1}, "
    "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
    "dynamic-slice": "z = s32[] constant(0)\n  x = f32[<=6,2] dynamic-slice(d, z, m), "
    "dynamic_slice_sizes={6,2}",
    "reduce-window": "x = f32[<=5,4] reduce-window(d, zero), window={size=2x1}, to_apply=add",
    "while": "z = s32[] constant(0)\n  t = (s32[], f32[<=6,4]) tuple(z, d)\n"
    "  w = (s32[], f32[<=6,4]) while(t), condition=going, body=step\n"
    "  x = f32[<=6,4] get-tuple-element(w), index=1",
    "call": "x = f32[<=6,4] call(d), to_apply=twice",
}

# What XLA does not compile, or not as the specification has it.
OURS = {
    "conditional": (
        "y = s32[] constant(1)\n  p = pred[] compare(n, y), direction=GT\n"
        "  x = f32[<=6,4] conditional(p, d, d), true_computation=twice, false_computation=same",
        lambda a, b, i, n, m: 2 * a[:n] if n > 1 else -a[:n],
    ),
    # What comes back is zero; XLA has what was there before.
    "set again": (
        "x = f32[<=6,4] set-dimension-size(d, m), dimensions={0}",
        lambda a, b, i, n, m: np.pad(a[: min(n, m)], ((0, max(0, m - n)), (0, 0))),
    ),
    "static result shape": (
        "x = f32[6,4] set-dimension-size(a, n), dimensions={0}",
        lambda a, b, i, n, m: a[:n],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_an_operation_on_dynamic_arrays_equals_xla(name: str) -> None:
    # XLA crashes where a window finds no element at all.
    check(CASES[name], SIZES[:-1] if name == "reduce-window" else SIZES)


@pytest.mark.parametrize("name", OURS)
def test_an_operation_on_dynamic_arrays_that_xla_does_not_have(name: str) -> None:
    lines, want = OURS[name]
    for n, m in SIZES:
        args = arguments(n, m)
        got = run(program(lines), args)
        assert_same(actual(got[0]), want(*args[:3], n, m))


def test_dynamic_operands_of_two_sizes_meet_in_the_smaller() -> None:
    check("x = f32[<=6,4] add(d, e)", ((5, 3), (2, 6), (3, 3)))


def test_a_dynamic_dimension_of_size_one_is_spread() -> None:
    check("x = f32[<=6,4] add(d, e)", ((5, 1), (1, 6)))


def test_padding_is_not_looked_at() -> None:
    text = program("x = f32[4] reduce(d, zero), dimensions={0}, to_apply=add")
    args = arguments(2, 1)
    args[0][2:] = np.nan
    assert_same(run(text, args)[0], args[0][:2].sum(0), rtol=1e-6)


def test_dynamic_update_slice_writes_what_is_there() -> None:
    lines = """y = f32[3,4] slice(b), slice={[0:3], [0:4]}
  u = f32[<=3,4] set-dimension-size(y, m), dimensions={0}
  one = s32[] constant(1)
  z = s32[] constant(0)
  x = f32[6,4] dynamic-update-slice(a, u, one, z)"""
    for m in (0, 2, 3):
        args = arguments(1, m)
        want = args[0].copy()
        want[1 : 1 + m] = args[1][:m]
        assert_same(run(program(lines), args)[0], want)


def test_select_and_scatter_looks_at_windows_that_are_there() -> None:
    lines = """y = f32[3,4] slice(b), slice={[0:3], [0:4]}
  x = f32[<=6,4] select-and-scatter(d, y, zero), window={size=2x1 stride=2x1}, select=ge, \
scatter=add"""
    args = arguments(4, 1)
    want = np.zeros((4, 4), np.float32)
    for w in range(2):
        first = args[0][2 * w] >= args[0][2 * w + 1]
        want[2 * w] = np.where(first, args[1][w], 0)
        want[2 * w + 1] = np.where(first, 0, args[1][w])
    assert_same(actual(run(program(lines), args)[0]), want)


def test_a_slice_of_a_part_has_a_fixed_size() -> None:
    # So it does in XLA, which reads past the end of the elements for it, and may crash.
    text = program("x = f32[2,4] slice(d), slice={[1:3], [0:4]}")
    args = arguments(2, 1)
    (got,) = run(text, args)
    assert isinstance(got, np.ndarray)
    assert_same(got[:1], args[0][1:2])


def test_convolution_over_a_dynamic_batch_and_spatial_dimension() -> None:
    head = "HloModule conv\nENTRY main {"
    text = f"""{head}
  a = f32[5,7,2] parameter(0)
  k = f32[3,2,4] parameter(1)
  n = s32[] parameter(2)
  m = s32[] parameter(3)
  b = f32[<=5,7,2] set-dimension-size(a, n), dimensions={{0}}
  c = f32[<=5,<=7,2] set-dimension-size(b, m), dimensions={{1}}
  ROOT x = f32[<=5,<=7,4] convolution(c, k), window={{size=3 pad=1_1}}, dim_labels=b0f_0io->b0f
}}
"""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((5, 7, 2)).astype(np.float32)
    k = rng.standard_normal((3, 2, 4)).astype(np.float32)
    got = run(text, [a, k, np.array(3, np.int32), np.array(5, np.int32)])
    padded = np.pad(a[:3, :5], ((0, 0), (1, 1), (0, 0)))
    want = sum(padded[:, t : t + 5] @ k[t] for t in range(3))
    assert_same(actual(got), want, rtol=1e-5, atol=1e-5)


def test_arguments_may_be_smaller_than_the_bound() -> None:
    text = """HloModule bounded
ENTRY main {
  a = f32[<=5,2] parameter(0)
  b = f32[<=5,2] negate(a)
  n = s32[] get-dimension-size(b), dimensions={0}
  ROOT t = (f32[<=5,2], s32[]) tuple(b, n)
}
"""
    module = parse(text)
    got, size = interpret(module, [np.ones((3, 2), np.float32)])
    assert isinstance(got, DynamicArray)
    assert got.data.shape == (5, 2)
    assert got.sizes == (3, 2)
    assert int(size) == 3
    full, _ = interpret(module, [np.ones((5, 2), np.float32)])
    assert isinstance(full, np.ndarray)
    for shape in ((6, 2), (5, 1), (5,)):
        with pytest.raises(HloError, match="is given for"):
            interpret(module, [np.ones(shape, np.float32)])


def test_unbounded_dimensions_take_the_size_of_the_argument() -> None:
    text = """HloModule unbounded
ENTRY main {
  a = f32[?,2] parameter(0)
  b = f32[?,2] negate(a)
  c = f32[?,2] add(a, b)
  d = f32[?] reshape(c)
  ROOT n = s32[] get-dimension-size(d), dimensions={0}
}
"""
    assert int(interpret(parse(text), [np.ones((3, 2), np.float32)])) == 6


@pytest.mark.parametrize("size", [-1, 7])
def test_a_size_outside_the_bound_is_an_error(size: int) -> None:
    with pytest.raises(HloError, match="outside") as caught:
        run(program("x = f32[<=6,4] negate(d)"), arguments(size, 1))
    assert caught.value.code == "index-out-of-range"


@pytest.mark.parametrize(
    ("lines", "n", "m", "message"),
    [
        ("x = f32[<=24] dynamic-reshape(d, m)", 4, 3, "need 3"),
        ("x = f32[<=24] dynamic-reshape(d, m)", 4, 25, "outside"),
        ("y = f32[<=24] reshape(a)\n  z = f32[<=24] set-dimension-size(y, n), dimensions={0}\n"
         "  x = f32[<=3,8] reshape(z)", 5, 1, "do not divide"),
        ("y = f32[24] reshape(a)\n  z = f32[<=24] set-dimension-size(y, n), dimensions={0}\n"
         "  x = f32[3,8] reshape(z)", 8, 1, "ambiguous"),
    ],
)  # fmt: skip
def test_sizes_that_do_not_fit_are_an_error(lines: str, n: int, m: int, message: str) -> None:
    with pytest.raises(HloError, match=message):
        run(program(lines), arguments(n, min(m, 4)) if m <= 4 else wide(n, m))


def wide(n: int, m: int) -> list[Any]:
    args = arguments(n, 1)
    args[4] = np.array(m, np.int32)
    return args


GET = "x = s32[] get-dimension-size(a), dimensions={0}"
SET = "x = f32[<=6,4] set-dimension-size(a, n), dimensions={0}"
RESHAPE = "x = f32[<=24] dynamic-reshape(a, n)"


@pytest.mark.parametrize(
    ("line", "old", "new", "code"),
    [
        (GET, "{0}", "{2}", "bad-dimension"),
        (GET, "{0}", "{-1}", "bad-dimension"),
        (GET, "{0}", "{0,1}", "bad-dimension"),
        (GET, "{0}", "{}", "bad-dimension"),
        (GET, "s32[] get", "s64[] get", "type-mismatch"),
        (SET, "{0}", "{2}", "bad-dimension"),
        (SET, "(a, n)", "(a, half)", "type-mismatch"),
        (SET, "(a, n)", "(a, i)", "shape-mismatch"),
        (SET, "f32[<=6,4] set", "f32[<=5,4] set", "shape-mismatch"),
        (RESHAPE, "<=24", "<=25", "shape-mismatch"),
        (RESHAPE, "(a, n)", "(a, n, n)", "operand-count"),
        (RESHAPE, "(a, n)", "(a, half)", "type-mismatch"),
        (RESHAPE, "(a, n)", "(a, i)", "shape-mismatch"),
    ],
)
def test_a_broken_rule_is_named(line: str, old: str, new: str, code: str) -> None:
    assert old in line
    half = "half = f32[] constant(0.5)\n  "
    text = program(line).replace(line, half + line.replace(old, new), 1)
    with pytest.raises(HloError) as caught:
        verify(parse(text))
    assert code in {d.code for d in caught.value.diagnostics}, str(caught.value)
