"""Native code between guard pages: `guard_pages.py` is the long form."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.harness.paths import ROOT
from tests.sweeps.guard_pages import CASES, sweep

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs mprotect")


def test_nothing_outside_of_arrays_is_touched() -> None:
    cases = [(kind, seed) for kind in CASES for seed in range(100, 105)]
    assert not sweep(cases, threads=2, quick=True)


def test_products_stay_within_their_panels() -> None:
    """Zeros for pairs of bytes were written as far as if each stood alone."""
    assert not sweep([("dots", seed) for seed in range(60)], quick=True)


# Reads and writes of four floats: by a program for them that is given three, and by one as it is.
OUTSIDE = """
import sys
from tests.sweeps.guard_pages import Guards
import hlo, numpy as np
from hlo.runtime import executable
exe = hlo.compile(hlo.parse("f32[4096] negate(f32[4096] a)"), cache=False)
guards, less = Guards(at_end=True, fill=0), int(sys.argv[1])
args = guards.copy(np.ones(4096 - less, np.float32))
exe._run([args], {})
print("ran")
"""


@pytest.mark.parametrize("less", [0, 1])
def test_an_access_outside_ends_the_process(less: int) -> None:
    run = [sys.executable, "-c", OUTSIDE, str(less)]
    done = subprocess.run(run, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.stdout, done.returncode < 0) == (("", True) if less else ("ran\n", False))
