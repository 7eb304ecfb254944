"""Seeded edits, hidden among other names and another order: each is found, and nothing else."""

from __future__ import annotations

import pytest

import hlo
from tests.generators.edits import EDITS
from tests.harness.paths import ROOT
from tests.sweeps.compare_edits import try_edit

_FILES = ("resnet20.hlo", "rnn_scan.hlo", "gpt_block.hlo")


@pytest.fixture(scope="module")
def modules() -> dict[str, hlo.Module]:
    return {file: hlo.load(ROOT / "examples" / file) for file in _FILES}


@pytest.mark.parametrize("kind", EDITS)
def test_an_edit_is_all_that_is_found(kind, modules):
    tried = 0
    for seed, (file, module) in enumerate(modules.items()):
        problem, found = try_edit(module, kind, seed)
        assert not problem, f"{file} {seed}: {problem}\n{found}"
        tried += found is not None
    assert tried
