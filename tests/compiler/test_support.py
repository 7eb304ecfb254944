"""The list of what has no native code is made by compiling, and says what is missing."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from hlo_tools.opt.command import main

from hlo.compiler import coverage as support
from hlo.ops import OPS


def test_instances_replace_one_type_at_a_time() -> None:
    texts = list(support.instances(OPS["convert"], "s8"))
    assert texts and all("s8[" in t for t in texts)
    assert len(set(texts)) == len(texts)


def test_only_pairs_with_a_meaning_count() -> None:
    found = {s.type for s in support.supported(["shift-left"], ["f32", "s32", "u8", "pred"])}
    assert found == {"s32", "u8"}


def test_gaps_show(monkeypatch: pytest.MonkeyPatch) -> None:
    real = support.build

    def build(module: object, *rest: object, **options: object) -> object:
        if "u16" in str(module):
            raise AssertionError("no rule")
        return real(module, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(support, "build", build)
    some = list(support.supported(["negate"], ["s16", "u16"]))
    assert [(s.type, s.problem) for s in some] == [
        ("s16", None),
        ("u16", "AssertionError: no rule"),
    ]
    monkeypatch.setattr(support, "supported", lambda: iter(some))
    result = CliRunner().invoke(main, ["--list-ops", "--compiled"])
    assert result.exit_code == 1
    assert "negate" in result.stdout and "1 without native code" in result.stderr
    report = json.loads(CliRunner().invoke(main, ["--list-ops", "--compiled", "--json"]).stdout)
    assert report["pairs"] == 2 and report["unsupported"][0]["type"] == "u16"
