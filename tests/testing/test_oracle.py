"""The oracle itself: what it returns, what it survives, and what its comparison lets pass."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from hlo.values.arrays import TOKEN_VALUE
from tests.harness.oracle import XlaError, assert_same, leaves, xla_parse, xla_run

ONE = np.float32(1)


def test_results_are_flat_and_have_their_own_types() -> None:
    text = "((bf16[2]), s4[1]) tuple((bf16[2]) a, s4[1] b)"
    a, b = np.ones(2, ml_dtypes.bfloat16), np.ones(1, ml_dtypes.int4)
    got = xla_run(text, [(a,), b])
    assert [g.dtype for g in got] == [a.dtype, b.dtype]
    assert_same(got, ((a,), b))


def test_a_crash_is_an_error_and_the_next_question_is_answered() -> None:
    with pytest.raises(XlaError, match="crashed"):
        xla_parse("f32[3] reshape(f32[2] a)")
    assert "negate" in xla_parse("f32[2] negate(f32[2] a)")


def test_a_bad_text_is_an_error() -> None:
    with pytest.raises(XlaError, match="Syntax error"):
        xla_parse("hello")


@pytest.mark.parametrize(
    ("got", "want"),
    [
        (ONE, np.float32(1.001)),
        (ONE, np.float64(1)),
        (ONE, np.ones(1, np.float32)),
        (np.float32(np.inf), np.float32(-np.inf)),
        (np.float32(np.inf), np.float32(3e38)),
        (np.float32(np.nan), ONE),
        (np.int32(1), np.int32(2)),
        (np.complex64(1 + 2j), np.complex64(1 - 2j)),
        (np.float32(1).astype(ml_dtypes.bfloat16), np.float32(1.05).astype(ml_dtypes.bfloat16)),
        ((ONE, ONE), (ONE,)),
    ],
)
def test_what_differs_is_not_the_same(got: object, want: object) -> None:
    with pytest.raises(AssertionError):
        assert_same(got, want)


@pytest.mark.parametrize(
    ("got", "want"),
    [
        (ONE, np.nextafter(ONE, np.float32(2))),
        (np.float32(np.nan), np.float32(np.nan)),
        (np.float32(0), np.float32(-0.0)),
        (np.complex64(1e8 + 1j), np.complex64(1e8 + 2j)),
        ((ONE, TOKEN_VALUE), [ONE]),
        (np.ones((0, 3), np.float32), np.ones((0, 3), np.float32)),
    ],
)
def test_what_agrees_is_the_same(got: object, want: object) -> None:
    assert_same(got, want)


def test_the_sign_of_zero_can_be_asked_for() -> None:
    with pytest.raises(AssertionError):
        assert_same(np.float32(0), np.float32(-0.0), signed_zero=True)


def test_leaves_are_in_order_without_tokens() -> None:
    assert leaves((1, (2, TOKEN_VALUE, (3,)), [4])) == [1, 2, 3, 4]
