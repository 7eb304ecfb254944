"""Whole arrays: elementwise, reductions, rearranged, random."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jax import lax

from cases.registry import Program, case, integers, normal


@case("a long chain of elementwise functions")
def chain_f32() -> Program:
    def f(x, y):
        for _ in range(3):
            x = jnp.exp(-x * x) * jnp.cos(y) + jnp.log1p(jnp.abs(y)) / (1 + jnp.tanh(x) ** 2)
        return x

    return f, [normal(1 << 20), normal(1 << 20, seed=1)]


@case("a chain of elementwise functions on bf16")
def chain_bf16() -> Program:
    def f(x, y):
        return jax.nn.silu(x * y + x) * jnp.maximum(y, 0) - x

    return f, [normal(1 << 22, dtype=jnp.bfloat16), normal(1 << 22, seed=1, dtype=jnp.bfloat16)]


@case("two arrays read, one written: memory bandwidth", numpy=lambda a, x, y: a * x + y)
def saxpy() -> Program:
    return (lambda a, x, y: a * x + y), [np.float32(1.5), normal(1 << 24), normal(1 << 24, seed=1)]


@case("bytes of an image to grey, thresholded")
def image_bytes() -> Program:
    def f(image):
        wide = image.astype(jnp.uint16)
        grey = (wide[..., 0] * 77 + wide[..., 1] * 150 + wide[..., 2] * 29) >> 8
        return jnp.where(grey > 127, 255, grey).astype(jnp.uint8)

    return f, [integers(256, 1080, 1920, 3, dtype=np.uint8)]


@case("transposing a matrix", numpy=lambda x: np.multiply(x.T, 2, order="C"))
def transpose() -> Program:
    return (lambda x: x.T * 2), [normal(3072, 3072)]


@case(
    "dimensions of an image batch in another order",
    numpy=lambda x: np.add(x.transpose(0, 3, 1, 2), 1, order="C"),
)
def transpose_4d() -> Program:
    return (lambda x: x.transpose(0, 3, 1, 2) + 1), [normal(16, 96, 96, 32)]


@case("sums of columns", numpy=lambda x: x.sum(0))
def sum_columns() -> Program:
    return (lambda x: x.sum(0)), [normal(4096, 4096)]


@case("sums of rows", numpy=lambda x: x.sum(1))
def sum_rows() -> Program:
    return (lambda x: x.sum(1)), [normal(4096, 4096)]


@case("the norm of a long vector", numpy=lambda x: np.sqrt(np.dot(x, x)))
def norm_of_vector() -> Program:
    return (lambda x: jnp.sqrt((x * x).sum())), [normal(1 << 23)]


@case("where the largest element of each row is", numpy=lambda x: x.argmax(-1))
def argmax_rows() -> Program:
    return (lambda x: x.argmax(-1)), [normal(2048, 4096)]


@case("running sums along rows", numpy=lambda x: np.cumsum(x, -1))
def running_sum() -> Program:
    return (lambda x: jnp.cumsum(x, -1)), [normal(128, 16_384)]


@case("a five-point stencil by shifted slices")
def stencil() -> Program:
    def f(x):
        padded = jnp.pad(x, 1)
        up, down = padded[:-2, 1:-1], padded[2:, 1:-1]
        left, right = padded[1:-1, :-2], padded[1:-1, 2:]
        return x + 0.1 * (up + down + left + right - 4 * x)

    return f, [normal(2048, 2048)]


@case("pieces put together and cut apart")
def concatenate_split() -> Program:
    def f(a, b, c):
        whole = jnp.concatenate([a, b * 2, c[::-1]], 1)
        return jnp.roll(whole, 100, 1)[:, 50:-50]

    return f, [normal(512, 1000), normal(512, 1500), normal(512, 800)]


@case("random bits to uniform numbers")
def random_uniform() -> Program:
    def f(key):
        return jax.random.uniform(jax.random.wrap_key_data(key), (1 << 20,))

    return f, [np.array([1, 2], np.uint32)]


@case("random normal numbers")
def random_normal() -> Program:
    def f(key):
        return jax.random.normal(jax.random.wrap_key_data(key), (1 << 19,))

    return f, [np.array([3, 4], np.uint32)]


@case("the least there is: the cost of a call", numpy=np.add)
def tiny_add() -> Program:
    return jnp.add, [normal(8), normal(8, seed=1)]


@case("where the largest of all elements is", numpy=np.argmax)
def argmax_of_all() -> Program:
    return jnp.argmax, [normal(1 << 22)]


@case("where the least element of each column is", numpy=lambda x: x.argmin(0))
def argmin_columns() -> Program:
    return (lambda x: x.argmin(0)), [normal(4096, 1024)]


@case("running sums of one long array", numpy=np.cumsum)
def running_sum_of_all() -> Program:
    return jnp.cumsum, [integers(100, 1 << 22)]


@case("running maxima down the columns", numpy=lambda x: np.maximum.accumulate(x, 0))
def running_maximum() -> Program:
    return (lambda x: lax.cummax(x, 0)), [normal(2048, 1024)]


@case("logarithms of sums of exponentials", scipy=lambda x: scipy.special.logsumexp(x, -1))
def log_sum_exp() -> Program:
    return (lambda x: jax.nn.logsumexp(x, -1)), [normal(1024, 4096)]


@case("mean and variance of each channel", numpy=lambda x: (x.mean((0, 1, 2)), x.var((0, 1, 2))))
def moments_of_channels() -> Program:
    return (lambda x: (x.mean((0, 1, 2)), x.var((0, 1, 2)))), [normal(16, 56, 56, 64)]


@case("a transposition that narrows the type")
def transpose_narrowed() -> Program:
    return (lambda x: x.transpose(2, 0, 1).astype(jnp.float16)), [normal(256, 256, 64)]


@case("exponentially distributed random numbers")
def random_exponential() -> Program:
    def f(key):
        return jax.random.exponential(jax.random.wrap_key_data(key), (1 << 19,))

    return f, [np.array([5, 6], np.uint32)]


@case("a random choice by probabilities for each row")
def random_categorical() -> Program:
    def f(key, logits):
        return jax.random.categorical(jax.random.wrap_key_data(key), logits)

    return f, [np.array([7, 8], np.uint32), normal(256, 4096)]
