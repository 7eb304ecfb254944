"""A thousand mutated modules; `make fuzz` does twenty thousand."""

from __future__ import annotations

import pytest

from tests.sweeps.fuzz import NESTING, failure, mutants


@pytest.mark.parametrize("seed", range(10))
def test_mutated_modules_give_only_our_errors(seed: int) -> None:
    for text in mutants(100, seed + 1):
        found = failure(text)
        assert found is None, f"{found}\n{text[:2000]}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\0",
        "(" * NESTING,
        "{" * NESTING,
        "/*" * NESTING,
        "f32[] add(" * NESTING,
        "HloModule m\nENTRY e { ROOT r = f32[] constant(" + "{" * NESTING,
        "HloModule m\nENTRY e { ROOT r = " + "(" * NESTING + "f32[]" + ")" * NESTING + " tuple()",
        "HloModule m, x=" + "{" * NESTING,
        "HloModule m\n" + "e { ROOT r = f32[] call(), to_apply={" * NESTING,
        'HloModule m\nENTRY e { ROOT r = f32[] parameter(0), metadata={op_name="',
        "f32[" + "1," * NESTING + "1] negate(f32[] a)",
        "ROOT " * NESTING,
        "%" * NESTING,
        "f32[2]{0:" + "T(1)" * NESTING + "} negate(f32[2] a)",
    ],
    ids=range(15),
)
def test_extreme_texts_give_only_our_errors(text: str) -> None:
    assert failure(text) is None
