"""`hlo-opt --report FILE.html` and `--stage=model-explorer`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from hlo_tools.opt.command import main

from tests.harness.schemas import check_schema

TEXT = "HloModule m ENTRY e { x = f32[8] parameter(0) ROOT y = f32[8] sqrt(x) }"
LOOP = """HloModule m
body { s = (s32[]) parameter(0) i = s32[] get-tuple-element(s), index=0 one = s32[] constant(1)
  j = s32[] add(i, one), control-predecessors={one} ROOT t = (s32[]) tuple(j) }
cond { s = (s32[]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(5)
  ROOT go = pred[] compare(i, n), direction=LT }
ENTRY e { s = (s32[]) parameter(0), metadata={op_name="jit(f)/l/x" source_file="a.py" source_line=3}
  ROOT w = (s32[]) while(s), condition=cond, body=body, metadata={op_name="jit(f)/l/while"} }
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "m.hlo").write_text(TEXT)
    return str(tmp_path / "m.hlo")


def _run(*args: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(main, list(args))
    return done.exit_code, done.stdout, done.stderr


def test_a_report_is_written_instead_of_the_module(file: str, tmp_path: Path) -> None:
    page = tmp_path / "out.html"
    code, out, err = _run(file, "--report", str(page), "--passes", "dce")
    assert (code, out, err) == (0, "", f"m: {page}\n")
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert _run(file, "--report", str(page), "--json")[1] == json.dumps(
        {"file": file, "errors": []}
    ) + "\n"  # fmt: skip


def test_a_report_with_a_profile(file: str, tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text(
        '{"module": "m", "entries": [{"name": "y", "kind": "kernel", "self_s": 0.5}]}'
    )
    page = tmp_path / "out.html"
    assert _run(file, "--report", str(page), "--profile", str(tmp_path / "p.json"))[0] == 0
    assert '"seconds":[0.0,0.5]' in page.read_text()


def test_a_report_for_a_device(file: str, tmp_path: Path) -> None:
    page = tmp_path / "out.html"
    assert _run(file, "--report", str(page), "--device", "rtx4090")[0] == 0
    assert "Kernels on NVIDIA GeForce RTX 4090, estimated" in page.read_text()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--report", "out.html", "--profile", "none.json"], "none.json: no such file"),
        (["--report", "out.html", "--passes", "dec"], "no pass"),
        (["--report", "nowhere/out.html"], "nowhere"),
        (["--report", "out.html", "--device", "h10"], "there is no device 'h10'"),
    ],
)
def test_bad_reports_are_one_error_and_leave_no_file(
    file: str, args: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = _run(file, *args)
    assert code == 1 and words in err and "Traceback" not in err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.hlo"]


@pytest.mark.parametrize(
    "args",
    [
        ["--profile", "p.json"],
        ["--report", "out.xml"],
        ["--report", "o.html", "b.hlo"],
        ["--report", "o.html", "--device", "h100", "--profile", "p.json"],
        ["--report", "o.txt", "--device", "h100"],
    ],
)
def test_wrong_use_of_reports(file: str, args: list[str]) -> None:
    assert _run(file, *args)[0] == 2


def test_model_explorer_opens_what_is_written_for_it(tmp_path: Path) -> None:
    (tmp_path / "m.hlo").write_text(LOOP)
    code, out, _ = _run(str(tmp_path / "m.hlo"), "--stage=model-explorer", "--passes=")
    collection = json.loads(out)
    assert code == 0
    check_schema("model-explorer", collection)
    graphs = {graph["id"]: graph["nodes"] for graph in collection["graphs"]}
    assert collection["label"] == "m" and next(iter(graphs)) == "e"
    for nodes in graphs.values():
        ids = [node["id"] for node in nodes]
        assert len(set(ids)) == len(ids)
        assert {e["sourceNodeId"] for n in nodes for e in n["incomingEdges"]} <= set(ids)
        assert {g for n in nodes for g in n["subgraphIds"]} <= set(graphs)
    loop = next(node for node in graphs["e"] if node["id"] == "w")
    assert loop["label"] == "while" and loop["subgraphIds"] == ["cond", "body"]
    (add,) = (node for node in graphs["body"] if node["label"] == "add")
    assert [e["targetNodeInputId"] for e in add["incomingEdges"]] == ["0", "1", "control"]
    assert {"key": "source", "value": "a.py:3"} in graphs["e"][0]["attrs"]
