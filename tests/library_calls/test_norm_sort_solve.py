"""Normalization of cuDNN, sorts, and solves, compared with numpy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.harness.library_calls import assert_close, run_call

_RNG = np.random.default_rng(8)


def _random(*dims: int, dtype: Any = np.float32) -> np.ndarray:
    return _RNG.uniform(-2, 2, dims).astype(dtype)


def _config(kind: str) -> dict[str, Any]:
    return {"cudnn_norm_backend_config": {"epsilon": 0.01, "kind": kind}}


def _norm(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x = x.astype(np.float64)
    mean = x.mean((1, 2, 3), keepdims=True)
    factor = 1 / np.sqrt(x.var((1, 2, 3), keepdims=True) + 0.01)
    return (x - mean) * factor, mean, factor


@pytest.mark.parametrize(("dtype", "name", "tolerance"), [
    (np.float32, "f32", 2e-6), (np.float16, "f16", 2e-3), (ml_dtypes.bfloat16, "bf16", 1e-2),
])  # fmt: skip
def test_layer_norm(dtype: Any, name: str, tolerance: float) -> None:
    x, scale, bias = _random(6, 4, 3, 1, dtype=dtype), _random(1, 4, 3, 1), _random(1, 4, 3, 1)
    normal, mean, factor = _norm(x)
    got, _ = run_call(
        "__cudnn$norm", [x, scale, bias], f"({name}[6,4,3,1], u8[99])", _config("LAYER_FWD_INFER")
    )
    assert_close(got, normal * scale + bias, tolerance)
    got = run_call(
        "__cudnn$norm", [x, scale, bias],
        f"({name}[6,4,3,1], f32[6,1,1,1], f32[6,1,1,1], u8[99])", _config("LAYER_FWD_TRAIN"),
    )  # fmt: skip
    for g, w in zip(got, (normal * scale + bias, mean, factor), strict=False):
        assert_close(g, w, tolerance)


def test_layer_norm_gradient() -> None:
    x, scale, grad = _random(4, 3, 2, 1), _random(1, 3, 2, 1), _random(4, 3, 2, 1)
    normal, mean, factor = _norm(x)
    got = run_call(
        "__cudnn$norm", [x, scale, grad, mean.astype(np.float32), factor.astype(np.float32)],
        "(f32[4,3,2,1], f32[1,3,2,1], f32[1,3,2,1], u8[9])", _config("LAYER_BWD"),
    )  # fmt: skip
    wide, numeric, step = x.astype(np.float64), np.zeros(x.shape), 1e-6
    for at in np.ndindex(x.shape):
        moved = wide.copy()
        moved[at] += step
        above = (_norm(moved)[0] * scale * grad).sum()
        moved[at] -= 2 * step
        numeric[at] = (above - (_norm(moved)[0] * scale * grad).sum()) / (2 * step)
    assert_close(got[0], numeric)
    assert_close(got[1], (grad * normal).sum(0, keepdims=True))
    assert_close(got[2], grad.sum(0, keepdims=True, dtype=np.float64))


# --- sorts --------------------------------------------------------------------------------------


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("suffix", ["", "UnassignedScratchSize"])
@pytest.mark.parametrize(
    "keys",
    [
        np.array([[3, 1, 2, 1], [0, 7, 7, 2]], np.uint16),
        np.array([3, -1, 2, -1, 5], np.int32),
        np.array([0.0, -0.0, 3, -np.inf, np.nan, -2, np.inf], np.float32),
    ],
    ids=["u16", "s32", "f32"],
)
def test_radix_sort(keys: np.ndarray, descending: bool, suffix: str) -> None:
    name = {"uint16": "u16", "int32": "s32", "float32": "f32"}[keys.dtype.name]
    dims = ",".join(map(str, keys.shape))
    values = np.arange(keys.size, dtype=np.float32).reshape(keys.shape)
    config = {"descending": descending}
    rank = keys
    if keys.dtype.kind == "f":  # in total order
        bits = keys.view(np.int32).astype(np.int64)
        rank = np.where(bits < 0, -(bits & 0x7FFFFFFF) - 1, bits)
    rank = rank.astype(np.int64)
    order = np.argsort(-rank if descending else rank, -1, kind="stable")
    target = f"__cub$DeviceRadixSort{suffix}"
    got, _ = run_call(target, [keys], f"({name}[{dims}], u8[16])", config)
    assert got.tobytes() == np.take_along_axis(keys, order, -1).tobytes()
    got = run_call(target, [keys, values], f"({name}[{dims}], f32[{dims}], u8[16])", config)
    assert got[0].tobytes() == np.take_along_axis(keys, order, -1).tobytes()
    np.testing.assert_array_equal(got[1], np.take_along_axis(values, order, -1))


@pytest.mark.parametrize("dims", [(3, 9), (7,)])
def test_top_k(dims: tuple[int, ...]) -> None:
    x = _random(*dims)
    results = ",".join(map(str, (*dims[:-1], 4)))
    got = run_call(
        "__gpu$TopK",
        [x],
        f"(f32[{results}], s32[{results}])",
        {},
        "api_version=API_VERSION_TYPED_FFI,",
    )
    order = np.argsort(-x, -1, kind="stable")[..., :4]
    np.testing.assert_array_equal(got[0], np.take_along_axis(x, order, -1))
    np.testing.assert_array_equal(got[1], order)


# --- solves -------------------------------------------------------------------------------------


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("transpose", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
def test_triangular_solve(left: bool, lower: bool, transpose: str) -> None:
    a = _random(2, 3, 3) + 4 * np.eye(3, dtype=np.float32)
    b = _random(2, 3, 5) if left else _random(2, 5, 3)
    dims = ",".join(map(str, b.shape))
    config = {"left_side": left, "lower": lower, "unit_diagonal": False, "transpose_a": transpose}
    got, _ = run_call(
        "__cublas$triangularSolve", [a, b], f"(f32[{dims}]{{1,2,0}}, s8[32])", config,
    )  # fmt: skip
    t = np.tril(a) if lower else np.triu(a)
    t = t if transpose == "NO_TRANSPOSE" else t.swapaxes(1, 2)
    assert_close((t @ got) if left else (got @ t), b.astype(np.float64), 1e-5)


@pytest.mark.parametrize("lower", [False, True])
def test_cholesky(lower: bool) -> None:
    a = _random(3, 4, 4)
    a = a @ a.swapaxes(1, 2) + np.eye(4, dtype=np.float32)
    a[1, 3, 3] = -5
    got = run_call(
        "__cusolver$cholesky", [a], "(f32[3,4,4]{1,2,0}, f32[80], s32[3])", {"lower": lower}
    )
    factor = np.tril(got[0]) if lower else np.triu(got[0]).swapaxes(1, 2)
    np.testing.assert_array_equal(got[2] != 0, [False, True, False])
    for n in (0, 2):
        assert_close(factor[n] @ factor[n].T, a[n].astype(np.float64), 1e-5)
