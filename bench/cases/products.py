"""Matrix products."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from cases.registry import Program, case, integers, normal


def _product(m: int, k: int, n: int, dtype: Any = np.float32) -> Program:
    return jnp.matmul, [normal(m, k, dtype=dtype), normal(k, n, seed=1, dtype=dtype)]


@case("square product that fits the second-level cache", numpy=np.matmul)
def matmul_f32_256() -> Program:
    return _product(256, 256, 256)


@case("square product, arithmetic bound", numpy=np.matmul)
def matmul_f32_1024() -> Program:
    return _product(1024, 1024, 1024)


@case("square product, larger than the caches", numpy=np.matmul)
def matmul_f32_2048() -> Program:
    return _product(2048, 2048, 2048)


@case("square product in double precision", numpy=np.matmul)
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


@case("tall and thin: 8192x64 by 64x64", numpy=np.matmul)
def matmul_tall() -> Program:
    return _product(8192, 64, 64)


@case("long inner dimension: 64x16384 by 16384x64", numpy=np.matmul)
def matmul_deep() -> Program:
    return _product(64, 16384, 64)


@case("many small products", numpy=np.matmul)
def matmul_batched_small() -> Program:
    return jnp.matmul, [normal(512, 16, 16), normal(512, 16, 16, seed=1)]


@case("operands transposed in memory")
def matmul_transposed() -> Program:
    return (lambda x, y: jnp.einsum("ki,jk->ij", x, y)), [normal(768, 640), normal(512, 768)]


@case("matrix times vector: memory bandwidth", numpy=np.matmul)
def matvec_4096() -> Program:
    return jnp.matmul, [normal(4096, 4096), normal(4096)]


@case("products of groups of rows with the matrix of each group: a mixture of experts")
def matmul_of_experts() -> Program:
    def f(x, w, choice):
        # Each expert computes the rows that chose it, as dense models are often written.
        chosen = jax.nn.one_hot(choice, w.shape[0], dtype=x.dtype)
        return jnp.einsum("te,td,edf->tf", chosen, x, w)

    return f, [normal(512, 256), normal(8, 256, 512, scale=1 / 16), integers(8, 512)]


@case("weights in bytes with a scale for each column, times activations")
def matmul_dequantized() -> Program:
    def f(x, w, scale):
        return x @ (w.astype(jnp.float32) * scale)

    return f, [normal(64, 1024), integers(127, 1024, 4096, dtype=np.int8, low=-127), normal(4096)]


@case("many 4x4 products", numpy=np.matmul)
def matmul_batched_tiny() -> Program:
    return jnp.matmul, [normal(20_000, 4, 4), normal(20_000, 4, 4, seed=1)]


@case("three products in a row", numpy=lambda a, b, c: a @ b @ c)
def matmul_chain() -> Program:
    return (lambda a, b, c: a @ b @ c), [
        normal(1024, 1024), normal(1024, 1024, seed=1), normal(1024, 8),
    ]  # fmt: skip
