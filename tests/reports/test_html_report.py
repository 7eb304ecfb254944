"""The report of a module: what each of its parts says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import hlo
from hlo.passes import run_pipeline
from hlo.passes.default import pipeline_of
from hlo.reports.gpu import gpu_report
from hlo.reports.html import read_profile, report_page
from hlo.reports.html.changes import PassChanges
from hlo.reports.html.costliest import costliest_lines
from hlo.reports.html.roofline import Peaks, peaks_of, roofline
from hlo.reports.html.times import times_of
from hlo.reports.numbers import bytes_text

MODULE = """HloModule m
ENTRY e {
  x = f32[64,64] parameter(0)
  one = f32[] constant(1)
  ones = f32[64,64] broadcast(one), dimensions={}
  y = f32[64,64] multiply(x, ones)
  dead = f32[64,64] negate(y)
  ROOT d = f32[64,64] dot(y, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
SHARDED = """HloModule s, num_partitions=2
ENTRY e {
  x = f32[4,2] parameter(0), sharding={devices=[2,1]<=[2]}
  ROOT y = f32[2,4] transpose(x), dimensions={1,0}, sharding={devices=[2,1]<=[2]}
}
"""


def _profile(*entries: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"module": "m", "entries": list(entries), **more}


def _kernel(name: str, seconds: float, **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": "kernel", "self_s": seconds, **more}


def _data(page: str) -> dict[str, Any]:
    found = re.findall(r'<script type="application/json" id="data-([a-z]+)">(.*?)</script>', page)
    return {name: json.loads(text) for name, text in found}


def _changes(text: str, passes: str) -> list[dict[str, Any]]:
    module = hlo.parse(text)
    changes = PassChanges(module)
    run_pipeline(module, pipeline_of(passes), [changes])
    return changes.passes


def test_parts_of_a_report() -> None:
    page = report_page(hlo.parse(MODULE))
    data = _data(page)
    assert data["module"]["name"] == "m" and "dead" in data["module"]["names"]
    assert "dead" not in data["optimized"]["names"]
    assert data["distribution"] is None and 'id="tab-distribution"' not in page
    for tab in ("summary", "graph", "instructions", "roofline", "passes"):
        assert f'id="tab-{tab}"' in page
    memory = data["memory"]
    assert memory["peak_bytes"] >= 2 * 64 * 64 * 4 and memory["points"][-1][1] == "d"
    assert {b["kind"] for b in memory["buffers"]} >= {"argument", "result"}
    assert "Parameters (1)" in page and "f32[64,64]{1,0}" in page


def test_a_module_without_native_code_has_a_note_in_place_of_the_timeline() -> None:
    text = """HloModule m ENTRY e { x = f32[2] parameter(0)
      ROOT y = f32[2] custom-call(x), custom_call_target="nobody" }"""
    page = report_page(hlo.parse(text))
    assert ("There is no memory timeline" in page) == ("memory" not in _data(page))


def test_what_passes_changed_is_told_line_by_line() -> None:
    removal, simplification = _changes(MODULE, "dce,algsimp")
    (comp,) = removal["computations"]
    assert [row for row in comp["rows"] if row[0]] == [
        ("removed", "dead = f32[64,64]{1,0} negate(y)", "")
    ]
    rows = [row for c in simplification["computations"] for row in c["rows"]]
    changed = [(before, after) for kind, before, after in rows if kind == "changed"]
    assert any("dot(y, y)" in before and "dot(x, x)" in after for before, after in changed)
    assert simplification["rules"] and simplification["omitted"] == 0


def test_a_pass_without_changes_has_no_lines() -> None:
    (run,) = _changes(MODULE, "cse")
    assert run["computations"] == [] and run["rewrites"] == 0


def test_of_many_changed_lines_some_are_kept_and_the_others_counted() -> None:
    lines = "\n".join(f"  d{n} = f32[] negate(x)" for n in range(1000))
    text = f"HloModule m ENTRY e {{\n  x = f32[] parameter(0)\n{lines}\n  ROOT r = f32[] abs(x) }}"
    (run,) = _changes(text, "dce")
    kept = [row for comp in run["computations"] for row in comp["rows"] if row[0] == "removed"]
    assert 100 < len(kept) <= 200 and len(kept) + run["omitted"] == 1000


def test_times_go_to_the_instructions_that_kernels_are_named_after() -> None:
    module = hlo.parse(MODULE)
    profile = _profile(
        _kernel("d", 2.0, computation="e"), _kernel("gone", 0.25, fused=["y"]),
        _kernel("new", 0.5), {"name": "e", "kind": "entry", "self_s": 0.125},
    )  # fmt: skip
    times = times_of(module, profile)
    assert {i.name: s for i, s in times.seconds.items()} == {"d": 2.0, "y": 0.25}
    assert times.elsewhere == 0.625
    page = report_page(module, profile=profile)
    data = _data(page)["module"]
    assert data["seconds"][data["names"].index("d")] == 2.0
    assert "of the profile" in page


def test_a_profile_of_another_module_is_told() -> None:
    page = report_page(hlo.parse(MODULE), profile=_profile(_kernel("d", 1.0), module="other"))
    assert "The profile is of a module called other." in page


@pytest.mark.parametrize("text", ["[]", "{}", '{"entries": [3]}', '{"entries": [{"name": "a"}]}'])
def test_what_is_no_profile_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "p.json").write_text(text)
    with pytest.raises(hlo.HloError, match="this is not a profile"):
        read_profile(tmp_path / "p.json")
    (tmp_path / "p.json").write_text(text + "{")
    with pytest.raises(hlo.HloError, match="not JSON"):
        read_profile(tmp_path / "p.json")


def test_a_roofline_has_measured_peaks_where_a_profile_has_them() -> None:
    module = hlo.parse(MODULE)
    stated = roofline(module, None, Peaks({"f32": 1e11}, 1e10, "stated", False))
    assert not stated["peaks"]["is_measured"] and not stated["is_profile"]
    (dot,) = (p for p in stated["points"] if p[0] == "d")
    assert dot[1:3] == (2 * 64**3, 2 * 64 * 64 * 4)
    peak = {"cpu": "c", "threads": 2, "flops": {"f32": 1e11}, "bytes": 1e10}
    kernel = _kernel("d", 1e-3, operations=5e5, transcendentals=0, bytes=1e5, opcode="dot")
    assert dot[3] == pytest.approx(2 * 64**3 / 1e11)
    profile = _profile(kernel, peak=peak)
    measured = roofline(module, profile, peaks_of(module, profile))
    assert measured["peaks"]["is_measured"] and measured["peaks"]["flops"] == {"f32": 1e11}
    assert measured["points"] == [("d", 5e5, 1e5, 1e-3, "dot", "")]


def test_a_report_for_a_device_has_its_kernels_and_its_peaks() -> None:
    module = hlo.parse(MODULE)
    page = report_page(module, device="h100")
    data = _data(page)
    assert "Kernels on NVIDIA H100 SXM5 80GB, estimated (1)" in page
    assert data["module"]["times"] == "estimated for NVIDIA H100 SXM5 80GB"
    found = data["roofline"]
    peaks = found["peaks"]
    assert (peaks["from"], peaks["is_measured"]) == ("NVIDIA H100 SXM5 80GB", False)
    assert peaks["bytes"] == 3.35e12 and peaks["flops"]["f32"] == pytest.approx(66.9e12, rel=1e-3)
    ((name, flops, size, seconds, opcode, bound),) = found["points"]
    cost = gpu_report(module, "h100").cost.estimate
    assert (name, opcode, bound) == ("d", "dot", cost.kernels[0].bound)
    assert (flops, size) == (sum(cost.operations.values()), cost.global_bytes)
    assert seconds == cost.seconds == data["module"]["seconds"][data["module"]["names"].index("d")]
    assert "times" not in _data(report_page(module))["module"]


def test_kernels_of_a_library_call_count_at_it() -> None:
    config = """backend_config={"gemm_backend_config":{"alpha_real":1,"alpha_imag":0,"beta":0,
      "dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],
      "rhs_contracting_dimensions":["0"]}}}""".replace("\n", "")
    module = hlo.parse(f"""HloModule m ENTRY e {{ x = f16[64,64] parameter(0)
      gemm.1 = (f16[64,64], s8[16]) custom-call(x, x), custom_call_target="__cublas$gemm", {config}
      ROOT d = f16[64,64] get-tuple-element(gemm.1), index=0 }}""")
    page = report_page(module, device="a100")
    data = _data(page)["module"]
    assert data["seconds"][data["names"].index("gemm.1")] > 0
    assert "Warnings" not in page


def test_a_module_that_a_device_cannot_run_has_a_note_in_place_of_the_estimate() -> None:
    module = hlo.parse("""HloModule m ENTRY e { x = f32[2] parameter(0)
      ROOT y = f32[2] custom-call(x), custom_call_target="nobody" }""")
    page = report_page(module, device="h100")
    assert ("There is no estimate for h100" in page) == ("Kernels on" not in page)
    with pytest.raises(hlo.HloError, match="there is no device 'h10'"):
        report_page(module, device="h10")
    with pytest.raises(hlo.HloError, match="times of a profile or of a device"):
        report_page(hlo.parse(MODULE), profile=_profile(), device="h100")


def test_without_a_profile_the_peaks_are_those_of_this_machine() -> None:
    text = MODULE.replace("f32", "f64")
    peaks = peaks_of(hlo.parse(text), None)
    assert peaks.is_measured and peaks.flops.keys() == {"f64"} and peaks.bytes > 0
    data = _data(report_page(hlo.parse(text)))["roofline"]
    assert data["peaks"]["flops"] == dict(peaks.flops)


def test_where_peaks_cannot_be_measured_they_are_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: Any) -> None:
        raise hlo.HloError.at("out-of-memory", "no memory")

    monkeypatch.setattr("hlo.reports.html.roofline.machine_peak", fail)
    peaks = peaks_of(hlo.parse(MODULE), None)
    assert not peaks.is_measured and peaks.origin == "100 TFLOP/s, memory 2 TB/s"


LINES = """HloModule m
FileNames
1 "/src/model.py"
FunctionNames
1 "<module>"
2 "layer"
3 "layer.<locals>.<genexpr>"
FileLocations
1 {file_name_id=1 function_name_id=1 line=9 end_line=9 column=0 end_column=1}
2 {file_name_id=1 function_name_id=2 line=3 end_line=3 column=0 end_column=1}
3 {file_name_id=1 function_name_id=3 line=4 end_line=4 column=0 end_column=1}
StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}
3 {file_location_id=3 parent_frame_id=2}

ENTRY e {
  x = f32[64] parameter(0)
  a = f32[64] tanh(x), metadata={stack_frame_id=2}
  b = f32[64] sine(a), metadata={stack_frame_id=2}
  c = f32[64] cosine(b), metadata={stack_frame_id=3}
  d = f32[64] log(c), metadata={stack_frame_id=1}
  ROOT e = f32[64] abs(d)
}
"""


def test_the_costliest_lines_come_first() -> None:
    module = hlo.parse(LINES)
    seconds = {"a": 2, "b": 3, "c": 4, "d": 1, "e": 0.5}
    found = costliest_lines({module.entry[name]: s for name, s in seconds.items()})
    assert [(line.text, line.seconds, line.names) for line in found] == [
        ("model.py:3 in layer", 5, "b, a"),
        ("model.py:4 in layer", 4, "c"),
        ("model.py:9", 1, "d"),
        ("e", 0.5, "e"),
    ]
    page = report_page(module)
    summary = page[page.index('id="summary"') :]
    order = ["Peak memory<", "model.py:3 in layer", "Parameters (1)"]
    places = [summary.index(text) for text in order]
    assert places == sorted(places) and "Peak memory, unfused" not in summary


def test_one_peak_of_memory_in_all_of_a_report() -> None:
    page = report_page(hlo.parse(MODULE))
    peak = _data(page)["memory"]["peak_bytes"]
    assert peak == hlo.memory_timeline(hlo.parse(MODULE)).peak_bytes
    assert f"<dt>Peak memory</dt><dd>{bytes_text(peak)} at d</dd>" in page


def test_shardings_and_collectives_of_a_module_that_is_partitioned_first() -> None:
    data = _data(report_page(hlo.parse(SHARDED)))["distribution"]
    assert data["shardings"]["partitions"] == 2 and data["error"] == ""
    assert [row[1] for row in data["collectives"]["rows"]] == ["all-to-all"]
    assert data["collectives"]["network"].startswith("Each device sends 8 B in a run")


def test_a_report_of_hostile_text_has_no_markup_of_it() -> None:
    bad = "</script><img src=x onerror=alert(1)>"
    text = MODULE.replace(
        "ROOT d = f32[64,64] dot(y, y), ",
        f'ROOT d = f32[64,64] dot(y, y), metadata={{op_name="{bad}" source_file="{bad}"}}, ',
    )
    assert "<img" not in report_page(hlo.parse(text), profile=_profile(_kernel(bad, 1.0)))


def test_reports_from_python(tmp_path: Path) -> None:
    path = tmp_path / "m.html"
    hlo.report(hlo.parse(MODULE), path, passes="dce")
    assert [r["name"] for r in _data(path.read_text())["passes"]["runs"]] == ["dce"]
    with pytest.raises(hlo.HloError, match="no pass"):
        hlo.report(hlo.parse(MODULE), path, passes="dec")
    with pytest.raises(hlo.HloError, match="nowhere"):
        hlo.report(hlo.parse(MODULE), tmp_path / "nowhere" / "m.html")
