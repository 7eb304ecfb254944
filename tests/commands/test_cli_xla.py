"""The commands take what scripts written for XLA's tools say."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from hlo_tools.command_line.spelling import spelled
from hlo_tools.opt.command import main as opt
from hlo_tools.run.command import main as hlo_run

import hlo
from hlo.frontends.proto import from_pbtxt, to_pbtxt
from hlo.frontends.proto.pbtxt import write as write_text
from hlo.frontends.proto.schema import Message, schema
from hlo.frontends.proto.wire import decode
from hlo.passes import all_passes
from tests.harness.oracle import xla_from_proto, xla_parse, xla_to_proto

TEXT = """HloModule m

ENTRY %e (x: f32[12]) -> f32[12] {
  %x = f32[12]{0} parameter(0)
  %c = f32[12]{0} constant({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})
  %dead = f32[12]{0} negate(%x)
  ROOT %s = f32[12]{0} add(%x, %c), metadata={op_name="add"}
}
"""


def run(*args: str, text: str = TEXT) -> Result:
    result = CliRunner().invoke(opt, list(args), input=text)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


# --- spelling -----------------------------------------------------------------------------------


@click.command()
@click.option("-o", "--output")
@click.option("-n", "--repeat-count", type=int)
@click.option("--verify/--no-verify", default=True)
@click.option("--list-all", is_flag=True)
@click.argument("files", nargs=-1)
def command() -> None:
    """Nothing."""


@pytest.mark.parametrize(
    ("args", "wanted"),
    [
        (["-output=f", "x"], ["--output=f", "x"]),
        (["--o=f"], ["-o", "f"]),
        (["-o", "-list_all"], ["-o", "-list_all"]),
        (["-of"], ["-of"]),
        (["--repeat_count=3"], ["--repeat-count=3"]),
        (["-repeat_count", "-3"], ["--repeat-count", "-3"]),
        (["--list_all=true", "-list-all"], ["--list-all", "--list-all"]),
        (["--list_all=0", "--nolist_all"], []),
        (["--verify=false", "--noverify", "-verify=1"], ["--no-verify", "--no-verify", "--verify"]),
        (["--no_verify=false"], ["--verify"]),
        (["--", "-output"], ["--", "-output"]),
        (["-", "--unknown=1", "--verify=maybe"], ["-", "--unknown=1", "--verify=maybe"]),
        (["--nooutput", "--nothing"], ["--nooutput", "--nothing"]),
    ],
)
def test_flags_are_taken_in_the_spelling_of_llvm_and_absl(
    args: list[str], wanted: list[str]
) -> None:
    assert spelled(command.params, args) == wanted


@pytest.mark.parametrize(
    ("main", "flag", "ours"),
    [
        (hlo_run, "--tolerance=1", "--rtol"),
        (hlo_run, "--golden=x.npz", "--expect"),
        (hlo_run, "--weights=x.npz", "--inputs"),
        (hlo_run, "--no-opt", "--passes ''"),
        (hlo_run, "--num-replica=1", "--num-replicas"),
        (opt, "--pipeline=dce", "--passes"),
        (opt, "--skip-verify", "--no-verify"),
    ],
)
def test_flags_of_other_programs_have_hints(main: click.Command, flag: str, ours: str) -> None:
    result = CliRunner().invoke(main, ["-", flag], input=TEXT)
    assert result.exit_code == 2 and "Did you mean" in result.stderr and ours in result.stderr


# --- hlo-opt ------------------------------------------------------------------------------------


def test_xla_form_has_the_debug_options_of_xlas_tool() -> None:
    assert run("-", "--print=xla").stdout == xla_parse(TEXT, "default").replace(
        "{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}", "{...}"
    )
    full = run("-", "--print=xla", "--xla_dump_large_constants=true")
    assert full.stdout == xla_parse(TEXT, "default")
    assert "metadata" not in run("-", "--print=xla", "--xla_dump_disable_metadata").stdout


def test_passes_are_listed_as_they_are_given() -> None:
    names = run("--list_passes", "--print=xla").stdout
    assert names.count("\n") == 1 and "test-only-foo2bar" in names.split(",")
    # As XLA spells them.
    spelled_so = {"dot_decomposer", "simplify-sorts", "ReduceWindowToReduceAndBroadcast"}
    assert spelled_so <= set(names.split(",")) and len(names.split(",")) == len(all_passes())
    everything = run("-", "-passes=" + names.strip(), "--print=xla")
    assert everything.exit_code == 0 and "%dead" not in everything.stdout


def test_stages_are_listed_one_a_line() -> None:
    names = run("-list-stages", "--print=xla").stdout.split()
    assert {"hlo", "hlo-backend", "buffer-assignment", "json", "obj"} <= set(names)


def test_emit_proto_is_what_xla_reads() -> None:
    text = run("-", "-emit-proto", "--passes=dce").stdout
    assert text.startswith('hlo_module {\n  name: "m"\n  entry_computation_name: "e"\n')
    assert "dead" in text  # no pass runs
    again = from_pbtxt(text)
    assert xla_from_proto(hlo.to_proto(again)) == xla_parse(TEXT)


def test_emit_proto_is_what_xla_writes() -> None:
    text = """HloModule m, is_scheduled=true, input_output_alias={ {}: (0, {}, may-alias) }

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY e {
  x = f32[4]{0} parameter(0)
  z = f32[] constant(0)
  k = f32[2,2] constant({{1,2},{3,4}})
  w = f32[2,2] dot(k, k), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  r = f32[] reduce(x, z), dimensions={0}, to_apply=add
  g = f32[4] broadcast(r), dimensions={}
  cm = pred[4] compare(x, g), direction=LT
  ROOT s = f32[4] add(x, g), metadata={op_name="q"}, sharding={replicated}
}
"""
    theirs = Message(hlo_module=decode(xla_to_proto(text), schema()["HloModuleProto"]))
    theirs["hlo_module"].pop("id", None)  # how many modules its process has made
    wanted = write_text(theirs, schema()["HloProto"], has_lists=False)
    assert run("-", "--emit-proto", text=text).stdout == wanted


@pytest.mark.parametrize(
    ("flags", "limit"),
    [
        ([], "7"),
        (["--debug_options_file=o"], "7"),
        (["--debug_options_file=o", "--xla_gpu_dot_merger_threshold_mb=5"], "5"),
    ],
)
def test_options_of_the_environment_go_before_those_of_a_file(
    flags: list[str], limit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("o").write_text("xla_gpu_dot_merger_threshold_mb: 3\n")
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=d --xla_gpu_dot_merger_threshold_mb=7")
    assert "XLA_FLAGS" not in run("-", "--passes=dce", *flags).stderr
    dumped = Path("d/module_0000.m.debug_options").read_text()
    assert dumped == f'xla_gpu_dot_merger_threshold_mb: {limit}\nxla_dump_to: "d"\n'
    Path("flags").write_text("--xla_dump_to=f\n")
    monkeypatch.setenv("XLA_FLAGS", "flags")
    assert run("-", "--passes=dce").exit_code == 0 and Path("f").is_dir()


@pytest.mark.parametrize("form", ["hlo", "txt", "pb", "pbtxt"])
def test_the_form_of_the_input_may_be_said(form: str, tmp_path: Path) -> None:
    path = tmp_path / "input.dat"
    content = {"pb": hlo.to_proto, "pbtxt": to_pbtxt}.get(form)
    module = hlo.parse(TEXT)
    path.write_bytes(TEXT.encode() if content is None else _bytes(content(module)))
    printed = run(str(path), f"--format={form}", "--print=canonical").stdout
    assert printed == run("-", "--print=canonical").stdout
    wrong = "pbtxt" if form in ("hlo", "txt") else "hlo"
    assert run(str(path), f"--format={wrong}").exit_code == 1


def _bytes(content: bytes | str) -> bytes:
    return content if isinstance(content, bytes) else content.encode()


def test_several_files_are_taken_one_after_the_other(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a.hlo", "b.hlo")]
    for path in paths:
        path.write_text(TEXT.replace("HloModule m", f"HloModule {path.stem}"))
    result = run(*map(str, paths), "--print=xla", "--quiet")
    assert result.exit_code == 0 and result.stdout == ""
    result = run(*map(str, paths), "--print=xla")
    assert [line.split(",")[0] for line in result.stdout.splitlines() if "HloModule" in line] == [
        "HloModule a", "HloModule b",
    ]  # fmt: skip
    assert run(*map(str, paths), "-o", str(tmp_path / "o.pb")).exit_code == 2


def test_platforms_need_no_gpu_for_what_is_hlo() -> None:
    plain = run("-", "--platform=CUDA", "--passes=dce")
    assert plain.exit_code == 0 and "%dead" not in plain.stdout and plain.stderr == ""
    assert "%dead" not in run("-", "--platform=cpu").stdout
    assert "%dead" in run("-", "--platform=transforms").stdout
    assert "not of GPUs" in run("-", "--platform=gpu").stderr
    assert ".target sm_80" in run("-", "--platform=gpu", "--stage=ptx").stdout
    assert "ptx_kernel" in run("-", "--platform=cuda", "--stage=llvm").stdout
    assert "amdgpu_kernel" in run("-", "--platform=ROCM", "--stage=llvm").stdout


def test_stages_of_xlas_tool(tmp_path: Path) -> None:
    out = str(tmp_path / "m.o")
    assert run("-", "--stage=obj", "-o", out).exit_code == 0
    assert Path(out).read_bytes()[:4] == b"\x7fELF"
    assert json.loads(run("-", "--stage=json").stdout)["name"] == "m"
    assert run("-", "--stage=buffer-assignment").stdout == run("-", "--stage=buffers").stdout
    assert "fusion" not in run("-", "--stage=hlo-backend").stdout


def test_xla_form_has_xlas_words_for_unknown_passes() -> None:
    result = run("-", "--print=xla", "--passes=dce,nonesuch")
    assert result.exit_code == 1
    assert "INVALID_ARGUMENT: Pass nonesuch not found." in result.stderr
