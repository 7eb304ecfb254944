"""Fourier transforms as native code: lengths, kinds, dimensions, layouts."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from hlo.codegen.kernels.fft.dft import good_length, prime_factors
from hlo.compiler.pipeline import compile_text
from hlo.eval import interpret
from hlo.frontends.text import parse
from tests.harness.run_compiled import run_leaves

_COMPLEX = {"c64": ("f32", np.complex64), "c128": ("f64", np.complex128)}
# Root-mean-square errors grow with the logarithm of the length.
_ERROR = {"c64": 4e-7, "c128": 8e-16}
_KINDS = ("FFT", "IFFT", "RFFT", "IRFFT")


def shape(et: str, dims: tuple[int, ...], order: tuple[int, ...] | None = None) -> str:
    layout = order if order is not None else tuple(reversed(range(len(dims))))
    return f"{et}[{','.join(map(str, dims))}]{{{','.join(map(str, layout))}}}"


def case(
    kind: str, et: str, dims: tuple[int, ...], lengths: tuple[int, ...],
    before: tuple[int, ...] | None = None, after: tuple[int, ...] | None = None,
) -> tuple[str, np.ndarray]:  # fmt: skip
    """Return a module that transforms an array of `dims` in the time domain, and an operand."""
    real, dtype = _COMPLEX[et]
    half = (*dims[:-1], dims[-1] // 2 + 1 if dims[-1] else 0)
    source = half if kind == "IRFFT" else dims
    target = half if kind == "RFFT" else dims
    rng = np.random.default_rng(sum(dims))
    x = (rng.standard_normal(source) + 1j * rng.standard_normal(source)).astype(dtype)
    operand = x.real.copy() if kind == "RFFT" else x
    text = (
        f"HloModule m\nENTRY e {{ x = {shape(real if kind == 'RFFT' else et, source, before)} "
        f"parameter(0)\n  ROOT r = {shape(real if kind == 'IRFFT' else et, target, after)} fft(x), "
        f"fft_type={kind}, fft_length={{{','.join(map(str, lengths))}}} }}"
    )
    return text, operand


def check(text: str, x: np.ndarray, et: str, length: int) -> None:
    """Compare native code with the interpreter."""
    (got,), want = run_leaves(text, [x]), interpret(parse(text), [x])
    assert got.shape == want.shape and got.dtype == want.dtype
    if want.size:
        size = np.sqrt((np.abs(want) ** 2).mean())
        assert np.abs(got - want).max() <= _ERROR[et] * size * np.log2(max(2, length))


@pytest.mark.parametrize("et", _COMPLEX)
@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize(
    "n", [1, 2, 3, 4, 5, 6, 7, 8, 11, 13, 16, 19, 23, 24, 30, 37, 47, 64, 81, 97, 100, 128, 243]
)
def test_short_lengths_alone_and_several_at_once(kind: str, et: str, n: int) -> None:
    for dims in ((n,), (3, n)):
        check(*case(kind, et, dims, (n,)), et, n)


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("n", [256, 257, 300, 768, 1000, 1009, 1019, 1024, 2187, 4096])
def test_long_lengths(kind: str, n: int) -> None:
    check(*case(kind, "c64", (2, n), (n,)), "c64", n)


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("et", _COMPLEX)
@pytest.mark.parametrize(
    "dims, lengths",
    [((4, 6, 5), (4, 6, 5)), ((2, 8, 9), (8, 9)), ((2, 33, 17), (33, 17)), ((2, 31, 43), (31, 43)),
     ((1, 1, 1), (1, 1, 1)), ((20, 7), (7,)), ((0, 4), (4,)), ((3, 0), (0,))],
    ids=str,
)  # fmt: skip
def test_dimensions(kind: str, et: str, dims: tuple[int, ...], lengths: tuple[int, ...]) -> None:
    check(*case(kind, et, dims, lengths), et, max(lengths))


@pytest.mark.parametrize("kind", _KINDS)
def test_layouts_of_operand_and_result(kind: str) -> None:
    for before, after in itertools.product(itertools.permutations(range(3)), repeat=2):
        if (sum(before[:1]) + sum(after[:1])) % 2:
            check(*case(kind, "c64", (3, 20, 18), (20, 18), before, after), "c64", 20)


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("rows", [1, 2, 5, 15, 16, 17, 33])
@pytest.mark.parametrize("n", [10, 34, 48, 97])
def test_rows_that_lie_side_by_side(kind: str, rows: int, n: int) -> None:
    for et in _COMPLEX:
        check(*case(kind, et, (rows, n), (n,), (0, 1), (0, 1)), et, n)


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("n", [20, 300])
def test_rows_that_are_computed_as_they_are_read(kind: str, n: int) -> None:
    text, x = case(kind, "c64", (5, n), (n,))
    type_ = text.split("x = ")[1].split(" ")[0]
    computed = text.replace("ROOT r", f"y = {type_} negate(x)\n  ROOT r").replace(
        "fft(x)", "fft(y)"
    )
    check(computed, x, "c64", n)


def test_an_operand_in_tiles() -> None:
    text, x = case("IRFFT", "c64", (6, 20), (6, 20))
    check(text.replace("{1,0} parameter", "{1,0:T(2,4)} parameter"), x, "c64", 20)


def test_a_real_line_ignores_imaginary_parts_that_it_cannot_have() -> None:
    text, x = case("IRFFT", "c128", (8,), (8,))
    y = x.copy()
    y[[0, -1]] += 5j
    np.testing.assert_array_equal(*(run_leaves(text, [v])[0] for v in (x, y)))


def test_threads_do_not_change_a_transform() -> None:
    text, x = case("FFT", "c64", (200, 300), (200, 300))
    one, two = (compile_text(text.encode(), "m", cache=False, threads=t)(x) for t in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_there_and_back() -> None:
    n = 1 << 15
    text, x = case("FFT", "c64", (n,), (n,))
    back, _ = case("IFFT", "c64", (n,), (n,))
    (y,) = run_leaves(text, [x])
    np.testing.assert_allclose(run_leaves(back, [y])[0], x, atol=2e-5)


def test_good_lengths_are_the_smallest_of_small_primes() -> None:
    for least in (1, 2, 7, 11, 13, 97, 1001, 2017):
        n = next(n for n in itertools.count(least) if set(prime_factors(n)) <= {2, 3, 5})
        assert good_length(least) == n
