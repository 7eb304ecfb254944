"""The walk through code generation in docs/architecture.md prints what the page says."""

from __future__ import annotations

import re
import shlex

import pytest
from click.testing import CliRunner
from hlo_tools.opt.command import main

from tests.harness.paths import ROOT

WALK = re.findall(
    r"^```console\n\$ hlo-opt (.*)\n((?:.*\n)*?)^```$",
    (ROOT / "docs" / "architecture.md").read_text(), re.MULTILINE,
)  # fmt: skip


def test_the_walk_goes_through_all_stages() -> None:
    shown = [match for command, _ in WALK for match in re.findall(r"--stage=([\w-]+)", command)]
    assert shown == [
        "flat", "roles", "schedule", "kernels", "commands", "llvm-before-optimizations", "asm",
        "launches",
    ]  # fmt: skip


@pytest.mark.parametrize(("command", "shown"), WALK, ids=[command for command, _ in WALK])
def test_a_stage_prints_the_lines_of_the_page(
    command: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    done = CliRunner().invoke(main, shlex.split(command))
    assert done.exit_code == 0, done.output
    printed = iter(done.output.splitlines())
    for line in shown.splitlines():
        start = line.removesuffix("...")
        assert any(p.startswith(start) if start != line else p == line for p in printed), (
            f"not printed, or not in this order: {line}"
        )
