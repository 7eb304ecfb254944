"""The programs; see the package."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Program = Callable[[], tuple[Callable[[Any], Any], Any]]
PROGRAMS: dict[str, Program] = {}
_RNG = np.random.default_rng(0)


def _program(function: Program) -> Program:
    PROGRAMS[function.__name__] = function
    return function


def _normal(*shape: int, scale: float = 1.0) -> np.ndarray:
    return np.asarray(_RNG.normal(size=shape) * scale, np.float32)


def _descend(loss: Callable[[Any], Any], rate: float = 1e-2) -> Callable[[Any], Any]:
    """Return a step of gradient descent with momentum on (parameters, momenta)."""

    @jax.jit
    def step(state: Any) -> Any:
        params, momenta = state
        grads = jax.grad(loss)(params)
        momenta = jax.tree.map(lambda m, g: 0.9 * m + g, momenta, grads)
        return jax.tree.map(lambda p, m: p - rate * m, params, momenta), momenta

    return step


def _with_momenta(params: Any) -> Any:
    return params, jax.tree.map(np.zeros_like, params)


@_program
def mlp_training() -> tuple[Callable[[Any], Any], Any]:
    """A perceptron 784-512-512-10, batches of 128, softmax cross entropy."""
    sizes = [784, 512, 512, 10]
    params = [
        (_normal(m, n, scale=m**-0.5), np.zeros(n, np.float32))
        for m, n in itertools.pairwise(sizes)
    ]
    x, labels = _normal(128, 784), _RNG.integers(0, 10, 128)

    def loss(params: Any) -> Any:
        h = jnp.asarray(x)
        for w, b in params[:-1]:
            h = jax.nn.relu(h @ w + b)
        w, b = params[-1]
        logits = jax.nn.log_softmax(h @ w + b)
        return -jnp.mean(logits[jnp.arange(128), labels])

    return _descend(loss), _with_momenta(params)


@_program
def transformer_training() -> tuple[Callable[[Any], Any], Any]:
    """Two layers of a decoder, 128 wide, 4 heads, 8 sequences of 64 tokens."""
    width, heads, layers, vocabulary = 128, 4, 2, 512
    params: dict[str, Any] = {
        "embedding": _normal(vocabulary, width, scale=0.02),
        "layers": [
            {
                "qkv": _normal(width, 3 * width, scale=width**-0.5),
                "out": _normal(width, width, scale=width**-0.5),
                "up": _normal(width, 4 * width, scale=width**-0.5),
                "down": _normal(4 * width, width, scale=(4 * width) ** -0.5),
                "scale1": np.ones(width, np.float32),
                "scale2": np.ones(width, np.float32),
            }
            for _ in range(layers)
        ],
    }
    tokens = _RNG.integers(0, vocabulary, (8, 65))

    def normalized(x: Any, scale: Any) -> Any:
        mean = x.mean(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * scale

    def loss(params: Any) -> Any:
        x = params["embedding"][tokens[:, :-1]]
        length = x.shape[1]
        mask = jnp.tril(jnp.ones((length, length), bool))
        for layer in params["layers"]:
            q, k, v = jnp.split(normalized(x, layer["scale1"]) @ layer["qkv"], 3, -1)
            q, k, v = (a.reshape(8, length, heads, -1) for a in (q, k, v))
            scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / (width // heads) ** 0.5
            weights = jax.nn.softmax(jnp.where(mask, scores, -1e9))
            mixed = jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(8, length, width)
            x = x + mixed @ layer["out"]
            x = x + jax.nn.gelu(normalized(x, layer["scale2"]) @ layer["up"]) @ layer["down"]
        logits = jax.nn.log_softmax(x @ params["embedding"].T)
        picked = jnp.take_along_axis(logits, tokens[:, 1:, None], axis=-1)
        return -picked.mean()

    return _descend(loss), _with_momenta(params)


@_program
def rnn_training() -> tuple[Callable[[Any], Any], Any]:
    """A gated recurrent unit over 100 steps by `scan`, 64 wide, batches of 32."""
    width = 64
    params = [_normal(2 * width, width, scale=0.1) for _ in range(3)]
    xs, target = _normal(100, 32, width), _normal(32, width)

    def loss(params: Any) -> Any:
        update, reset, new = params

        def unit(h: Any, x: Any) -> Any:
            both = jnp.concatenate([x, h], -1)
            z, r = jax.nn.sigmoid(both @ update), jax.nn.sigmoid(both @ reset)
            candidate = jnp.tanh(jnp.concatenate([x, r * h], -1) @ new)
            return (1 - z) * h + z * candidate, None

        h, _ = jax.lax.scan(unit, jnp.zeros((32, width)), xs)
        return jnp.mean((h - target) ** 2)

    return _descend(loss), _with_momenta(params)


@_program
def convolution_training() -> tuple[Callable[[Any], Any], Any]:
    """A convolution net on 32 images of 32x32x3: three layers, pooling, a classifier."""
    channels = [3, 16, 32, 64]
    params = {
        "conv": [
            _normal(3, 3, m, n, scale=(9 * m) ** -0.5) for m, n in itertools.pairwise(channels)
        ],
        "dense": _normal(64, 10, scale=0.1),
    }
    x, labels = _normal(32, 32, 32, 3), _RNG.integers(0, 10, 32)

    def loss(params: Any) -> Any:
        h = jnp.asarray(x)
        for kernel in params["conv"]:
            h = jax.lax.conv_general_dilated(
                h, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
            )
            h = jax.lax.reduce_window(
                jax.nn.relu(h), -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"
            )
        logits = jax.nn.log_softmax(h.mean((1, 2)) @ params["dense"])
        return -jnp.mean(logits[jnp.arange(32), labels])

    return _descend(loss), _with_momenta(params)


@_program
def ode_loop() -> tuple[Callable[[Any], Any], Any]:
    """Lotka-Volterra with 256 initial values by Runge-Kutta of adaptive steps, `while_loop`."""

    def slope(y: Any) -> Any:
        prey, hunters = y
        return jnp.stack([1.1 * prey - 0.4 * prey * hunters, 0.1 * prey * hunters - 0.4 * hunters])

    @jax.jit
    def step(state: Any) -> Any:
        def unfinished(carry: Any) -> Any:
            return carry[1] < 10.0

        def advance(carry: Any) -> Any:
            y, t, h = carry
            k1 = slope(y)
            k2 = slope(y + h / 2 * k1)
            k3 = slope(y + 3 * h / 4 * k2)
            third = y + h * (2 * k1 + 3 * k2 + 4 * k3) / 9
            k4 = slope(third)
            second = y + h * (7 * k1 / 24 + k2 / 4 + k3 / 3 + k4 / 8)
            error = jnp.max(jnp.abs(third - second)) + 1e-12
            is_good = error < 1e-4
            factor = jnp.clip(0.9 * (1e-4 / error) ** (1 / 3), 0.2, 3.0)
            return jnp.where(is_good, third, y), jnp.where(is_good, t + h, t), h * factor

        y, _, _ = jax.lax.while_loop(unfinished, advance, (state, 0.0, 0.01))
        return y

    return step, np.asarray(_RNG.uniform(1, 10, (2, 256)), np.float32)


@_program
def cellular_automaton() -> tuple[Callable[[Any], Any], Any]:
    """100 generations of life on a torus of 256x256."""

    @jax.jit
    def step(cells: Any) -> Any:
        def generation(_: Any, cells: Any) -> Any:
            shifts = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]
            neighbours = functools.reduce(
                jnp.add, (jnp.roll(cells, shift, (0, 1)) for shift in shifts)
            )
            return ((neighbours == 3) | ((cells == 1) & (neighbours == 2))).astype(cells.dtype)

        return jax.lax.fori_loop(0, 100, generation, cells)

    return step, np.asarray(_RNG.integers(0, 2, (256, 256)), np.int32)


@_program
def sorting_and_segments() -> tuple[Callable[[Any], Any], Any]:
    """Sort 100,000 keys with values, sum values by segment, and rank the segments."""
    segments = 1000

    @jax.jit
    def step(state: Any) -> Any:
        keys, values = state
        keys, values = jax.lax.sort((keys, values), num_keys=1)
        sums = jax.ops.segment_sum(values, keys % segments, segments)
        ranks = jnp.argsort(jnp.argsort(sums))
        keys = (keys * 1103515245 + 12345) & 0x7FFFFFFF
        return keys, values + ranks[keys % segments].astype(values.dtype) * 1e-6

    keys = np.asarray(_RNG.integers(0, 1 << 31, 100_000), np.int32)
    return step, (keys, _normal(100_000))


@_program
def small_linear_algebra() -> tuple[Callable[[Any], Any], Any]:
    """512 Kalman filters of 6 states: products, Cholesky and solves of small matrices."""
    a, q, r = np.eye(6, dtype=np.float32), 0.01 * np.eye(6, dtype=np.float32), np.eye(3)
    a[:3, 3:] = 0.1 * np.eye(3)
    h = np.eye(3, 6, dtype=np.float32)
    z = _normal(512, 3)

    @jax.jit
    def step(state: Any) -> Any:
        def update(carry: Any, _: Any) -> Any:
            x, p = carry
            x, p = x @ a.T, a @ p @ a.T + q
            s = h @ p @ h.T + r.astype(np.float32)
            factor = jnp.linalg.cholesky(s)
            gain = jax.vmap(lambda c, b: jax.scipy.linalg.cho_solve((c, True), b))(factor, h @ p)
            x = x + jnp.einsum("bij,bi->bj", gain, z - x @ h.T)
            p = p - jnp.swapaxes(gain, 1, 2) @ (h @ p)
            return (x, p), None

        return jax.lax.scan(update, state, length=10)[0]

    return step, (_normal(512, 6), np.tile(np.eye(6, dtype=np.float32), (512, 1, 1)))
