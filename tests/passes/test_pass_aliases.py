"""Hints on unknown passes: names that the same passes have in XLA, LLVM and MLIR."""

from __future__ import annotations

import pytest

import hlo
from hlo.errors import HloError
from hlo.passes.pass_aliases import _ALIASES
from hlo.passes.registry import _files, find_pass


def test_aliases_are_of_passes_and_are_not_passes() -> None:
    names = [alias for aliases in _ALIASES.values() for alias in aliases.split()]
    assert len(names) == len(set(names))
    for name in _ALIASES:
        assert find_pass(name).name.replace("_", "-") == name
    assert not {name.replace("-", "_") for name in names} & _files().keys()


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("algebraic-simplifier", "algsimp"), ("AlgebraicSimplifierPass", "algsimp"),
        ("instcombine", "algsimp"), ("licm", "while-loop-invariant-code-motion"),
        ("gvn", "cse"), ("dead_code_elimination", "dce"), ("inline", "call-inliner"),
        ("hlo-rematerialization", "rematerialization"), ("tuple-simplifyer", "tuple-simplifier"),
        ("algebraic-simplifer", "algsimp"),
    ],
)  # fmt: skip
def test_the_hint_names_the_pass_that_is_meant(name: str, meant: str) -> None:
    module = hlo.parse("HloModule m ENTRY e { ROOT x = f32[] parameter(0) }")
    with pytest.raises(HloError) as e:
        hlo.optimize(module, name)
    assert e.value.code == "unknown-pass"
    assert e.value.diagnostics[0].hint == f"did you mean {meant!r}?"


def test_options_of_passes_have_dashes() -> None:
    module = hlo.parse("HloModule m ENTRY e { ROOT x = f32[] parameter(0) }")
    for passes in ("algsimp{fast-math=true}", "algsimp{fast_math=true}"):
        hlo.optimize(module, passes)
    with pytest.raises(HloError) as e:
        hlo.optimize(module, "algsimp{foo=1}")
    assert "fast-math" in str(e.value) and "fast_math" not in str(e.value)
    with pytest.raises(HloError, match="did you mean 'fast-math'"):
        hlo.optimize(module, "algsimp{fast_mth=true}")
