"""Wrong Python arguments for the builder's methods: an `HloError` that names method and argument.

Each method is called as `builder_cases` does, with one argument replaced. Arguments of wrong number
or name are Python's own `TypeError`.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hlo
from hlo.frontends.builder import XlaBuilder, literal_of
from hlo.frontends.builder.core import operations
from tests.harness.builder_cases import all_cases

CASES = all_cases()


def _deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


class _Foreign:
    """Values of another builder, which is finished."""

    def __init__(self) -> None:
        b = XlaBuilder("foreign")
        self.vector, self.number = b.parameter(0, "f32[2]"), b.parameter(1, "s32[]")
        self.computation = b.build(self.vector + 1.0)


FOREIGN = _Foreign()
NUMBERS = [0, -1, 7, 1.5, float("nan"), float("inf"), 1j, True, 2**31, 2**63, -(2**100), 10**400]
TEXTS = ["", "nonsense", "f32[2", "f32[2,2]", "(f32[2],token[])", "\0", b"x"]
ARRAYS = [
    np.zeros((2, 2)), np.zeros(0), np.array(["a"]), np.array([None, 1], object), np.float64(2),
    np.array([1.5, np.nan]), np.datetime64("2020-01-01"), np.zeros(3, "V4"), np.array(3),
]  # fmt: skip
NESTED = [
    [], [[]], [None], ["a"], [1.5], [-1], [2**70], [[1, 2], [3]], (), (1, (2, 3)), {}, {"a": 1},
    {1, 2}, range(3), _deep(70), _deep(20_000),
]  # fmt: skip
OF_HLO = [
    FOREIGN.vector, [FOREIGN.vector], FOREIGN.number, FOREIGN.computation, [FOREIGN.computation],
    hlo.parse_shape("s32[3]"), hlo.parse_shape("token[]"), literal_of(1), XlaBuilder("b"),
]  # fmt: skip
FUNCTIONS = [lambda: None, lambda *a: None, lambda *a: 5, lambda *a: FOREIGN.vector, lambda *a: a]
NONSENSE = [
    None, ..., slice(1, 2), SimpleNamespace(), np, iter([1]),
    *NUMBERS, *TEXTS, *ARRAYS, *NESTED, *OF_HLO, *FUNCTIONS,
]  # fmt: skip


def call(name: str, replace: Callable[[list[Any], dict[str, Any]], None]) -> None:
    """Run a case with the arguments of its method changed."""
    method, is_first = name.split(":")[0], [True]
    original = getattr(XlaBuilder, method)

    @functools.wraps(original)
    def changed(self: XlaBuilder, *args: Any, **kwargs: Any) -> Any:
        given = list(args)
        if is_first[0]:
            is_first[0] = False
            replace(given, kwargs)
        return original(self, *given, **kwargs)

    b, numbers = XlaBuilder("nonsense"), itertools.count()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(XlaBuilder, method, changed)
        CASES[name](b, lambda shape: b.parameter(next(numbers), shape))


@settings(max_examples=1500, deadline=None, derandomize=True)
@given(name=st.sampled_from(sorted(CASES)), at=st.integers(0, 9), value=st.sampled_from(NONSENSE))
def test_an_argument_of_any_kind_is_taken_or_an_error(name: str, at: int, value: Any) -> None:
    def replace(args: list[Any], kwargs: dict[str, Any]) -> None:
        keys = [*range(len(args)), *kwargs]
        if keys:
            key = keys[at % len(keys)]
            (args if isinstance(key, int) else kwargs)[key] = value  # type: ignore[index]

    try:
        call(name, replace)
    except hlo.HloError as e:
        assert 0 < len(str(e)) < 3000


@pytest.mark.parametrize("name", operations(XlaBuilder))
def test_too_many_arguments_are_a_type_error(name: str) -> None:
    with pytest.raises(TypeError, match="argument"):
        getattr(XlaBuilder("many"), name)(*[None] * 40)


@pytest.mark.parametrize("value", NONSENSE, ids=lambda v: type(v).__name__)
def test_calls_that_append_nothing(value: Any) -> None:
    b = XlaBuilder("queries")
    x = b.parameter(0, "f32[2]")
    calls: list[Callable[[], object]] = [
        lambda: XlaBuilder(value), lambda: b.create_sub_builder(value), lambda: b.get_shape(value),
        lambda: b.get_program_shape(value), lambda: b.check_same_shape(x, value),
        lambda: b.set_die_immediately_on_error(value), lambda: b.set_return_value(value),
        lambda: b.sharding(value), lambda: b.frontend_attributes(value), lambda: b.build(value),
        lambda: b.metadata(op_name=value), lambda: b.is_constant(value), lambda: x[value],
        lambda: b.compute_constant(value), lambda: literal_of(value), lambda: literal_of(1, value),
        lambda: b.build(x).module(value), lambda: b.build_and_note_error(value),
        lambda: b.create_conv_dimension_numbers(*[value] * 8),
        lambda: b.create_default_conv_dimension_numbers(value), lambda: x + value,
    ]  # fmt: skip
    for attempt in calls:
        try:
            attempt()
        except hlo.HloError as e:
            assert str(e)


@pytest.mark.parametrize(
    ("attempt", "error"),
    [
        (lambda b, x: b.transpose(x, [0, "1"]), "permutation is [0, '1'], a sequence of integers"),
        (lambda b, x: b.rev(5, (0,)), "rev: operand is 5, an XlaOp is needed"),
        (lambda b, x: b.iota("s32[3]", 2**70), "iota_dimension is 1180591620717411303424,"),
        (lambda b, x: b.cholesky(x, "yes"), "cholesky: lower is 'yes', True or False is needed"),
        (lambda b, x: b.call(3, [x]), "call: computation is 3, an XlaComputation or"),
        (lambda b, x: b.tuple_(x), "elements is <XlaOp parameter: f32[2,3]>, a sequence"),
        (lambda b, x: b.constant(1, "f31"), "constant: 'f31' is not an element type"),
        (lambda b, x: b.add(x, [[1, 2], [3]]), "its lists differ in length"),
    ],
)  # fmt: skip
def test_what_an_error_says(attempt: Callable[..., object], error: str) -> None:
    b = XlaBuilder("words")
    with pytest.raises(hlo.HloError) as e:
        attempt(b, b.parameter(0, "f32[2,3]"))
    assert error in str(e.value)
    assert __file__ in str(e.value)
