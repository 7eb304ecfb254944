"""Calls of oneDNN, compared with their definition in float64."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import pytest

from tests.harness.library_calls import assert_close, run_call

_RNG = np.random.default_rng(9)
_erf = np.vectorize(math.erf)


def _random(*dims: int, dtype: Any = np.float32) -> np.ndarray:
    return _RNG.uniform(-2, 2, dims).astype(dtype)


def _bits(x: float) -> int:
    return int(struct.unpack("<i", struct.pack("<f", x))[0])


_ACTIVATIONS = {
    "RELU": lambda x: np.maximum(x, 0), "TANH": np.tanh,
    "GELU_ERF": lambda x: x / 2 * (1 + _erf(x / np.sqrt(2))),
    "GELU_TANH": lambda x: x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "ELU": lambda x: np.where(x > 0, x, np.expm1(x)), "RELU6": lambda x: np.clip(x, 0, 6),
    "SIGMOID": lambda x: 1 / (1 + np.exp(-x)), "SWISH": lambda x: x / (1 + np.exp(-x)),
    "LINEAR": lambda x: 0.3 * x,
}  # fmt: skip


@pytest.mark.parametrize("ops", [
    [], ["BIAS"], ["BINARY_ADD"], ["SUM"], *([name] for name in _ACTIVATIONS), ["BIAS", "RELU"],
    ["BIAS", "BINARY_ADD", "TANH"], ["LINEAR", "BINARY_ADD"], ["BIAS", "GELU_ERF", "SUM"],
])  # fmt: skip
def test_matmul_with_fused_operations(ops: list[str]) -> None:
    a, b = _random(4, 5), _random(5, 3)
    want, operands = a.astype(np.float64) @ b, [a, b]
    for name in ops:
        if name in _ACTIVATIONS:
            want = _ACTIVATIONS[name](want)
        else:
            operands.append(_random(3) if name == "BIAS" else _random(4, 3))
            want = want + operands[-1]
    new = {"fusions": {"ops": ops, "alpha": [0.3] if "LINEAR" in ops else []}}
    middle = {"fusions": {"ops": ops, "bias_broadcast": True, "alpha_typecast": _bits(0.3)}}
    old = {"fused_ops": ops, "bias_broadcast": True, "alpha_typecast": _bits(0.3)}
    for config in (new, middle, old):
        (got,) = run_call("__onednn$matmul", operands, "f32[4,3]", {
            "outer_dimension_partitions": [], "onednn_matmul_config": config,
        })  # fmt: skip
        assert_close(got, want)


@pytest.mark.parametrize(
    ("a", "b", "config", "equation"),
    [
        ((2, 3, 4), (2, 4, 5), {}, "bmk,bkn->bmn"),
        ((2, 4, 3), (2, 4, 5), {"transpose_a": True}, "bkm,bkn->bmn"),
        ((2, 3, 4), (2, 5, 4), {"transpose_b": True}, "bmk,bnk->bmn"),
        ((2, 2, 3, 4), (2, 2, 4, 5), {}, "bcmk,bckn->bcmn"),
        ((3, 4), (4,), {}, "mk,k->m"),
        # the arrays are in other orders, from 1
        ((2, 3, 6, 4), (2, 5, 6, 4),
         {"lhs": {"dims": 4, "tensor": {"dimensions": [1, 3, 2, 4]}},
          "rhs": {"dims": 4, "tensor": {"dimensions": [1, 3, 2, 4]}}, "transpose_b": True,
          "result": {"dims": 4, "tensor": {"dimensions": [1, 3, 2, 4]}}},
         "bmhk,bnhk->bmhn"),
    ],
)  # fmt: skip
def test_matmul_forms(a: Any, b: Any, config: dict[str, Any], equation: str) -> None:
    x, y = _random(*a), _random(*b)
    want = np.einsum(equation, x.astype(np.float64), y)
    config = {**config, "optimization_config": {"user_scratchpad": True}}
    dims = ",".join(map(str, want.shape))
    got, _ = run_call(
        "__onednn$matmul", [x, y], f"(f32[{dims}], u8[64])", {"onednn_matmul_config": config}
    )
    assert_close(got, want)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_softmax(axis: int) -> None:
    x = _random(3, 4, 5)
    (got,) = run_call(
        "__onednn$softmax", [x], "f32[3,4,5]", {"onednn_softmax_config": {"softmax_axis": axis}}
    )
    powers = np.exp(x.astype(np.float64))
    assert_close(got, powers / powers.sum(axis, keepdims=True))


@pytest.mark.parametrize("key", ["rescale", "fused_ops"])
@pytest.mark.parametrize("kind", ["SCALE_AND_SHIFT", "SCALE", "SHIFT", "UNDEFINED"])
def test_layer_norm(key: str, kind: str) -> None:
    x, scale, shift = _random(3, 4, 8), _random(8), _random(8)
    operands = [x, *([scale] if "SCALE" in kind else []), *([shift] if "SHIFT" in kind else [])]
    config = {"onednn_layer_norm_config": {key: kind, "epsilon_typecast": _bits(0.01)}}
    (got,) = run_call("__onednn$layernorm", operands, "f32[3,4,8]", config)
    wide = x.astype(np.float64)
    want = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + 0.01)
    want = want * (scale if "SCALE" in kind else 1) + (shift if "SHIFT" in kind else 0)
    assert_close(got, want)


@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("groups", [1, 2])
def test_convolution(offset: int, groups: int) -> None:
    """offset: what is added to each number of the window, as until 2025."""
    x, k, bias = _random(2, 7, 8, 4), _random(3, 2, 4 // groups, 6), _random(6)
    side = _random(2, 3, 8, 6)

    def numbers(*values: int) -> list[int]:
        return [v + offset for v in values]

    data = {"data": {"batch_dim": 0, "feature_dim": 3, "spatial_dims": numbers(1, 2)}}
    config = {
        "dims": 4, "input": data, "output": data,
        "kernel": {"filter": {
            "input_feature_dim": 2, "output_feature_dim": 3, "spatial_dims": numbers(0, 1),
            "shape": [3, 2, 4 // groups, 6],
        }},
        "window": {
            "size": [], "pad_left": numbers(1, 0), "pad_right": numbers(0, 2),
            "strides": numbers(2, 1), "window_dilations": numbers(1, 2),
        },
        "fusions": {"ops": ["BIAS", "RELU", "BINARY_ADD"]}, "feature_groups": groups,
    }  # fmt: skip
    (got,) = run_call(
        "__onednn$convolution", [x, k, bias, side], "f32[2,3,8,6]", {"onednn_conv_config": config}
    )
    padded = np.pad(x.astype(np.float64), ((0, 0), (1, 0), (0, 2), (0, 0)))
    want, i, o = np.zeros((2, 3, 8, 6)), 4 // groups, 6 // groups
    for y, z, g, u, v in np.ndindex(3, 8, groups, 3, 2):
        own = padded[:, 2 * y + u, z + 2 * v, g * i : (g + 1) * i]
        want[:, y, z, g * o : (g + 1) * o] += own @ k[u, v, :, g * o : (g + 1) * o]
    assert_close(got, np.maximum(want + bias, 0) + side)
