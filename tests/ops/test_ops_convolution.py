"""convolution against XLA: every attribute at random, every kind of type, and what is refused."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from hlo.errors import HloError
from hlo.ops.attrs import WINDOW, WindowDim
from hlo.ops.contract import convolution_eval
from tests.harness.combine import combine, operands
from tests.harness.run_both import errors, run, run_both

IMAGE = "f32[2,6,6,4] a, f32[3,3,4,8] b"
LABELS = "dim_labels=b01f_01io->b01f"


def random_convolution(rng: random.Random, rank: int, t: str = "f32", out: str = "f32") -> str:
    """Return a small convolution of `rank` spatial dimensions with every attribute at random."""
    groups = rng.choice([(1, 1), (1, 1), (2, 1), (3, 1), (1, 2), (1, 3)])
    batch, channels = groups[1] * rng.randint(1, 2), rng.choice([1, 2, 3])
    features = groups[0] * groups[1] * rng.randint(1, 2)
    sizes = [rng.randint(1, 6) for _ in range(rank)]
    window = []
    for n in sizes:
        base = rng.randint(1, 2)
        # XLA aborts where negative padding leaves less than nothing.
        least = -min(1, ((n - 1) * base) // 2)
        window.append(
            WindowDim(rng.randint(1, 3), rng.randint(1, 3), rng.randint(least, 2),
                      rng.randint(least, 2), base, rng.randint(1, 2), rng.random() < 0.5)
        )  # fmt: skip
    positions = [d.output_size(n) for d, n in zip(window, sizes, strict=True)]

    def shuffled(names: str, values: list[int]) -> tuple[str, str]:
        pairs = list(zip(names, values, strict=True))
        rng.shuffle(pairs)
        return "".join(n for n, _ in pairs), ",".join(str(v) for _, v in pairs)

    digits = "0123456789"[:rank]
    lhs, lhs_dims = shuffled("bf" + digits, [batch, channels * groups[0], *sizes])
    rhs, rhs_dims = shuffled("io" + digits, [channels, features, *(d.size for d in window)])
    res, res_dims = shuffled("bf" + digits, [batch // groups[1], features, *positions])
    return (
        f"{out}[{res_dims}] convolution({t}[{lhs_dims}] a, {t}[{rhs_dims}] b), "
        f"window={WINDOW.write(tuple(window))}, dim_labels={lhs}_{rhs}->{res}, "
        f"feature_group_count={groups[0]}, batch_group_count={groups[1]}"
    )


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_convolution_takes_any_attributes(rank: int) -> None:
    rng = random.Random(rank)
    lines = [random_convolution(rng, rank) for _ in range(12)]
    run_both(combine(lines), operands(lines), atol=1e-5)


@pytest.mark.parametrize(
    "types",
    ["pred,pred s4,s4 s8,s32 u8,u8 s32,s32 s64,s64",
     "f8e4m3fn,f32 bf16,bf16 bf16,f32 f16,f16 f64,f64",
     "c64,c64"],
    ids=["integers", "floats", "complex"],
)  # fmt: skip
def test_convolution_takes_any_types(types: str) -> None:
    rng = random.Random(types)
    lines = [random_convolution(rng, 2, *pair.split(",")) for pair in types.split() * 2]
    run_both(combine(lines), operands(lines, edges="s8" in types), atol=1e-5)


def test_blocks_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(0)
    lines = [random_convolution(rng, 2, "s32", "s32") for _ in range(12)]
    args = operands(lines)
    whole = run(combine(lines), args)
    for name in ("_PATCH_ELEMENTS", "_FILTER_ELEMENTS", "_TAP_ELEMENTS"):
        monkeypatch.setattr(convolution_eval, name, 5)
    for got, want in zip(run(combine(lines), args), whole, strict=True):
        assert (got == want).all()


def test_depthwise_filters_by_taps_and_by_patches_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        f"f64[2,3,{d.output_size(7)}] convolution(f64[2,3,7] a, f64[3,1,3] b), "
        f"window={WINDOW.write((d,))}, dim_labels=bf0_oi0->bf0, feature_group_count=3"
        for d in (
            WindowDim(3, stride, low, 1, base, dilate, False)
            for stride, low, base, dilate in itertools.product(
                (1, 2, 3), (-2, 3), (1, 2, 6), (1, 4)
            )
        )
    ]
    args = operands(lines)
    by_taps = run(combine(lines), args)
    monkeypatch.setattr(convolution_eval, "_MOST_TAPS", 0)
    for got, want in zip(run(combine(lines), args), by_taps, strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-12)


@pytest.mark.parametrize("groups", [1, 4])
def test_padding_takes_part_in_products(groups: int) -> None:
    # "Zero padding" is made of zeros, and zero times infinity is NaN. XLA is of two minds: its CPU
    # backend computes such products for f32, its evaluator leaves them out.
    b = np.zeros((1, 4 // groups, 4), np.float32)
    b[0, 0] = np.inf
    got = run(
        f"f32[1,3,4] convolution(f32[1,2,4] a, f32[1,{4 // groups},4] b), "
        f"window={{size=1 pad=1_0}}, dim_labels=b0f_0io->b0f, feature_group_count={groups}",
        [np.ones((1, 2, 4), np.float32), b],
    )
    assert np.isnan(got[:, 0]).all() and np.isposinf(got[:, 1:]).all()


def test_a_window_over_nothing_gives_nothing() -> None:
    lines = [
        f"f32[2,0,4,8] convolution({IMAGE}), window={{size=3x3 pad=-2_-2x0_0}}, {LABELS}",
        f"f32[2,2,4,0] convolution(f32[2,4,6,4] a, f32[3,3,4,0] b), window={{size=3x3}}, {LABELS}",
        f"f32[0,2,4,8] convolution(f32[0,4,6,4] a, f32[3,3,4,8] b), window={{size=3x3}}, {LABELS}",
        f"f32[2,2,4,8] convolution(f32[2,4,6,0] a, f32[3,3,0,8] b), window={{size=3x3}}, {LABELS}",
    ]
    results = run(combine(lines), operands(lines))
    assert [r.shape for r in results] == [(2, 0, 4, 8), (2, 2, 4, 0), (0, 2, 4, 8), (2, 2, 4, 8)]
    assert not results[3].any()


CONV = f"f32[2,4,4,8] convolution({IMAGE}), "
BROKEN = [
    (CONV + f"window={{size=2x3}}, {LABELS}", "shape-mismatch", "window dimension 0"),
    (CONV + f"window={{size=3}}, {LABELS}", "bad-dimension", "2 are needed"),
    (CONV + f"window={{size=3x3 stride=0x1}}, {LABELS}", "bad-value", "stride=0"),
    (CONV + f"window={{size=3x3 lhs_dilate=0x1}}, {LABELS}", "bad-value", "lhs_dilate=0"),
    (CONV + f"window={{size=3x3 rhs_dilate=1x-1}}, {LABELS}", "bad-value", "rhs_dilate=-1"),
    (CONV + f"window={{size=3x3 pad=1_1x1_1}}, {LABELS}", "shape-mismatch", "f32[2,6,6,8]"),
    (CONV + "window={size=3}, dim_labels=b0f_0io->b0f", "shape-mismatch", "3 dimensions"),
    (CONV + "window={size=3x3}, dim_labels=b01f_01oi->b01f", "shape-mismatch", "takes 8 features"),
    (CONV + "window={size=3}, dim_labels=b0f?_0io?->b0f?", "bad-dimension", "custom calls"),
    (CONV + f"window={{size=3x3}}, {LABELS}, feature_group_count=0", "bad-value", "at least 1"),
    (CONV + f"window={{size=3x3}}, {LABELS}, feature_group_count=3", "shape-mismatch", "multiple"),
    (CONV + f"window={{size=3x3}}, {LABELS}, batch_group_count=3", "shape-mismatch", "multiple"),
    (CONV + f"window={{size=3x3}}, {LABELS}, batch_group_count=2, feature_group_count=2",
     "bad-value", "greater than 1"),
    (CONV + f"window={{size=3x3}}, {LABELS}, operand_precision={{high,high,high}}", "bad-value",
     "3 precisions"),
    (CONV + f"window={{size=3x3}}, {LABELS}, sparsity_config={{rhs={{sparsity=2x4}}}}",
     "bad-value", "2x4"),
    (CONV + "window={size=3x3}", "missing-attribute", "dim_labels"),
    ("f32[2,4,4,8] convolution(f32[2,6,6,4] a), window={size=3x3}, " + LABELS, "operand-count",
     "2 operands"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "code", "words"), BROKEN)
def test_a_broken_convolution_is_refused(text: str, code: str, words: str) -> None:
    found = errors(text)
    assert [c for c, _ in found] == [code], found
    assert words in found[0][1]


def test_a_sparse_filter_verifies_but_has_no_stated_meaning() -> None:
    text = (
        "HloModule m\nENTRY e {\n a = f32[2,3,3,8] parameter(0)\n"
        " b = (f32[1,1,4,5], s8[1,1,4,5]) parameter(1)\n ROOT r = f32[2,3,3,5] convolution(a, b), "
        f"window={{size=1x1}}, {LABELS}, sparsity_config={{rhs={{sparsity=1x2 dimension=2}}}}\n}}\n"
    )
    assert errors(text) == []
    filters = np.ones((1, 1, 4, 5), np.float32), np.zeros((1, 1, 4, 5), np.int8)
    with pytest.raises(HloError) as caught:
        run(text, [np.ones((2, 3, 3, 8), np.float32), filters])
    assert caught.value.code == "unsupported"


def test_a_window_that_reaches_past_memory_is_refused() -> None:
    text = (
        "f32[1,1,1] convolution(f32[1,1,1] a, f32[1,1,2] b), "
        "window={size=2 pad=0_1000000000000 rhs_dilate=1000000000000}, dim_labels=bf0_oi0->bf0"
    )
    one = np.ones((1, 1, 1), np.float32)
    with pytest.raises(HloError) as caught:
        run(text, [one, np.ones((1, 1, 2), np.float32)])
    assert caught.value.code == "out-of-memory"
