"""Layers of networks: dense, normalizations, attention, decoding."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jax import lax

from cases.registry import Program, case, integers, normal


@case("three dense layers with gelu and softmax, batch 64")
def dense_layers() -> Program:
    def f(x, layers):
        for w, b in layers[:-1]:
            x = jax.nn.gelu(x @ w + b)
        w, b = layers[-1]
        return jax.nn.softmax(x @ w + b)

    sizes = (784, 1024, 512, 10)
    layers = [(normal(i, o, scale=i**-0.5), normal(o)) for i, o in itertools.pairwise(sizes)]
    return f, [normal(64, 784), layers]


@case("softmax of rows", scipy=lambda x: scipy.special.softmax(x, -1))
def softmax() -> Program:
    return jax.nn.softmax, [normal(2048, 2048)]


@case("layer normalization in bf16, statistics in f32")
def layer_norm_bf16() -> Program:
    def f(x, scale, offset):
        wide = x.astype(jnp.float32)
        mean, variance = wide.mean(-1, keepdims=True), wide.var(-1, keepdims=True)
        return ((wide - mean) * lax.rsqrt(variance + 1e-6) * scale + offset).astype(x.dtype)

    return f, [normal(4096, 1024, dtype=jnp.bfloat16), normal(1024), normal(1024)]


def _attention_weights(width: int) -> dict[str, np.ndarray]:
    def w(i, o, seed):
        return normal(i, o, scale=i**-0.5, seed=seed)

    return {
        "qkv": w(width, 3 * width, 1),
        "out": w(width, width, 2),
        "up": w(width, 4 * width, 3),
        "down": w(4 * width, width, 4),
        "norm1": np.ones(width, np.float32),
        "norm2": np.ones(width, np.float32),
    }


def _transformer_layer(x: Any, p: Any, heads: int) -> Any:
    def norm(x, scale):
        return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * scale

    batch, length, width = x.shape
    q, k, v = jnp.split(norm(x, p["norm1"]) @ p["qkv"], 3, -1)
    q, k, v = (t.reshape(batch, length, heads, -1) for t in (q, k, v))
    scores = jnp.einsum("bihd,bjhd->bhij", q, k) * (width // heads) ** -0.5
    causal = jnp.arange(length)[:, None] >= jnp.arange(length)
    weights = jax.nn.softmax(jnp.where(causal, scores, -jnp.inf))
    mixed = jnp.einsum("bhij,bjhd->bihd", weights, v).reshape(batch, length, width)
    x = x + mixed @ p["out"]
    return x + jax.nn.silu(norm(x, p["norm2"]) @ p["up"]) @ p["down"]


@case("transformer layer, forward")
def transformer_layer() -> Program:
    return (lambda x, p: _transformer_layer(x, p, 6)), [
        normal(4, 192, 384),
        _attention_weights(384),
    ]


@case("transformer layer, loss and gradients")
def transformer_layer_gradient() -> Program:
    def loss(p, x):
        return (_transformer_layer(x, p, 6) ** 2).mean()

    return jax.value_and_grad(loss), [_attention_weights(384), normal(4, 192, 384)]


@case("one step of decoding with a key-value cache")
def decode_step() -> Program:
    def f(x, keys, values, position, p):
        q, k, v = jnp.split(x @ p["qkv"], 3)
        keys = lax.dynamic_update_slice(keys, k[None], (position, 0))
        values = lax.dynamic_update_slice(values, v[None], (position, 0))
        seen = jnp.arange(keys.shape[0]) <= position
        scores = jnp.where(seen, keys @ q * 512**-0.5, -jnp.inf)
        return (jax.nn.softmax(scores) @ values) @ p["out"], keys, values

    caches = [normal(1024, 512), normal(1024, 512, seed=1)]
    return f, [normal(512), *caches, np.int32(700), _attention_weights(512)]


def _attention(batch: int, heads: int, length: int, width: int, dtype: Any = np.float32) -> Program:
    def f(q, k, v):
        scores = jnp.einsum("bhid,bhjd->bhij", q, k) * width**-0.5
        return jnp.einsum("bhij,bhjd->bhid", jax.nn.softmax(scores), v)

    return f, [normal(batch, heads, length, width, seed=s, dtype=dtype) for s in range(3)]


@case("attention: many short sequences")
def attention_64() -> Program:
    return _attention(16, 8, 64, 32)


@case("attention: scores that fit the caches")
def attention_256() -> Program:
    return _attention(2, 8, 256, 64)


@case("attention: scores larger than the caches")
def attention_1024() -> Program:
    return _attention(1, 8, 1024, 64)


@case("attention in bf16")
def attention_bf16_512() -> Program:
    return _attention(1, 8, 512, 64, jnp.bfloat16)


@case("attention, loss and gradients")
def attention_gradient() -> Program:
    f, args = _attention(2, 4, 256, 64)
    return jax.value_and_grad(lambda *a: (f(*a) ** 2).mean(), argnums=(0, 1, 2)), args


@case("a dense layer of bytes: quantized, multiplied, scaled and quantized again")
def dense_s8() -> Program:
    def f(x, w, scale):
        q = jnp.clip(jnp.round(x * 32), -127, 127).astype(jnp.int8)
        y = lax.dot(q, w, preferred_element_type=jnp.int32).astype(jnp.float32) * scale
        return jnp.clip(jnp.round(jax.nn.relu(y)), -127, 127).astype(jnp.int8)

    weights = integers(127, 1024, 1024, dtype=np.int8, low=-127)
    return f, [normal(128, 1024), weights, np.abs(normal(1024, scale=1e-4))]


@case("rows of an embedding summed, loss and gradient")
def embedding_gradient() -> Program:
    def loss(table, ids):
        return (table[ids].sum(1) ** 2).mean()

    return jax.value_and_grad(loss), [normal(20_000, 64), integers(20_000, 512, 16)]


@case("LSTM cell over time")
def lstm() -> Program:
    def f(state, xs, w, u):
        def step(state, x):
            h, c = state
            i, f, g, o = jnp.split(x @ u + h @ w, 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        return lax.scan(step, state, xs)

    state = (np.zeros((16, 128), np.float32), np.zeros((16, 128), np.float32))
    weights = [normal(128, 512, scale=0.1), normal(64, 512, scale=0.1)]
    return f, [state, normal(100, 16, 64), *weights]
