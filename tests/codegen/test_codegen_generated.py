"""Random modules mean the same compiled. `make sweep` is for thousands of them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.generators.nested import generate_nested
from tests.generators.ops import MAKERS, generate_ops
from tests.harness.paths import ROOT
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


@pytest.mark.parametrize("kind", ["nested", "rows", "large-sort", "large-reduce"])
def test_small_modules_are_computed_in_the_ways_of_large_ones(kind: str) -> None:
    """In a process of its own, whose limits are lowered."""
    command = [sys.executable, "-m", "tests.sweeps.compare_generated", "--kind", kind]
    command += ["--first", "10", "--count", "8", "--low-limits", "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
