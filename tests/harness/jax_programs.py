"""Functions of JAX, with an argument for each: what `compare_stablehlo.py` converts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

f = np.float32
lax = jax.lax
x = np.linspace(-1, 2, 20, dtype=f).reshape(4, 5)
i = np.array([0, 2], np.int32)
sq = (x[:4, :4] @ x[:4, :4].T + 4 * np.eye(4, dtype=f)).astype(f)
img = np.linspace(-1, 1, 2 * 6 * 6 * 3, dtype=f).reshape(2, 6, 6, 3)
ker = np.linspace(-1, 1, 3 * 3 * 3 * 4, dtype=f).reshape(3, 3, 3, 4)
NHWC = ("NHWC", "HWIO", "NHWC")


def named(name: str, **options: Any) -> Callable[..., Any]:
    """Return the function of jax.numpy called `name`."""
    return lambda *args: getattr(jnp, name)(*args, **options)


def on_two(name: str) -> Callable[..., Any]:
    """Return the function of jax.numpy called `name` on an array and on another one."""
    return lambda a: getattr(jnp, name)(a, a.astype(jnp.int32) if name == "ldexp" else a * 0.5 + 1)


ELEMENTWISE = (
    "abs negative exp log1p sin cos tan tanh floor ceil round sign sqrt square isfinite expm1 "
    "log2 cbrt sinh cosh arcsinh rint reciprocal exp2 sinc deg2rad isnan isinf signbit "
).split()
OF_TWO = (
    "add subtract multiply divide maximum minimum arctan2 power mod hypot logaddexp "
    "floor_divide fmod copysign heaviside greater equal ldexp "
).split()
OF_ROWS = (
    "sum prod max min mean std var argmax argmin cumsum cumprod sort argsort median any all ptp "
).split()


PROGRAMS: dict[str, tuple[Callable[..., Any], np.ndarray]] = {}
PROGRAMS |= {name: (named(name), x) for name in ELEMENTWISE}
PROGRAMS |= {name: (on_two(name), x) for name in OF_TWO}
PROGRAMS |= {name: (named(name, axis=1), x) for name in OF_ROWS}
PROGRAMS |= {
    "scan": (lambda x: lax.scan(lambda c, e: (c + e.sum(), c * 2), 0.0, x), x),
    "fori": (lambda x: lax.fori_loop(0, 3, lambda i, c: c * x + i, x), x),
    "while": (
        lambda x: lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * 1.1), (0, x)),
        x,
    ),
    "switch": (lambda x: lax.switch(1, [lambda x: x + 1, lambda x: x * 2], x), x),
    "switch2": (
        lambda x: lax.switch(
            jnp.int32(x.sum()), [lambda x: x + 1, lambda x: x * 2, lambda y: y + x], x
        ),
        x,
    ),
    "cond": (lambda x: lax.cond(x.sum() > 0, lambda: (x, x.sum()), lambda: (-x, x[0, 0])), x),
    "topk": (lambda x: lax.top_k(x, 2), x),
    "erf": (jax.scipy.special.erf, x),
    "gather": (lambda x: x[i], x),
    "gather2": (lambda x: jnp.take(x, i, axis=1), x),
    "gather3": (lambda x: x[i, i + 1], x),
    "scatter": (lambda x: x.at[i].add(1.0), x),
    "scatter2": (lambda x: x.at[i, i].set(7.0), x),
    "scattermax": (lambda x: x.at[:, 1].max(0.5), x),
    "segsum": (lambda x: jax.ops.segment_sum(x, jnp.array([0, 1, 0, 2]), 3), x),
    "dus": (lambda x: lax.dynamic_update_slice(x, x[:2, :2], (1, 1)), x),
    "ds": (lambda x: lax.dynamic_slice(x, (1, 1), (2, 2)), x),
    "rw": (lambda x: lax.reduce_window(x, 0.0, lax.add, (2, 2), (1, 1), "VALID"), x),
    "maxpoolgrad": (
        jax.grad(lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (2, 2), "SAME").sum()),
        x,
    ),
    "conv": (
        lambda a: lax.conv_general_dilated(a, ker, (1, 1), "SAME", dimension_numbers=NHWC),
        img,
    ),
    "conv2": (
        lambda a: lax.conv_general_dilated(
            a,
            ker,
            (2, 1),
            [(1, 2), (0, 1)],
            lhs_dilation=(1, 2),
            rhs_dilation=(2, 1),
            dimension_numbers=NHWC,
        ),
        img,
    ),
    "convgrad": (
        jax.grad(
            lambda a: lax.conv_general_dilated(
                a, ker, (1, 1), "VALID", dimension_numbers=NHWC
            ).sum()
        ),
        img,
    ),
    "group": (
        lambda a: lax.conv_general_dilated(
            a, ker[:, :, :1, :3], (1, 1), "SAME", feature_group_count=3, dimension_numbers=NHWC
        ),
        img,
    ),
    "dot": (lambda x: x.T @ x, x),
    "einsum": (lambda a: jnp.einsum("bijc,bkjc->bik", a, a), img),
    "matvec": (lambda x: x @ x[0], x),
    "fft": (jnp.fft.fft, x),
    "rfft": (jnp.fft.rfft, x),
    "irfft": (lambda x: jnp.fft.irfft(jnp.fft.rfft(x)), x),
    "chol": (jnp.linalg.cholesky, sq),
    "solve": (lambda a: jnp.linalg.solve(a, a[0]), sq),
    "qr": (jnp.linalg.qr, sq),
    "svd": (lambda a: jnp.linalg.svd(a, compute_uv=False), sq),
    "eigh": (jnp.linalg.eigvalsh, sq),
    "tri": (lambda a: lax.linalg.triangular_solve(a, a, left_side=True, lower=True), sq),
    "rp": (lambda x: lax.reduce_precision(x, 5, 2), x),
    "bf16": (lambda x: x.astype(jnp.bfloat16).astype(jnp.float32), x),
    "rev": (lambda x: x[::-1], x),
    "pad": (lambda x: jnp.pad(x, 1), x),
    "padneg": (lambda x: lax.pad(x, 1.0, [(1, -1, 2), (0, 0, 1)]), x),
    "slice": (lambda x: x[1:3, ::2], x),
    "clamp": (lambda x: jnp.clip(x, 0, 1), x),
    "concat": (lambda x: jnp.concatenate([x, x]), x),
    "complex": (lambda x: (x + 1j * x, jnp.abs(x + 2j), jnp.angle(x + 1j)), x),
    "iota": (lambda x: jnp.arange(12).reshape(3, 4) + x.shape[0], x),
    "const": (lambda x: x + np.arange(20, dtype=f).reshape(4, 5), x),
    "inf": (lambda x: jnp.where(x > 0, jnp.inf, -jnp.inf), x),
    "bool": (lambda x: jnp.where(np.array([[True, False, True, False, True]]), x, 0), x),
    "softmax": (jax.nn.softmax, x),
    "gelu": (jax.nn.gelu, x),
    "silu": (jax.nn.silu, x),
    "logsumexp": (jax.scipy.special.logsumexp, x),
    "layernorm": (
        lambda x: (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5),
        x,
    ),
    "onehot": (lambda x: jax.nn.one_hot(i, 5), x),
    "bits": (lambda x: jax.random.bits(jax.random.key(0), (4,)), x),
    "uniform": (lambda x: jax.random.uniform(jax.random.key(0), (4,)), x),
    "normal": (lambda x: jax.random.normal(jax.random.key(0), (4,)), x),
    "perm": (lambda x: jax.random.permutation(jax.random.key(1), x), x),
    "bitcast": (lambda x: lax.bitcast_convert_type(x, jnp.int32), x),
    "popcnt": (lambda x: lax.population_count(x.astype(jnp.int32)), x),
    "clz": (lambda x: lax.clz(x.astype(jnp.int32)), x),
    "shifts": (lambda x: (x.astype(jnp.int32) << 2, x.astype(jnp.int32) >> 1), x),
    "searchsorted": (lambda x: jnp.searchsorted(jnp.sort(x[0]), x[1]), x),
    "interp": (lambda x: jnp.interp(x[0], jnp.arange(5.0), x[1]), x),
    "vmap": (jax.vmap(lambda r: r[jnp.argmax(r)]), x),
    "remat": (jax.grad(lambda x: jax.checkpoint(lambda y: jnp.sin(jnp.sin(y)))(x).sum()), x),
    "assoc": (lambda x: lax.associative_scan(jnp.add, x), x),
    "map": (lambda x: lax.map(lambda r: r.sum(), x), x),
    "rng": (lambda x: lax.rng_bit_generator(np.arange(4, dtype=np.uint32), (3,)), x),
    "unique": (lambda x: jnp.unique(x, size=3), x),
    "roll": (lambda x: jnp.roll(x, 1, axis=1), x),
    "kron": (lambda x: jnp.kron(x, x), x),
    "diag": (lambda x: jnp.diag(x[0]), x),
    "outer": (lambda x: jnp.outer(x[0], x[1]), x),
    "tril": (jnp.tril, x),
    "isclose": (lambda x: jnp.isclose(x, x), x),
    "barrier": (lambda x: lax.optimization_barrier((x, x + 1)), x),
    "barrier1": (lambda x: lax.optimization_barrier(x), x),
    "nan": (jnp.nan_to_num, x),
    "u8": (lambda x: x.astype(jnp.uint8) // 3, x),
    "i4": (lambda x: x.astype(jnp.int4).astype(jnp.int8), x),
    "f8": (lambda x: x.astype(jnp.float8_e4m3fn).astype(f), x),
}
