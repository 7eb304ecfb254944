"""Every example of the op table, compiled: it computes what the interpreter computes."""

from __future__ import annotations

import numpy as np
import pytest

from hlo.compiler.pipeline import compile as compile_module
from hlo.eval import interpret
from hlo.frontends.text import parse
from tests.harness.oracle import assert_same
from tests.ops.test_op_table import EXAMPLES, arguments, example, host, ids, visible

# The numbers are free, so that two runs cannot be compared.
NOT_COMPARED = {"rng"}
# One NaN or infinity reaches every sum, and which parts of it become NaN is up to the algorithm.
NOT_ON_EDGES = {"fft"}


@pytest.mark.parametrize("case", EXAMPLES, ids=ids)
def test_an_example_compiles_to_what_it_means(case: tuple[str, int]) -> None:
    module = parse(example(*case))
    for edges in (False,) if case[0] in NOT_ON_EDGES else (False, True):
        args = arguments(module, case[0], edges=edges)
        exe = compile_module(module, cache=False, host=host(module), passes="")
        got = visible(exe(*args))
        want = visible(interpret(module, args, host(module)))
        assert [(g.dtype, g.shape) for g in got] == [(w.dtype, w.shape) for w in want]
        if case[0] in NOT_COMPARED:
            continue
        for g, w in zip(got, want, strict=True):
            # Sums of terms that cancel are as exact as their terms, which are as large as others.
            values = np.abs(w.astype(np.complex128))
            largest = float(np.max(values, initial=0.0, where=np.isfinite(values)))
            assert_same(g, w, atol=1e-6 * largest)
