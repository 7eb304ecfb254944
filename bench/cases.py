"""The programs that are timed: each stands for one cost. Written in JAX, exported when needed.

python bench/cases.py FOLDER        writes FOLDER/NAME.hlo and FOLDER/NAME.npz
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Program = tuple[Callable[..., Any], Sequence[Any]]


@dataclass(frozen=True)
class Case:
    """A program and its arguments, made on demand. `about` says what its time depends on."""

    name: str
    about: str
    make: Callable[[], Program]


CASES: dict[str, Case] = {}


def case(about: str) -> Callable[[Callable[[], Program]], Callable[[], Program]]:
    def add(make: Callable[[], Program]) -> Callable[[], Program]:
        CASES[make.__name__] = Case(make.__name__, about, make)
        return make

    return add


def normal(*dims: int, scale: float = 1.0, seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    values = np.random.default_rng([seed, *dims]).standard_normal(dims, np.float32)
    return (values * np.float32(scale)).astype(dtype)


def integers(high: int, *dims: int, dtype: Any = np.int32, low: int = 0) -> np.ndarray:
    return np.random.default_rng([high, *dims]).integers(low, high, dims, dtype)


def export(name: str) -> tuple[str, list[np.ndarray]]:
    """Return a case as HLO text with the leaves of its arguments."""
    function, args = CASES[name].make()
    wide = any(np.asarray(a).dtype == np.float64 for a in jax.tree.leaves(args))
    with jax.enable_x64(wide):
        text = jax.jit(function, keep_unused=True).lower(*args).compiler_ir("hlo").as_hlo_text(True)
    return text, [np.asarray(a) for a in jax.tree.leaves(args)]


# --- products -----------------------------------------------------------------------------------


def _product(m: int, k: int, n: int, dtype: Any = np.float32) -> Program:
    return jnp.matmul, [normal(m, k, dtype=dtype), normal(k, n, seed=1, dtype=dtype)]


@case("square product that fits the second-level cache")
def matmul_f32_256() -> Program:
    return _product(256, 256, 256)


@case("square product, arithmetic bound")
def matmul_f32_1024() -> Program:
    return _product(1024, 1024, 1024)


@case("square product, larger than the caches")
def matmul_f32_2048() -> Program:
    return _product(2048, 2048, 2048)


@case("square product in double precision")
def matmul_f64_512() -> Program:
    return _product(512, 512, 512, np.float64)


@case("square product, bf16 in and out")
def matmul_bf16_1024() -> Program:
    return _product(1024, 1024, 1024, jnp.bfloat16)


@case("bytes times bytes into 32-bit integers")
def matmul_s8_1024() -> Program:
    def f(x, y):
        return lax.dot(x, y, preferred_element_type=jnp.int32)

    a, b = (integers(127, 1024, 1024, dtype=np.int8, low=-127 + i) for i in range(2))
    return f, [a, b]


@case("tall and thin: 8192x64 by 64x64")
def matmul_tall() -> Program:
    return _product(8192, 64, 64)


@case("long inner dimension: 64x16384 by 16384x64")
def matmul_deep() -> Program:
    return _product(64, 16384, 64)


@case("many small products")
def matmul_batched_small() -> Program:
    return jnp.matmul, [normal(512, 16, 16), normal(512, 16, 16, seed=1)]


@case("operands transposed in memory")
def matmul_transposed() -> Program:
    return (lambda x, y: jnp.einsum("ki,jk->ij", x, y)), [normal(768, 640), normal(512, 768)]


@case("matrix times vector: memory bandwidth")
def matvec_4096() -> Program:
    return jnp.matmul, [normal(4096, 4096), normal(4096)]


# --- layers -------------------------------------------------------------------------------------


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


@case("softmax of rows")
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


# --- convolutions -------------------------------------------------------------------------------


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


# --- loops --------------------------------------------------------------------------------------


@case("recurrent cell over time: small products in a loop")
def loop_gru() -> Program:
    def f(h, xs, w, u):
        def step(h, x):
            z, r, n = jnp.split(x @ u + h @ w, 3, -1)
            h = jax.nn.sigmoid(z) * h + (1 - jax.nn.sigmoid(z)) * jnp.tanh(n * jax.nn.sigmoid(r))
            return h, h

        return lax.scan(step, h, xs)

    w = [normal(48, 144, scale=0.1, seed=i) for i in range(2)]
    return f, [normal(8, 48), normal(400, 8, 48), *w]


@case("a loop over 50 scalars, and its gradient")
def loop_scalars_gradient() -> Program:
    count = 50

    def f(inputs, rates):
        def step(state, x):
            new = [
                0.5 * s + 0.3 * jnp.sin(r * state[i - 1] + x)
                for i, (s, r) in enumerate(zip(state, rates, strict=True))
            ]
            return tuple(new), new[0] * new[-1]

        state, outputs = lax.scan(step, tuple(jnp.float32(i) / count for i in range(count)), inputs)
        return sum(state) + outputs.sum()

    return jax.grad(f, (0, 1)), [normal(500), [np.float32(0.1 + 0.01 * i) for i in range(count)]]


@case("a loop of a million turns over scalars")
def loop_collatz() -> Program:
    def f(table):
        def step(state):
            n, i, total = state
            odd = (n & 1) == 1
            n = jnp.where(n <= 1, table[i & 1023], jnp.where(odd, 3 * n + 1, n >> 1))
            return n, i + 1, total + n

        return lax.while_loop(lambda s: s[1] < 1_000_000, step, (table[0], 0, 0))

    return f, [integers(10_000, 1024) + 1]


@case("rows written into a large array that a loop carries")
def loop_update_rows() -> Program:
    def f(x, row):
        def step(i, x):
            old = lax.dynamic_slice(x, (i * 11 % 9000, 0), (1, 128))
            return lax.dynamic_update_slice(x, old * 0.5 + row, (i * 7 % 9000, 0))

        return lax.fori_loop(0, 3000, step, x)

    return f, [normal(10_000, 128), normal(1, 128)]


@case("points that iterate until they escape: an elementwise loop")
def loop_escape() -> Program:
    def f(x, y):
        def step(_, state):
            a, b, n = state
            inside = a * a + b * b < 4
            a, b = a * a - b * b + x, 2 * a * b + y
            return jnp.where(inside, a, 2.0), jnp.where(inside, b, 2.0), n + inside

        return lax.fori_loop(0, 64, step, (x, y, jnp.zeros(x.shape, jnp.int32)))[2]

    x, y = np.meshgrid(np.linspace(-2, 1, 384), np.linspace(-1.2, 1.2, 256))
    return f, [x.astype(np.float32), y.astype(np.float32)]


@case("a graph of some 900 operations on vectors of 24")
def unrolled_small() -> Program:
    def rates(x, k):
        return -k * x + jnp.roll(x, 1) * jnp.tanh(jnp.roll(x, -3)) + 0.1 * jnp.sin(x)

    def f(x, k):
        h = 0.05
        for _ in range(15):
            a = rates(x, k)
            b = rates(x + h / 2 * a, k)
            c = rates(x + h / 2 * b, k)
            d = rates(x + h * c, k)
            x = x + h / 6 * (a + 2 * b + 2 * c + d)
        return x

    return f, [normal(24), np.abs(normal(24))]


# --- order and places ---------------------------------------------------------------------------


@case("sorting rows")
def sort_rows() -> Program:
    return jnp.sort, [normal(256, 4096)]


@case("the order of half a million keys")
def sort_order() -> Program:
    return jnp.argsort, [normal(1 << 19)]


@case("integers and a payload by two keys")
def sort_two_keys() -> Program:
    def f(a, b, c):
        return lax.sort((a, b, c), num_keys=2)

    return f, [integers(100, 1 << 17), normal(1 << 17), integers(1 << 20, 1 << 17)]


@case("the ten largest of each row")
def largest_of_rows() -> Program:
    return (lambda x: lax.top_k(x, 10)), [normal(16, 32_000)]


@case("rows of a table by index")
def gather_rows() -> Program:
    return (lambda t, i: t[i]), [normal(40_000, 128), integers(40_000, 16_384)]


@case("rows added into a table by index")
def scatter_add_rows() -> Program:
    def f(t, i, rows):
        return t.at[i].add(rows)

    return f, [normal(20_000, 64), integers(20_000, 16_384), normal(16_384, 64)]


@case("a histogram: single elements added by index")
def scatter_count() -> Program:
    return (lambda i: jnp.zeros(1000, jnp.int32).at[i].add(1)), [integers(1000, 1 << 19)]


# --- whole arrays -------------------------------------------------------------------------------


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


@case("two arrays read, one written: memory bandwidth")
def saxpy() -> Program:
    return (lambda a, x, y: a * x + y), [np.float32(1.5), normal(1 << 24), normal(1 << 24, seed=1)]


@case("bytes of an image to grey, thresholded")
def image_bytes() -> Program:
    def f(image):
        wide = image.astype(jnp.uint16)
        grey = (wide[..., 0] * 77 + wide[..., 1] * 150 + wide[..., 2] * 29) >> 8
        return jnp.where(grey > 127, 255, grey).astype(jnp.uint8)

    return f, [integers(256, 1080, 1920, 3, dtype=np.uint8)]


@case("transposing a matrix")
def transpose() -> Program:
    return (lambda x: x.T * 2), [normal(3072, 3072)]


@case("dimensions of an image batch in another order")
def transpose_4d() -> Program:
    return (lambda x: x.transpose(0, 3, 1, 2) + 1), [normal(16, 96, 96, 32)]


@case("sums of columns")
def sum_columns() -> Program:
    return (lambda x: x.sum(0)), [normal(4096, 4096)]


@case("sums of rows")
def sum_rows() -> Program:
    return (lambda x: x.sum(1)), [normal(4096, 4096)]


@case("the norm of a long vector")
def norm_of_vector() -> Program:
    return (lambda x: jnp.sqrt((x * x).sum())), [normal(1 << 23)]


@case("where the largest element of each row is")
def argmax_rows() -> Program:
    return (lambda x: x.argmax(-1)), [normal(2048, 4096)]


@case("running sums along rows")
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


# --- linear algebra -----------------------------------------------------------------------------


@case("Cholesky factor and two triangular solves")
def cholesky_solve() -> Program:
    def f(a, b):
        factor = lax.linalg.cholesky(a)
        y = lax.linalg.triangular_solve(factor, b, left_side=True, lower=True)
        return lax.linalg.triangular_solve(factor, y, left_side=True, lower=True, transpose_a=True)

    a = normal(320, 320)
    return f, [a @ a.T + 320 * np.eye(320, dtype=np.float32), normal(320, 32)]


@case("fast Fourier transform of rows and back")
def fft_rows() -> Program:
    return (lambda x: jnp.fft.irfft(jnp.fft.rfft(x) * 0.5)), [normal(256, 4096)]


# --- small --------------------------------------------------------------------------------------


@case("the least there is: the cost of a call")
def tiny_add() -> Program:
    return jnp.add, [normal(8), normal(8, seed=1)]


if __name__ == "__main__":
    from measure import save_inputs

    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in CASES:
        text, leaves = export(name)
        (folder / f"{name}.hlo").write_text(text)
        save_inputs(str(folder / f"{name}.npz"), leaves)
        print(f"{name:28}{len(text):9} bytes  {CASES[name].about}")
