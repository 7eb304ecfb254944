"""Linear algebra and Fourier transforms."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import scipy.fft
import scipy.linalg
from jax import lax

from cases.registry import Program, case, normal


def _solved(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return scipy.linalg.cho_solve(scipy.linalg.cho_factor(a, lower=True), b)


@case("Cholesky factor and two triangular solves", scipy=_solved)
def cholesky_solve() -> Program:
    def f(a, b):
        factor = lax.linalg.cholesky(a)
        y = lax.linalg.triangular_solve(factor, b, left_side=True, lower=True)
        return lax.linalg.triangular_solve(factor, y, left_side=True, lower=True, transpose_a=True)

    a = normal(320, 320)
    return f, [a @ a.T + 320 * np.eye(320, dtype=np.float32), normal(320, 32)]


def _halved(x: np.ndarray) -> np.ndarray:
    return scipy.fft.irfft(scipy.fft.rfft(x, workers=-1) * np.float32(0.5), workers=-1)


@case("fast Fourier transform of rows and back", scipy=_halved)
def fft_rows() -> Program:
    return (lambda x: jnp.fft.irfft(jnp.fft.rfft(x) * 0.5)), [normal(256, 4096)]


def _transformed(x: np.ndarray) -> np.ndarray:
    return scipy.fft.fft(x, workers=-1)


@case("complex Fourier transforms of length 1000", scipy=_transformed)
def fft_1000() -> Program:
    return jnp.fft.fft, [_complex(512, 1000)]


@case("complex Fourier transforms of a prime length", scipy=_transformed)
def fft_prime() -> Program:
    return jnp.fft.fft, [_complex(256, 1009)]


@case("a two-dimensional Fourier transform", scipy=lambda x: scipy.fft.fft2(x, workers=-1))
def fft_2d() -> Program:
    return jnp.fft.fft2, [_complex(512, 512)]


def _complex(*dims: int) -> np.ndarray:
    return (normal(*dims) + 1j * normal(*dims, seed=1)).astype(np.complex64)


def _definite(count: int, n: int) -> np.ndarray:
    a = normal(count, n, n)
    return a @ a.transpose(0, 2, 1) + n * np.eye(n, dtype=np.float32)


@case("Cholesky factors of many small matrices", numpy=np.linalg.cholesky)
def cholesky_small() -> Program:
    return lax.linalg.cholesky, [_definite(2000, 16)]


@case("many small triangular systems")
def solve_small() -> Program:
    def f(a, b):
        return lax.linalg.triangular_solve(a, b, left_side=True, lower=True)

    return f, [np.tril(_definite(2000, 16)), normal(2000, 16, 4)]
