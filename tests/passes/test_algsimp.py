"""Every rule of the algebraic simplifier has a case in which it fires and one in which it must not.

The cases are `filetests/passes/algsimp/*.hlo`. A comment names a rule, `// NAME: equation` where it
fires and `// not NAME: reason` where it must not; that results stay the same is checked with all
file tests. Rules that have to be asked for must not fire there without that.
"""

from __future__ import annotations

import functools
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import hlo
from hlo.ir.builder import Builder
from hlo.passes import find_pass, parse_pipeline, run_pipeline
from hlo.passes.algsimp._rules import NEEDED_OPTION, RULES
from tests.harness.paths import TESTS

_FILES = sorted((TESTS / "filetests/passes/algsimp").glob("*.hlo"))
_NAMED = re.compile(r"^// (not )?([a-z]\w*): ", re.MULTILINE)
_RUN = re.compile(r"^// RUN: (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Case:
    """The text of a case, its passes, and which rules are to fire in it, are not, and did."""

    text: str
    passes: str
    fire: frozenset[str]
    stay: frozenset[str]
    fired: frozenset[str]


def _fired(text: str, passes: str) -> frozenset[str]:
    runs = run_pipeline(hlo.parse(text), parse_pipeline(passes))
    return frozenset(rewrite.rule for run in runs for rewrite in run.rewrites)


@functools.cache
def _cases(path: Path) -> list[Case]:
    found = []
    for text in path.read_text().split("// -----\n"):
        names = {False: set[str](), True: set[str]()}
        for negative, name in _NAMED.findall(text):
            names[bool(negative)].add(f"algsimp.{name}")
        run = _RUN.search(text)
        assert run is not None
        passes = shlex.split(run[1])[1].removeprefix("--passes=")
        fire, stay = frozenset(names[False]), frozenset(names[True])
        found.append(Case(text, passes, fire, stay, _fired(text, passes)))
    return found


def _asked_for() -> set[str]:
    """Return the rules that an option brings or takes away."""
    find_pass("algsimp")
    return {r.name for r in RULES.rules.values() if r.approximate or r.name in NEEDED_OPTION}


@pytest.mark.parametrize("path", _FILES, ids=lambda p: p.stem)
def test_rules_fire_where_cases_say(path: Path) -> None:
    for case in _cases(path):
        assert case.fire <= case.fired, case.text
        assert not case.stay & case.fired, case.text


@pytest.mark.parametrize("path", _FILES, ids=lambda p: p.stem)
def test_rules_to_ask_for_fire_only_then(path: Path) -> None:
    for case in _cases(path):
        if asked := case.fire & _asked_for():
            assert not asked & _fired(case.text, "algsimp{approximate=false}"), case.text


def test_every_rule_has_cases() -> None:
    find_pass("algsimp")
    cases = [case for path in _FILES for case in _cases(path)]
    fire = {name for case in cases for name in case.fire}
    stay = {name for case in cases for name in case.stay}
    assert not RULES.rules.keys() - fire, "no case in which it fires"
    assert not RULES.rules.keys() - stay, "no case in which it must not fire"
    assert fire | stay == RULES.rules.keys()


def test_options_are_those_of_the_pass() -> None:
    assert {*NEEDED_OPTION.values()} <= find_pass("algsimp").options.keys()


@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.stem)
def test_rules_find_nothing_without_the_operands_that_they_ask_for(path: Path) -> None:
    """A rule that is not asked, by the opcodes of an instruction's operands, would not fire."""
    find_pass("algsimp")
    for case in _cases(path):
        for comp in hlo.parse(case.text).computations:
            for inst in comp.in_order():
                near = [o.opcode for o in inst.operands]
                dynamic = inst.shape.is_dynamic or any(o.shape.is_dynamic for o in inst.operands)
                for rule in RULES.of(inst.opcode):
                    if near and not dynamic and not rule.may_apply(inst.opcode, near):
                        assert rule.rewrite(inst, Builder(comp, inst)) is None, rule.name


def test_quotients_of_bf16_by_few_divisors_are_rounded_once() -> None:
    """Of all numerators, and divisors of each kind of exponent with all significands."""
    exponents = [0, 1, 2, 60, 63, 64, 120, 127, 128, 190, 191, 192, 250, 253, 254, 255]
    divisors = [sign << 15 | e << 7 | m for e in exponents for m in range(128) for sign in (0, 1)]
    x = np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16)
    y = np.array(divisors, np.uint16).view(ml_dtypes.bfloat16)[:, None]
    text = """HloModule m
      ENTRY e {
        x = bf16[65536] parameter(0)
        y = bf16[64] parameter(1)
        xs = bf16[64,65536] broadcast(x), dimensions={1}
        ys = bf16[64,65536] broadcast(y), dimensions={0}
        ROOT r = bf16[64,65536] divide(xs, ys)
      }"""
    module = hlo.parse(text)
    one = hlo.parse("bf16[64,65536] divide(bf16[64,65536] x, bf16[64,65536] y)")
    by_rule, divided = (hlo.compile(m, passes="algsimp") for m in (module, one))
    for block in y.reshape(-1, 64, 1):
        got = by_rule(x, block[:, 0]).view(np.uint16)
        want = divided(*np.broadcast_arrays(x, block)).view(np.uint16)
        differ = (got != want) & ((got & 0x7FFF <= 0x7F80) | (want & 0x7FFF <= 0x7F80))
        assert not differ.any(), block[np.argwhere(differ)[0][0]]
