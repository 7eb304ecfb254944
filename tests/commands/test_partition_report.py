"""`hlo-opt --report`: files of text and JSON, and notes."""

from __future__ import annotations

import json
from pathlib import Path

import hlo_tools.opt.command
from click.testing import CliRunner, Result

MODULE = """HloModule m, num_partitions=2
ENTRY e {
  x = f32[8,8] parameter(0), sharding={devices=[2,1]<=[2]}
  c = f32[8,8] cholesky(x), lower=true
  ROOT y = f32[8,8] negate(c), sharding={devices=[2,1]<=[2]}
}"""


def opt(*flags: str, text: str = MODULE) -> Result:
    return CliRunner().invoke(hlo_tools.opt.command.main, ["-", *flags], input=text)


def test_the_report_is_a_file_and_the_module_is_printed(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    result = opt(f"--report={path}")
    assert result.exit_code == 0 and "all-gather(" in result.stdout
    report = json.loads(path.read_text())
    assert (report["partitions"], report["collectives"], report["bytes"]) == (2, 1, 256)
    rows = {row["name"]: row for row in report["instructions"]}
    assert rows["x"]["origin"] == "annotation"
    (gathered,) = (r for r in rows["c"]["reshards"] if r["bytes"])
    assert (gathered["array"], gathered["to"]) == ("x", "{replicated}")
    (note,) = report["notes"]
    assert (note["instruction"], note["shape"], note["bytes"]) == ("c", "f32[8,8]", 256)


def test_text_is_told_by_the_name_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "report.txt"
    assert opt(f"--report={path}", "--quiet").stdout == ""
    assert path.read_text().startswith("m: 2 partitions\n")
    assert opt("--report=report.pdf").exit_code == 2


def test_replications_are_told_by_whichever_way_the_module_is_partitioned() -> None:
    said = "note: c: f32[8,8] with sharding {devices=[2,1]<=[2]} is replicated"
    assert said in opt("--report=-").stderr
    assert said in opt("--passes=sharding-propagation,spmd-partitioning").stderr


def test_shardings_that_do_not_fit_are_an_error() -> None:
    result = opt("--report=-", text=MODULE.replace("num_partitions=2", "num_partitions=3"))
    assert result.exit_code == 1 and "bad-sharding" in result.stderr
