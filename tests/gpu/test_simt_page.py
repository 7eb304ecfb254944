"""`docs/simt.md` says the truth: its example fails as it says, and with the barrier it does not."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hlo_tools.run.command import main

from hlo.errors import HloError
from tests.harness.paths import ROOT
from tests.harness.schemas import check_schema

_BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", (ROOT / "docs/simt.md").read_text(), re.M | re.S)
[_CODE] = [text for language, text in _BLOCKS if language == "python"]
[_MODULE] = [text for language, text in _BLOCKS if language == "hlo"]
_ERROR, _REPORT = (text.strip() for language, text in _BLOCKS if language == "text")


def test_the_example_without_a_barrier() -> None:
    with pytest.raises(HloError) as caught:
        exec(_CODE, {})
    assert str(caught.value) == _ERROR


def test_the_example_with_a_barrier() -> None:
    names: dict[str, Any] = {}
    exec(_CODE.replace("// bar.sync", "bar.sync"), names)
    data = np.empty(4096, np.uint8)
    names["device"].read(names["target"], data)
    assert (data.view(np.float32).reshape(32, 32) == names["x"].reshape(32, 32).T).all()
    assert str(names["device"].report) == _REPORT


def test_the_report_of_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [shown] = [text for _, text in _BLOCKS if text.startswith("$ hlo-run strided.hlo")]
    command, *lines = shown.splitlines()
    monkeypatch.chdir(tmp_path)
    Path("strided.hlo").write_text(_MODULE)
    _, *args = command.removeprefix("$ ").split()
    done = CliRunner().invoke(main, [*args, "--no-cache"])
    assert done.exit_code == 0, done.stderr
    got = done.stdout.splitlines()
    # Numbers of instructions and of lines are not promised.
    number = re.compile(r"\d+")
    assert got[:3] == lines[:3] and got[-2] == lines[-2]
    assert number.sub("", got[-1]) == number.sub("", lines[-1])
    assert got[-1].endswith("8192 sectors, 1024 would do") and "strided.hlo:4" in got[-1]

    done = CliRunner().invoke(main, [*args, "--no-cache", "--json"])
    report = json.loads(done.stdout)
    check_schema("hlo-run", report)
    [kernel] = report["simt"]
    assert kernel["launches"] == 1 and kernel["accesses"][0]["source"] == "strided.hlo:4"


def test_the_report_is_of_the_machine_alone() -> None:
    done = CliRunner().invoke(main, ["m.hlo", "--simt-report"])
    assert done.exit_code == 2
    assert "--simt-report requires --backend gpu-emulated" in done.stderr
