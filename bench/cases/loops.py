"""Loops, and what unrolled ones leave."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from cases.registry import Program, case, integers, normal


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


@case("a stencil over time: a wave in two dimensions")
def loop_wave() -> Program:
    def f(now, before):
        def step(_, state):
            now, before = state
            around = sum(jnp.roll(now, s, d) for d in (0, 1) for s in (1, -1))
            return 2 * now - before + 0.2 * (around - 4 * now), now

        return lax.fori_loop(0, 50, step, (now, before))

    return f, [normal(512, 512), normal(512, 512, seed=1)]
