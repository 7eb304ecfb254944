"""The default pipeline keeps results, validity and ends, on random modules and on the op table."""

from __future__ import annotations

import pytest
from compare_generated import GENERATORS, compare_compiled
from compare_passes import compare_pipeline

from hlo.ops import OPS
from hlo.text import parse


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", GENERATORS)
def test_random_modules(kind: str, seed: int) -> None:
    case = GENERATORS[kind](seed)
    compare_pipeline(case.module, "default")
    compare_compiled(case)  # fused as it is now


@pytest.mark.parametrize(
    "text", [pytest.param(t, id=f"{o}-{n}") for o in OPS for n, t in enumerate(OPS[o].examples)]
)
def test_examples_of_the_op_table(text: str) -> None:
    compare_pipeline(parse(text), "default")
