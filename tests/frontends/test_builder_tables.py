"""The documents' tables of functions, comparisons and bits, on the values where they can go wrong.

The interpreter, compiled code and XLA:CPU all have to give what the page's definition gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import hlo
from hlo.frontends.builder import XlaBuilder, XlaOp
from tests.harness.oracle import assert_same, leaves, xla_run

_INF, _NAN = math.inf, math.nan


def results(program: Callable[..., list[XlaOp]], *args: np.ndarray) -> dict[str, list[Any]]:
    """Return what each implementation makes of a program with several results."""
    b = XlaBuilder("table")
    handles = [b.parameter(i, hlo.Literal.of(a).shape) for i, a in enumerate(args)]
    module = b.build(b.tuple_(program(b, *handles))).module()
    return {
        "interpreted": leaves(hlo.interpret(module, *args)),
        "compiled": leaves(hlo.compile(module, cache=False, passes="")(*args)),
        "XLA": xla_run(str(module), list(args)),
    }


# --- functions of one number --------------------------------------------------------------------

_X = np.float32(
    [0.0, -0.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 0.49999997, 3.75, -3.75, 20.0, -20.0, 8388609.0,
     1e-30, -1e-30, _INF, -_INF, _NAN]
)  # fmt: skip


def _round(x: Any) -> Any:
    return np.copysign(np.floor(np.abs(x.astype(np.float64)) + 0.5), x)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "abs_": np.abs, "cbrt": np.cbrt, "ceil": np.ceil, "cos": np.cos,
    "erf": np.vectorize(math.erf), "exp": np.exp, "expm1": np.expm1, "floor": np.floor,
    "imag": np.zeros_like, "is_finite": np.isfinite, "log": np.log, "log1p": np.log1p,
    "logistic": lambda x: 1 / (1 + np.exp(-x)), "neg": np.negative, "real": lambda x: x,
    "round_": _round, "round_nearest_afz": _round, "round_nearest_even": np.rint,
    "rsqrt": lambda x: 1 / np.sqrt(x), "sign": lambda x: np.where(x == 0, x, np.sign(x)),
    "sin": np.sin, "sqrt": np.sqrt, "tan": np.tan, "tanh": np.tanh,
}  # fmt: skip


@pytest.fixture(scope="module")
def of_floats() -> dict[str, list[Any]]:
    return results(lambda b, x: [getattr(b, name)(x) for name in FUNCTIONS], _X)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_function_of_floats(name: str, of_floats: dict[str, list[Any]]) -> None:
    want = FUNCTIONS[name](_X.astype(np.float64))
    want = want.astype(bool if name == "is_finite" else np.float32)
    for who, found in of_floats.items():
        got = found[list(FUNCTIONS).index(name)]
        # Where the sign of a zero follows from the definition it is compared too.
        exact = name in ("abs_", "ceil", "floor", "neg", "real", "round_", "sign", "sqrt", "sin")
        assert_same(got, want, atol=1e-6, signed_zero=exact, what=who)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64])
def test_bits_are_counted(dtype: type) -> None:
    bits = np.iinfo(dtype).bits
    x = np.array([0, 1, 5, 2 ** (bits - 2)], np.uint64).astype(dtype)
    x = np.append(x, ~dtype(0))
    texts = [np.binary_repr(int(v) % 2**bits, bits) for v in x]
    want = [
        np.array([len(t) - len(t.lstrip("0")) for t in texts], dtype),
        np.array([t.count("1") for t in texts], dtype),
        ~x,
    ]
    for who, got in results(
        lambda b, v: [b.clz(v), b.population_count(v), b.not_(v)], x
    ).items():  # fmt: skip
        assert_same(tuple(got), tuple(want), what=who)


def test_truth_and_bits() -> None:
    p, q = np.bool_([0, 0, 1, 1]), np.bool_([0, 1, 0, 1])
    x, y = np.int32([12, -1, 0, 7]), np.int32([10, 5, -8, 7])
    want = (p & q, p | q, p ^ q, ~p, x & y, x | y, x ^ y, ~x)
    for who, got in results(
        lambda b, p, q, x, y: [
            b.and_(p, q), b.or_(p, q), b.xor(p, q), b.not_(p),
            b.and_(x, y), b.or_(x, y), b.xor(x, y), b.not_(x),
        ],
        p, q, x, y,
    ).items():  # fmt: skip
        assert_same(tuple(got), want, what=who)


def test_parts_of_complex_numbers() -> None:
    z = np.complex64([3 + 4j, -2j, 0, complex(-5, 0)])
    want = (np.abs(z), z.real, z.imag, np.complex64([0.6 + 0.8j, -1j, 0, -1]))
    for who, got in results(lambda b, z: [b.abs_(z), b.real(z), b.imag(z), b.sign(z)], z).items():
        assert_same(tuple(got), want, what=who)


def test_a_remainder_has_the_sign_of_the_dividend_and_is_less_than_the_divisor() -> None:
    x, y = np.float32([5.5, -5.5, 5.5, -5.5, 0.0, -0.0]), np.float32([2, 2, -2, -2, 3, 3])
    i, j = np.int32([7, -7, 7, -7]), np.int32([4, 4, -4, -4])
    for who, (f, n) in results(
        lambda b, x, y, i, j: [b.rem(x, y), b.rem(i, j)], x, y, i, j
    ).items():
        assert f.tolist() == [1.5, -1.5, 1.5, -1.5, 0, 0], who
        assert np.array_equal(np.signbit(f), np.signbit(x)), who
        assert n.tolist() == [3, -3, 3, -3], who


# --- comparisons --------------------------------------------------------------------------------

_DIRECTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": np.equal, "ne": np.not_equal, "ge": np.greater_equal, "gt": np.greater,
    "le": np.less_equal, "lt": np.less,
}  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_the_total_order(dtype: type) -> None:
    """Each value of the page's chain is less than those after it, and equal to itself alone."""
    chain = np.array([-_NAN, -_INF, -1.5, -0.0, 0.0, 1.5, _INF, _NAN]).astype(dtype)
    chain[0] = -np.abs(chain[0])
    assert np.signbit(chain[0]) and not np.signbit(chain[-1])
    place = np.arange(len(chain))
    whole = [f(place[:, None], place) for f in _DIRECTIONS.values()]
    exact = chain.astype(np.float64)
    ieee = [f(exact[:, None], exact) for f in _DIRECTIONS.values()]
    for who, got in results(
        lambda b, x, y: [
            getattr(b, name + order)(x, y)
            for order in ("_total_order", "")
            for name in _DIRECTIONS
        ],
        chain[:, None], chain[None],
    ).items():  # fmt: skip
        assert_same(tuple(got), (*whole, *ieee), what=who)


def test_the_total_order_of_integers_is_their_order() -> None:
    x, y = np.int32([-1, 2, 2]), np.int32([1, 2, -2])
    for who, (less, equal) in results(
        lambda b, x, y: [b.lt_total_order(x, y), b.eq_total_order(x, y)], x, y
    ).items():
        assert (less.tolist(), equal.tolist()) == ([1, 0, 0], [0, 1, 0]), who


# --- formats ------------------------------------------------------------------------------------


def test_reduced_precision() -> None:
    """Rounded to even, infinite out of range, NaN kept; more bits than there are change nothing."""
    x = np.float32([1 + 2**-11, 1 + 3 * 2**-11, 65519, 65520, -1e9, _NAN, -0.0, 1e-8, 3.14159])
    with np.errstate(over="ignore"):
        half = x.astype(np.float16).astype(np.float32)
    half[7] = 0  # what a format's smallest normal number is above is 0
    for who, (narrow, same) in results(
        lambda b, x: [b.reduce_precision(x, 5, 10), b.reduce_precision(x, 11, 52)], x
    ).items():
        assert_same((narrow, same), (half, x), signed_zero=True, what=who)


def test_integers_become_the_nearest_floats_ties_to_even() -> None:
    x = np.int32([2**24 + 1, 2**24 + 3, -(2**24) - 1, 2**31 - 1, -(2**31)])
    for who, (got,) in results(lambda b, x: [b.convert_element_type(x, "f32")], x).items():
        assert_same(got, x.astype(np.float32), ulps=0, what=who)
