"""Random valid modules: they verify, survive printing, and mean what XLA takes them to mean."""

from __future__ import annotations

import numpy as np
import pytest

from hlo.eval import interpret
from hlo.frontends.text import parse
from hlo.verifier import verify
from tests.generators.modules import arguments, generate
from tests.harness.oracle import assert_same, xla_run

# Each comparison compiles a module with XLA.
COMPARED = 25


@pytest.mark.parametrize("seed", range(60))
def test_a_generated_module_verifies_and_reads_back(seed: int) -> None:
    module = generate(seed)
    verify(module)
    text = str(module)
    assert str(parse(text)) == text
    verify(parse(text))


@pytest.mark.parametrize("seed", range(COMPARED))
def test_a_generated_module_means_the_same_to_xla(seed: int) -> None:
    module = generate(seed)
    args = arguments(seed, module)
    got = interpret(module, args)
    want = xla_run(str(module), args)
    # Where floats are not exact, an error is carried on from operation to operation.
    for g, w in zip(got, want, strict=True):
        values = np.abs(w.astype(np.float64))
        scale = float(np.max(values, initial=1.0, where=np.isfinite(values)))
        assert_same(g, w, rtol=1e-2 if w.dtype.itemsize <= 2 else 1e-4, atol=1e-5 * scale)
