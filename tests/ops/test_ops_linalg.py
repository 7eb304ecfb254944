"""fft, cholesky and triangular-solve against XLA, and by their own equations."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

from tests.harness.combine import combine, operands
from tests.harness.run_both import errors, run, run_both

COMPLEX = {"f32": "c64", "f64": "c128"}


def text(dims: tuple[int, ...]) -> str:
    return ",".join(map(str, dims))


# --- fft ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("t", ["f32", "f64"])
def test_transforms_of_one_to_three_dimensions(t: str) -> None:
    c = COMPLEX[t]
    lines = []
    for dims in ((8,), (5,), (1,), (3, 4), (4, 1), (2, 3, 5)):
        half = (*dims[:-1], dims[-1] // 2 + 1)
        lengths = f"fft_length={{{text(dims)}}}"
        lines += [
            f"{c}[2,{text(dims)}] fft({c}[2,{text(dims)}] a), fft_type=FFT, {lengths}",
            f"{c}[2,{text(dims)}] fft({c}[2,{text(dims)}] a), fft_type=IFFT, {lengths}",
            f"{c}[2,{text(half)}] fft({t}[2,{text(dims)}] a), fft_type=RFFT, {lengths}",
            f"{t}[2,{text(dims)}] fft({c}[2,{text(half)}] a), fft_type=IRFFT, {lengths}",
        ]
    lines += [
        f"{c}[0] fft({c}[0] a), fft_type=FFT, fft_length={{0}}",
        f"{c}[0] fft({t}[0] a), fft_type=RFFT, fft_length={{0}}",
        f"{t}[0] fft({c}[0] a), fft_type=IRFFT, fft_length={{0}}",
        f"{c}[0,3] fft({t}[0,4] a), fft_type=RFFT, fft_length={{4}}",
    ]
    run_both(combine(lines), operands(lines), atol=1e-6 if t == "f32" else 1e-14)


def test_a_transform_is_rounded_once() -> None:
    a = (np.random.default_rng(0).standard_normal(1000) * 1e3).astype(np.complex64)
    got = run("c64[1000] fft(c64[1000] a), fft_type=FFT, fft_length={1000}", [a])
    assert (got == np.fft.fft(a.astype(np.complex128)).astype(np.complex64)).all()


# --- cholesky -------------------------------------------------------------------------------------


def positive_definite(t: str, n: int, batch: tuple[int, ...] = ()) -> np.ndarray:
    rng = np.random.default_rng(n)
    a = rng.standard_normal((*batch, n, n))
    if t[0] == "c":
        a = a + 1j * rng.standard_normal((*batch, n, n))
    dtype = {"f32": "f4", "f64": "f8", "c64": "c8", "c128": "c16", "f16": "f2"}[t]
    return (a @ np.conj(np.swapaxes(a, -1, -2)) + np.eye(n)).astype(dtype)


@pytest.mark.parametrize("lower", ["true", "false"])
def test_cholesky_reads_one_triangle_and_clears_the_other(lower: str) -> None:
    lines = [
        f"{t}[2,{n},{n}] cholesky({t}[2,{n},{n}] a), lower={lower}"
        for t in ("f32", "f64", "c64", "c128")
        for n in (1, 4)
    ]
    args = [positive_definite(t, n, (2,)) for t in ("f32", "f64", "c64", "c128") for n in (1, 4)]
    for a in args:
        unread = np.triu_indices(a.shape[-1], 1) if lower == "true" else np.tril_indices(
            a.shape[-1], -1
        )  # fmt: skip
        a[(..., *unread)] = np.nan
    run_both(combine(lines), args, rtol=1e-5, atol=1e-5)


def test_cholesky_of_other_matrices_is_nan() -> None:
    a = np.stack([np.eye(3), np.diag([1, -1, 1]), np.zeros((3, 3)), np.full((3, 3), np.nan)])
    got = run_both("f32[4,3,3] cholesky(f32[4,3,3] a), lower=true", [a.astype(np.float32)])
    assert np.isnan(got[1:]).all() and (got[0] == np.eye(3)).all()


def test_cholesky_of_narrow_types_and_of_nothing() -> None:
    lines = [
        "bf16[2,2] cholesky(bf16[2,2] a), lower=true",
        "f16[3,3] cholesky(f16[3,3] a)",
        "f32[0,2,2] cholesky(f32[0,2,2] a), lower=true",
        "f32[2,0,0] cholesky(f32[2,0,0] a)",
    ]
    args = [
        positive_definite("f32", 2).astype(ml_dtypes.bfloat16),
        positive_definite("f16", 3),
        np.zeros((0, 2, 2), np.float32),
        np.zeros((2, 0, 0), np.float32),
    ]
    run_both(combine(lines), args, ulps=8)


# --- triangular-solve -----------------------------------------------------------------------------


@pytest.mark.parametrize("t", ["f32", "f64", "c64", "c128"])
def test_triangular_systems_of_every_kind(t: str) -> None:
    rng = np.random.default_rng(0)
    lines, args = [], []
    for left, lower, unit in itertools.product(("true", "false"), repeat=3):
        for transpose in ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"):
            dims = (2, 4, 3) if left == "true" else (2, 3, 4)
            lines.append(
                f"{t}[{text(dims)}] triangular-solve({t}[2,4,4] a, {t}[{text(dims)}] b), "
                f"left_side={left}, lower={lower}, unit_diagonal={unit}, transpose_a={transpose}"
            )
            a = rng.standard_normal((2, 4, 4)) + 3 * np.eye(4)
            a[(..., *(np.triu_indices(4, 1) if lower == "true" else np.tril_indices(4, -1)))] = 7
            args += [a, rng.standard_normal(dims)]
    dtype = {"f32": "f4", "f64": "f8", "c64": "c8", "c128": "c16"}[t]
    run_both(combine(lines), [x.astype(dtype) for x in args], rtol=1e-3, atol=1e-4)


def test_a_solution_solves_its_equation() -> None:
    rng = np.random.default_rng(0)
    a = np.tril(rng.standard_normal((5, 5)) + 1j * rng.standard_normal((5, 5))) + 4 * np.eye(5)
    b = rng.standard_normal((2, 5)) + 0j
    got = run(
        "c128[2,5] triangular-solve(c128[5,5] a, c128[2,5] b), left_side=false, lower=true, "
        "transpose_a=ADJOINT",
        [a, b],
    )
    np.testing.assert_allclose(got @ np.conj(a.T), b, atol=1e-12)


def test_the_other_triangle_is_not_read_and_a_zero_divides() -> None:
    # XLA's expansion inverts blocks, so that one zero makes all that follows NaN; substitution
    # divides as floats do.
    a = np.array([[2, np.nan, np.nan], [1, 0, np.nan], [0, 0, 4]], np.float32)
    b = np.array([[2, 0], [5, 0], [8, 4]], np.float32)
    got = run(
        "f32[3,2] triangular-solve(f32[3,3] a, f32[3,2] b), left_side=true, lower=true, "
        "transpose_a=NO_TRANSPOSE",
        [a, b],
    )
    np.testing.assert_array_equal(got, [[1, 0], [np.inf, np.nan], [np.nan, np.nan]])


# --- what is refused ------------------------------------------------------------------------------

SOLVE = "left_side=true, transpose_a=NO_TRANSPOSE"
BROKEN = [
    ("c64[4] fft(c64[4] a), fft_type=FFT, fft_length={8}", "shape-mismatch", "needs 8"),
    ("c64[4] fft(c64[4] a), fft_type=FFT, fft_length={}", "bad-value", "1 to 3"),
    ("c64[1,1,1,1] fft(c64[1,1,1,1] a), fft_type=FFT, fft_length={1,1,1,1}", "bad-value", "1 to 3"),
    ("c64[4] fft(c64[4] a), fft_type=FFT, fft_length={1,4}", "shape-mismatch", "has 1"),
    ("c64[4] fft(c64[4] a), fft_type=FFT, fft_length={-4}", "bad-value", "negative"),
    ("f32[4] fft(f32[4] a), fft_type=FFT, fft_length={4}", "type-mismatch", "complex"),
    ("c64[3] fft(c64[4] a), fft_type=RFFT, fft_length={4}", "type-mismatch", "f32 or f64"),
    ("c64[4] fft(f32[4] a), fft_type=RFFT, fft_length={4}", "shape-mismatch", "c64[3]"),
    ("f32[4] fft(c64[4] a), fft_type=IRFFT, fft_length={4}", "shape-mismatch", "needs 3"),
    ("c64[4] fft(c64[4] a), fft_type=DCT, fft_length={4}", "bad-value", "DCT"),
    ("c64[4] fft(c64[4] a), fft_type=FFT", "missing-attribute", "fft_length"),
    ("f32[3,4] cholesky(f32[3,4] a)", "shape-mismatch", "square"),
    ("f32[4] cholesky(f32[4] a)", "shape-mismatch", "square"),
    ("s32[4,4] cholesky(s32[4,4] a)", "type-mismatch", "floating-point"),
    (f"f32[4,2] triangular-solve(f32[3,3] a, f32[4,2] b), {SOLVE}", "shape-mismatch", "needs 3"),
    (f"f32[3,2] triangular-solve(f32[3,4] a, f32[3,2] b), {SOLVE}", "shape-mismatch", "square"),
    (f"f64[3,2] triangular-solve(f32[3,3] a, f64[3,2] b), {SOLVE}", "type-mismatch", "f64"),
    (f"f32[1,3,2] triangular-solve(f32[3,3] a, f32[1,3,2] b), {SOLVE}", "shape-mismatch", "rank"),
    (f"f32[1,3,2] triangular-solve(f32[2,3,3] a, f32[1,3,2] b), {SOLVE}", "shape-mismatch",
     "batch"),
    ("f32[3,3] triangular-solve(f32[3,3] a, f32[3,3] b)", "missing-attribute", "transpose_a"),
    ("f32[3,3] triangular-solve(f32[3,3] a, f32[3,3] b), transpose_a=TRANSPOSE_INVALID",
     "bad-value", "TRANSPOSE_INVALID"),
]  # fmt: skip


@pytest.mark.parametrize(("module", "code", "words"), BROKEN)
def test_a_broken_operation_is_refused(module: str, code: str, words: str) -> None:
    found = errors(module)
    assert [c for c, _ in found] == [code], found
    assert words in found[0][1]
