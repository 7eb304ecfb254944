"""Files for GPUs: PTX, machine code, LLVM IR and C programs, without a GPU."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import llvmlite.binding as llvm
import pytest
from click.testing import CliRunner, Result
from hlo_tools.compile import main
from hlo_tools.opt.command import main as opt

import hlo
from hlo.codegen.targets.gpu import ARCHITECTURES
from hlo.errors import HloError
from hlo.gpu.ptxas import find_ptxas
from hlo.objects.gpu.targets import gpu_platform
from hlo.objects.interface import find_interfaces
from tests.harness.native import run_command
from tests.harness.paths import ROOT

MODULE = """HloModule m, input_output_alias={ {1}: (1, {}, may-alias) }
body { s = (s32[], f32[5,7]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[5,7] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  t = f32[5,7] tanh(x)
  ROOT r = (s32[], f32[5,7]) tuple(j, t) }
test { s = (s32[], f32[5,7]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[5,7] get-tuple-element(s), index=1
  v = f32[1,1] slice(x), slice={[0:1], [0:1]}
  w = f32[] reshape(v)
  n = f32[] constant(0.5)
  ROOT p = pred[] compare(w, n), direction=GT }
ENTRY main {
  x = f32[5,7] parameter(0)
  keep = s64[4] parameter(1)
  z = s32[] constant(0)
  t = (s32[], f32[5,7]) tuple(z, x)
  l = (s32[], f32[5,7]) while(t), condition=test, body=body
  y = f32[5,7] get-tuple-element(l), index=1
  k = s64[4] add(keep, keep)
  c = f32[7] constant({1,2,3,4,5,6,7})
  d = f32[5,7] broadcast(c), dimensions={1}
  e = f32[5,7] add(y, d)
  ROOT r = (f32[5,7], s64[4]) tuple(e, k)
}
"""
SENT = """HloModule m, replica_count=2
ENTRY e { x = f32[3] parameter(0)
  ROOT y = f32[3] collective-permute(x), source_target_pairs={{0,1},{1,0}} }
"""
TARGET = ["--target", "nvptx64", "--cpu", "sm_90"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("m.hlo").write_text(MODULE)
    return tmp_path


def run(*args: str, text: str | None = None) -> Result:
    result = CliRunner().invoke(main, list(args), input=text)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def good(*args: str, text: str | None = None) -> str:
    result = run(*args, text=text)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def need_ptxas() -> None:
    if find_ptxas() is None:
        pytest.skip("ptxas is not installed")


def need_compiler() -> None:
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")


# --- what is written ----------------------------------------------------------------------------


def test_every_form_at_once() -> None:
    need_ptxas()
    need_compiler()
    names = [f"m{s}" for s in (".ptx", ".cubin", ".ll", ".s", ".c", ".o", ".a")]
    outputs = [part for name in names for part in ("-o", name)]
    assert good("m.hlo", *TARGET, *outputs, "--header", "m.h") == ""
    written = [*names, "m.h", "hlo_cuda_driver.h"]
    assert sorted(p.name for p in Path().iterdir()) == sorted([*written, "m.hlo"])
    ptx = Path("m.ptx").read_text()
    assert ".target sm_90\n" in ptx and ".visible .entry" in ptx and 'file\t1 "m.hlo"' in ptx
    assert Path("m.s").read_text() == ptx
    assert Path("m.cubin").read_bytes()[:4] == Path("m.o").read_bytes()[:4] == b"\x7fELF"
    assert Path("m.a").read_bytes()[:8] == b"!<arch>\n"
    assert "ptx_kernel void" in Path("m.ll").read_text()
    llvm.parse_assembly(Path("m.ll").read_text())
    assert "int m_create(m_program **program_, int device," in Path("m.h").read_text()
    before = {name: Path(name).read_bytes() for name in written}
    good("m.hlo", *TARGET, *outputs, "--header", "m.h")
    assert {name: Path(name).read_bytes() for name in before} == before


def test_the_interface_is_in_the_object() -> None:
    need_compiler()
    good("m.hlo", *TARGET, "-o", "n.o")
    [found] = find_interfaces(Path("n.o").read_bytes())
    assert found.symbol == "n" and found.triple == "nvptx64-nvidia-cuda"
    assert [x.ident for x in found.inputs] == ["x", "keep"] and found.aliases == ((1, 1),)


@pytest.mark.parametrize("cpu", ["sm_80", "sm_90a", "sm_100a"])
def test_ptxas_takes_the_code_of_each_model(cpu: str) -> None:
    need_ptxas()
    good("m.hlo", "--target", "nvptx64", "--cpu", cpu, "-o", "m.cubin", "-o", "m.ptx")
    assert f".target {cpu}\n" in Path("m.ptx").read_text()


def test_names_of_files_are_any() -> None:
    from hlo.gpu.ptx import parse_ptx

    for name, shown in (('a"b.hlo', "a'b.hlo"), ("größe\\n.hlo", "größe\\n.hlo")):
        Path(name).write_bytes(Path("m.hlo").read_bytes())
        flags = ["-o", "n.cubin"] if find_ptxas() else []
        assert run(name, *TARGET, "-o", "n.ptx", *flags).exit_code == 0
        kernels = parse_ptx(Path("n.ptx").read_text()).kernels.values()
        places = [i.location for k in kernels for block in k.blocks for i in block.instructions]
        assert shown in {place.file for place in places if place is not None}


def test_lines_can_be_left_out() -> None:
    good("m.hlo", *TARGET, "-g0", "-o", "m.ptx")
    assert ".loc" not in Path("m.ptx").read_text()


def test_standard_output_is_assembly() -> None:
    shown = good("m.hlo", *TARGET, "-o", "-", "-o", "m.ptx")
    assert shown == Path("m.ptx").read_text()
    assert "ptx_kernel" in good("m.hlo", *TARGET, "-o", "-", "--emit", "llvm-ir")


def test_json_says_what_was_written() -> None:
    report = json.loads(good("m.hlo", *TARGET, "-o", "m.ptx", "--json"))
    assert report["written"] == {"m.ptx": Path("m.ptx").stat().st_size}
    assert report["triple"] == "nvptx64-nvidia-cuda" and report["levels"][0]["cpu"] == "sm_90"


def test_the_default_is_the_oldest_model() -> None:
    assert ".target sm_80\n" in good("m.hlo", "--target", "nvptx64-nvidia-cuda", "-o", "-")


def test_amd_has_assembly() -> None:
    text = MODULE[: MODULE.index("body {")] + "ENTRY e { x = f32[9] parameter(0)\n  " \
        "keep = s64[4] parameter(1)\n  y = f32[9] add(x, x)\n  ROOT r = (f32[9], s64[4]) " \
        "tuple(y, keep) }\n"  # fmt: skip
    shown = good("-", "--target", "amdgcn", "--cpu", "gfx942", "-o", "-", text=text)
    assert ".amdgcn_target" in shown
    done = run("-", "--target", "amdgcn", "-o", "m.ptx", text=text)
    assert done.exit_code == 1 and "use one of .ll, .s" in done.stderr
    done = run("-", "--target", "amdgcn", "-o", "m.s", "--header", "m.h", text=text)
    assert done.exit_code == 1 and not Path("m.s").exists()


def test_python_saves_the_same(folder: Path) -> None:
    exe = hlo.compile(hlo.parse(MODULE))
    exe.save("a.ptx", target="nvptx64", cpu="sm_90", debug_info=False)
    good("m.hlo", *TARGET, "-g0", "-o", "m.ptx")
    assert Path("a.ptx").read_bytes() == Path("m.ptx").read_bytes()


# --- C compilers --------------------------------------------------------------------------------

FLAGS = ["-Wall", "-Wextra", "-pedantic", "-Werror", "-Wconversion", "-Wshadow"]


@pytest.mark.parametrize("text", [MODULE, "HloModule n\nENTRY e { ROOT r = () tuple() }\n"])
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_c_compiles_without_a_warning(compiler: str, text: str) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    good("-", *TARGET, "-o", "m.c", "--header", "m.h", "--example", "demo", text=text)
    for standard in ("c99", "c11", "c17"):
        for source in ("m.c", "demo/example.c"):
            run_command([compiler, f"-std={standard}", *FLAGS, "-fsyntax-only", source], Path())


@pytest.mark.parametrize("standard", ["c++11", "c++20"])
def test_the_header_is_cpp_too(standard: str) -> None:
    if shutil.which("g++") is None:
        pytest.skip("there is no C++ compiler")
    good("m.hlo", *TARGET, "--header", "m.h")
    Path("use.cpp").write_text('#include "m.h"\n#include "m.h"\nint main() { return 0; }\n')
    run_command(["g++", f"-std={standard}", *FLAGS, "-fsyntax-only", "use.cpp"], Path())


def test_programs_need_only_the_driver_and_the_c_library() -> None:
    need_compiler()
    good("m.hlo", *TARGET, "-o", "m.o")
    lines = run_command(["nm", "m.o"], Path()).splitlines()
    missing = {line.split()[-1] for line in lines if " U " in line}
    declared = (ROOT / "hlo/include/hlo_cuda_driver.h").read_text()
    others = {name for name in missing if name.removesuffix("_v2") not in declared}
    assert others <= {"calloc", "free", "memcpy", "snprintf", "_GLOBAL_OFFSET_TABLE_",
                      "__stack_chk_fail", "__snprintf_chk"}  # fmt: skip
    defined = {line.split()[-1] for line in lines if line.split()[-2] in "TDRBG"}
    assert all(name == "m" or name.startswith("m_") for name in defined), defined


# --- stages of hlo-opt --------------------------------------------------------------------------


def shown(stage: str, *args: str) -> Result:
    return CliRunner().invoke(opt, ["m.hlo", f"--stage={stage}", *args])


def test_the_launch_plan_as_text() -> None:
    lines = shown("launches", *TARGET).stdout.splitlines()
    assert lines[:2] == ["argument0: 140 bytes", "argument1: 32 bytes"]
    assert "result1 is argument1" in lines
    assert "copy 140 bytes: arena+0 from argument0+0" in lines
    assert any(line.startswith("launch e_2<<<") and line.endswith("// e") for line in lines)
    assert {"while", "do", "end"} <= set(lines)


@pytest.mark.parametrize(
    ("stage", "words"),
    [
        ("kernels", "step  emit_elements"), ("commands", "while while"),
        ("llvm-before-optimizations", "ptx_kernel void"), ("llvm", "ptx_kernel void"),
        ("ptx", ".target sm_90\n"), ("asm", ".target sm_90\n"),
    ],
)  # fmt: skip
def test_stages_for_gpus(stage: str, words: str) -> None:
    done = shown(stage, *TARGET)
    assert done.exit_code == 0 and words in done.stdout, done.stderr


def test_the_object_of_a_gpu_is_machine_code() -> None:
    need_ptxas()
    assert shown("obj", *TARGET).stdout_bytes[:4] == b"\x7fELF"


def test_stages_of_gpus_alone() -> None:
    assert ".target sm_80\n" in shown("ptx").stdout
    assert "[bad-target]" in shown("ptx", "--target=amdgcn").stderr
    assert "it is no GPU [bad-target]" in shown("launches", "--target=x86_64-linux-gnu").stderr
    assert "did you mean 'sm_90'" in shown("ptx", "--target=nvptx64", "--cpu=sm_91").stderr


# --- what cannot be -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--target", "nvptx64", "--cpu", "sm_91"], "did you mean 'sm_90'?"),
        (["--target", "nvptx64", "--cpu", "zen"], "there are sm_80, sm_86"),
        (["--target", "nvptx64", "--cpu", "sm_75"], "sm_80 is the oldest that is supported"),
        (["--target", "nvptx64", "--cpu", "SM_90"], "hint: --cpu sm_90"),
        (["--target", "nvptx64", "--cpu", "h100"], "--cpu sm_90a, for the NVIDIA H100"),
        (["--target", "cuda"], "armv7, nvptx64, amdgcn"),
        (["--cpu", "sm_90"], "hint: --target nvptx64"),
        ([*TARGET, "-o", "m.c", "--name", "cuInit"], "cuInit: functions of the CUDA driver"),
        ([*TARGET, "-o", "-", "--emit", "shared"], "this target has obj, asm, llvm-ir, archive"),
        (["--target", "nvptx64", "--cpu", "sm_80,sm_90"], "for GPUs one model is named"),
        (["--target", "nvptx64", "--cpu", "native"], "no model of this name"),
        (["--target", "nvptx64-nvidia-none"], "this GPU's triple is nvptx64-nvidia-cuda"),
        ([*TARGET, "--features", "+ptx80"], "what a GPU has, --cpu says"),
        ([*TARGET, "-o", "m.so"], "use one of .ptx, .cubin"),
        ([*TARGET, "--header", "m.hpp"], "headers for GPU programs are C headers"),
        ([*TARGET, "--tune=1"], "does not apply to a GPU"),
        (["-o", "m.cubin"], "--target nvptx64 writes code for GPUs"),
        (["-o", "m.c"], "--target nvptx64 writes code for GPUs"),
    ],
)
def test_what_is_said_no_to(args: list[str], message: str) -> None:
    done = run("m.hlo", "-o", "m.s", *args)
    assert done.exit_code == 1 and message in done.stderr
    assert [p.name for p in Path().iterdir()] == ["m.hlo"]


@pytest.mark.parametrize("args", [[], TARGET])
def test_what_to_embed_is_of_c_programs(args: list[str]) -> None:
    done = run("m.hlo", "-o", "m.ll", *args, "--embed", "cubin")
    assert done.exit_code == 2 and "--embed requires a C program for a GPU" in done.stderr


def test_what_no_device_has_addresses_for() -> None:
    shape = "f32[1048576,1048576,1048576]"
    Path("h.hlo").write_text(
        f"HloModule h ENTRY e {{ x = {shape} parameter(0) y = {shape} parameter(1)"
        " a = f32[1,1,1] slice(x), slice={[0:1], [0:1], [0:1]}"
        " b = f32[1,1,1] slice(y), slice={[0:1], [0:1], [0:1]} ROOT c = f32[1,1,1] add(a, b) }"
    )
    done = run("h.hlo", *TARGET, "-o", "h.c")
    assert done.exit_code == 1 and "a GPU has less than 2^63 [too-large]" in done.stderr


def test_what_needs_other_devices_is_named() -> None:
    Path("h.hlo").write_text(SENT)
    done = run("h.hlo", *TARGET, "-o", "h.ptx", "-o", "h.c")
    assert done.exit_code == 1 and not Path("h.ptx").exists()
    assert "h.hlo:3:" in done.stderr and "y: collective-permute needs other devices" in done.stderr
    good("h.hlo", *TARGET, "-o", "h.ptx")


def test_without_ptxas_there_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hlo.gpu.ptxas.find_ptxas", lambda: None)
    done = run("m.hlo", *TARGET, "-o", "m.ptx", "-o", "m.cubin")
    assert done.exit_code == 1 and "[no-ptxas]" in done.stderr and "hlo-tools[cuda]" in done.stderr
    assert not Path("m.ptx").exists()
    good("m.hlo", *TARGET, "-o", "m.ptx")


def test_a_compiler_that_fails_leaves_nothing() -> None:
    done = run("m.hlo", *TARGET, "-o", "m.ptx", "-o", "m.o", "--linker", "false")
    assert done.exit_code == 1 and "[no-linker]" in done.stderr
    assert [p.name for p in Path().iterdir()] == ["m.hlo"]


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_llvm_knows_every_model(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    arch = ARCHITECTURES[name]
    for cpu in arch.models:
        llvm.Target.from_triple(arch.triple).create_target_machine(cpu=cpu)
    assert "not a recognized" not in capfd.readouterr().err
    with pytest.raises(HloError, match="no model"):
        gpu_platform(name, "none")
