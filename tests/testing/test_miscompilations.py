"""The generator of miscompilations makes valid modules that compute something else."""

from __future__ import annotations

import numpy as np
import pytest

import hlo
from hlo.eval import interpret
from hlo.testing.compare import compare
from hlo.verifier import verify
from tests.generators.miscompilations import KINDS, mark, plant, register, sites
from tests.generators.miscompiled_programs import PROGRAMS, Program, embed, program

_X = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)


@pytest.mark.parametrize("which", PROGRAMS[:40], ids=str)
def test_a_program_goes_wrong(which: Program) -> None:
    module, bad = program(which)
    verify(module)
    assert (which.kind, bad) in list(sites(module))
    want = interpret(module, [_X])
    wrong = plant(module, which.kind, bad)
    verify(wrong)
    assert not compare(interpret(wrong, [_X]), want).same
    register()
    passed = hlo.optimize(mark(module, which.kind, bad), "miscompile,default")
    assert not compare(interpret(passed, [_X]), want).same


def test_programs_are_mixed() -> None:
    forty = PROGRAMS[:40]
    assert len({p.kind for p in forty}) >= 12
    assert sum(p.depth != "entry" for p in forty) >= 14
    assert {p.kind for p in PROGRAMS} < set(KINDS)


def test_a_program_is_embedded() -> None:
    module = hlo.parse("""HloModule big ENTRY e {
      x = bf16[8,8] parameter(0)  y = bf16[8,8] negate(x)  ROOT t = (bf16[8,8]) tuple(y) }""")
    which = Program("swapped-operands", "loop")
    copy, bad = embed(module, which)
    verify(copy)
    assert bad.parent is not None and bad.parent.name == "planted.step"
    register()
    wrong = hlo.optimize(copy.clone(), "miscompile")
    args = [np.linspace(-2, 2, 64).reshape(8, 8).astype(module["x"].array_shape.element_type.dtype)]
    first, second = interpret(copy, args), interpret(wrong, args)
    assert compare(second[0], first[0]).same and not compare(second[1], first[1]).same
