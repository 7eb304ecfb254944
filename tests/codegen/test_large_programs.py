"""A program of each family of kernels, at the size of real ones; `make sweep` runs many."""

from __future__ import annotations

import random
import warnings

import pytest

from tests.generators.programs import KINDS
from tests.sweeps.compare_large import wrong


@pytest.mark.parametrize("kind", KINDS)
def test_results_are_as_exact_as_those_of_xla(kind: str) -> None:
    with warnings.catch_warnings():
        # Infinities are what some programs compute with.
        warnings.simplefilter("ignore", RuntimeWarning)
        assert not list(wrong(KINDS[kind](random.Random(f"{kind} 0"))))
