"""`hlo-run` on native code: checked against the interpreter, timed, cached, several files."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hlo_tools.run import command as tool

import hlo
from hlo.testing.compare import compare, tolerance
from tests.harness.paths import DOCS
from tests.harness.processes import HANG_S, started

ADD = """HloModule m
ENTRY main {
  x = f32[2,3] parameter(0)
  y = f32[] parameter(1)
  yb = f32[2,3] broadcast(y), dimensions={}
  s = f32[2,3] add(x, yb)
  b = bf16[2,3] convert(s)
  ROOT r = (f32[2,3], bf16[2,3]) tuple(s, b)
}
"""
INPUTS = ("-i", "{{1,2,3},{4,5,6}}", "-i", "0.5")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("add.hlo").write_text(ADD)
    return tmp_path


def run(*args: str, text: str | None = None) -> Result:
    result = CliRunner().invoke(tool.main, ["--backend", "compiled", *args], input=text)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_both_backends_write_the_same() -> None:
    shown = run("add.hlo", *INPUTS, "-o", "-")
    assert shown.exit_code == 0
    assert shown.stdout == run("--backend", "reference", "add.hlo", *INPUTS, "-o", "-").stdout
    assert shown.stdout.startswith("f32[2,3] { { 1.5, 2.5, 3.5 }, { 4.5, 5.5, 6.5 } }\nbf16[2,3]")


def test_standard_input() -> None:
    assert run("-", *INPUTS, "--check", text=ADD).exit_code == 0


def test_check_agrees() -> None:
    result = run("add.hlo", "--check", "--seed", "3")
    assert result.exit_code == 0
    assert "add.hlo: 2 of 2 results match the interpreter" in result.stderr


def test_check_runs_what_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(module: object, backend: str, **rest: object) -> None:
        raise hlo.HloError([hlo.Diagnostic("no-device", f"{backend} is asleep")])

    monkeypatch.setattr("hlo.compiler.backends.load", refuse)
    result = run("add.hlo", "--backend=gpu-emulated", "--check")
    assert result.exit_code == 1 and "gpu-emulated is asleep" in result.stderr


def test_check_shows_the_worst_element(monkeypatch: pytest.MonkeyPatch) -> None:
    from hlo.runtime.executable import Executable

    real = Executable.run_values

    def wrong(self: Executable, values: object) -> object:
        s, b = real(self, values)  # type: ignore[arg-type]
        s[1, 2] += 1
        s[0, 0] += 0.5
        return s, b

    monkeypatch.setattr(Executable, "run_values", wrong)
    result = run("add.hlo", *INPUTS, "--check")
    assert result.exit_code == 1
    line = next(x for x in result.stderr.split("\n") if "differ" in x)
    assert line.startswith("add.hlo: out0: 2 of 6 elements differ by more than 7.01e-05")
    assert line.endswith("worst at [1,2]: 7.5, 6.5 expected")
    assert "1 of 2 results match the interpreter" in result.stderr
    report = json.loads(run("add.hlo", *INPUTS, "--check", "--json").stdout)
    same, off = report["check"]["out1"], report["check"]["out0"]
    assert (same["elements"], same["mismatches"], same["error"]) == (6, 0, 0)
    assert (off["worst"], off["error"]) == ([1, 2], 1)


def test_time_and_repeat() -> None:
    result = run("add.hlo", "--time", "--repeat", "3", "--no-cache", "--threads", "1")
    assert result.exit_code == 0
    for words in ("prepared in", "compile 0.", "median of 3; min", "GFLOP/s", "GB/s"):
        assert words in result.stderr
    report = json.loads(run("add.hlo", "--json", "--repeat", "2").stdout)
    assert report["backend"] == "compiled"
    assert len(report["seconds"]["runs"]) == 2
    # Six sums and six conversions.
    assert report["cost"]["operations"] == 12 and report["cost"]["exact"]
    assert {"min", "median", "max", "gflops", "gbytes"} == set(report["speed"])


def test_the_cache_is_used_and_left_alone() -> None:
    def stages(*flags: str) -> set[str]:
        return set(json.loads(run("add.hlo", "--json", *flags).stdout)["seconds"]["prepare"])

    Path("add.hlo").write_text(ADD + "// another text\n")
    assert "emit" in stages("--no-cache")
    assert "emit" in stages()
    assert "emit" not in stages()
    assert "emit" in stages("--no-cache")


def test_several_files_and_a_summary() -> None:
    Path("bad.hlo").write_text("HloModule bad\nENTRY e { a = f32[2] add(x, y) }")
    result = run("add.hlo", "bad.hlo", "add.hlo", "--check")
    assert result.exit_code == 1
    assert "2 of 3 files agree" in result.stderr and "failed: bad.hlo" in result.stderr


# --- functions for custom calls -----------------------------------------------------------------

CALL = """HloModule c
ENTRY e {
  x = f32[2] parameter(0)
  ROOT y = f32[2] custom-call(x), custom_call_target="twice"
}
"""
C_TWICE = """
void twice(void *out, const void **in) {
  for (int i = 0; i < 2; i++) ((float *)out)[i] = 2 * ((const float *)in[0])[i];
}
"""
PYTHON_TWICE = "custom_calls = {'twice': lambda op, args: 2 * args[0]}\n"


@pytest.mark.parametrize("backend", ["compiled", "reference"])
def test_functions_are_loaded(backend: str) -> None:
    Path("call.hlo").write_text(CALL)
    Path("f.py").write_text(PYTHON_TWICE)
    Path("none.py").write_text("custom_calls = {}")
    loads = [["f.py"], ["none.py", "f.py"]]
    if shutil.which("cc"):
        Path("f.c").write_text(C_TWICE)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", "f.so", "f.c"], check=True)
        loads += [["f.so"], ["none.py", "f.so", "process"]]
    for files in loads:
        options = [option for file in files for option in ("--load", file)]
        result = run("call.hlo", "-i", "{1,2}", "--backend", backend, *options, "-o", "-")
        assert (result.stdout, result.exit_code) == ("f32[2] {2, 4}\n", 0), result.stderr
    assert run("call.hlo", "--check", "--load", "f.py", "--repeat", "2").exit_code == 0


def test_what_the_documentation_shows() -> None:
    text = (DOCS / "custom-calls.md").read_text()
    blocks = dict(re.findall(r"^```(\w+)\n(.*?)^```", text, re.M | re.S)[:3])
    Path("example.hlo").write_text(blocks["hlo"])
    Path("scale.c").write_text(blocks["c"])
    Path("scale.py").write_text(blocks["python"])
    files = ["scale.py"]
    if shutil.which("cc"):
        include = f"-I{Path(hlo.__file__).parent / 'include'}"
        command = ["cc", "-Wall", "-Werror", include, "-shared", "-fPIC", "scale.c"]
        subprocess.run([*command, "-o", "scale.so"], check=True)
        files.append("./scale.so")
    for file in files:
        result = run("example.hlo", "--load", file, "--input", "{1, 2, 3, 4}", "-o", "-")
        assert result.stdout == "f32[4] {2.5, 5, 7.5, 10}\n", result.stderr


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("none.so", None, "none.so cannot be loaded"),
        ("text.so", "text", "text.so cannot be loaded"),
        ("none.py", None, "none.py: no such file"),
        ("f.py", "x = 1\nx = y\n", "f.py:2: NameError: name 'y' is not defined"),
        ("f.py", "x = (\n", "f.py:1: "),
        ("f.py", "import sys; sys.exit(0)\n", "f.py:1: SystemExit: 0"),
        ("f.py", "open('missing')\n", "f.py:1: FileNotFoundError"),
        ("f.py", "x = 1\n", "f.py defines no dictionary custom_calls"),
        ("f.py", "custom_calls = {'twice': 1}\n", "f.py defines no dictionary custom_calls"),
        ("f.py", "custom_calls = {}\n", "call.hlo:4:35: error: "),
        ("f.py", "def f(op, args):\n  return 1 // 0\ncustom_calls = {'twice': f}\n",
         "f.py:2: ZeroDivisionError"),
        ("f.py", "custom_calls = {'twice': lambda op, args: args[0][:1]}\n", "f32[2] is needed"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("backend", ["compiled", "reference"])
def test_functions_that_cannot_be_had(
    file: str, text: str | None, words: str, backend: str
) -> None:
    Path("call.hlo").write_text(CALL)
    if text is not None:
        Path(file).write_text(text)
    args = ("call.hlo", "--backend", backend, "--load", file, "-o", "out.npz")
    result = run(*args)
    assert result.exit_code == 1 and words in result.stderr, result.stderr
    assert result.stderr.count("error:") == 1 and not Path("out.npz").exists()
    assert json.loads(run(*args, "--json").stdout)["errors"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["missing.hlo"], "missing.hlo: no such file"),
        (["add.hlo", "-i", "{1,2}"], "add.hlo: "),
        (["add.hlo", "--inputs", "cut.npz"], "cut.npz: broken"),
        (["custom.hlo"], "nobody_has_this"),
        (["huge.hlo"], "out-of-memory"),
    ],
)
def test_one_error_exit_1_and_no_output(args: list[str], words: str) -> None:
    np.savez("whole.npz", arg0=np.zeros((2, 3), np.float32))
    Path("cut.npz").write_bytes(Path("whole.npz").read_bytes()[:100])
    Path("custom.hlo").write_text(
        "HloModule c\nENTRY e { a = f32[2] parameter(0)\n "
        'ROOT b = f32[2] custom-call(a), custom_call_target="nobody_has_this" }'
    )
    Path("huge.hlo").write_text(
        "HloModule h\nENTRY e { a = f32[] parameter(0)\n"
        " ROOT b = f32[100000,100000,100] broadcast(a), dimensions={} }"
    )
    result = run(*args, "-o", "out.npz")
    assert result.exit_code == 1
    assert words in result.stderr or words == "add.hlo: "
    assert result.stderr.count("error:") == 1
    assert not Path("out.npz").exists()


def test_a_run_from_the_cache_reads_no_text() -> None:
    program = (
        "import sys\n"
        "from hlo_tools.run.command import main\n"
        "try:\n    main()\n"
        "finally:\n"
        "    names = 'lark', 'hlo.ops', 'hlo.ir', 'hlo.frontends.text', 'hlo.eval', 'jax'\n"
        "    print([m for m in names"
        " if m in sys.modules])\n"
    )
    command = [sys.executable, "-c", program, "add.hlo", *INPUTS, "--backend", "compiled"]
    subprocess.run(command, capture_output=True, check=True)
    second = subprocess.run(command, capture_output=True, check=True, text=True)
    assert second.stdout.endswith("[]\n")


LONG = """HloModule long
body { s = (s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[] get-tuple-element(s), index=1
  y = f32[] multiply(x, x)
  one = s32[] constant(1)
  j = s32[] xor(i, one)
  ROOT r = (s32[], f32[]) tuple(j, y) }
test { s = (s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT p = pred[] compare(i, n), direction=LT }
ENTRY e { z = s32[] constant(0)
  x = f32[] parameter(0)
  t = (s32[], f32[]) tuple(z, x)
  ROOT w = (s32[], f32[]) while(t), condition=test, body=body }
"""


def test_interrupting_native_code() -> None:
    """A loop without end: Python would never get to its KeyboardInterrupt."""
    Path("long.hlo").write_text(LONG)
    command = [sys.executable, "-c", "from hlo_tools.run.command import main; main()", "long.hlo"]
    command += ["--backend", "compiled"]
    with started(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stderr is not None
        # It says which inputs are random right before it runs.
        assert b"random" in process.stderr.readline()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        process.send_signal(signal.SIGINT)
        assert process.wait(HANG_S) in (-signal.SIGINT, 130)


# --- the comparison itself ------------------------------------------------------------------------


def test_what_counts_as_the_same() -> None:
    f = np.float32
    nan, inf = np.nan, np.inf
    assert compare(np.array([nan, inf, 0.0], f), np.array([nan, inf, -0.0], f)).same
    assert not compare(np.array([inf], f), np.array([-inf], f)).same
    assert not compare(np.array([nan], f), np.array([1.0], f)).same
    assert not compare(np.array([1e30], f), np.array([inf], f)).same
    assert compare(np.array([1.00001], f), np.array([1.0], f)).same
    assert not compare(np.array([1.001], f), np.array([1.0], f)).same
    assert compare(np.zeros((0, 3), f), np.zeros((0, 3), f)).same
    assert not compare(np.array([2**62 + 1]), np.array([2**62])).same
    assert compare(np.array([1 + 1j]), np.array([1 + 1j + 1e-12])).same


def test_a_sum_that_cancels_is_as_inexact_as_what_it_sums() -> None:
    want = np.array([1e-7, 1000.0, -1000.0], np.float32)
    assert compare(np.array([2e-3, 1000.0, -1000.0], np.float32), want).same


def test_tolerances_follow_the_type() -> None:
    import ml_dtypes

    order = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2]
    found = [tolerance(np.dtype(t)) for t in order]
    assert found == sorted(found) and found[0] < 1e-9 and found[-1] < 0.5
    assert tolerance(np.dtype(np.int32)) == 0 and tolerance(np.dtype(bool)) == 0


CHAOTIC = """HloModule chaotic
body {
  s = (s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  r = f32[] constant(3.9)
  c = f32[] constant(0.1)
  y = f32[] multiply(x, x)
  z = f32[] subtract(x, y)
  w = f32[] multiply(r, z)
  v = f32[] tanh(w)
  u = f32[] divide(v, c)
  k = f32[] sine(u)
  ROOT t = (s32[], f32[]) tuple(j, k)
}
condition {
  s = (s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(60)
  ROOT c = pred[] compare(i, n), direction=LT
}
ENTRY e {
  x = f32[] parameter(0)
  zero = s32[] constant(0)
  s = (s32[], f32[]) tuple(zero, x)
  w = (s32[], f32[]) while(s), condition=condition, body=body
  ROOT r = f32[] get-tuple-element(w), index=1
}
"""


def test_check_measures_how_much_a_chaotic_program_says() -> None:
    # Sixty turns make anything of the last place: no two correct programs agree.
    result = run("-", "--check", "--input", "0.3", text=CHAOTIC)
    assert result.exit_code == 0
    assert "perturbing the inputs in their last bits" in result.stderr
