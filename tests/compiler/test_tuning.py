"""Ways that are measured: all have the same results, and what was found is kept."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from hlo_tools.compile import main

import hlo
from hlo.codegen.choices import Choices
from hlo.compiler.lowering import Clock
from hlo.compiler.pipeline import build
from hlo.compiler.tuning import Tuning, read_tuning, tune
from hlo.compiler.tuning.timing import KernelTimes
from hlo.runtime.cache import Cache
from hlo.runtime.executable import Executable
from hlo.runtime.jit import host_machine

PRODUCT = """HloModule m ENTRY e { x = f32[70,90] parameter(0) y = f32[90,65] parameter(1)
  ROOT z = f32[70,65] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"""
PROGRAMS = {
    "square": PRODUCT,
    "operands transposed, k in blocks": """HloModule m ENTRY e {
      x = f32[1300,40] parameter(0) y = f32[33,1300] parameter(1)
      ROOT z = f32[40,33] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={1} }""",
    "batched, in double precision": """HloModule m ENTRY e {
      x = f64[3,37,40] parameter(0) y = f64[3,40,29] parameter(1)
      ROOT z = f64[3,37,29] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0},
        lhs_contracting_dims={2}, rhs_contracting_dims={1} }""",
    "rounded to bf16": """HloModule m ENTRY e {
      x = bf16[64,100] parameter(0) y = bf16[100,48] parameter(1)
      ROOT z = bf16[64,48] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }""",
    "bytes": """HloModule m ENTRY e { x = s8[64,100] parameter(0) y = s8[100,48] parameter(1)
      ROOT z = s32[64,48] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }""",
    "a convolution": """HloModule m ENTRY e { x = f32[2,15,14,24] parameter(0)
      w = f32[3,3,24,40] parameter(1)
      ROOT z = f32[2,8,7,40] convolution(x, w), dim_labels=b01f_01io->b01f,
        window={size=3x3 stride=2x2 pad=1_1x1_1} }""",
}


def _compiled(text: str, choices: Choices, times: KernelTimes | None = None) -> Executable:
    program = build(hlo.parse(text), host_machine(), Clock(), "", "strict", times, choices)
    return Executable(program, called={} if times is None else times.called)


@pytest.mark.parametrize("name", PROGRAMS)
def test_all_ways_have_the_same_results(name: str) -> None:
    text = PROGRAMS[name]
    choices = Choices()
    want = _compiled(text, choices)
    args = hlo.random_inputs(hlo.parse(text), seed=3)
    expected = want(*args).tobytes()
    ((key, site),) = choices.sites.items()
    assert len(site.ways) > 1 and site.instructions == {"z"}
    for way in site.ways[1:]:
        taken = Choices({key: way})
        assert _compiled(text, taken)(*args).tobytes() == expected, way
    # What a machine does not have is not taken.
    assert _compiled(text, Choices({key: "no such way"}))(*args).tobytes() == expected


def test_the_fastest_way_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock that says that the third way is the fastest, it is."""
    machine, fastest = host_machine(), ""

    def taken(times: KernelTimes) -> dict[str, int]:
        return {"z": 10 if fastest in chosen[times] else 100}

    chosen: dict[KernelTimes, list[str]] = {}
    seconds = iter(range(10_000))
    monkeypatch.setattr(KernelTimes, "taken", taken)
    monkeypatch.setattr("hlo.compiler.tuning.search._in_turns", _once([2.0, 1.0], seconds))

    def compiled(choices: Choices, times: KernelTimes | None) -> Executable:
        nonlocal fastest
        run = _compiled(PRODUCT, choices, times)
        if times is not None:
            fastest = next(iter(choices.sites.values())).ways[2]
            chosen[times] = list(choices.taken.values())
        return run

    args = hlo.random_inputs(hlo.parse(PRODUCT), seed=3)
    found = tune(compiled, lambda _: list(args), machine.triple, "here", 1e6, Tuning("here"))
    assert list(found.choices.values()) == [fastest]
    # What is known is not measured again.
    monkeypatch.setattr(KernelTimes, "taken", None)
    again = tune(compiled, lambda _: list(args), machine.triple, "here", 1e6, found)
    assert again == found


def _once(whole: list[float], seconds: object) -> object:
    def in_turns(runs: list, end: float) -> list[float]:
        for run in runs:
            run()
        return whole

    return in_turns


def test_kernels_are_timed() -> None:
    times = KernelTimes(host_machine().triple)
    run = _compiled(PRODUCT, Choices(), times)
    args = hlo.random_inputs(hlo.parse(PRODUCT), seed=3)
    for _ in range(2):
        run(*args)
        assert times.taken()["z"] > 0
    assert times.taken() == {"z": 0}


def test_what_was_found_is_kept(tmp_path: Path) -> None:
    cache, module = Cache(tmp_path / "cache"), hlo.parse(PRODUCT)
    args = hlo.random_inputs(module, seed=3)
    run = hlo.compile(module, tune=0.01, cache=cache)
    assert run.tuning.processor == host_machine().cpu
    ((key, way),) = run.tuning.choices.items()
    assert key.startswith("product f32")
    (kept,) = (tmp_path / "cache").glob("tuning-*.json")
    assert json.loads(kept.read_text())["choices"] == {key: way}
    # The file is what `tune` takes, as is that of another machine.
    run.tuning.save(tmp_path / "m.json")
    other = hlo.compile(module, tune=tmp_path / "m.json", cache=cache)
    assert other.tuning == run.tuning
    expected = hlo.compile(module, cache=False)(*args)
    assert run(*args).tobytes() == other(*args).tobytes() == expected.tobytes()
    # A damaged file counts as absent.
    kept.write_text("{")
    assert hlo.compile(module, tune=0.01, cache=cache).tuning.choices.keys() == {key}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "Expecting property name"),
        ("[" * 100_000, "it is nested too deeply"),
        ("[]", "it is no JSON object"),
        ('{"version": 9}', "its version is 9, not 1"),
        ('{"version": 1, "choices": {}}', "`processor` is not a string"),
        ('{"version": 1, "processor": "x", "choices": {"a": 1}}', "`choices` is not an object"),
    ],
)  # fmt: skip
def test_a_file_that_is_none(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(hlo.HloError, match=reason) as e:
        read_tuning(tmp_path / "t.json")
    assert e.value.diagnostics[0].code == "bad-file"


def test_what_cannot_be_measured() -> None:
    module = hlo.parse(PRODUCT)
    for options in ({"backend": "reference"}, {"devices": 2}):
        with pytest.raises(hlo.HloError, match="tune is for native code of one device"):
            hlo.compile(module, tune=1.0, **options)
    for seconds in (0, -1.0, float("inf"), float("nan")):
        with pytest.raises(hlo.HloError, match="is not a positive number of seconds"):
            hlo.compile(module, tune=seconds)
    with pytest.raises(hlo.HloError, match="no such file"):
        hlo.compile(module, tune="missing.json")


def test_objects_are_tuned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    Path("m.hlo").write_text(PRODUCT)

    def run(*args: str) -> str:
        result = CliRunner().invoke(main, ["m.hlo", "-g0", *args])
        assert result.exit_code == 0, result.output
        return result.output

    run("-o", "plain.s", "--name", "f")
    run("-o", "tuned.s", "--name", "f", "--tune=0.01", "--tuning", "t.json")
    found = json.loads(Path("t.json").read_text())
    ((key, way),) = found["choices"].items()
    choices = Choices()
    _compiled(PRODUCT, choices)
    ways = choices.sites[key].ways
    assert way in ways
    other = next(w for w in ways if w != ways[0])
    Path("t.json").write_text(json.dumps({**found, "choices": {key: other}}))
    run("-o", "other.s", "--name", "f", "--tuning", "t.json")
    run("-o", "again.s", "--name", "f", "--tuning", "t.json")
    assert Path("other.s").read_text() != Path("plain.s").read_text()
    assert Path("other.s").read_text() == Path("again.s").read_text()
    bad = CliRunner().invoke(main, ["m.hlo", "-o", "bad.s", "--tuning", os.devnull])
    assert bad.exit_code == 1 and "not a tuning file" in bad.output
    assert not Path("bad.s").exists()


def test_the_flag_takes_no_file_for_its_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.hlo").write_text(PRODUCT)
    seconds: list[float] = []

    def measured(module: hlo.Module, s: float, **options: object) -> Tuning:
        seconds.append(s)
        return Tuning("here")

    monkeypatch.setattr("hlo.compiler.pipeline.measured", measured)
    result = CliRunner().invoke(main, ["--tune", "m.hlo", "-o", "m.s"])
    assert result.exit_code == 0 and seconds == [30.0], result.output
