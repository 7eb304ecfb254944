"""The examples run, and give what XLA gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hlo_tools.fmt import main as hlo_fmt

import hlo
from tests.harness.oracle import assert_same, xla_run
from tests.harness.paths import EXAMPLES

FILES = sorted(EXAMPLES.glob("*.hlo"))


def test_the_examples_are_in_canonical_form() -> None:
    done = CliRunner().invoke(hlo_fmt, ["--check", str(EXAMPLES)])
    assert done.exit_code == 0, done.stderr


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_an_example_gives_what_xla_gives(path: Path) -> None:
    module = hlo.load(path)
    rng = np.random.default_rng(1)
    arguments = []
    for shape in module.entry.parameter_shapes:
        assert isinstance(shape, hlo.ArrayShape)
        dtype = shape.element_type.dtype
        if shape.element_type.is_float:
            arguments.append((rng.standard_normal(shape.dims) * 0.1).astype(dtype))
        else:
            arguments.append(rng.integers(0, 10, shape.dims).astype(dtype))
    want = xla_run(path.read_text(), arguments)
    for result in (
        hlo.interpret(module, *arguments),
        hlo.compile(module, cache=False)(*arguments),
    ):
        got = result if isinstance(result, tuple) else (result,)
        flat = [x for g in got for x in (g if isinstance(g, tuple) else (g,))]
        assert len(flat) == len(want)
        for g, w in zip(flat, want, strict=True):
            assert_same(g, w, rtol=2e-4, atol=1e-5)
