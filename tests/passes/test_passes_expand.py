"""Expansions of custom calls that no interpreter knows, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

import hlo
from hlo.errors import HloError
from hlo.passes import parse_pipeline, run_pipeline

_TYPES = {"f32": np.float32, "c64": np.complex64}


def _run(text: str, passes: str, *args: np.ndarray) -> tuple[np.ndarray, ...]:
    module = hlo.parse(f"HloModule m\nENTRY e {{\n{text}\n}}")
    run_pipeline(module, parse_pipeline(passes))
    return hlo.interpret(module, *args)


def _matrices(et: str, *dims: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    parts = rng.standard_normal((2, *dims))
    return (parts[0] + 1j * parts[1] if et == "c64" else parts[0]).astype(_TYPES[et])


@pytest.mark.parametrize("et", _TYPES)
@pytest.mark.parametrize(("m", "n"), [(3, 3), (4, 2), (2, 4)])
def test_qr_stores_what_lapack_stores(et: str, m: int, n: int) -> None:
    a, p = _matrices(et, 2, m, n), min(m, n)
    packed, factors = _run(
        f"a = {et}[2,{m},{n}] parameter(0)\n"
        f'ROOT r = ({et}[2,{m},{n}], {et}[2,{p}]) custom-call(a), custom_call_target="Qr"',
        "qr-expander", a,
    )  # fmt: skip
    for matrix, got, tau in zip(a, packed, factors, strict=True):
        h, want = np.linalg.qr(matrix, mode="raw")
        np.testing.assert_allclose(got, h.T, rtol=1e-5)
        np.testing.assert_allclose(tau, want, rtol=1e-5)
    (q,) = _run(
        f"a = {et}[2,{m},{p}] parameter(0)\nb = {et}[2,{p}] parameter(1)\n"
        f"q = {et}[2,{m},{p}] custom-call(a, b), "
        'custom_call_target="ProductOfElementaryHouseholderReflectors"\n'
        f"ROOT t = ({et}[2,{m},{p}]) tuple(q)",
        "qr-expander", np.ascontiguousarray(packed[..., :p]), factors,
    )  # fmt: skip
    np.testing.assert_allclose(q @ np.triu(packed[:, :p]), a, atol=1e-5)


@pytest.mark.parametrize("et", _TYPES)
@pytest.mark.parametrize("lower", [0, 1])
def test_eigh_finds_eigenvectors_of_one_triangle(et: str, lower: int) -> None:
    a = _matrices(et, 2, 5, 5)
    v, w = _run(
        f"a = {et}[2,5,5] parameter(0)\nROOT r = ({et}[2,5,5], f32[2,5]) custom-call(a), "
        f'custom_call_target="Eigh", backend_config="{lower},1,100,1e-6"',
        "eigh-expander", a,
    )  # fmt: skip
    half = np.tril(a, -1) if lower else np.triu(a, 1)
    whole = half + np.swapaxes(half, 1, 2).conj() + np.eye(5) * a.real
    np.testing.assert_allclose(whole @ v, v * w[:, None], atol=1e-5)
    np.testing.assert_allclose(w, np.linalg.eigvalsh(whole), atol=1e-5)


def test_what_does_not_fit_a_factorization_is_an_error() -> None:
    with pytest.raises(HloError, match="Qr: it returns"):
        _run(
            'a = f32[3,2] parameter(0)\nROOT r = f32[3,2] custom-call(a), custom_call_target="Qr"',
            "qr-expander",
        )
    with pytest.raises(HloError, match="is not lower,sorted,sweeps,tolerance"):
        _run(
            "a = f32[2,2] parameter(0)\nROOT r = (f32[2,2], f32[2]) custom-call(a), "
            'custom_call_target="Eigh", backend_config="1,x"',
            "eigh-expander",
        )
