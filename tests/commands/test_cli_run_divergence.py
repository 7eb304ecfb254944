"""`hlo-run --first-divergence`: two runs, and the first instruction where they diverge."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hlo_tools.run.command import main

from tests.generators import miscompilations
from tests.generators.miscompilations import mark, plant, register
from tests.generators.miscompiled_programs import Program, program
from tests.harness.schemas import check_schema

_WHICH = Program("swapped-operands", "loop")
_FAST = ("--passes", "", "--backend", "reference")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    module, bad = program(_WHICH)
    Path("m.hlo").write_text(str(mark(module, _WHICH.kind, bad)))
    Path("wrong.hlo").write_text(str(plant(module, _WHICH.kind, bad)))
    Path("twice.hlo").write_text(
        "HloModule t ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] add(x, x) }"
    )


def run(*args: str) -> Result:
    result = CliRunner().invoke(main, list(args))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_a_wrong_rule_of_a_plugin_is_named() -> None:
    register()
    result = run("m.hlo", "--first-divergence", "--passes", "miscompile,default")
    assert result.exit_code == 1
    assert "m.hlo: compiled and reference diverge at bad (subtract)\n" in result.stdout
    for words in ("w[0]/bad", "rule miscompile.swapped-operands at bad", "results   0 of 1 agree"):
        assert words in result.stdout
    again = run("m.divergence/instruction.hlo", "--inputs", "m.divergence/inputs.npz", "--check")
    assert again.exit_code == 0


def test_plugins_are_loaded() -> None:
    Path("mine.py").write_text(
        "from hlo.passes import module_pass\n@module_pass\n"
        "def swaps_nothing_at_all(module, rewrites):\n    '''Do nothing.'''\n"
    )
    flags = ("--load-pass-plugin", "mine.py", "--passes", "swaps-nothing-at-all")
    result = run("twice.hlo", "--first-divergence", *flags)
    assert (result.exit_code, result.stdout) == (0, "twice.hlo: no divergence\n")
    assert run("twice.hlo", "--load-pass-plugin", "none.py").exit_code == 1
    assert miscompilations.MARK == "miscompile"


def test_another_file_as_json() -> None:
    result = run("m.hlo", "--first-divergence=wrong.hlo", "--json", *_FAST)
    report = json.loads(result.stdout)
    check_schema("hlo-run", report)
    found = report["first_divergence"]
    assert (found["instruction"], found["between"], found["right"]) == (
        "bad",
        "module",
        "wrong.hlo",
    )
    assert found["frames"] == [{"instruction": "w", "iteration": 0}]
    assert found["comparison"]["mismatches"] == 16
    agreed = run("m.hlo", "--first-divergence=m.hlo", "--json", *_FAST)
    assert json.loads(agreed.stdout)["first_divergence"] is None and agreed.exit_code == 0


def test_two_files_are_compared_with_each_other() -> None:
    of_spec = run("m.hlo", "--first-divergence=wrong.hlo", *_FAST)
    of_files = run("m.hlo", "wrong.hlo", "--first-divergence", *_FAST)
    assert of_files.exit_code == of_spec.exit_code == 1
    assert of_files.stdout == of_spec.stdout


@pytest.mark.parametrize("backend", ["reference", "compiled"])
def test_a_saved_trace_that_is_wrong(backend: str) -> None:
    flags = ("--backend", backend)
    run("wrong.hlo", "--trace=wrong.npz", *flags)
    result = run("m.hlo", "--first-divergence=wrong.npz", *_FAST)
    assert result.exit_code == 1 and "diverge at bad (subtract)" in result.stdout
    assert "in        w[0]/bad" in result.stdout
    run("m.hlo", "--trace=right.npz", *flags)
    assert run("m.hlo", "--first-divergence=right.npz", *_FAST).exit_code == 0
    other = run("m.hlo", "--first-divergence=right.npz", "--seed", "3", *_FAST)
    assert other.exit_code == 1 and "[other-arguments]" in other.stderr


def test_xla() -> None:
    assert run("twice.hlo", "--first-divergence=xla", *_FAST).exit_code == 0


# As XLA dumps them. It aborts on a fusion without layouts, and ended the process at a call of
# LAPACK that jaxlib had not loaded.
_OPTIMIZED = """HloModule optimized

fused {
  p = f32[16,4,8]{2,1,0} parameter(0)
  t = f32[4,16,8]{2,1,0} transpose(p), dimensions={1,0,2}
  b = f32[8,4,16]{0,2,1} bitcast(t)
  ROOT n = f32[8,4,16]{0,2,1} negate(b)
}

ENTRY e {
  x = f32[16,4,8]{2,1,0} parameter(0)
  f = f32[8,4,16]{0,2,1} fusion(x), kind=kLoop, calls=fused
  ROOT c = f32[4,128]{1,0} bitcast(f)
}
"""
_LAPACK = """HloModule lapack

ENTRY e {
  x = f32[2,2]{0,1} constant({{4,1},{1,4}})
  ROOT c = (f32[2,2]{0,1}, s32[]) custom-call(x), custom_call_target="lapack_spotrf_ffi",
    operand_layout_constraints={f32[2,2]{0,1}}, api_version=API_VERSION_TYPED_FFI,
    backend_config={uplo = 76 : ui8}
}
"""


@pytest.mark.parametrize("text", [_OPTIMIZED, _LAPACK])
def test_xla_takes_what_it_dumps(text: str) -> None:
    Path("dump.hlo").write_text(text)
    result = run("dump.hlo", "--first-divergence=xla", *_FAST)
    assert (result.exit_code, result.stdout) == (0, "dump.hlo: no divergence\n")


def test_the_other_module_may_be_one_of_several() -> None:
    Path("log.md").write_text(
        "".join(f"```\n{Path(name).read_text()}\n```\n" for name in ("m.hlo", "twice.hlo"))
    )
    result = run("twice.hlo", "--first-divergence=log.md#t", *_FAST)
    assert (result.exit_code, result.stdout) == (0, "twice.hlo: no divergence\n")


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        (["--first-divergence=nothing"], 1, "bad-backend"),
        (["--first-divergence=twice.hlo"], 1, "does not take and give"),
        (["--first-divergence=none.hlo"], 1, "bad-file"),
        (["--first-divergence=none.npz"], 1, "bad-file"),
        (["--first-divergence=compiled{passes=none}"], 1, "unknown-pass"),
        (["--first-divergence", "--check"], 2, "--first-divergence excludes --check."),
        (["--first-divergence", "--find-nan"], 2, "--first-divergence excludes --find-nan."),
        (["--divergence-dir", "d"], 2, "--divergence-dir requires --first-divergence."),
    ],
)
def test_what_cannot_be_compared_is_said(flags: list[str], code: int, words: str) -> None:
    result = run("m.hlo", *flags, *_FAST)
    assert (result.exit_code, words in result.stderr) == (code, True), result.stderr
