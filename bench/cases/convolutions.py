"""Convolutions, pooling, and a network of them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from cases.registry import Program, case, normal


def _convolve(x: Any, w: Any, stride: int = 1, groups: int = 1) -> Any:
    return lax.conv_general_dilated(
        x, w, (stride, stride), "SAME", feature_group_count=groups,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )  # fmt: skip


@case("3x3 convolution, 64 channels")
def conv_3x3() -> Program:
    return _convolve, [normal(4, 56, 56, 64), normal(3, 3, 64, 64, scale=0.05)]


@case("first layer of a network: 7x7, stride 2, 3 channels")
def conv_stem() -> Program:
    return (lambda x, w: _convolve(x, w, 2)), [normal(2, 224, 224, 3), normal(7, 7, 3, 64)]


@case("1x1 convolution")
def conv_1x1() -> Program:
    return _convolve, [normal(4, 28, 28, 256), normal(1, 1, 256, 128)]


@case("depthwise convolution")
def conv_depthwise() -> Program:
    return (lambda x, w: _convolve(x, w, groups=96)), [normal(4, 56, 56, 96), normal(3, 3, 1, 96)]


@case("gradients of a strided 3x3 convolution")
def conv_gradient() -> Program:
    def loss(x, w):
        return (_convolve(x, w, 2) ** 2).sum()

    return jax.grad(loss, (0, 1)), [normal(4, 56, 56, 32), normal(3, 3, 32, 64, scale=0.05)]


@case("maximum pooling and its gradient")
def pool_gradient() -> Program:
    def loss(x):
        pooled = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        return (pooled * pooled).sum()

    return jax.grad(loss), [normal(4, 64, 64, 48)]


@case("a residual network for small images, loss and gradients")
def resnet_gradient() -> Program:
    def net(p, x):
        x = jax.nn.relu(_convolve(x, p["stem"]))
        for stride, (a, b, short) in p["blocks"]:
            y = _convolve(jax.nn.relu(_convolve(x, a, stride)), b)
            x = jax.nn.relu(y + (_convolve(x, short, stride) if short is not None else x))
        return x.mean((1, 2)) @ p["head"]

    def f(weights, x):
        p = {"stem": weights[0], "head": weights[1], "blocks": []}
        p["blocks"] = [(1, (*weights[2], None)), (2, weights[3]), (2, weights[4])]
        return -jax.nn.log_softmax(net(p, x))[:, 0].mean()

    def w(size, i, o):
        return normal(size, size, i, o, scale=(size * size * i) ** -0.5)

    weights = [
        w(3, 3, 16), normal(64, 10, scale=0.1), (w(3, 16, 16), w(3, 16, 16)),
        (w(3, 16, 32), w(3, 32, 32), w(1, 16, 32)), (w(3, 32, 64), w(3, 64, 64), w(1, 32, 64)),
    ]  # fmt: skip
    return jax.value_and_grad(f), [weights, normal(8, 32, 32, 3)]


def _convolve_nd(x: Any, w: Any, letters: str, strides: tuple[int, ...]) -> Any:
    return lax.conv_general_dilated(
        x, w, strides, "SAME", dimension_numbers=(f"N{letters}C", f"{letters}IO", f"N{letters}C")
    )


@case("1D convolution over a long signal")
def conv_1d() -> Program:
    return (lambda x, w: _convolve_nd(x, w, "H", (1,))), [
        normal(8, 4096, 32), normal(9, 32, 32, scale=0.1),
    ]  # fmt: skip


@case("3D convolution")
def conv_3d() -> Program:
    return (lambda x, w: _convolve_nd(x, w, "DHW", (1, 1, 1))), [
        normal(1, 16, 32, 32, 16), normal(3, 3, 3, 16, 32, scale=0.1),
    ]  # fmt: skip


@case("dilated 3x3 convolution")
def conv_dilated() -> Program:
    def f(x, w):
        return lax.conv_general_dilated(
            x, w, (1, 1), "SAME", rhs_dilation=(4, 4), dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    return f, [normal(2, 56, 56, 64), normal(3, 3, 64, 64, scale=0.05)]


@case("grouped 3x3 convolution, 32 groups")
def conv_grouped() -> Program:
    return (lambda x, w: _convolve(x, w, 1, 32)), [
        normal(4, 28, 28, 256), normal(3, 3, 8, 256, scale=0.1),
    ]  # fmt: skip


@case("3x3 convolution in bf16")
def conv_bf16() -> Program:
    return _convolve, [
        normal(4, 28, 28, 128, dtype=jnp.bfloat16),
        normal(3, 3, 128, 128, scale=0.05, dtype=jnp.bfloat16),
    ]
