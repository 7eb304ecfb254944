"""Compiled convolutions against the interpreter, and a few against XLA."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hlo.values.types import ELEMENT_TYPES
from tests.harness.oracle import assert_same, xla_run
from tests.harness.run_compiled import check, compiled_for, run_leaves

_NARROW = {"rtol": 2e-2, "atol": 5e-2}
_WIDE = {"rtol": 1e-4, "atol": 1e-3}

Dims = tuple[int, ...]


def values(rng: np.random.Generator, name: str, dims: Dims) -> np.ndarray:
    et = ELEMENT_TYPES[name]
    if et.is_complex:
        return (rng.standard_normal(dims) + 1j * rng.standard_normal(dims)).astype(et.dtype)
    if et.is_float:
        return rng.standard_normal(dims).astype(et.dtype)
    return rng.integers(-100, 100, dims).astype(et.dtype)


def convolution(
    x: Dims, w: Dims, out: Dims, window: str, labels: str, *, et: str = "f32", more: str = ""
) -> tuple[str, list[np.ndarray]]:
    """Return a module that convolves, and arguments."""
    result = "s32" if et == "s8" else et

    def shape(name: str, dims: Dims) -> str:
        return f"{name}[{','.join(map(str, dims))}]"

    text = f"""HloModule m
ENTRY main {{
  x = {shape(et, x)} parameter(0)
  w = {shape(et, w)} parameter(1)
  ROOT y = {shape(result, out)} convolution(x, w), {window}dim_labels={labels}{more}
}}"""
    rng = np.random.default_rng(len(text))
    return text, [values(rng, et, x), values(rng, et, w)]


_CASES: dict[str, tuple[Any, ...]] = {
    "channels last": ((2, 9, 11, 5), (3, 3, 5, 7), (2, 9, 11, 7), "size=3x3 pad=1_1x1_1",
                      "b01f_01io->b01f"),
    "channels first": ((2, 5, 9, 11), (7, 5, 3, 3), (2, 7, 9, 11), "size=3x3 pad=1_1x1_1",
                       "bf01_oi01->bf01"),
    "few channels, stride": ((2, 20, 21, 3), (7, 7, 3, 70), (2, 10, 11, 70),
                             "size=7x7 stride=2x2 pad=3_3x3_3", "b01f_01io->b01f"),
    "pointwise": ((2, 6, 5, 20), (1, 1, 20, 33), (2, 6, 5, 33), "size=1x1", "b01f_01io->b01f"),
    "pointwise, channels first": ((3, 20, 6, 5), (33, 20, 1, 1), (3, 33, 6, 5), "size=1x1",
                                  "bf01_oi01->bf01"),
    "reversed": ((2, 9, 11, 5), (3, 3, 5, 7), (2, 9, 11, 7),
                 "size=3x3 pad=1_1x1_1 rhs_reversal=1x1", "b01f_01io->b01f"),
    "gradient of the input": ((2, 8, 8, 5), (3, 3, 7, 5), (2, 16, 16, 7),
                              "size=3x3 pad=1_2x1_2 lhs_dilate=2x2", "b01f_01oi->b01f"),
    "positions that meet nothing": ((2, 5, 5, 5), (1, 1, 7, 5), (2, 10, 10, 7),
                                    "size=1x1 pad=0_1x0_1 lhs_dilate=2x2", "b01f_01oi->b01f"),
    "holes, many features": ((3, 16, 1, 64), (5, 3, 64, 8), (3, 23, 3, 8),
                             "size=5x3 pad=1_-1x2_2 lhs_dilate=2x1 rhs_dilate=2x1",
                             "b01f_01io->b01f"),
    "gradient by patches": ((1, 3, 3, 8), (16, 16, 3, 8), (1, 48, 48, 3),
                            "size=16x16 pad=15_15x15_15 lhs_dilate=16x16", "b01f_01oi->b01f"),
    "gradient of the filter": ((6, 9, 9, 5), (6, 9, 9, 7), (3, 3, 5, 7), "size=9x9 pad=1_1x1_1",
                               "f01b_i01o->01bf"),
    "gradient of the filter, stride": ((6, 9, 9, 5), (6, 5, 5, 7), (3, 3, 5, 7),
                                       "size=5x5 pad=1_1x1_1 rhs_dilate=2x2", "f01b_i01o->01bf"),
    "gradient of the filter, channels first": ((6, 5, 9, 9), (6, 7, 9, 9), (3, 3, 5, 7),
                                               "size=9x9 pad=1_1x1_1", "fb01_io01->01bf"),
    "negative padding": ((2, 9, 9, 5), (3, 3, 5, 7), (2, 4, 8, 7), "size=3x3 pad=-1_-2x2_-1",
                         "b01f_01io->b01f"),
    "one dimension": ((2, 9, 5), (4, 5, 7), (2, 5, 7),
                      "size=4 stride=3 pad=2_3 lhs_dilate=2 rhs_dilate=3", "b0f_0io->b0f"),
    "three dimensions": ((2, 4, 5, 6, 3), (2, 3, 3, 3, 4), (2, 4, 5, 6, 4),
                         "size=2x3x3 pad=1_0x1_1x0_2", "b012f_012io->b012f"),
    "groups": ((2, 9, 9, 12), (3, 3, 4, 6), (2, 9, 9, 6), "size=3x3 pad=1_1x1_1",
               "b01f_01io->b01f", 3),
    "groups of several features": ((2, 9, 10, 72), (3, 3, 8, 72), (2, 9, 10, 72),
                                   "size=3x3 pad=1_1x1_1", "b01f_01io->b01f", 9),
    "groups of few features, stride": ((2, 11, 21, 27), (3, 4, 3, 36), (2, 6, 8, 36),
                                       "size=3x4 stride=2x2 pad=1_1x0_0 rhs_dilate=1x2 "
                                       "rhs_reversal=0x1", "b01f_01io->b01f", 9),
    "gradient of groups": ((2, 6, 9, 32), (3, 3, 4, 32), (2, 12, 18, 32),
                           "size=3x3 pad=1_2x1_2 lhs_dilate=2x2", "b01f_01io->b01f", 8),
    "more groups than a task has": ((1, 3, 4, 260), (2, 2, 2, 520), (1, 2, 3, 520), "size=2x2",
                                    "b01f_01io->b01f", 130),
    "groups in one dimension": ((3, 50, 16), (9, 8, 32), (3, 50, 32), "size=9 pad=4_4",
                                "b0f_0io->b0f", 2),
    "depthwise": ((2, 9, 9, 40), (3, 3, 1, 40), (2, 9, 9, 40), "size=3x3 pad=1_1x1_1",
                  "b01f_01io->b01f", 40),
    "depthwise, channels first, stride": ((2, 6, 40, 37), (6, 1, 3, 3), (2, 6, 20, 19),
                                          "size=3x3 stride=2x2 pad=1_1x1_1", "bf01_oi01->bf01", 6),
    "depthwise, two outputs each": ((2, 9, 9, 6), (3, 2, 1, 12), (2, 9, 8, 12),
                                    "size=3x2 pad=1_1x0_0", "b01f_01io->b01f", 6),
    "gradient of depthwise": ((2, 6, 9, 20), (3, 3, 6, 1), (2, 6, 18, 40),
                              "size=3x3 pad=1_2x1_2 lhs_dilate=2x2", "bf01_01oi->bf01", 6),
}  # fmt: skip


@pytest.mark.parametrize("et", ["f32", "bf16", "s8", "c64"])
@pytest.mark.parametrize("name", _CASES)
def test_convolution(name: str, et: str) -> None:
    x, w, out, window, labels, *groups = _CASES[name]
    more = f", feature_group_count={groups[0]}" if groups else ""
    text, args = convolution(x, w, out, f"window={{{window}}}, ", labels, et=et, more=more)
    check(text, args, **(_NARROW if et == "bf16" else _WIDE))


@pytest.mark.parametrize("et", ["f32", "bf16", "s32"])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("channels", [3, 16, 37])
def test_gradient_of_a_depthwise_filter(et: str, last: bool, channels: int) -> None:
    x, y = ((5, 12, 20, channels), (5, 6, 10, channels))
    if not last:
        x, y = ((n, c, h, v) for n, h, v, c in (x, y))
    labels = "f01b_i01o->01bf" if last else "fb01_io01->01bf"
    text, args = convolution(
        x, y, (3, 3, 1, channels), "window={size=6x10 pad=1_0x1_0 rhs_dilate=2x2}, ", labels,
        et=et, more=f", batch_group_count={channels}",
    )  # fmt: skip
    check(text, args, **(_NARROW if et == "bf16" else _WIDE))


def test_convolution_without_a_window() -> None:
    text, args = convolution((4, 5), (5, 7), (4, 7), "", "bf_io->bf")
    check(text, args, **_WIDE)


def test_batch_groups() -> None:
    text, args = convolution(
        (6, 7, 8, 5), (3, 3, 5, 9), (2, 5, 6, 9), "window={size=3x3}, ", "b01f_01io->b01f",
        more=", batch_group_count=3",
    )  # fmt: skip
    check(text, args, **_WIDE)


@pytest.mark.parametrize("x", [(0, 5, 5, 2), (2, 5, 5, 0), (2, 0, 5, 2)])
def test_convolution_of_nothing(x: Dims) -> None:
    rows = 2 if x[1] == 0 else 5
    pad = "2_2" if x[1] == 0 else "1_1"
    text, args = convolution(
        x, (3, 3, x[3], 4), (x[0], rows, 5, 4), f"window={{size=3x3 pad={pad}x1_1}}, ",
        "b01f_01io->b01f",
    )  # fmt: skip
    check(text, args)


def random_convolution(seed: int) -> tuple[str, list[np.ndarray]]:
    """Return a convolution of any window, groups, labels, layouts and types."""
    rng = np.random.default_rng(seed)

    def number(low: int, high: int) -> int:
        return int(rng.integers(low, high + 1))

    rank = int(rng.choice([0, 1, 2, 2, 2, 3]))
    kind = rng.random()
    groups = number(2, 4) if kind < 0.25 else 1
    batch_groups = number(2, 4) if 0.25 <= kind < 0.45 else 1
    images = number(1, 4) * batch_groups
    inputs = 1 if rng.random() < 0.3 else number(1, 6)
    outputs = groups * batch_groups * int(rng.choice([1, 2, 5, 17]))
    sizes: list[int] = []
    taps: list[int] = []
    places: list[int] = []
    fields: list[str] = []
    for _ in range(rank):
        while True:
            n, k = number(1, 12), number(1, 5)
            stride, holes, spread = (number(1, 3) if rng.random() < 0.4 else 1 for _ in range(3))
            low, high = number(-2, 4), number(-2, 4)
            base, reach = (n - 1) * holes + 1 + low + high, (k - 1) * spread + 1
            if base >= reach:
                break
        sizes.append(n)
        taps.append(k)
        places.append((base - reach) // stride + 1)
        turned = int(rng.random() < 0.2)
        fields.append(f"{k} {stride} {low}_{high} {holes} {spread} {turned}")
    spatial = [str(i) for i in range(rank)]
    labels = [["b", "f", *spatial], ["i", "o", *spatial], ["b", "f", *spatial]]
    found = [
        {"b": images, "f": inputs * groups, **dict(zip(spatial, sizes, strict=True))},
        {"i": inputs, "o": outputs, **dict(zip(spatial, taps, strict=True))},
        {"b": images // batch_groups, "f": outputs, **dict(zip(spatial, places, strict=True))},
    ]
    for names in labels:
        rng.shuffle(names)
    et = str(rng.choice(["f32", "f32", "f64", "bf16", "s8", "c64"]))
    types = [et, et, "s32" if et == "s8" else et]

    def shape(i: int) -> str:
        order = list(range(rank + 2))[::-1]
        if rng.random() < 0.4:
            rng.shuffle(order)
        dims = ",".join(str(found[i][c]) for c in labels[i])
        return f"{types[i]}[{dims}]{{{','.join(map(str, order))}}}"

    window = ""
    if rank:
        keys = ("size", "stride", "pad", "lhs_dilate", "rhs_dilate", "rhs_reversal")
        columns = zip(*(f.split() for f in fields), strict=True)
        pairs = (f"{k}={'x'.join(v)}" for k, v in zip(keys, columns, strict=True))
        window = f"window={{{' '.join(pairs)}}}, "
    names = ["".join(x) for x in labels]
    text = f"""HloModule m
ENTRY main {{
  x = {shape(0)} parameter(0)
  w = {shape(1)} parameter(1)
  ROOT y = {shape(2)} convolution(x, w), {window}dim_labels={names[0]}_{names[1]}->{names[2]},
    feature_group_count={groups}, batch_group_count={batch_groups}
}}"""
    dims = [tuple(found[i][c] for c in labels[i]) for i in (0, 1)]
    return text, [values(rng, et, d) for d in dims]


@pytest.mark.parametrize("seed", range(40))
def test_random_convolutions(seed: int) -> None:
    text, args = random_convolution(seed)
    check(text, args, **(_NARROW if "bf16" in text else _WIDE))


@pytest.mark.parametrize(
    "name",
    ["channels last", "gradient of the input", "groups", "groups of several features", "depthwise"],
)
def test_convolutions_agree_with_xla(name: str) -> None:
    x, w, out, window, labels, *groups = _CASES[name]
    more = f", feature_group_count={groups[0]}" if groups else ""
    text, args = convolution(x, w, out, f"window={{{window}}}, ", labels, more=more)
    assert_same(run_leaves(text, args), xla_run(text, args), **_WIDE)


@pytest.mark.parametrize(
    "case",
    [((4, 30, 30, 32), (3, 3, 32, 64), (4, 30, 30, 64), "b01f_01io->b01f", ""),
     ((4, 30, 30, 64), (3, 3, 1, 64), (4, 30, 30, 64), "b01f_01io->b01f",
      ", feature_group_count=64"),
     ((4, 30, 30, 64), (3, 3, 8, 64), (4, 30, 30, 64), "b01f_01io->b01f",
      ", feature_group_count=8")],
)  # fmt: skip
def test_threads_do_not_show(case: tuple[Any, ...]) -> None:
    x, w, out, labels, more = case
    text, args = convolution(x, w, out, "window={size=3x3 pad=1_1x1_1}, ", labels, more=more)
    one, two = (compiled_for(text, threads)(*args) for threads in (1, 2))
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(
    "case",
    [((1, 12, 12, 64), (3, 3, 64, 32), ""), ((1, 12, 12, 256), (3, 3, 8, 256), 32)],
)  # fmt: skip
def test_rounding_errors_are_those_of_short_sums(case: tuple[Any, ...]) -> None:
    """Errors are below what rounding each of the sums of one long chain would make of them."""
    x, w, groups = case
    out, pad = (*x[:3], w[3]), w[0] // 2
    more = f", feature_group_count={groups}" if groups else ""
    window = f"window={{size={w[0]}x{w[1]} pad={pad}_{pad}x{pad}_{pad}}}, "
    text, args = convolution(x, w, out, window, "b01f_01io->b01f", more=more)
    rng = np.random.default_rng(0)
    args = [rng.normal(size=a.shape).astype(np.float32) for a in args]
    (got,) = run_leaves(text, args)
    (exact,) = run_leaves(text.replace("f32[", "f64["), [a.astype(np.float64) for a in args])
    chain = np.sqrt(w[0] * w[1] * w[2] / 2) * 2.0**-24 / np.sqrt(3)
    assert np.sqrt(np.mean((got - exact) ** 2) / np.mean(exact**2)) < 0.6 * chain
