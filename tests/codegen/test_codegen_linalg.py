"""Cholesky factors, triangular systems and JAX's factorizations as native code."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from hlo.compiler.pipeline import compile_text
from hlo.eval import interpret
from hlo.frontends.text import parse
from hlo.values.types import element_type
from tests.harness.run_compiled import run_leaves

# Errors relative to the largest element of the result: work is done in f32 or f64.
_TOLERANCE = {"f32": 3e-4, "f64": 1e-10, "c64": 3e-4, "c128": 1e-10, "bf16": 0.05, "f16": 0.01}


def normal(seed: int, dims: tuple[int, ...], et: str) -> np.ndarray:
    """Return random numbers in f64 or c128."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(dims)
    return x + 1j * rng.standard_normal(dims) if et.startswith("c") else x


def positive(seed: int, dims: tuple[int, ...], et: str) -> np.ndarray:
    """Return positive definite matrices."""
    a = normal(seed, dims, et)
    s = a @ a.conj().swapaxes(-1, -2) + np.eye(dims[-1]) * dims[-1]
    return s.astype(element_type(et).dtype)


def shape(et: str, dims: tuple[int, ...], order: str = "rows") -> str:
    """Return a shape's text, its matrices stored by rows or by columns."""
    layout = list(range(len(dims) - 1, -1, -1))
    if order == "columns":
        layout[:2] = layout[1::-1]
    return f"{et}[{','.join(map(str, dims))}]{{{','.join(map(str, layout))}}}"


def assert_close(got: Any, want: Any, et: str) -> None:
    """Check dimensions, NaN and values."""
    assert got.shape == want.shape and got.dtype == want.dtype
    g, w = (x.astype(np.complex128) for x in (got, want))
    np.testing.assert_array_equal(np.isnan(g), np.isnan(w))
    scale = np.abs(w[np.isfinite(w)]).max(initial=1.0)
    error = np.abs(np.where(np.isnan(w), 0, g - w)).max(initial=0.0)
    assert error <= _TOLERANCE[et] * scale


def check(text: str, args: list[np.ndarray], et: str) -> np.ndarray:
    """Return what native code computes, which the interpreter has to agree with."""
    (got,) = run_leaves(text, args)
    assert_close(got, interpret(parse(text), args), et)
    return got


# --- cholesky -----------------------------------------------------------------------------------


def cholesky(et: str, dims: tuple[int, ...], lower: bool, before: str, after: str) -> str:
    return (
        f"HloModule m\nENTRY e {{ a = {shape(et, dims, before)} parameter(0)\n"
        f"  ROOT r = {shape(et, dims, after)} cholesky(a), lower={str(lower).lower()} }}"
    )


@pytest.mark.parametrize("et", _TOLERANCE)
@pytest.mark.parametrize("dims", [(1, 1), (3, 3), (9, 9), (2, 3, 17, 17)], ids=str)
def test_factors_of_every_type(et: str, dims: tuple[int, ...]) -> None:
    a = positive(0, dims, et)
    for lower, before, after in ((True, "rows", "columns"), (False, "columns", "rows")):
        check(cholesky(et, dims, lower, before, after), [a], et)


@pytest.mark.parametrize("et", ["f32", "c64"])
@pytest.mark.parametrize("n", [8, 15, 16, 33, 64, 65, 130, 600])
def test_factors_that_take_several_blocks(et: str, n: int) -> None:
    for lower in (True, False):
        check(cholesky(et, (n, n), lower, "rows", "rows"), [positive(1, (n, n), et)], et)


def test_a_matrix_that_is_not_positive_definite_is_nan_and_the_others_are_not() -> None:
    a = positive(2, (3, 5, 5), "f32")
    a[1, 2, 2] = -1
    got = check(cholesky("f32", a.shape, True, "rows", "rows"), [a], "f32")
    assert np.isnan(got[1]).all() and np.isfinite(got[[0, 2]]).all()


@pytest.mark.parametrize("et", ["c64", "f32", "f64"])
@pytest.mark.parametrize("n", [6, 16, 31, 97])
@pytest.mark.parametrize(("lower", "before"), [(True, "rows"), (False, "columns"), (False, "rows")])
def test_only_the_named_triangle_is_read_and_only_real_parts_of_the_diagonal(
    et: str, n: int, lower: bool, before: str
) -> None:
    a = positive(3, (n, n), et)
    keep, spoil = (np.tril, np.triu) if lower else (np.triu, np.tril)
    spoiled = keep(a) + spoil(np.full_like(a, np.nan), 1 if lower else -1)
    if et == "c64":
        spoiled += 5j * np.eye(n, dtype=a.dtype)
    text = cholesky(et, (n, n), lower, before, "rows")
    (got,) = run_leaves(text, [spoiled.astype(a.dtype)])
    assert_close(got, interpret(parse(text), [a]), et)


@pytest.mark.parametrize("dims", [(0, 0), (0, 3, 3), (2, 0, 0)], ids=str)
def test_factors_of_nothing(dims: tuple[int, ...]) -> None:
    check(cholesky("f32", dims, True, "rows", "rows"), [np.zeros(dims, np.float32)], "f32")


def test_threads_do_not_change_the_factor_of_a_large_matrix() -> None:
    n = 577
    text = cholesky("f32", (n, n), True, "rows", "rows").encode()
    a = positive(4, (n, n), "f32")
    one, two = (compile_text(text, "m", cache=False, threads=t)(a) for t in (1, 2))
    np.testing.assert_array_equal(one, two)
    assert_close(one, np.linalg.cholesky(a.astype(np.float64)).astype(np.float32), "f32")


# --- triangular-solve ---------------------------------------------------------------------------


def solve(
    et: str, a: tuple[int, ...], b: tuple[int, ...], flags: tuple[bool, bool, bool, str],
    orders: tuple[str, str, str] = ("rows", "rows", "rows"),
) -> str:  # fmt: skip
    left, lower, unit, transpose = flags
    words = ", ".join(
        f"{k}={str(v).lower()}"
        for k, v in (("left_side", left), ("lower", lower), ("unit_diagonal", unit))
    )
    return (
        f"HloModule m\nENTRY e {{ a = {shape(et, a, orders[0])} parameter(0)\n"
        f"  b = {shape(et, b, orders[1])} parameter(1)\n"
        f"  ROOT r = {shape(et, b, orders[2])} triangular-solve(a, b), {words}, "
        f"transpose_a={transpose} }}"
    )


def system(
    et: str, n: int, columns: int, left: bool, batch: tuple[int, ...] = ()
) -> list[np.ndarray]:
    """Return a matrix far from singular, and a right-hand side."""
    dtype = element_type(et).dtype
    a = normal(5, (*batch, n, n), et) / (8 * max(n, 1) ** 0.5) + np.eye(n) * 2
    b = normal(6, (*batch, n, columns) if left else (*batch, columns, n), et)
    return [a.astype(dtype), b.astype(dtype)]


_TRANSPOSES = ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")
_FLAGS = list(itertools.product((True, False), (True, False), (True, False), _TRANSPOSES))


@pytest.mark.parametrize("et", ["f32", "c64"])
@pytest.mark.parametrize("flags", _FLAGS, ids=lambda f: "-".join(map(str, f)))
def test_systems_in_all_directions(et: str, flags: tuple[bool, bool, bool, str]) -> None:
    a, b = system(et, 11, 3, flags[0], (2,))
    check(solve(et, a.shape, b.shape, flags, ("columns", "rows", "columns")), [a, b], et)


@pytest.mark.parametrize("et", _TOLERANCE)
@pytest.mark.parametrize("n, columns", [(1, 1), (8, 1), (17, 33), (70, 20)])
def test_systems_of_every_type(et: str, n: int, columns: int) -> None:
    flags = (True, True, False, "NO_TRANSPOSE")
    a, b = system(et, n, columns, True)
    check(solve(et, a.shape, b.shape, flags), [a, b], et)


@pytest.mark.parametrize("n, columns, batch", [(5, 0, ()), (0, 4, ()), (3, 3, (0,))])
def test_systems_of_nothing(n: int, columns: int, batch: tuple[int, ...]) -> None:
    a, b = system("f32", n, columns, True, batch)
    check(solve("f32", a.shape, b.shape, (True, True, False, "NO_TRANSPOSE")), [a, b], "f32")


def test_a_zero_on_the_diagonal_divides_as_floats_do() -> None:
    a = np.array([[2, 0], [1, 0]], np.float32)
    b = np.array([[2, 4, 0], [2, 2, 0]], np.float32)
    text = solve("f32", (2, 2), (2, 3), (True, True, False, "NO_TRANSPOSE"))
    (got,) = run_leaves(text, [a, b])
    np.testing.assert_array_equal(got, [[1, 2, 0], [np.inf, np.nan, np.nan]])


def test_threads_do_not_change_a_solution() -> None:
    a, b = system("f32", 200, 150, True)
    text = solve("f32", a.shape, b.shape, (True, False, False, "NO_TRANSPOSE")).encode()
    one, two = (compile_text(text, "m", cache=False, threads=t)(a, b) for t in (1, 2))
    np.testing.assert_array_equal(one, two)
