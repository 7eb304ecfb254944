"""Convolutions of cuDNN, compared with loops over taps in float64."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.harness.library_calls import assert_close, run_call

_RNG = np.random.default_rng(6)


def _random(*dims: int, dtype: Any = np.float32) -> np.ndarray:
    return _RNG.uniform(-2, 2, dims).astype(dtype)


class _Window:
    """A window of two dimensions, its text, and the forward convolution that it describes."""

    def __init__(
        self, size: tuple[int, int], stride: tuple[int, int] = (1, 1),
        pad: tuple[tuple[int, int], ...] = ((0, 0), (0, 0)), dilate: tuple[int, int] = (1, 1),
        reversal: bool = False,
    ) -> None:  # fmt: skip
        self.size, self.stride, self.pad = size, stride, pad
        self.dilate, self.reversal = dilate, reversal
        self.text = (
            f"window={{size={size[0]}x{size[1]} stride={stride[0]}x{stride[1]} "
            f"pad={pad[0][0]}_{pad[0][1]}x{pad[1][0]}_{pad[1][1]} "
            f"rhs_dilate={dilate[0]}x{dilate[1]} rhs_reversal={int(reversal)}x{int(reversal)}}}"
        )

    def outputs(self, x: tuple[int, int]) -> list[int]:
        extents = [(s - 1) * d + 1 for s, d in zip(self.size, self.dilate, strict=True)]
        return [(x[n] + sum(self.pad[n]) - extents[n]) // self.stride[n] + 1 for n in range(2)]

    def taps(self, x: tuple[int, int]) -> Any:
        """Yield the output's position, the filter's, and that of the input which they multiply."""
        for y in itertools.product(*map(range, self.outputs(x))):
            for k in itertools.product(*map(range, self.size)):
                at = tuple(
                    y[n] * self.stride[n] + k[n] * self.dilate[n] - self.pad[n][0] for n in range(2)
                )
                if all(0 <= at[n] < x[n] for n in range(2)):
                    yield y, tuple(
                        s - 1 - i if self.reversal else i for s, i in zip(self.size, k, strict=True)
                    ), at  # fmt: skip


def _forward(x: np.ndarray, k: np.ndarray, w: _Window, groups: int = 1) -> np.ndarray:
    """x: [batch, feature, h, w]. k: [output, input, h, w]. Returns [batch, output, h, w]."""
    x, k = x.astype(np.float64), k.astype(np.float64)
    y = np.zeros((x.shape[0], k.shape[0], *w.outputs(x.shape[2:])))
    i, o = k.shape[1], k.shape[0] // groups
    for g in range(groups):
        own, filters = x[:, g * i : (g + 1) * i], k[g * o : (g + 1) * o]
        for at, tap, source in w.taps(x.shape[2:]):
            y[:, g * o : (g + 1) * o, *at] += own[:, :, *source] @ filters[:, :, *tap].T
    return y


def _by_input(dy: np.ndarray, k: np.ndarray, w: _Window, x: Any, groups: int) -> np.ndarray:
    dx = np.zeros(x)
    i, o = k.shape[1], k.shape[0] // groups
    for g in range(groups):
        for at, tap, source in w.taps(x[2:]):
            own = dy[:, g * o : (g + 1) * o, *at].astype(np.float64)
            dx[:, g * i : (g + 1) * i, *source] += own @ k[g * o : (g + 1) * o, :, *tap]
    return dx


def _by_filter(dy: np.ndarray, x: np.ndarray, w: _Window, k: Any, groups: int) -> np.ndarray:
    dk = np.zeros(k)
    i, o = k[1], k[0] // groups
    for g in range(groups):
        for at, tap, source in w.taps(x.shape[2:]):
            own = dy[:, g * o : (g + 1) * o, *at].astype(np.float64)
            dk[g * o : (g + 1) * o, :, *tap] += own.T @ x[:, g * i : (g + 1) * i, *source]
    return dk


def _config(**fields: Any) -> dict[str, Any]:
    return {
        "cudnn_conv_backend_config": {
            "activation_mode": "kNone", "conv_result_scale": 1, "side_input_scale": 0,
            "leakyrelu_alpha": 0, **fields,
        }
    }  # fmt: skip


_WINDOWS = [
    _Window((3, 3)),
    _Window((3, 2), stride=(2, 1), pad=((1, 1), (0, 1))),
    _Window((2, 3), stride=(2, 3), pad=((1, 0), (2, 1))),
    _Window((3, 2), pad=((2, 2), (1, 1)), dilate=(2, 3)),
    _Window((2, 2), stride=(3, 2), pad=((1, 2), (0, 0)), dilate=(2, 1)),
    _Window((3, 3), pad=((1, 1), (1, 1)), reversal=True),
    _Window((1, 1), stride=(2, 2)),
]
# Labels, and the order of dimensions of [batch, feature, 0, 1] and [output, input, 0, 1] for them.
_LABELS = [
    ("bf01_oi01->bf01", (0, 1, 2, 3), (0, 1, 2, 3)),
    ("b01f_o01i->b01f", (0, 2, 3, 1), (0, 2, 3, 1)),
    ("f01b_i01o->f01b", (1, 2, 3, 0), (1, 2, 3, 0)),
    ("b01f_01io->b01f", (0, 2, 3, 1), (2, 3, 1, 0)),
]


@pytest.mark.parametrize("window", _WINDOWS, ids=lambda w: w.text)
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("kind", ["Forward", "BackwardInput", "BackwardFilter"])
def test_convolutions(kind: str, groups: int, window: _Window) -> None:
    labels, array_order, kernel_order = _LABELS[_WINDOWS.index(window) % len(_LABELS)]
    x, k = _random(2, 4, 7, 8), _random(6, 4 // groups, *window.size)
    y = _forward(x, k, window, groups)
    dy = _random(*y.shape)
    arrays, order, want, want_order = {
        "Forward": ((x, k), (array_order, kernel_order), y, array_order),
        "BackwardInput": (
            (dy, k), (array_order, kernel_order), _by_input(dy, k, window, x.shape, groups),
            array_order,
        ),
        "BackwardFilter": (
            (x, dy), (array_order, array_order), _by_filter(dy, x, window, k.shape, groups),
            kernel_order,
        ),
    }[kind]  # fmt: skip
    operands = [a.transpose(o).copy() for a, o in zip(arrays, order, strict=True)]
    want = want.transpose(want_order)
    dims = ",".join(map(str, want.shape))
    got, _ = run_call(
        f"__cudnn$conv{kind}", operands, f"(f32[{dims}], u8[0])", _config(),
        f"{window.text}, dim_labels={labels}, feature_group_count={groups},",
    )  # fmt: skip
    assert_close(got, want, 5e-6)


def test_one_and_three_dimensions() -> None:
    x, k = _random(2, 3, 9), _random(4, 3, 3)
    got, _ = run_call(
        "__cudnn$convForward", [x, k], "(f32[2,4,7]{2,1,0}, u8[0])", _config(),
        "window={size=3}, dim_labels=bf0_oi0->bf0,",
    )  # fmt: skip
    y = _forward(x[..., None], k[..., None], _Window((3, 1)))
    assert_close(got, y[..., 0])
    x, k = _random(1, 2, 4, 5, 3), _random(2, 2, 2, 2, 2)
    got, _ = run_call(
        "__cudnn$convForward", [x, k], "(f32[1,2,3,4,2], u8[0])", _config(),
        "window={size=2x2x2}, dim_labels=bf012_oi012->bf012,",
    )  # fmt: skip
    want = sum(
        _forward(x[:, :, :, :, n : n + 2][..., z], k[..., z], _Window((2, 2)))[..., None]
        * (np.arange(2) == n)
        for n in range(2)
        for z in range(2)
    )
    assert_close(got, want)


_ACTIVATIONS = {
    "kNone": lambda x: x, "kRelu": lambda x: np.maximum(x, 0), "kRelu6": lambda x: np.clip(x, 0, 6),
    "kElu": lambda x: np.where(x > 0, x, np.expm1(x)), "kTanh": np.tanh,
    "kSigmoid": lambda x: 1 / (1 + np.exp(-x)), "kLeakyRelu": lambda x: np.where(x > 0, x, x / 4),
}  # fmt: skip


@pytest.mark.parametrize("mode", _ACTIVATIONS)
@pytest.mark.parametrize("has_side", [False, True])
def test_bias_and_activation(mode: str, has_side: bool) -> None:
    x, k, bias = _random(2, 3, 5, 5), _random(4, 3, 3, 3), _random(4)
    y = _forward(x, k, _Window((3, 3)))
    side = _random(*y.shape)
    config = _config(
        activation_mode=mode, conv_result_scale=0.5, leakyrelu_alpha=0.25,
        side_input_scale=2 if has_side else 0,
    )  # fmt: skip
    got, _ = run_call(
        "__cudnn$convBiasActivationForward", [x, k, bias, *([side] if has_side else [])],
        "(f32[2,4,3,3], u8[0])", config, "window={size=3x3}, dim_labels=bf01_oi01->bf01,",
    )  # fmt: skip
    want = 0.5 * y + 2 * has_side * side.astype(np.float64) + bias[:, None, None]
    assert_close(got, _ACTIVATIONS[mode](want))


@pytest.mark.parametrize("name", ["s8", "f32"])
def test_integers_are_rounded_to_even_and_saturate(name: str) -> None:
    x, k = (_RNG.integers(-9, 9, dims).astype(np.int8) for dims in ((1, 4, 4, 4), (4, 4, 2, 2)))
    bias = np.array([0, 0.5, -1, 300], np.float32)
    got, _ = run_call(
        "__cudnn$convBiasActivationForward", [x, k, bias], f"({name}[1,4,3,3], u8[0])",
        _config(conv_result_scale=0.5), "window={size=2x2}, dim_labels=bf01_oi01->bf01,",
    )  # fmt: skip
    want = 0.5 * _forward(x, k, _Window((2, 2))) + bias[:, None, None]
    np.testing.assert_array_equal(got, np.clip(np.rint(want), -128, 127) if name == "s8" else want)


def test_features_in_vectors() -> None:
    """NCHW_VECT_C: the last dimension has no label, and is the rest of the features."""
    x, k = (_RNG.integers(-9, 9, dims).astype(np.int8) for dims in ((2, 8, 5, 5), (12, 8, 3, 3)))
    bias = _random(12)

    def vectors(a: np.ndarray) -> np.ndarray:
        n, f, h, w = a.shape
        return a.reshape(n, f // 4, 4, h, w).transpose(0, 1, 3, 4, 2).copy()

    got, _ = run_call(
        "__cudnn$convBiasActivationForward", [vectors(x), vectors(k), bias],
        "(f32[2,3,3,3,4], u8[0])", _config(),
        "window={size=3x3}, dim_labels=bf01?_oi01?->bf01?,",
    )  # fmt: skip
    want = _forward(x, k, _Window((3, 3))) + bias[:, None, None]
    assert_close(got, vectors(want))


def test_graph() -> None:
    x, k = (
        _random(1, 4, 5, 5, dtype=ml_dtypes.float8_e4m3fn),
        _random(4, 4, 3, 3, dtype=ml_dtypes.float8_e4m3fn),
    )
    side = _random(1, 4, 3, 3)
    y = _forward(x, k, _Window((3, 3)))
    config = _config(
        serialized_graph="5:[f32]conv();7:[f32]scale(5);9:[f32]add(7);11:[f32]relu(9);"
        "12:[f8e4m3fn]invscale(11);14:[f32]amax(11);"
    )
    got = run_call(
        "__cudnn$convForwardGraph", [x, k, np.float32(0.5), side, np.float32(0.01)],
        "(f8e4m3fn[1,4,3,3], f32[], u8[0])", config,
        "window={size=3x3}, dim_labels=bf01_oi01->bf01,",
    )  # fmt: skip
    want = np.maximum(0.5 * y + side, 0)
    assert_close(got[1], want.max())
    assert_close(got[0], np.minimum(want / 0.01, 448), 0.07)
    leaky = _config(serialized_graph="1:[f32]conv();2:[f32]min(1);3:[f32]scale(2);4:[f32]max(3,1);")
    zeros = np.zeros((1, 4, 3, 3), np.float32)
    got = run_call(
        "__cudnn$convForwardGraph", [x, k, zeros, np.float32(0.25)], "(f32[1,4,3,3], u8[0])",
        leaky, "window={size=3x3}, dim_labels=bf01_oi01->bf01,",
    )  # fmt: skip
    assert_close(got[0], np.where(y > 0, y, y / 4))
