"""Batch normalization against XLA and against its formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hlo.values.types import ELEMENT_TYPES
from tests.harness.oracle import assert_same
from tests.harness.run_both import errors, run, run_both

# Dimensions of the operand, index of the feature dimension.
SHAPES = [((4, 3, 5, 2), 1), ((4, 3, 5, 2), 3), ((6, 7), 0), ((5,), 0), ((3, 0, 2), 1)]
# XLA computes in the operand's type, a mean of squares less the square of the mean.
TOLERANCE = {"f64": 1e-11, "f32": 1e-4, "bf16": 0.1, "f16": 0.02}


def data(t: str, dims: tuple[int, ...], feature: int, vectors: int) -> list[Any]:
    rng = np.random.default_rng(dims[0])
    arrays = [rng.standard_normal(dims)]
    arrays += [rng.uniform(0.5, 2, dims[feature]) for _ in range(vectors)]
    return [a.astype(ELEMENT_TYPES[t].dtype) for a in arrays]


def shape(t: str, dims: tuple[int, ...]) -> str:
    return f"{t}[{','.join(map(str, dims))}]"


def module(opcode: str, operands: list[str], result: str, epsilon: str, feature: int) -> str:
    params = "\n".join(f"  p{i} = {s} parameter({i})" for i, s in enumerate(operands))
    names = ", ".join(f"p{i}" for i in range(len(operands)))
    return (
        f"HloModule m\nENTRY e {{\n{params}\n  ROOT r = {result} {opcode}({names}), "
        f"epsilon={epsilon}, feature_index={feature} }}"
    )


def texts(t: str, dims: tuple[int, ...], feature: int) -> dict[str, str]:
    x, v = shape(t, dims), shape(t, (dims[feature],))
    triple = f"({x}, {v}, {v})"
    at = feature
    return {
        "training": module("batch-norm-training", [x, v, v], triple, "0.001", at),
        "inference": module("batch-norm-inference", [x, v, v, v, v], x, "0.001", at),
        "grad": module("batch-norm-grad", [x, v, v, v, x], triple, "0.001", at),
    }


@pytest.mark.parametrize(("dims", "feature"), SHAPES)
@pytest.mark.parametrize("t", ["f32", "f64"])
def test_shapes_agree_with_xla(t: str, dims: tuple[int, ...], feature: int) -> None:
    x, scale, a, b = data(t, dims, feature, 3)
    grad = np.asarray(x[::-1] * 2)
    text, close = texts(t, dims, feature), {"rtol": TOLERANCE[t], "atol": TOLERANCE[t]}
    run_both(text["training"], [x, scale, a], what="training", **close)
    run_both(text["inference"], [x, scale, a, a, b], what="inference", **close)
    run_both(text["grad"], [x, scale, a, b, grad], what="grad", **close)


@pytest.mark.parametrize("t", ["bf16", "f16"])
def test_narrow_types_round_once(t: str) -> None:
    dims, feature = (40, 3, 7), 1
    x, scale, a, b = data(t, dims, feature, 3)
    text, dtype = texts(t, dims, feature), ELEMENT_TYPES[t].dtype
    close = {"rtol": TOLERANCE[t], "atol": TOLERANCE[t]}
    run_both(text["inference"], [x, scale, a, a, b], **close)
    got = run_both(text["training"], [x, scale, a], **close)
    wide, s, o = (np.asarray(v, np.float64) for v in (x, scale, a))
    mean, variance = wide.mean((0, 2)), wide.var((0, 2))
    y = s[:, None] * (wide - mean[:, None]) / np.sqrt(variance + 0.001)[:, None] + o[:, None]
    assert_same(got, tuple(v.astype(dtype) for v in (y, mean, variance)), ulps=1)


def test_a_variance_far_from_zero_keeps_its_digits() -> None:
    # The mean of squares less the square of the mean is off by 0.1 here.
    x = (1e4 + np.random.default_rng(1).standard_normal((1000, 1))).astype(np.float32)
    one = np.ones(1, np.float32)
    _, _, variance = run(texts("f32", (1000, 1), 1)["training"], [x, one, one])
    assert_same(variance, x.astype(np.float64).var(0).astype(np.float32))


def test_the_gradient_is_that_of_training() -> None:
    rng = np.random.default_rng(2)
    x, grad = rng.standard_normal((2, 6, 3))
    scale, offset = rng.uniform(0.5, 2, (2, 3))
    text = texts("f64", (6, 3), 1)

    def loss(x: Any, scale: Any, offset: Any) -> float:
        y, _, _ = run(text["training"], [x, scale, offset])
        return float((y * grad).sum())

    _, mean, variance = run(text["training"], [x, scale, offset])
    got = run(text["grad"], [x, scale, mean, variance, grad])
    step, args = 1e-6, [x, scale, offset]
    for which, result in enumerate(got):
        want = np.zeros(args[which].shape)
        for at in np.ndindex(want.shape):
            up, down = ([a.copy() for a in args] for _ in range(2))
            up[which][at] += step
            down[which][at] -= step
            want[at] = (loss(*up) - loss(*down)) / (2 * step)
        assert_same(result, want, atol=1e-6)


def test_large_arrays_go_by_pieces() -> None:
    x = np.random.default_rng(3).standard_normal((3, 300, 1000)).astype(np.float32)
    for feature in range(3):
        ones = np.ones(x.shape[feature], np.float32)
        axes = tuple({0, 1, 2} - {feature})
        got = run(texts("f32", x.shape, feature)["training"], [x, ones, 0 * ones])
        wide = x.astype(np.float64)
        mean, variance = wide.mean(axes, keepdims=True), wide.var(axes, keepdims=True)
        y = (wide - mean) / np.sqrt(variance + np.float64(np.float32(0.001)))
        want = tuple(v.astype(np.float32) for v in (y, mean.ravel(), variance.ravel()))
        assert_same(got, want, ulps=2, atol=1e-7)


X, V = "f32[4,3]", "f32[3]"
TRIPLE = f"({X}, {V}, {V})"
BAD = {
    "feature out of range": (
        module("batch-norm-training", [X, V, V], TRIPLE, "0.1", 2), "bad-dimension",
    ),
    "feature negative": (
        module("batch-norm-training", [X, V, V], TRIPLE, "0.1", -1), "bad-dimension",
    ),
    "scale of another size": (
        module("batch-norm-training", [X, "f32[4]", V], TRIPLE, "0.1", 1), "shape-mismatch",
    ),
    "scale of another rank": (
        module("batch-norm-training", [X, X, V], TRIPLE, "0.1", 1), "shape-mismatch",
    ),
    "integers": (
        module("batch-norm-inference", ["s32[4,3]", V, V, V, V], X, "0.1", 1), "type-mismatch",
    ),
    "gradient of another shape": (
        module("batch-norm-grad", [X, V, V, V, "f32[3,4]"], TRIPLE, "0.1", 1), "shape-mismatch",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_broken_rules_are_named(case: str) -> None:
    text, code = BAD[case]
    found = errors(text)
    assert [c for c, _ in found] == [code], found
