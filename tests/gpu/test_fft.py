"""Fourier transforms on GPUs: rows in shared memory, long rows, lengths with large primes."""

from __future__ import annotations

import math

import numpy as np
import pytest

import hlo
from hlo.codegen.targets.gpu.kernels.fft import fft
from tests.gpu.emulated import program

KINDS = ("FFT", "IFFT", "RFFT", "IRFFT")


def transform(kind: str, outer: tuple[int, ...], lengths: tuple[int, ...], real: str) -> str:
    """Return a transform of the last dimensions."""
    whole = (*outer, *lengths)
    half = (*whole[:-1], lengths[-1] // 2 + 1)
    cplx = {"f32": "c64", "f64": "c128"}[real]

    def shape(et: str, dims: tuple[int, ...]) -> str:
        return f"{et}[{','.join(map(str, dims))}]"

    before = {"RFFT": shape(real, whole), "IRFFT": shape(cplx, half)}.get(kind, shape(cplx, whole))
    after = {"RFFT": shape(cplx, half), "IRFFT": shape(real, whole)}.get(kind, shape(cplx, whole))
    dims = ",".join(map(str, lengths))
    return f"""
HloModule m
ENTRY e {{ x = {before} parameter(0)
  ROOT y = {after} fft(x), fft_type={kind}, fft_length={{{dims}}} }}"""


def check(kind: str, outer: tuple[int, ...], lengths: tuple[int, ...], real: str) -> None:
    """Compare with the interpreter: rounding is relative to the largest numbers."""
    module = hlo.parse(transform(kind, outer, lengths, real))
    (shape,) = module.entry.parameter_shapes
    rng = np.random.default_rng(5)
    x = (rng.standard_normal(shape.dims) + 1j * rng.standard_normal(shape.dims)).astype("c16")
    argument = (x if shape.element_type.is_complex else x.real).astype(shape.element_type.dtype)
    got = np.asarray(hlo.compile(module, backend="gpu-emulated")(argument))
    want = np.asarray(hlo.interpret(module, argument))
    error = 2e-6 if real == "f32" else 1e-14
    assert np.abs(got - want).max() <= error * max(1.0, float(np.abs(want).max()))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("real", ["f32", "f64"])
@pytest.mark.parametrize("n", [1, 2, 7, 8, 60, 37, 227, 1024])
def test_rows(kind: str, real: str, n: int) -> None:
    check(kind, (math.ceil(20 / n),), (n,), real)


@pytest.mark.parametrize("kind", KINDS)
def test_several_dimensions(kind: str) -> None:
    check(kind, (3,), (4, 5, 6), "f32")
    check(kind, (), (18, 23), "f64")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [32, 120, 37, 101])
def test_rows_that_a_block_has_no_memory_for(
    kind: str, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fft, "longest", lambda *_: 16)
    check(kind, (2,), (n,), "f32")


def test_long_rows() -> None:
    check("FFT", (1,), (8192,), "f32")
    check("IFFT", (1,), (16384,), "f32")
    check("FFT", (1,), (2503,), "f64")


def test_launches() -> None:
    assert len(program(transform("FFT", (100,), (2048,), "f32"))[0].plan.launches) == 1
    assert len(program(transform("FFT", (), (1 << 20,), "f32"))[0].plan.launches) == 2
    assert len(program(transform("FFT", (7,), (997,), "f32"))[0].plan.launches) == 1
    (launch,) = program(transform("FFT", (7,), (8192,), "f32"))[0].plan.launches
    assert launch.shared_bytes > 48 << 10 and launch.threads == 1024
