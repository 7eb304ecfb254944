"""Train a small network on two spirals, with JAX's programs compiled by this package.

    python examples/train_spirals.py [STEPS]

The program is one of JAX alone, but for `hlo.jax.backend()`. Without that line,
`JAX_PLATFORMS=hlo python examples/train_spirals.py` does the same.
"""

from __future__ import annotations

import sys

import jax
import jax.numpy as jnp
import numpy as np

import hlo.jax

POINTS, WIDTH, RATE = 512, 64, 0.003


def spirals():
    """Return points of two spirals, and which of them each belongs to."""
    turn = np.sqrt(np.linspace(0.05, 1, POINTS)) * 3 * np.pi
    kind = np.arange(POINTS) % 2
    angle = turn + np.pi * kind
    points = np.stack([np.cos(angle), np.sin(angle)], 1) * turn[:, None] / (3 * np.pi)
    return points.astype(np.float32), kind


def initial(key):
    """Return the weights of three layers."""
    sizes = [2, WIDTH, WIDTH, 2]
    keys = jax.random.split(key, len(sizes) - 1)
    return [
        (jax.random.normal(k, (m, n)) * jnp.sqrt(2 / m), jnp.zeros(n))
        for k, m, n in zip(keys, sizes, sizes[1:], strict=False)
    ]


def logits(weights, x):
    *hidden, last = weights
    for w, b in hidden:
        x = jax.nn.gelu(x @ w + b)
    return x @ last[0] + last[1]


def loss(weights, x, kind):
    scores = jax.nn.log_softmax(logits(weights, x))
    return -jnp.mean(scores[jnp.arange(len(kind)), kind])


@jax.jit
def train(weights, x, kind, steps):
    """Return the weights after steps of Adam, and the last loss."""

    def step(n, state):
        weights, mean, square, _ = state
        value, grads = jax.value_and_grad(loss)(weights, x, kind)
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, grads)
        square = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, square, grads)
        rate = RATE * jnp.sqrt(1 - 0.999 ** (n + 1.0)) / (1 - 0.9 ** (n + 1.0))
        weights = jax.tree.map(
            lambda w, m, s: w - rate * m / (jnp.sqrt(s) + 1e-8), weights, mean, square
        )
        return weights, mean, square, value

    zeros = jax.tree.map(jnp.zeros_like, weights)
    weights, _, _, value = jax.lax.fori_loop(0, steps, step, (weights, zeros, zeros, 0.0))
    return weights, value


def main(steps: int) -> None:
    x, kind = spirals()
    with hlo.jax.backend() as device:
        print(f"training on {device.platform}")
        weights = initial(jax.random.key(0))
        for done in range(0, steps, 20):
            weights, value = train(weights, x, kind, 20)
            right = jnp.mean(jnp.argmax(logits(weights, x), axis=1) == kind)
            print(f"step {done + 20}: loss {value:.1f}, {right:.0%} of the points are right")


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 100)
