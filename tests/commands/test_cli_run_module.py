"""`hlo-run` takes the flags of XLA's run_hlo_module, and inputs as IREE's tools take them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hlo_tools.run.command import main

import hlo
from hlo.frontends.proto import Iteration, read_runs, write_runs
from hlo.io.random import Distribution, random_array
from hlo.values.literal import Literal
from hlo.values.types import array

# Native code and the interpreter give the same; passes make a constant of it.
TEXT = """HloModule m
ENTRY e {
  x = f32[2] parameter(0)
  c = f32[2] constant({1, 2})
  d = f32[2] add(c, c)
  ROOT r = f32[2] add(x, d)
}
"""
# Its function gives something else with each call.
WRONG = """HloModule m
ENTRY e {
  x = f32[2] parameter(0)
  ROOT r = f32[2] custom-call(x), custom_call_target="twice"
}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("m.hlo").write_text(TEXT)
    return tmp_path


def run(*args: str, text: str | None = None) -> Result:
    result = CliRunner().invoke(main, list(args), input=text)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_a_platform_is_compared_with_the_reference() -> None:
    result = run("m.hlo", "--platform=CPU")
    assert result.exit_code == 0
    assert "m.hlo: 1 of 1 results match the interpreter" in result.stderr
    assert "** Results on CPU and Interpreter are close enough. **" in result.stderr
    assert result.stderr.endswith("0/1 runs failed.\n")
    swapped = run("m.hlo", "--platform=interpreter", "--reference_platform=cpu")
    assert "m.hlo: 1 of 1 results match native code" in swapped.stderr
    assert run("m.hlo", "--reference_platform=default").stderr.count("match the interpreter") == 1
    alone = run("m.hlo", "--platform=cpu", "--reference_platform=")
    assert "results are" not in alone.stderr and "runs failed" not in alone.stderr


@pytest.mark.parametrize("flag", ["--platform", "--reference_platform"])
def test_platforms_that_are_not_here(flag: str) -> None:
    result = run("m.hlo", f"{flag}=ROCM")
    assert result.exit_code == 1 and "modules do not run on ROCM here [no-gpu]" in result.stderr
    assert run("m.hlo", f"{flag}=abacus").exit_code == 2


def test_iterations_have_other_inputs() -> None:
    result = run("-", "--iterations=2", "--print_literals", "--reference_platform=cpu", text=TEXT)
    first, second = (part.split("\n")[0] for part in result.stdout.split("** Argument 0 **\n")[1:])
    assert first.startswith("f32[2] {") and second.startswith("f32[2] {") and first != second
    assert result.stdout.count("** Result with test runner cpu **\nf32[2] {") == 2
    assert result.stdout.count("** Result with reference runner cpu **\nf32[2] {") == 2
    assert "=== Iteration 1\n" in result.stderr and "=== Iteration 2\n" in result.stderr
    reports = json.loads(run("m.hlo", "--iterations=2", "--json").stdout)
    assert [r["seed"] for r in reports] == [0, 1]
    refused = run("m.hlo", "--iterations=2", "-o", "x.npz")
    assert refused.exit_code == 2 and "--output-literals-file" in refused.stderr


@pytest.mark.parametrize("name", ["x.pb", "x.pbtxt"])
def test_literals_go_to_files_and_come_from_them(name: str) -> None:
    assert run("m.hlo", "--platform=cpu", "--output_literals_file", name).exit_code == 0
    data = Path(name).read_bytes()
    (kept,) = read_runs(data if name == "x.pb" else data.decode())
    x = kept.arguments[0].array
    assert kept.result is not None and kept.reference_result is not None
    np.testing.assert_array_equal(kept.result.array, x + np.float32([2, 4]))
    np.testing.assert_array_equal(kept.reference_result.array, x + np.float32([2, 4]))
    result = run("m.hlo", "--seed=7", "--input_literals_file", name, "-o", "y.npy")
    assert result.exit_code == 0 and "random" not in result.stderr
    np.testing.assert_array_equal(np.load("y.npy"), x + np.float32([2, 4]))
    # The second iteration is not in the file.
    assert "random from seed 1" in run(
        "m.hlo", "--iterations=2", f"--input_literals_file={name}"
    ).stderr  # fmt: skip


def test_literals_of_tuples_and_of_one_iteration() -> None:
    text = "HloModule t\nENTRY e { ROOT p = ((s4[3], pred[]), bf16[1]) parameter(0) }"
    assert run("-", "--output_literals_file=t.pb", text=text).exit_code == 0
    (kept,) = read_runs(Path("t.pb").read_bytes())
    assert str(kept.arguments[0].shape) == "((s4[3]{0}, pred[]), bf16[1]{0})"
    assert kept.result == kept.arguments[0] and kept.reference_result is None
    alone = write_runs([Iteration([Literal.of(np.float32([1, 2]))])], as_text=True).decode()
    Path("one.txt").write_text(alone.removeprefix("iterations {").rstrip().removesuffix("}"))
    assert run("m.hlo", "--input_literals_file=one.txt").stdout == "out0 = f32[2] {3, 6}\n"


def test_literals_that_do_not_fit() -> None:
    data = write_runs([Iteration([Literal.of(np.float32([1, 2, 3]))])])
    Path("x.pb").write_bytes(data)
    result = run("m.hlo", "--input_literals_file=x.pb")
    assert result.exit_code == 1 and "[shape-mismatch]" in result.stderr
    Path("x.pb").write_bytes(data[:-3])
    result = run("m.hlo", "--input_literals_file=x.pb")
    assert result.exit_code == 1 and "[bad-proto]" in result.stderr


def test_flags_that_exclude_each_other() -> None:
    assert run("m.hlo", "--force_fake_data").exit_code == 0
    for more in (["-i", "{1,2}"], ["--inputs=x.npz"], ["--input_literals_file=x.pb"]):
        assert run("m.hlo", "--force_fake_data", *more).exit_code == 2
    assert run("m.hlo", "--input_literals_file=x.pb", "-i", "{1,2}").exit_code == 2


@pytest.mark.parametrize(
    ("flags", "allowed"),
    [
        (["--rel_error_bound=0.5"], (0.5, 1e-3)),
        (["--abs_error_bound=0.5"], (1e-3, 0.5)),
        (["--abs_error_bound=0", "--rel_error_bound=0.25"], (0.25, 0)),
    ],
)
def test_error_bounds(flags: list[str], allowed: tuple[float, float]) -> None:
    result = run("m.hlo", "--platform=cpu", "--json", *flags)
    check = json.loads(result.stdout)["check"]["out0"]
    assert (check["rtol"], check["atol"]) == allowed


def test_results_that_differ_are_counted() -> None:
    Path("f.py").write_text(
        "calls = 0\n"
        "def twice(call, x):\n"
        "    global calls\n"
        "    calls += 1\n"
        "    return 2 * x[0] + calls\n"
        "custom_calls = {'twice': twice}\n"
    )
    args = ["-", "--platform=cpu", "--load=f.py", "--iterations=3"]
    result = run(*args, "--abs_error_bound=0.01", text=WRONG)
    assert result.exit_code == 1 and result.stderr.endswith("3/3 runs failed.\n")
    assert result.stderr.count("0 of 1 results match the interpreter") == 3
    assert run(*args, "--abs_error_bound=2", text=WRONG).exit_code == 0


def test_a_module_may_be_compiled_only() -> None:
    result = run("m.hlo", "--compile_only", "--print_literals")
    assert result.exit_code == 0 and result.stdout == "" and "prepared in" in result.stderr
    assert json.loads(run("m.hlo", "--compile_only", "--json").stdout)["seconds"]["runs"] == []
    broken = run("-", "--compile_only", text=TEXT.replace("add(x, d)", "add(x)"))
    assert broken.exit_code == 1


def test_passes_are_dumped_and_left_out() -> None:
    for flags, folder in (([], "a"), (["--run_test_hlo_passes=false"], "b")):
        run("m.hlo", f"--xla_dump_to={folder}", "--xla_dump_hlo_pass_re=.*", *flags)
        dumped = sorted(p.name for p in Path(folder).iterdir())
        assert "module_0000.m.before_optimization.txt" in dumped
        after = Path(folder, "module_0000.m.after_optimization.txt").read_text()
        assert ("constant({2, 4})" in after) == (folder == "a")


def test_inputs_are_of_any_magnitude_or_zero() -> None:
    assert run("m.hlo", "--norandom_init_input_literals").stdout == "out0 = f32[2] {2, 4}\n"
    same = (run("m.hlo", flag).stdout for flag in ("--use_large_float_range", "--random=large"))
    assert len(set(same)) == 1


@pytest.mark.parametrize("name", ["f64", "f32", "bf16", "f16", "f8e4m3fn", "f8e8m0fnu", "c64"])
def test_large_numbers_are_of_any_magnitude(name: str) -> None:
    shape = array(hlo.parse_shape(f"{name}[]").element_type, (4000,))  # type: ignore[attr-defined]
    values = random_array(shape, [0], Distribution("large"))
    parts = np.asarray(values.view(np.float32) if name == "c64" else values).astype(np.float64)
    assert np.isfinite(parts).all() and parts.all()
    sizes = np.log2(np.abs(parts))
    steps = np.histogram(sizes, 8)[0]
    assert steps.min() > 0.5 * steps.max()
    assert (name == "f8e8m0fnu") != (0.4 < (parts < 0).mean() < 0.6)


def test_the_form_of_the_input_may_be_said() -> None:
    Path("m").write_bytes(hlo.to_proto(hlo.parse(TEXT)))
    assert run("m", "--input_format=pb", "-i", "{1,2}").stdout == "out0 = f32[2] {3, 6}\n"
    assert run("m.hlo", "--input_format=pb").exit_code == 1
    text = hlo.to_stablehlo(hlo.parse(TEXT))
    result = run("-", "--input_format=stablehlo", "-i", "{1,2}", text=text)
    assert result.stdout == "out0 = f32[2] {3, 6}\n"


PARTS = """HloModule m
c { s = (s32[], f32[64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT r = pred[] compare(i, n), direction=LT }
b { s = (s32[], f32[64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[64] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[64] tanh(x)
  ROOT r = (s32[], f32[64]) tuple(j, y) }
f { p = f32[64] parameter(0)
  ROOT q = f32[64] negate(p) }
ENTRY e { x = f32[64] parameter(0)
  y = f32[64] fusion(x), kind=kLoop, calls=f
  z = s32[] constant(0)
  s = (s32[], f32[64]) tuple(z, y)
  ROOT w = (s32[], f32[64]) while(s), condition=c, body=b }
"""


def test_each_instruction_alone() -> None:
    # The fusion, the comparison, the sum and tanh: neither the loop nor what is inside the fusion.
    result = run("-", "--isolate_instructions", text=PARTS)
    assert result.exit_code == 0 and result.stdout == ""
    assert result.stderr == "-: 4 of 4 instructions agree\n"
    reports = json.loads(run("-", "--isolate_instructions", "--json", text=PARTS).stdout)
    assert {r["instruction"] for r in reports} == {"y", "r", "j"}
    ran = run("-", "--isolate_instructions", "--reference_platform=", text=PARTS)
    assert ran.stderr == "-: 4 of 4 instructions run\n"


def test_the_instruction_that_differs_is_named() -> None:
    # The sum of products is rounded otherwise.
    text = "HloModule m\nENTRY e { x = f32[999] parameter(0)\n  n = f32[999] negate(x)\n"
    text += "  ROOT y = f32[] dot(x, n), lhs_contracting_dims={0}, rhs_contracting_dims={0} }"
    exact = ("--abs_error_bound=0", "--rel_error_bound=0")
    result = run("-", "--isolate_instructions", *exact, text=text)
    assert result.exit_code == 1 and "-: 1 of 2 instructions agree\n" in result.stderr
    assert "-: y: out0: 1 of 1 elements differ" in result.stderr
    assert run("-", "--isolate_instructions", "-o", "x.npz", text=PARTS).exit_code == 2
    broken = run("-", "--isolate_instructions", text=PARTS.replace("tanh(x)", "tanh(i)"))
    assert broken.exit_code == 1 and "type-mismatch" in broken.stderr


def test_flags_of_xlas_own_runtime_change_nothing() -> None:
    flags = ("--force_use_cpu_thunk_runtime_for_test", "--different_random_seeds")
    assert run("m.hlo", *flags).stdout == run("m.hlo").stdout
    assert "change nothing here: --xla_cpu_foo" in run("m.hlo", "--xla_cpu_foo=1").stderr


@pytest.mark.parametrize(
    "spec", ["2xf32=1,2", "2xf32=[1 2]", "2xf32=@x.npy", "@x.npy", "x=@x.npy", "x=2xf32=@x.bin"]
)
def test_inputs_as_irees_tools_take_them(spec: str) -> None:
    np.save("x.npy", np.float32([1, 2]))
    np.float32([1, 2]).tofile("x.bin")
    assert run("m.hlo", "--input", spec).stdout == "out0 = f32[2] {3, 6}\n"
    result = run("m.hlo", "--input=2xi32=@x.npy")
    assert result.exit_code == 1 and "s32[2], f32[2] is needed" in result.stderr
