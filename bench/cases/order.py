"""Order and places: sorting, searching, gathers, scatters."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from jax import lax

from cases.registry import Program, case, integers, normal


@case("sorting rows", numpy=np.sort)
def sort_rows() -> Program:
    return jnp.sort, [normal(256, 4096)]


@case("the order of half a million keys", numpy=lambda x: np.argsort(x, kind="stable"))
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


@case("rows of a table by index", numpy=lambda t, i: t[i])
def gather_rows() -> Program:
    return (lambda t, i: t[i]), [normal(40_000, 128), integers(40_000, 16_384)]


@case("rows added into a table by index")
def scatter_add_rows() -> Program:
    def f(t, i, rows):
        return t.at[i].add(rows)

    return f, [normal(20_000, 64), integers(20_000, 16_384), normal(16_384, 64)]


@case("a histogram: single elements added by index", numpy=lambda i: np.bincount(i, minlength=1000))
def scatter_count() -> Program:
    return (lambda i: jnp.zeros(1000, jnp.int32).at[i].add(1)), [integers(1000, 1 << 19)]


def _sorted(dtype: Any, count: int = 1 << 19) -> Program:
    if np.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        return jnp.sort, [integers(int(info.max), count, dtype=dtype, low=int(info.min))]
    return jnp.sort, [normal(count, dtype=dtype)]


@case("sorting bytes", numpy=np.sort)
def sort_s8() -> Program:
    return _sorted(np.int8)


@case("sorting 16-bit integers", numpy=np.sort)
def sort_u16() -> Program:
    return _sorted(np.uint16)


@case("sorting 32-bit integers", numpy=np.sort)
def sort_s32() -> Program:
    return _sorted(np.int32)


@case("sorting doubles", numpy=np.sort)
def sort_f64() -> Program:
    return _sorted(np.float64)


@case("sorting bf16")
def sort_bf16() -> Program:
    return _sorted(jnp.bfloat16)


@case("where a value belongs in a sorted array", numpy=np.searchsorted)
def search_sorted() -> Program:
    return jnp.searchsorted, [np.sort(normal(1 << 16)), normal(1 << 16, seed=1)]


@case("sums of sorted segments", numpy=lambda x, i: _segment_sums(x, i))
def segment_sums() -> Program:
    def f(x, i):
        return jax.ops.segment_sum(x, i, 1000, indices_are_sorted=True)

    return f, [normal(1 << 16, 16), np.sort(integers(1000, 1 << 16))]


def _segment_sums(x: np.ndarray, i: np.ndarray) -> np.ndarray:
    result = np.zeros((1000, x.shape[1]), x.dtype)
    np.add.at(result, i, x)
    return result


_ROWS, _PER_ROW = 20_000, 16


def _sparse(values: np.ndarray, columns: np.ndarray, x: np.ndarray) -> np.ndarray:
    starts = np.arange(0, columns.size + 1, _PER_ROW)
    matrix = scipy.sparse.csr_matrix((values.ravel(), columns.ravel(), starts), (_ROWS, x.size))
    return matrix @ x


@case("a sparse matrix, 16 numbers a row, times a vector", scipy=_sparse)
def sparse_product() -> Program:
    def f(values, columns, x):
        return (values * x[columns]).sum(1)

    return f, [normal(_ROWS, _PER_ROW), integers(_ROWS, _ROWS, _PER_ROW), normal(_ROWS)]


@case("elements of a table by two indices", numpy=lambda t, i, j: t[i, j])
def gather_elements() -> Program:
    return (lambda t, i, j: t[i, j]), [
        normal(2000, 2000), integers(2000, 1 << 18), integers(2000, 1 << 18, low=1),
    ]  # fmt: skip
