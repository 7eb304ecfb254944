"""`hlo.first_divergence`: seeded miscompilations are named, rounding is none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hlo
from hlo.debug.divergence import screen
from hlo.debug.divergence.record import Divergence
from tests.generators.miscompilations import mark, plant, register, sites
from tests.generators.miscompiled_programs import PROGRAMS, Program, program

_X = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)


def named(found: Divergence | None) -> str:
    return "" if found is None else found.instruction


@pytest.mark.parametrize("which", PROGRAMS[:40], ids=str)
def test_a_wrong_rule_is_named(which: Program) -> None:
    module, bad = program(which)
    register()
    marked = hlo.parse(str(mark(module, which.kind, bad)))
    # Without native code, which takes longest: below is what is different there.
    found = hlo.first_divergence(marked, _X, backend="reference{passes=miscompile,default}")
    assert named(found) == "bad"
    assert found is not None and found.between == "passes"
    assert any(f"miscompile.{which.kind} at bad" in rule for rule in found.rules)
    if "loop" in which.depth:
        trips = {"loop": 5, "long loop": 40}[which.depth]
        assert found.iteration == (trips if which.kind == "one-more-iteration" else 0)


@pytest.mark.parametrize("renames", [False, True])
@pytest.mark.parametrize("which", PROGRAMS[:40:4], ids=str)
def test_a_wrong_file_is_told_from_the_right_one(which: Program, renames: bool) -> None:
    module, bad = program(which)
    wrong = plant(module, which.kind, bad, renames=renames)
    module, wrong = (hlo.parse(str(m)) for m in (module, wrong))
    found = hlo.first_divergence(module, _X, against=wrong, backend="reference")
    # An initial value that is another constant now may as well be that constant's fault.
    assert named(found) == "bad" or which.kind == "wrong-initial-value"
    assert found is not None and found.between == "module"


@pytest.mark.parametrize("which", PROGRAMS[:40:13], ids=str)
def test_native_code_finds_the_place_where_the_interpreter_would_take_long(
    which: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screen, "_LEAST_WORK", -1)
    module, bad = program(which)
    register()
    marked = hlo.parse(str(mark(module, which.kind, bad)))
    passes = "miscompile,default"
    for backend in (f"compiled{{passes={passes}}}", f"reference{{passes={passes}}}"):
        assert named(hlo.first_divergence(marked, _X, backend=backend)) == "bad"
    assert hlo.first_divergence(module, _X, backend="compiled", against="compiled{passes=}") is None


SORTED = """HloModule sorted
less { a = f32[] parameter(0) b = f32[] parameter(1) c = s32[] parameter(2) d = s32[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=LT }
ENTRY e { x = f32[16] parameter(0) i = s32[16] iota(), iota_dimension=0
  s = (f32[16], s32[16]) sort(x, i), dimensions={0}, to_apply=less
  y = f32[16] get-tuple-element(s), index=0
  ROOT z = f32[16] negate(y) }"""


def test_one_of_several_results_that_is_wrong_is_named() -> None:
    module, wrong = hlo.parse(SORTED), hlo.parse(SORTED.replace("direction=LT", "direction=GT"))
    x = np.arange(16, dtype=np.float32)
    found = hlo.first_divergence(module, x, against=wrong, backend="reference")
    assert named(found) in ("s", "y")


@pytest.mark.parametrize("which", PROGRAMS[:8], ids=str)
def test_the_default_passes_are_right(which: Program) -> None:
    module, _ = program(which)
    assert hlo.first_divergence(module, _X) is None


DEEP = "HloModule deep\nENTRY e {{ x = f32[64,64] parameter(0)\n{lines}\nROOT r = f32[] tanh(z) }}"


def _deep(layers: int) -> str:
    """Return the text of layers whose sums another order of addition rounds otherwise."""
    lines, last = [], "x"
    for n in range(layers):
        lines += [
            f"d{n} = f32[64,64] dot({last}, {last}), lhs_contracting_dims={{1}}, "
            "rhs_contracting_dims={0}",
            f"t{n} = f32[64,64] sine(d{n})",
        ]
        last = f"t{n}"
    lines.append(f"s = f32[1,1] slice({last}), slice={{[0:1], [0:1]}}")
    lines.append("z = f32[] reshape(s)")
    return DEEP.format(lines="\n".join(lines))


def test_rounding_that_grows_is_no_wrong_instruction() -> None:
    module = hlo.parse(_deep(30))
    x = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    found = hlo.first_divergence(module, x)
    assert found is None or found.kind == "growth"


def test_what_a_machine_gets_wrong_is_named() -> None:
    from hlo.debug.divergence.segments import Machine
    from hlo.debug.divergence.tolerance import Tolerance
    from hlo.eval.interpreter import Interpreter, interpret

    for which in PROGRAMS[:40]:
        module, bad = program(which)

        def wrong(module: Any, values: Any, bad: Any = bad, kind: str = which.kind) -> Any:
            """Run a module with each instruction called `bad` wrong that can be."""
            for name, inst in list(sites(module)):
                if name == kind and (inst.name, inst.opcode) == (bad.name, bad.opcode):
                    module = plant(module, kind, inst)
            return interpret(module, values)

        machine = Machine(wrong, Interpreter(), Tolerance())
        found = machine.first_wrong(module, [_X])
        assert found is not None, which
        if which.kind not in ("one-more-iteration", "wrong-initial-value"):
            assert found.at.name == "bad", which


def test_modules_that_cannot_be_compared_are_errors() -> None:
    module = hlo.parse("HloModule a ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] tanh(x) }")
    other = hlo.parse("HloModule b ENTRY e { x = f32[3] parameter(0) ROOT y = f32[3] tanh(x) }")
    with pytest.raises(hlo.HloError, match="does not take and give"):
        hlo.first_divergence(module, [1, 2], against=other)
    with pytest.raises(hlo.HloError, match="did you mean 'reference'"):
        hlo.first_divergence(module, [1, 2], against="referense")
    with pytest.raises(hlo.HloError, match="there is no pass called nothing"):
        hlo.first_divergence(module, [1, 2], against="compiled{passes=nothing}")
