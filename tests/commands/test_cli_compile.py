"""`hlo-compile`: what it writes, where, and what it says when it cannot."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hlo_tools.compile import main

import hlo
from tests.harness.native import MACHINES, STRICT, run_command

MODULE = """HloModule scale_module
ENTRY main {
  x = f32[2,3] parameter(0)
  c = f32[2,3] constant({{1,2,3},{4,5,6}})
  ROOT y = f32[2,3] multiply(x, c)
}
"""
OTHER = MODULE.replace("multiply", "add")
CALLS_OUT = """HloModule m
ENTRY e { x = f32[3] parameter(0)
  ROOT y = f32[3] custom-call(x), custom_call_target="f", api_version=API_VERSION_TYPED_FFI }
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("scale.hlo").write_text(MODULE)
    return tmp_path


def run(*args: str, text: str | None = None) -> Result:
    result = CliRunner().invoke(main, list(args), input=text)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def good(*args: str, text: str | None = None) -> str:
    result = run(*args, text=text)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def test_every_form_at_once() -> None:
    MACHINES["native"].need()
    names = [f"scale{s}" for s in (".o", ".a", ".so", ".ll", ".s", ".bc")]
    outputs = [part for name in names for part in ("-o", name)]
    assert good("scale.hlo", *outputs, "--header", "scale.h") == ""
    assert sorted(p.name for p in Path().iterdir()) == sorted([*names, "scale.h", "scale.hlo"])
    assert Path("scale.o").read_bytes()[:4] == Path("scale.so").read_bytes()[:4] == b"\x7fELF"
    assert Path("scale.a").read_bytes()[:8] == b"!<arch>\n"
    assert Path("scale.bc").read_bytes()[:2] == b"BC"
    assert "define" in Path("scale.ll").read_text() and ".globl" in Path("scale.s").read_text()
    assert "int scale(const float *x, float *out0, void *workspace);" in Path("scale.h").read_text()


@pytest.mark.parametrize(
    ("emit", "start", "name"),
    [
        (None, b"\x7fELF", "m.o"), ("obj", b"\x7fELF", "m.o"), ("llvm-bc", b"BC", "m.bc"),
        ("llvm-ir", b"; ModuleID", "m.ll"), ("asm", b"\t.file", "m.s"),
        ("archive", b"!<arch>", "m.a"), ("shared", b"\x7fELF", "m.so"),
    ],
)  # fmt: skip
def test_standard_output(emit: str | None, start: bytes, name: str) -> None:
    if emit == "shared":
        MACHINES["native"].need()
    given = [] if emit is None else ["--emit", emit]
    done = run("scale.hlo", "-o", "-", *given, "--name", "m", "-o", name)
    assert done.exit_code == 0 and done.stderr == ""
    assert done.stdout_bytes.startswith(start)
    assert done.stdout_bytes == Path(name).read_bytes()
    assert sorted(p.name for p in Path().iterdir()) == sorted([name, "scale.hlo"])


@pytest.mark.parametrize(
    ("args", "symbol"),
    [
        (["-o", "libother.so"], "other"),
        (["-o", "other.o"], "other"),
        (["-o", "libother.o"], "libother"),
        (["--header", "h.h"], "h"),
        (["-o", "other.o", "--name", "mine"], "mine"),
        (["--example", "there"], "scale"),
    ],
)
def test_the_name_of_the_function(args: list[str], symbol: str) -> None:
    if "libother.so" in args:
        MACHINES["native"].need()
    assert json.loads(good("scale.hlo", *args, "--json"))["symbol"] == symbol


def test_json_says_what_was_written() -> None:
    report = json.loads(good("scale.hlo", "-o", "a.o", "--header", "a.h", "--json"))
    assert report["written"] == {f: Path(f).stat().st_size for f in ("a.o", "a.h")}
    assert report["parameters"] == [[0, "x", "f32[2,3]{1,0}"]]
    assert report["result"] == "f32[2,3]{1,0}" and report["module"] == "scale_module"


@pytest.mark.parametrize(
    "name", ["native", "aarch64", "riscv64", "wasm32", "armv7", "i686", "windows"]
)
def test_the_example_builds_with_the_command_that_is_shown(name: str) -> None:
    machine = MACHINES[name]
    machine.need()
    target = [] if machine.triple is None else ["--target", machine.triple]
    result = run("scale.hlo", "--example", "demo", *target)
    command = result.stderr.strip().removeprefix("build it with: ")
    assert command.startswith("cd demo && ")
    build = command.removeprefix("cd demo && ").replace(" -O2 ", f" {shlex.join(STRICT)} ")
    done = subprocess.run(build, shell=True, cwd="demo", capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    ran = subprocess.run(
        [*machine.runner, "./example"], cwd="demo", capture_output=True, text=True, check=True
    )
    assert ran.stdout == "out0 f32[2,3]{1,0}: 0 0 0 0 0 0\n"


@pytest.mark.parametrize("name", ["native", "aarch64", "wasm32"])
@pytest.mark.parametrize("tool", ["make", "cmake"])
def test_the_example_builds_with_make_and_cmake(name: str, tool: str) -> None:
    if shutil.which(tool) is None or shutil.which("make") is None:
        pytest.skip(f"{tool} is not installed")
    machine = MACHINES[name]
    machine.need()
    target = [] if machine.triple is None else ["--target", machine.triple]
    good("scale.hlo", "--example", "demo", *target)
    if tool == "make":
        run_command(["make"], Path("demo"))
        assert "up to date" in run_command(["make"], Path("demo"))
    else:
        run_command(["cmake", "-G", "Unix Makefiles", "-S", ".", "-B", "."], Path("demo"))
        run_command(["cmake", "--build", "."], Path("demo"))
    ran = run_command([*machine.runner, "./example"], Path("demo"))
    assert ran == "out0 f32[2,3]{1,0}: 0 0 0 0 0 0\n"


def test_make_knows_what_the_example_includes() -> None:
    good("-", "--example", "demo", "--name", "m", text=CALLS_OUT)
    assert "example: example.c m.o m.h hlo_ffi.h\n" in Path("demo/Makefile").read_text()


def test_a_header_for_what_is_called_outside() -> None:
    good("-", "-o", "m.o", "--header", "out.h", text=CALLS_OUT)
    assert Path("hlo_ffi.h").exists() and "0: f" in Path("out.h").read_text()


def test_standard_input_is_named() -> None:
    good("-", "-o", "m.o", "--header", "m.h", text=MODULE)
    assert b"<stdin>" in Path("m.o").read_bytes()
    assert "from <stdin>" in Path("m.h").read_text()


def test_debug_information_can_be_left_out() -> None:
    good("scale.hlo", "-o", "with.o", "--name", "m")
    good("scale.hlo", "-o", "without.o", "--name", "m", "-g0")
    assert b".debug_line" in Path("with.o").read_bytes()
    assert b".debug_line" not in Path("without.o").read_bytes()


def test_machines_differ() -> None:
    found = set()
    for args in (["--cpu", "x86-64"], ["--cpu", "x86-64-v3"], ["--cpu", "x86-64-v4"]):
        good("scale.hlo", "-o", "m.s", *args, "--target", "x86_64-linux-gnu", "-g0")
        found.add(Path("m.s").read_text())
    assert len(found) == 3


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["-o", "m.xo"], "m.xo: unsupported extension '.xo'; use one of .o, .a"),
        (["-o", "m"], "m: no extension; use one of .o, .a"),
        (["-o", "missing/m.o"], "cannot write missing/m.o: no such file or directory"),
        (["-o", "m.o", "--header", "missing/m.h"], "cannot write missing/m.h"),
        (["--example", "scale.hlo"], "cannot make scale.hlo: file exists"),
        (["-o", "m.o", "--target", "z80"], "code generation does not support 'z80'"),
        (["-o", "m.o", "--cpu", "znver99"], "did you mean 'znver"),
        (["-o", "m.o", "--features", "+avx3"], "+avx3"),
        (["-o", "m.wasm"], "goes into .so"),
        (["-o", "m.so", "--target", "wasm32"], "goes into .wasm"),
        (["-o", "m.a", "--target", "arm64-apple-darwin"], "archives for macOS are not supported"),
        (["-o", "m.so", "--linker", "false"], "false fails"),
    ],
)
def test_errors_leave_nothing_behind(args: list[str], words: str) -> None:
    before = sorted(Path().iterdir())
    result = run("scale.hlo", *args)
    assert result.exit_code == 1 and words in result.stderr
    assert result.stderr.count("error:") == 1
    assert sorted(Path().iterdir()) == before


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["-o", "-", "-o", "-"],
        ["-o", "-", "--json"],
        ["-o", "m.o", "--emit", "asm"],
        ["-o", "-", "--emit", "gimple"],
        ["-o", "m.o", "--name", "a-b"],
        ["-o", "m.o", "--name", "int"],
        ["-o", "m.o", "--foo"],
    ],
)
def test_usage(args: list[str]) -> None:
    assert run("scale.hlo", *args).exit_code == 2


WEIGHTS = """HloModule m
ENTRY e {
  x = f32[3] parameter(0)
  w = f32[3] parameter(1)
  b = f32[3] parameter(2)
  xw = f32[3] multiply(x, w)
  ROOT y = f32[3] add(xw, b)
}
"""


def test_weights_are_baked_in() -> None:
    MACHINES["native"].need()
    Path("m.hlo").write_text(WEIGHTS)
    np.savez("w.npz", w=np.float32([1, 2, 3]))
    Path("more").mkdir()
    np.save("more/2.npy", np.float32([10, 20, 30]))
    given = ["--weights", "w.npz", "--weights", "more"]
    good("m.hlo", *given, "-o", "libm.so", "--header", "m.h")
    assert "int m(const float *x, float *out0, void *workspace);" in Path("m.h").read_text()
    y = hlo.load_library("libm.so")(np.float32([1, 1, 1]))
    assert y.tolist() == [11, 22, 33]


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"v": [1.0, 2.0, 3.0]}, "w.npz: no parameter is called v"),
        ({"w": [1.0, 2.0]}, "w.npz: w has dimensions [2], f32[3] is needed"),
        ({"1": [1, 2, 3]}, "w.npz: 1 (parameter w) has dtype numpy.int32, f32[3] is needed"),
    ],
)
def test_weights_that_do_not_fit(arrays: dict[str, list[float]], words: str) -> None:
    Path("m.hlo").write_text(WEIGHTS)
    types = {name: "int32" if isinstance(v[0], int) else "float32" for name, v in arrays.items()}
    np.savez("w.npz", **{name: np.array(v, types[name]) for name, v in arrays.items()})
    result = run("m.hlo", "-o", "m.o", "--weights", "w.npz")
    assert result.exit_code == 1 and result.stderr.startswith("error: ") and words in result.stderr
    assert not Path("m.o").exists()


def test_a_bad_module_writes_nothing() -> None:
    Path("m.o").write_bytes(b"precious")
    Path("bad.hlo").write_text(MODULE.replace("f32[2,3] multiply", "f32[2,4] multiply"))
    result = run("bad.hlo", "-o", "m.o", "--header", "m.h")
    assert result.exit_code == 1 and "bad.hlo:5:" in result.stderr
    assert Path("m.o").read_bytes() == b"precious" and not Path("m.h").exists()
    report = json.loads(run("bad.hlo", "-o", "m.o", "--json").stdout)
    assert report["errors"][0]["line"] == 5
    assert run("missing.hlo", "-o", "m.o").exit_code == 1


def test_an_output_is_replaced_whole() -> None:
    good("scale.hlo", "-o", "m.o")
    first = Path("m.o").read_bytes()
    Path("other.hlo").write_text(OTHER)
    result = run("other.hlo", "-o", "m.o", "-o", "missing/m.s")
    assert result.exit_code == 1 and Path("m.o").read_bytes() == first
    assert good("other.hlo", "-o", "m.o") == "" and Path("m.o").read_bytes() != first


def test_a_module_with_shardings_is_compiled_for_whole_arrays_and_says_so() -> None:
    sharded = MODULE.replace("scale_module", "m, num_partitions=2").replace(
        "parameter(0)", "parameter(0), sharding={devices=[2,1]<=[2]}"
    )
    noted = "the code is for one device, on whole arrays"
    assert noted in run("-", "-o", "m.o", text=sharded).stderr
    assert noted not in run("scale.hlo", "-o", "m.o").stderr


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.parametrize("count", [0, 1, 2])
def test_the_example_refuses_surplus_files(tmp_path: Path, count: int) -> None:
    parameters = "".join(f"p{n} = f32[] parameter({n}) " for n in range(count))
    file = tmp_path / "m.hlo"
    file.write_text(f"HloModule m ENTRY e {{ {parameters} ROOT c = f32[] constant(3) }}")
    assert run(str(file), "--example", str(tmp_path / "demo")).exit_code == 0
    folder = tmp_path / "demo"
    subprocess.run(["cc", "example.c", "m.o", "-o", "example"], cwd=folder, check=True)
    (folder / "x.bin").write_bytes(bytes(4))
    for given in range(count + 2):
        for prefix in ([], ["-o", "r"]):
            command = ["./example", *prefix, *["x.bin"] * given]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
            assert done.returncode == (given > count)
            assert (f"too many files: at most {count}, not" in done.stderr) is (given > count)
