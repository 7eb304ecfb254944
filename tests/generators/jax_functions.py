"""JAX programs: functions of jax.numpy, jax.scipy, jax.nn and jax.lax, in control flow and calls.

Each program is an expression of `EXPRESSIONS` in a form of `FORMS`: `traced` lowers it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy import linalg, ndimage, signal, special, stats

import hlo
from hlo.ir import Module

# One a line: functions of x and y, f32[4,4], and of p, which is x between 0 and 1.
_FILE = Path(__file__).with_suffix(".txt")
EXPRESSIONS = tuple(_FILE.read_text().splitlines())
_NAMES = {
    "jax": jax, "jnp": jnp, "lax": lax, "linalg": linalg, "ndimage": ndimage, "signal": signal,
    "special": special, "stats": stats,
}  # fmt: skip

Array = Any
Function = Callable[[Array, Array], Array]


def function(expression: str) -> Function:
    """Return the function of x and y; its results become one array of their shape and type."""
    code = compile(expression, expression, "eval")

    def call(x: Array, y: Array) -> Array:
        p = jax.nn.sigmoid(x) * 0.9 + 0.05
        result = eval(code, {**_NAMES, "x": x, "y": y, "p": p})
        total = jnp.zeros_like(x)
        for leaf in jax.tree.leaves(result):
            parts = [leaf.real, leaf.imag] if jnp.iscomplexobj(leaf) else [leaf]
            for part in parts:
                flat = jnp.resize(jnp.ravel(part).astype(x.dtype), x.shape)
                total += jnp.tanh(jnp.nan_to_num(flat))
        return total

    return call


def _alone(f: Function, x: Array, y: Array) -> Array:
    return f(x, y)


def _twice(f: Function, x: Array, y: Array) -> Array:
    g = jax.jit(f)
    return g(x, y) - 2 * g(y, x)


def _dropped(f: Function, x: Array, y: Array) -> Array:
    g = jax.jit(f)
    first, second = g(y, x), g(x, y)
    return jnp.where(jnp.bool_(True), first, second)


def _thrice(f: Function, x: Array, y: Array) -> Array:
    g = jax.jit(f)
    return g(x, y) + g(g(x, y), y) * g(x + 0.0, y)


def _constants(f: Function, x: Array, y: Array) -> Array:
    g = jax.jit(f)
    a, b = (np.linspace(k, 1 - k, 16, dtype=np.float32).reshape(4, 4) for k in (0.4, -1.9))
    return jnp.where(jnp.bool_(True), g(a, x), g(b, x)) + y


def _scan(f: Function, x: Array, y: Array) -> Array:
    def step(a: Array, b: Array) -> tuple[Array, Array]:
        return 0.5 * f(a, b) + b, a.sum()

    last, sums = lax.scan(step, x, jnp.stack([y, x, -y]))
    return last + sums[0]


def _scan_calls(f: Function, x: Array, y: Array) -> Array:
    g = jax.jit(f)
    layers = jnp.stack([y, -x])
    return lax.scan(lambda a, b: (g(a, b) + 0.5 * g(b, a) - g(g(a, b), a), None), x, layers)[0]


def _fori(f: Function, x: Array, y: Array) -> Array:
    return lax.fori_loop(0, 3, lambda i, a: f(a, y) + i, x)


def _while(f: Function, x: Array, y: Array) -> Array:
    def more(state: Any) -> Array:
        return (state[0] < 4) & (jnp.abs(state[1]).sum() < 1e6)

    return lax.while_loop(more, lambda s: (s[0] + 1, 0.5 * f(s[1], y) + s[1]), (0, x))[1]


def _cond(f: Function, x: Array, y: Array) -> Array:
    return lax.cond(x[0, 0] > y[0, 0], f, lambda a, b: f(b, a) + 1, x, y)


def _switch(f: Function, x: Array, y: Array) -> Array:
    branches = [f, lambda a, b: f(f(a, b), b), lambda a, b: a - f(b, a)]
    return lax.switch(jnp.int32(jnp.abs(x[0, 0]) * 2) % 3, branches, x, y)


def _vmap(f: Function, x: Array, y: Array) -> Array:
    return jax.vmap(f)(jnp.stack([x, y, x + y]), jnp.stack([y, x, x])).sum(0)


def _grad(f: Function, x: Array, y: Array) -> Array:
    return jax.grad(lambda a: (f(a, y) * y).sum())(x)


def _grad_twice(f: Function, x: Array, y: Array) -> Array:
    g = jax.jit(jax.grad(lambda a, b: (jnp.sin(f(a, b)) * b).sum(), argnums=(0, 1)))
    (a, b), (c, d) = g(x, y), g(y, x)
    return a + b * c - d


def _nested(f: Function, x: Array, y: Array) -> Array:
    g = jax.jit(lambda a, b: jax.jit(f)(a, b) - jax.jit(f)(b, a))
    h = jax.jit(lambda a, b: lax.fori_loop(0, 2, lambda i, c: g(c, b) + i, a))
    return lax.cond(x[0, 0] > 0, lambda: h(x, y) + h(y, x), lambda: g(h(x, y), y))


FORMS: dict[str, Callable[[Function, Array, Array], Array]] = {
    "alone": _alone, "twice": _twice, "dropped": _dropped, "thrice": _thrice,
    "constants": _constants, "scan": _scan, "scan of calls": _scan_calls, "fori": _fori,
    "while": _while, "cond": _cond, "switch": _switch, "vmap": _vmap, "grad": _grad,
    "grad twice": _grad_twice, "nested": _nested,
}  # fmt: skip


def programs(seed: int, form: str | None = None) -> list[tuple[str, str]]:
    """Return all expressions in all forms, or in one, in an order by the seed."""
    pairs = list(product(EXPRESSIONS, [form] if form else FORMS))
    return [pairs[n] for n in np.random.default_rng(seed).permutation(len(pairs))]


def arguments(seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((4, 4), np.float32) for _ in range(2)]


def traced(expression: str, form: str, values: list[np.ndarray]) -> Module | None:
    """Return a program as JAX lowers it; None for what JAX cannot trace or differentiate."""
    f = function(expression)
    try:
        return hlo.from_jax(lambda x, y: FORMS[form](f, x, y), *values)
    except (TypeError, ValueError, NotImplementedError, IndexError):
        return None
