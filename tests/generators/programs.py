"""Random JAX programs at the sizes of real ones, a kind for each family of kernels.

What generators of modules make is small, so that the interpreter can judge it; kernels have code
that only runs where rows are long, panels are full and threads share the work.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

FLOATS = (jnp.float32, jnp.float32, jnp.float32, jnp.bfloat16, jnp.float16, jnp.float64)
INTEGERS = (jnp.int8, jnp.uint8, jnp.int16, jnp.uint16, jnp.int32, jnp.uint32, jnp.int64)


@dataclass(frozen=True)
class Program:
    """A function, its arguments, and what was chosen at random."""

    function: Callable[..., Any]
    args: Sequence[np.ndarray]
    about: tuple[Any, ...]


KINDS: dict[str, Callable[[random.Random], Program]] = {}


def kind(make: Callable[[random.Random], Program]) -> Callable[[random.Random], Program]:
    KINDS[make.__name__] = make
    return make


def size(r: random.Random, most: int) -> int:
    """Return a size: round, nearly round or any; small ones more often."""
    near = 2 ** r.randint(0, most.bit_length() - 1)
    return max(1, min(most, r.choice([near, near - 1, near + 1, r.randint(1, most)])))


def normal(r: random.Random, *dims: int, dtype: Any = np.float32) -> np.ndarray:
    values = np.random.default_rng(r.randrange(1 << 30)).standard_normal(dims, np.float32)
    return values.astype(dtype)


def integers(r: random.Random, low: int, high: int, *dims: int, dtype: Any = np.int32) -> Any:
    return np.random.default_rng(r.randrange(1 << 30)).integers(low, high, dims).astype(dtype)


def gradient(f: Callable[..., Any], arguments: tuple[int, ...]) -> Callable[..., Any]:
    """Return the gradient of the squares of all results."""

    def loss(*args: Any) -> Any:
        found = jax.tree.leaves(f(*args))
        return sum((x.astype(jnp.promote_types(x.dtype, jnp.float32)) ** 2).sum() for x in found)

    return jax.grad(loss, arguments)


# --- products -----------------------------------------------------------------------------------


@kind
def product(r: random.Random) -> Program:
    dtype = r.choice(FLOATS)
    batch = [size(r, 6) for _ in range(r.choice([0, 0, 0, 1, 2]))]
    m, k, n = (size(r, 700 if not batch else 150) for _ in range(3))
    if r.random() < 0.2:
        m, k, n = r.sample([size(r, 6000), size(r, 70), size(r, 70)], 3)
    left, right = r.choice(["mk", "km"]), r.choice(["kn", "nk"])
    sizes = {"m": m, "k": k, "n": n} | {"xy"[i]: d for i, d in enumerate(batch)}
    prefix = "xy"[: len(batch)]
    spelled = f"{prefix}{left},{prefix}{right}->{r.choice([prefix + 'mn', prefix + 'nm'])}"
    after = r.choice(["", "bias", "relu", "residual"])

    def f(x: Any, y: Any, b: Any) -> Any:
        z = jnp.einsum(spelled, x, y)
        if after == "bias":
            return z + b[0, 0]
        return jax.nn.relu(z) if after == "relu" else z * 2 + x.sum() if after else z

    args = [
        normal(r, *(sizes[c] for c in s), dtype=dtype) for s in spelled.split("->")[0].split(",")
    ]
    return Program(f, [*args, normal(r, 1, 1, dtype=dtype)], (spelled, sizes, dtype, after))


@kind
def product_of_integers(r: random.Random) -> Program:
    types = r.choice([(np.int8, np.int8), (np.uint8, np.int8), (np.uint8, np.uint8),
                      (np.int16, np.int16), (np.int32, np.int32)])  # fmt: skip
    m, k, n = (size(r, 400) for _ in range(3))
    ends = [(np.iinfo(t).min, np.iinfo(t).max + 1) for t in types]
    contracted = r.choice([((1,), (0,)), ((1,), (1,)), ((0,), (0,))])

    def f(x: Any, y: Any) -> Any:
        numbers = (contracted, ((), ()))
        x, y = x.astype(np.int32), y.astype(np.int32)
        return lax.dot_general(x, y, numbers, preferred_element_type=jnp.int32)

    def g(x: Any, y: Any) -> Any:
        numbers = (contracted, ((), ()))
        return lax.dot_general(x, y, numbers, preferred_element_type=jnp.int32)

    dims = [
        (m, k) if contracted[0] == (1,) else (k, m),
        (k, n) if contracted[1] == (0,) else (n, k),
    ]
    args = [integers(r, *e, *d, dtype=t) for e, d, t in zip(ends, dims, types, strict=True)]
    is_mixed = types[0] is not types[1] or r.random() < 0.3
    return Program(f if is_mixed else g, args, (types, dims, contracted))


@kind
def attention(r: random.Random) -> Program:
    b, h = r.choice([1, 2, 3]), r.choice([1, 2, 3, 5, 8])
    s = r.choice([1, 2, 7, 16, 33, 64, 100, 128, 197, 256, 300, 512])
    t = r.choice([s, s, r.choice([1, 5, 17, 64, 90, 128, 333, 600])])
    d = r.choice([1, 3, 8, 16, 24, 32, 64, 80, 128])
    dv, dtype = r.choice([d, d, 5, 40]), r.choice(FLOATS)
    heads = h if r.random() < 0.7 else (1 if h % 2 else h // 2)
    layout = r.choice([(0, 1, 2, 3), (0, 2, 1, 3), (2, 0, 1, 3)])
    mask = r.choice(["none", "causal", "padding", "bias", "infinite", "whole rows"])
    norm = r.choice(["softmax", "no maximum", "after", "sigmoid", "relu", "mean", "logarithm"])
    scale, shows, is_gradient = r.choice([1.0, 0.1]), r.random() < 0.15, r.random() < 0.25

    def f(q: Any, k: Any, v: Any, bias: Any) -> Any:
        q, k, v = (jnp.transpose(x, np.argsort(layout)) for x in (q, k, v))
        if heads != h:
            k, v = (jnp.repeat(x, h // heads, 1) for x in (k, v))
        x = jnp.einsum("bhsd,bhtd->bhst", q, k) * scale
        if mask == "causal":
            x = jnp.where(jnp.tril(jnp.ones((s, t), bool)), x, -1e4)
        elif mask == "padding":
            x = jnp.where(jnp.arange(t) < max(1, t - 3), x, -jnp.inf)
        elif mask == "bias":
            x = x + bias
        elif mask == "infinite":
            x = jnp.where(jnp.tril(jnp.ones((s, t), bool)), x, -jnp.inf)
        elif mask == "whole rows":
            x = jnp.where(jnp.arange(s)[:, None] % 5 != 3, x, -jnp.inf)
        if norm == "after":
            e = jnp.exp(x - lax.stop_gradient(x.max(-1, keepdims=True)))
            return jnp.einsum("bhst,bhtd->bhsd", e, v) / e.sum(-1, keepdims=True)
        e = jnp.exp(x * 0.1)
        p = {
            "softmax": lambda: jax.nn.softmax(x, -1),
            "no maximum": lambda: e / e.sum(-1, keepdims=True),
            "sigmoid": lambda: jax.nn.sigmoid(x),
            "relu": lambda: jax.nn.relu(x),
            "mean": lambda: x - x.mean(-1, keepdims=True),
            "logarithm": lambda: jax.nn.log_softmax(x, -1),
        }[norm]()
        o = jnp.transpose(jnp.einsum("bhst,bhtd->bhsd", p, v), layout)
        return (o, p.sum((0, 1))) if shows else o

    dims = [(b, h, s, d), (b, heads, t, d), (b, heads, t, dv)]
    args = [np.ascontiguousarray(normal(r, *x, dtype=dtype).transpose(layout)) for x in dims]
    about = (dims, dtype, layout, mask, norm, scale, shows, is_gradient)
    function = gradient(f, (0, 1, 2)) if is_gradient else f
    return Program(function, [*args, normal(r, s, t, dtype=dtype)], about)


@kind
def convolution(r: random.Random) -> Program:
    rank, dtype = r.choice([1, 2, 2, 2, 3]), r.choice(FLOATS)
    spatial = [size(r, {1: 900, 2: 60, 3: 14}[rank]) for _ in range(rank)]
    window = [r.choice([1, 2, 3, 3, 5, 7]) for _ in range(rank)]
    groups = r.choice([1, 1, 1, 2, 4])
    inputs, outputs = (groups * size(r, 64 // groups) for _ in range(2))
    if r.random() < 0.15:
        groups = inputs = size(r, 96)
        outputs = inputs * r.choice([1, 1, 2])
    strides = [r.choice([1, 1, 2, 3]) for _ in range(rank)]
    dilation = [r.choice([1, 1, 1, 2]) for _ in range(rank)]
    padding = r.choice(["SAME", "VALID", [(r.randint(0, 3), r.randint(0, 3))] * rank])
    letters = "DHW"[3 - rank :]
    order = r.choice([f"N{letters}C", f"NC{letters}"])
    numbers = (order, r.choice([f"{letters}IO", f"OI{letters}"]), order)

    def f(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(
            x, w, strides, padding, rhs_dilation=dilation, dimension_numbers=numbers,
            feature_group_count=groups,
        )  # fmt: skip

    sizes = {"N": size(r, 4), "C": inputs, "I": inputs // groups, "O": outputs}
    x = normal(r, *(sizes.get(c) or spatial[letters.index(c)] for c in order), dtype=dtype)
    w = normal(r, *(sizes.get(c) or window[letters.index(c)] for c in numbers[1]), dtype=dtype)
    is_gradient = r.random() < 0.4
    about = (x.shape, w.shape, numbers, strides, dilation, padding, groups, dtype, is_gradient)
    return Program(gradient(f, (0, 1)) if is_gradient else f, [x, w], about)


# --- orders and reductions ----------------------------------------------------------------------


@kind
def sort(r: random.Random) -> Program:
    dtype = r.choice([*FLOATS, *INTEGERS])
    long = r.random() < 0.5
    dims = (size(r, 300_000),) if long else (size(r, 60), size(r, 5000))
    axis, what = r.randrange(len(dims)), r.choice(["keys", "order", "pairs", "down", "top"])
    few = r.random() < 0.3
    if np.dtype(dtype).kind in "iu":
        ends = (0, 7) if few else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        x = integers(r, *ends, *dims, dtype=dtype)
    else:
        x = normal(r, *dims, dtype=dtype)
        x = np.round(x) if few else x
        if r.random() < 0.3:
            x.reshape(-1)[:: max(1, x.size // 7)] = np.nan
            x.reshape(-1)[1 :: max(1, x.size // 5)] = -0.0
    stable = r.random() < 0.7

    def f(x: Any, y: Any) -> Any:
        if what == "order":
            return jnp.argsort(x, axis, stable=True)
        if what == "pairs":
            return lax.sort((x, y), dimension=axis, num_keys=1, is_stable=True)
        if what == "down":
            return -jnp.sort(-x, axis) if np.dtype(dtype).kind != "u" else jnp.sort(x, axis)[::-1]
        if what == "top":
            return lax.top_k(x, min(10, x.shape[-1]))
        return lax.sort(x, dimension=axis, is_stable=stable)

    y = np.arange(x.size, dtype=np.int32).reshape(dims)
    return Program(f, [x, y], (dims, dtype, axis, what, few, stable))


@kind
def reduction(r: random.Random) -> Program:
    dtype, rank = r.choice([*FLOATS, *INTEGERS]), r.choice([1, 2, 2, 3])
    dims = [size(r, {1: 2_000_000, 2: 1500, 3: 120}[rank]) for _ in range(rank)]
    axes = tuple(sorted(r.sample(range(rank), r.randint(1, rank))))
    what = r.choice(["sum", "max", "min", "argmax", "argmin", "var", "lse", "cumsum", "cummax",
                     "any", "norm", "softmax"])  # fmt: skip
    is_float = np.dtype(dtype).kind not in "iu"
    if what in ("var", "lse", "norm", "softmax") and not is_float:
        what = "sum"
    x = normal(r, *dims, dtype=dtype) if is_float else integers(r, 0, 100, *dims, dtype=dtype)

    def f(x: Any) -> Any:
        return {
            "sum": lambda: x.sum(axes), "max": lambda: x.max(axes), "min": lambda: x.min(axes),
            "argmax": lambda: jnp.argmax(x, axes[0]), "argmin": lambda: jnp.argmin(x, axes[0]),
            "var": lambda: (x.mean(axes), x.var(axes)), "any": lambda: (x > 1).any(axes),
            "lse": lambda: jax.nn.logsumexp(x, axes), "cumsum": lambda: jnp.cumsum(x, axes[0]),
            "cummax": lambda: lax.cummax(x, axes[0]), "norm": lambda: jnp.sqrt((x * x).sum(axes)),
            "softmax": lambda: jax.nn.softmax(x, axes),
        }[what]()  # fmt: skip

    return Program(f, [x], (dims, dtype, axes, what))


# --- movement -----------------------------------------------------------------------------------


@kind
def movement(r: random.Random) -> Program:
    dtype, rank = r.choice([*FLOATS, *INTEGERS]), r.choice([2, 3, 4])
    dims = [size(r, {2: 900, 3: 90, 4: 30}[rank]) for _ in range(rank)]
    x = (
        normal(r, *dims).astype(dtype)
        if r.random() < 0.5
        else integers(r, 0, 9, *dims, dtype=dtype)
    )
    order = r.sample(range(rank), rank)
    steps = [r.choice(["transpose", "pad", "roll", "flip", "cat", "slice", "convert", "add"])
             for _ in range(r.randint(1, 5))]  # fmt: skip
    amounts = [r.randint(0, 4) for _ in steps]
    axes = [r.randrange(rank) for _ in steps]

    def f(x: Any) -> Any:
        for what, n, axis in zip(steps, amounts, axes, strict=True):
            if what == "transpose":
                x = jnp.transpose(x, order)
            elif what == "pad":
                x = jnp.pad(x, [(n, 1) if d == axis else (0, 0) for d in range(rank)])
            elif what == "roll":
                x = jnp.roll(x, n, axis)
            elif what == "flip":
                x = jnp.flip(x, axis)
            elif what == "cat":
                x = jnp.concatenate([x, x * 2], axis)
            elif what == "slice" and x.shape[axis] > n + 1:
                x = lax.slice_in_dim(x, n, x.shape[axis], max(1, n), axis)
            elif what == "convert":
                x = x.astype(jnp.float32).astype(dtype)
            elif what == "add":
                x = x + jnp.flip(x, axis)
        return x

    return Program(f, [x], (dims, dtype, order, steps, amounts, axes))


@kind
def indexing(r: random.Random) -> Program:
    dtype = r.choice(FLOATS)
    rows, width, count = size(r, 5000), size(r, 200), size(r, 4000)
    what = r.choice(["rows", "columns", "elements", "add", "max", "set", "segments", "gradient"])
    table = normal(r, rows, width, dtype=dtype)
    low = -3 if r.random() < 0.3 else 0
    indices = integers(r, low, rows + (3 if low else 0), count)
    columns = integers(r, 0, width, count)
    if what == "set":
        indices = np.unique(indices)
    updates = normal(r, len(indices), width, dtype=dtype)

    def f(table: Any, indices: Any, columns: Any, updates: Any) -> Any:
        return {
            "rows": lambda: table.at[indices].get(mode="clip"),
            "columns": lambda: table[:, columns],
            "elements": lambda: table.at[indices, columns[: len(indices)]].get(mode="clip"),
            "add": lambda: table.at[indices].add(updates, mode="drop"),
            "max": lambda: table.at[indices].max(updates, mode="drop"),
            "set": lambda: table.at[indices].set(updates, mode="drop", unique_indices=True),
            "segments": lambda: jax.ops.segment_sum(updates, indices % rows, rows),
            "gradient": lambda: gradient(lambda t: t[indices % rows] * updates, (0,))(table),
        }[what]()

    return Program(f, [table, indices, columns, updates], (rows, width, count, dtype, what, low))


# --- the rest -----------------------------------------------------------------------------------


@kind
def window(r: random.Random) -> Program:
    dtype = r.choice(FLOATS)
    dims = (size(r, 3), size(r, 70), size(r, 70), size(r, 40))
    sizes = (1, r.choice([1, 2, 3, 5]), r.choice([1, 2, 3, 5]), 1)
    strides = (1, r.choice([1, 2, 3]), r.choice([1, 2, 3]), 1)
    what, padding = r.choice(["max", "add"]), r.choice(["SAME", "VALID"])

    def f(x: Any) -> Any:
        low, combine = (-jnp.inf, lax.max) if what == "max" else (0.0, lax.add)
        return lax.reduce_window(x, np.array(low, dtype)[()], combine, sizes, strides, padding)

    x = normal(r, *dims, dtype=dtype)
    is_gradient = r.random() < 0.4 and dims[1] >= sizes[1] and dims[2] >= sizes[2]
    about = (dims, dtype, sizes, strides, what, padding, is_gradient)
    return Program(gradient(f, (0,)) if is_gradient else f, [x], about)


@kind
def transform(r: random.Random) -> Program:
    dtype = r.choice([np.complex64, np.complex128, np.float32, np.float64])
    n = r.choice([size(r, 5000), 2 ** r.randint(1, 13), 3 ** r.randint(1, 7), r.randint(1, 2000)])
    x = normal(r, size(r, max(1, 20_000 // n)), n).astype(dtype)
    if x.dtype.kind == "c":
        x = x + 1j * normal(r, *x.shape).astype(dtype)
        what = r.choice(["fft", "ifft"])
    else:
        what = "rfft"
    return Program(lambda x: getattr(jnp.fft, what)(x), [x.astype(dtype)], (x.shape, dtype, what))


@kind
def loop(r: random.Random) -> Program:
    dtype, steps = r.choice([jnp.float32, jnp.float64]), size(r, 40)
    what = r.choice(["stencil", "wave", "rnn", "update"])
    n, m = size(r, 200), size(r, 200)

    def f(x: Any, w: Any) -> Any:
        def step(i: Any, x: Any) -> Any:
            if what == "stencil":
                around = sum(jnp.roll(x, s, a) for s in (1, -1) for a in (0, 1))
                return 0.9 * x + 0.02 * around
            if what == "wave":
                inner = x[1:-1, 1:-1] if min(x.shape) > 2 else x
                pad = 1 if min(x.shape) > 2 else 0
                return x + 0.01 * jnp.pad(inner, pad) - 0.005 * x
            if what == "rnn":
                return jnp.tanh(x @ w * 0.1) + x * 0.5
            row = lax.dynamic_slice_in_dim(x, i % n, 1, 0)
            return lax.dynamic_update_slice_in_dim(x, row * 0.5 + i, (i * 7) % n, 0)

        return lax.fori_loop(0, steps, step, x)

    return Program(f, [normal(r, n, m, dtype=dtype), normal(r, m, m, dtype=dtype)],
                   (n, m, dtype, steps, what))  # fmt: skip
