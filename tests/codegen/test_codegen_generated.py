"""Random modules mean the same compiled. `make sweep` is for thousands of them."""

from __future__ import annotations

import pytest

from tests.generators.nested import generate_nested
from tests.generators.ops import MAKERS, generate_ops
from tests.sweeps.compare_generated import GENERATORS, compare_compiled, compare_text


@pytest.mark.parametrize("first", range(0, 24, 8))
@pytest.mark.parametrize("kind", GENERATORS)
def test_generated_modules_compute_compiled_what_they_mean(kind: str, first: int) -> None:
    for seed in range(first, first + 8):
        compare_compiled(GENERATORS[kind](seed))


@pytest.mark.parametrize("seed", range(0, 30))
def test_a_generated_nested_module_verifies_and_reads_back(seed: int) -> None:
    compare_text(generate_nested(seed))


@pytest.mark.parametrize("maker", MAKERS)
def test_a_generated_operation_verifies_and_reads_back(maker: str) -> None:
    compare_text(generate_ops(0, maker).module)
