"""Seeded edits, hidden among other names and another order: each is found, and nothing else."""

from __future__ import annotations

import random

import pytest

import hlo
from tests.generators.edits import EDITS, edit
from tests.generators.shuffled import shuffle
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


def test_edits_far_apart_leave_what_lies_between_them_alone(modules):
    module = modules["gpt_block.hlo"]
    edited = module.clone()
    rng = random.Random(3)
    made = [edit(edited, kind, rng) for kind in ("opcode", "constant", "insert", "annotation")]
    other, became = shuffle(edited, 1)
    before = {name for m in made if m for name in m.before}
    after = {became[i] for m in made if m for i in m.after}
    found = hlo.diff(module, other).changes
    assert {(c.left.parent.name, c.left.name) for c in found if c.left} == before
    assert {c.right for c in found if c.right} == after
