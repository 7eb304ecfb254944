"""Cholesky factors and triangular systems on GPUs."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import hlo
from tests.gpu.emulated import program

TYPES = {"f32": "f4", "f64": "f8", "c64": "c8", "c128": "c16"}


def random_matrices(et: str, *shape: int) -> np.ndarray:
    rng = np.random.default_rng(6)
    real, imaginary = rng.standard_normal((2, *shape))
    return real + 1j * imaginary if et.startswith("c") else real


def check(text: str, *args: np.ndarray, et: str) -> None:
    module = hlo.parse(text)
    arguments = [a.astype(TYPES[et]) for a in args]
    got = np.asarray(hlo.compile(module, backend="gpu-emulated")(*arguments))
    want = np.asarray(hlo.interpret(module, *arguments))
    error = 3e-5 if et in ("f32", "c64") else 1e-12
    np.testing.assert_allclose(got, want, rtol=error, atol=error * 10)


def cholesky(et: str, dims: str, lower: bool) -> str:
    return f"""
HloModule m
ENTRY e {{ a = {et}[{dims}] parameter(0)
  ROOT l = {et}[{dims}] cholesky(a), lower={str(lower).lower()} }}"""


@pytest.mark.parametrize("et", TYPES)
@pytest.mark.parametrize(("batch", "n"), [(1, 1), (2, 5), (1, 16), (2, 33), (1, 70)])
def test_cholesky(et: str, batch: int, n: int) -> None:
    x = random_matrices(et, batch, n, n)
    a = x @ np.conj(np.swapaxes(x, -1, -2)) + n * np.eye(n)
    for lower in (True, False):
        # The other triangle is not read.
        other = np.triu(np.full((n, n), np.nan), 1)
        check(cholesky(et, f"{batch},{n},{n}", lower), a + (other if lower else other.T), et=et)


@pytest.mark.parametrize("et", ["f32", "c128"])
def test_matrices_that_are_not_positive_give_nan(et: str) -> None:
    a = np.stack([np.eye(40) * 3, np.eye(40), np.eye(40)])
    a[1, 35, 35] = -1
    check(cholesky(et, "3,40,40", True), a, et=et)
    check(cholesky(et, "3,40,40", False), a, et=et)


def solve(et: str, a: str, b: str, left: bool, lower: bool, unit: bool, how: str) -> str:
    flags = (str(x).lower() for x in (left, lower, unit))
    left_side, is_lower, unit_diagonal = flags
    return f"""
HloModule m
ENTRY e {{ a = {et}[{a}] parameter(0) b = {et}[{b}] parameter(1)
  ROOT x = {et}[{b}] triangular-solve(a, b), left_side={left_side}, lower={is_lower},
    unit_diagonal={unit_diagonal}, transpose_a={how} }}"""


@pytest.mark.parametrize("how", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
@pytest.mark.parametrize(("et", "n", "columns"), [("f32", 5, 3), ("f64", 40, 35), ("c128", 20, 1)])
def test_triangular_systems(et: str, n: int, columns: int, how: str) -> None:
    for left, lower, unit in product((True, False), repeat=3):
        a = random_matrices(et, 2, n, n) / n + 3 * np.eye(n)
        b = random_matrices(et, 2, *((n, columns) if left else (columns, n)))
        dims = ",".join(map(str, b.shape))
        check(solve(et, f"2,{n},{n}", dims, left, lower, unit, how), a, b, et=et)


def test_launches() -> None:
    """A panel is a launch, of the same kernels but for the first; systems are one."""
    factor, _ = program(cholesky("f32", "320,320", True))
    assert len(factor.plan.launches) == 11
    assert len({launch.kernel for launch in factor.plan.launches}) == 4
    text = solve("f32", "1000,1000", "1000,100", True, True, False, "NO_TRANSPOSE")
    assert len(program(text)[0].plan.launches) == 1
