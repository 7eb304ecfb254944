"""Objects that find out on which processor they are: what they run there, and what they refuse."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import hlo
from hlo.compiler.translation import translate
from hlo.errors import HloError
from hlo.frontends.text import parse
from hlo.objects.code import Code
from hlo.objects.header import header
from hlo.objects.headers import headers
from hlo.objects.interface import find_interfaces
from hlo.objects.processor import choice
from hlo.objects.targets import platform, platforms
from tests.harness.native import STRICT, run_command

LEVELS = "x86-64-v2,x86-64-v3,x86-64-v4"

# A product with a constant, a loop in vector lanes, a reduction, and a result in an argument's
# memory; the second element of x matters for each.
TEXT = """HloModule m, input_output_alias={ {1}: (1, {}, may-alias) }
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
ENTRY e {
  x = f32[40,30] parameter(0)
  y = s32[3] parameter(1)
  c = f32[30,2] constant({CONSTANT})
  t = f32[40,30] tanh(x)
  d = f32[40,2] dot(t, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  zero = f32[] constant(0)
  r = f32[40] reduce(d, zero), dimensions={1}, to_apply=add
  z = s32[3] add(y, y)
  ROOT all = (f32[40], s32[3]) tuple(r, z) }
""".replace("CONSTANT", ", ".join(f"{{{i}, {-i}.5}}" for i in range(30)))

DRIVER = """
#include "m.h"
#include <stdio.h>

static float x[40 * 30], r[40];
static int32_t y[3] = {1, 2, 3};
static _Alignas(64) char workspace[m_WORKSPACE_BYTES + 1];

int main(void) {
  for (int i = 0; i < 40 * 30; i++) x[i] = (float)(i % 97) / 50 - 1;
  int status = m(x, y, r, y, workspace);
  const char *name = m_processor();
  int again = m(x, y, r, y, workspace);
  printf("%s %d %d %d\\n", name ? name : "none", status, again, (int)y[1]);
  for (int i = 0; i < 40; i++) printf("%a ", r[i]);
  return 0;
}
"""


def compiled(cpu: str, triple: str = "x86_64-linux-gnu", text: str = TEXT, **options: str) -> Code:
    return translate(parse(text), platforms(triple, cpu), "m", **options)


def program(folder: Path, code: Code, *compiler: str) -> None:
    """Build the driver around an object; it needs no libraries when it runs."""
    (folder / "m.o").write_bytes(code.write(".o", "m.o"))
    (folder / "m.h").write_text(header(code.interface, "m.hlo", "m.h"))
    (folder / "driver.c").write_text(DRIVER)
    run_command([*compiler, *STRICT, "-static", "driver.c", "m.o", "-o", "driver"], folder)


def on(cpu: str, folder: Path, emulator: str = "qemu-x86_64") -> list[str]:
    """Run the driver on an emulated processor; returns the two lines that it prints."""
    return run_command([emulator, "-cpu", cpu, "./driver"], folder).split("\n")


def need(*tools: str) -> None:
    for tool in tools:
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")


def need_x86(*tools: str) -> None:
    need(*tools)
    if platform().arch != "x86_64":
        pytest.skip("the C compiler at hand is for another processor")


# --- the choice ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cpu", "runs"),
    [
        ("x86-64", {"qemu64": "x86-64", "Nehalem": "x86-64"}),
        ("x86-64-v2", {"qemu64": "", "Nehalem": "x86-64-v2"}),
        ("x86-64-v3", {"Nehalem": "", "SandyBridge": "", "Haswell": "x86-64-v3"}),
        ("x86-64-v4", {"Nehalem": "", "max": ""}),
        (LEVELS, {"qemu64": "", "Nehalem": "x86-64-v2", "Haswell": "x86-64-v3"}),
        ("x86-64-v4,x86-64", {"qemu64": "x86-64", "max": "x86-64"}),
        ("haswell,x86-64,btver2", {"Haswell": "haswell", "Nehalem": "x86-64"}),
    ],
)
def test_a_program_runs_the_best_code_for_its_processor(
    tmp_path: Path, cpu: str, runs: dict[str, str]
) -> None:
    need_x86("cc", "qemu-x86_64")
    program(tmp_path, compiled(cpu), "cc")
    for emulated, chosen in runs.items():
        said, _ = on(emulated, tmp_path)
        want = f"{chosen} 0 0 8" if chosen else "none -2 -2 2"
        assert said == want, emulated


def test_several_levels_compute_what_each_alone_does(tmp_path: Path) -> None:
    need_x86("cc", "qemu-x86_64")
    program(tmp_path, compiled(LEVELS), "cc")
    got = {emulated: on(emulated, tmp_path) for emulated in ("Nehalem", "Haswell")}
    for cpu, emulated in (("x86-64-v2", "Nehalem"), ("x86-64-v3", "Haswell")):
        program(tmp_path, compiled(cpu), "cc")
        assert got[emulated] == on(emulated, tmp_path)


def test_an_object_for_this_processor_refuses_another(tmp_path: Path) -> None:
    need_x86("cc", "qemu-x86_64")
    code = translate(parse(TEXT), platform(), "m")
    program(tmp_path, code, "cc")
    (level,) = code.interface.levels
    if "avx2" not in level.features:
        pytest.skip("this processor is no better than the emulated one")
    assert run_command(["./driver"], tmp_path).startswith(f"{level.cpu} 0 0 8\n")
    assert on("Nehalem", tmp_path)[0] == "none -2 -2 2"


def test_assembly_is_what_gnu_reads(tmp_path: Path) -> None:
    need_x86("cc")
    (tmp_path / "m.s").write_bytes(compiled(LEVELS, source="m.hlo").write(".s", "m.s"))
    run_command(["cc", "-c", "m.s"], tmp_path)


def test_32_bits(tmp_path: Path) -> None:
    need("i686-linux-gnu-gcc", "qemu-i386")
    program(tmp_path, compiled("generic,haswell", "i686-linux-gnu"), "i686-linux-gnu-gcc")
    for emulated, chosen in (("Nehalem", "pentium4"), ("Haswell", "haswell")):
        assert on(emulated, tmp_path, "qemu-i386")[0] == f"{chosen} 0 0 8"
    assert on("pentium2", tmp_path, "qemu-i386")[0] == "none -2 -2 2"


def test_a_class_in_cpp_says_that_the_processor_lacks_instructions(tmp_path: Path) -> None:
    need_x86("g++", "qemu-x86_64")
    code = compiled("x86-64-v4")
    (tmp_path / "m.o").write_bytes(code.write(".o", "m.o"))
    for path, data in headers(code.interface, "m.hlo", str(tmp_path / "m.hpp")).items():
        Path(path).write_bytes(data)
    (tmp_path / "use.cpp").write_text("""#include "m.hpp"
int main() {
  try {
    hlo::m model;
  } catch (const hlo::Error &e) {
    std::printf("%s, %d\\n", e.what(), e.status() == HLO_BAD_PROCESSOR);
  }
}
""")
    run_command(["g++", "-std=c++17", "-Wall", "-Werror", "-static", "use.cpp", "m.o"], tmp_path)
    said = run_command(["qemu-x86_64", "-cpu", "Nehalem", "./a.out"], tmp_path)
    assert said == "m: the processor lacks instructions of it, 1\n"


def test_the_example_says_why_it_ends(tmp_path: Path) -> None:
    from hlo.objects.example import example

    need_x86("cc", "qemu-x86_64")
    code = compiled("x86-64-v4")
    program(tmp_path, code, "cc")
    source = example(code.interface, "m.hlo", "m.h", ["m.o"], "cc")
    (tmp_path / "driver.c").write_text(source)
    run_command(["cc", *STRICT, "-static", "driver.c", "m.o", "-o", "driver"], tmp_path)
    command = ["qemu-x86_64", "-cpu", "Nehalem", "./driver"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "m returns -2: this processor lacks instructions of its code\n"


def test_a_mac_saves_wide_registers_when_they_are_used() -> None:
    features = [["avx512f", "avx2"]]
    linux = choice("m", features, platform("x86_64-linux-gnu"))
    assert "and i32 %xcr0, 230\n" in linux
    assert "and i32 %xcr0, 6\n" in choice("m", features, platform("x86_64-apple-darwin"))


def test_code_for_apx_asks_for_it() -> None:
    (level,) = compiled("diamondrapids").interface.levels
    assert "egpr" in level.features
    asked = choice("m", [["egpr"]], platform("x86_64-linux-gnu"))
    assert f"and i32 %leaf7.1.d.is, {1 << 21}\n" in asked and f"%xcr0, {1 << 19}\n" in asked


# --- what is in an object -----------------------------------------------------------------------


def test_each_level_has_code_of_its_own_and_all_share_constants(tmp_path: Path) -> None:
    need("nm", "objdump")
    code = compiled(LEVELS)
    assert code.constants.size == compiled("x86-64-v3").constants.size == 4 * 30 * 2
    (tmp_path / "m.o").write_bytes(code.write(".o", "m.o"))
    symbols = [line.split()[-2:] for line in run_command(["nm", "m.o"], tmp_path).splitlines()]
    parts = ("call", "inputs", "outputs", "processor", "signature", "workspace_bytes")
    assert {name for kind, name in symbols if kind in "TRD" and "." not in name} == {
        "m", *(f"m_{p}" for p in parts)
    }  # fmt: skip
    local = {name for kind, name in symbols if kind == "t"}
    for level in LEVELS.replace("-", "_").split(","):
        assert {f"m.entry.{level}", f"kernel.d.{level}"} <= local
    assert [name for _, name in symbols if name.startswith("m.constants")] == ["m.constants"]
    listing = run_command(["objdump", "-d", "--no-show-raw-insn", "m.o"], tmp_path)
    wide = {
        found[1]
        for part in listing.split("\n\n")
        if (found := re.search(r"<(.*)>:$", part, re.MULTILINE)) and "%ymm" in part
    }
    assert wide and all(name.endswith(("x86_64_v3", "x86_64_v4")) for name in wide)
    assert "%zmm" in listing


def test_only_the_code_of_a_level_uses_its_instructions(tmp_path: Path) -> None:
    need("objdump")
    (tmp_path / "m.o").write_bytes(compiled("x86-64-v3").write(".o", "m.o"))
    listing = run_command(["objdump", "-d", "--no-show-raw-insn", "m.o"], tmp_path)
    codes = {
        found[1]: part
        for part in listing.split("\n\n")
        if (found := re.search(r"<(.*)>:$", part, re.MULTILINE))
    }
    assert "cpuid" in codes["hlo.cpuid"] and "xgetbv" in codes["hlo.xgetbv"]
    for name in ("m", "m_call", "m_processor", "m.ask", "hlo.cpuid"):
        assert not re.search(r"\t(v[a-z]|andn|shlx|%[xyz]mm)", codes[name]), name
    assert any("%ymm" in code for code in codes.values())


def test_tiles_are_asked_for(tmp_path: Path) -> None:
    need("objdump")
    (tmp_path / "m.o").write_bytes(compiled("sapphirerapids").write(".o", "m.o"))
    listing = run_command(["objdump", "-d", "--no-show-raw-insn", "-M", "intel", "m.o"], tmp_path)
    asks = listing.partition("<hlo.tiles>:")[2].partition("ret")[0]
    lines = [" ".join(line.split()[1:]) for line in asks.strip().splitlines()]
    call = ["mov eax,0x9e", "mov edi,0x1023", "mov esi,0x12", "syscall"]
    assert lines[1:5] == call and lines[0] == "mov r8,rdi" and lines[5].endswith("[r8],eax")
    need_x86("cc", "qemu-x86_64")
    program(tmp_path, compiled("sapphirerapids,x86-64"), "cc")
    assert on("max", tmp_path)[0] == "x86-64 0 0 8"
    # Windows has no such call: code with tiles is for no processor.
    windows = compiled("sapphirerapids", "x86_64-w64-mingw32").write(".o", "m.o")
    (tmp_path / "m.o").write_bytes(windows)
    assert "hlo.tiles" not in run_command(["objdump", "-t", "m.o"], tmp_path)


@pytest.mark.parametrize(
    "triple", ["x86_64-pc-windows-msvc", "x86_64-w64-mingw32", "x86_64-apple-darwin"]
)
def test_objects_of_other_systems(tmp_path: Path, triple: str) -> None:
    need("llvm-readobj", "llvm-objdump")
    code = compiled("x86-64-v2,x86-64-v3", triple, source="m.hlo")
    (tmp_path / "m.o").write_bytes(code.write(".o", "m.o"))
    said = run_command(["llvm-readobj", "--symbols", "m.o"], tmp_path)
    start = "_" if triple.endswith("darwin") else ""
    names = set(re.findall(r"Name: (\S+)", said))
    assert {f"{start}{n}" for n in ("m", "m_call", "m_processor", "hlo.cpuid")} <= names
    listing = run_command(["llvm-objdump", "-d", "--no-show-raw-insn", "m.o"], tmp_path)
    assert "cpuid" in listing and "xgetbv" in listing and "ymm" in listing
    if not start:
        unwound = run_command(["llvm-readobj", "--unwind", "m.o"], tmp_path)
        assert {"m_call", "m.ask"} <= set(re.findall(r"StartAddress: (\S+)", unwound))


@pytest.mark.parametrize("kind", [".o", ".ll", ".s"])
def test_equal_inputs_give_equal_bytes(kind: str) -> None:
    first, again = (
        compiled(cpu, source="m.hlo").write(kind, f"m{kind}")
        for cpu in (LEVELS, ",".join(reversed(LEVELS.split(","))))
    )
    assert first == again


def test_debug_information_names_the_lines_of_all_levels(tmp_path: Path) -> None:
    need("objdump")
    line = TEXT[: TEXT.index("d = f32[40,2] dot")].count("\n") + 1
    (tmp_path / "m.o").write_bytes(compiled(LEVELS, source="m.hlo").write(".o", "m.o"))
    listing = run_command(["objdump", "-d", "-l", "m.o"], tmp_path)
    for level in LEVELS.replace("-", "_").split(","):
        start = listing.index(f"<kernel.d.{level}>:")
        assert f"m.hlo:{line}" in listing[start : listing.index("\n\n", start)]


# --- what says so -------------------------------------------------------------------------------


def test_a_header_says_which_processors_the_code_is_for() -> None:
    def said(*target: str) -> str:
        code = translate(parse(TEXT), platforms(*target), "m")
        text = header(code.interface, "m.hlo", "m.h")
        return re.sub(r"\s+\*\s+", " ", text.partition("*/")[0])

    assert "cpu x86-64. It needs cmov, cx8, mmx, sse, sse2. " in said("x86_64-linux-gnu")
    alone = said("x86_64-linux-gnu", "x86-64-v3")
    assert "avx2, bmi, bmi2," in alone and "without them the functions return HLO_BAD" in alone
    several = said("x86_64-linux-gnu", LEVELS)
    assert "cpu x86-64-v2; x86-64-v3; x86-64-v4. The first call chooses the last" in several
    assert "x86-64-v2 needs cmov, cx8, mmx, popcnt," in several
    assert said("aarch64-linux-gnu").endswith("aarch64-unknown-linux-gnu, cpu generic. ")
    assert f"cpu {platform().machine.cpu}: the processor that it was compiled on" in said()


def test_the_default_is_this_processor_only_where_code_can_ask(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import llvmlite.binding as llvm

    for arch in ("aarch64", "riscv64"):
        monkeypatch.setattr(llvm, "get_process_triple", partial("{}-linux-gnu".format, arch))
        (only,) = platforms()
        assert only.arch == arch and not only.is_native
    monkeypatch.undo()
    (only,) = platforms()
    assert only.is_native == (only.arch in ("x86_64", "i686"))


def test_a_library_takes_the_level_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_x86("cc")
    path = tmp_path / "libm.so"
    hlo.compile(hlo.parse(TEXT), cache=False).save(path, cpu="generic,x86-64-v4")
    (interface,) = find_interfaces(path.read_bytes())
    assert [level.cpu for level in interface.levels] == ["x86-64", "x86-64-v4"]
    args = np.linspace(-1, 1, 1200, dtype=np.float32).reshape(40, 30), np.arange(3, dtype=np.int32)
    want = hlo.compile(hlo.parse(TEXT), cache=False)(*args)
    np.testing.assert_allclose(hlo.load_library(path)(*args)[0], want[0], rtol=1e-4, atol=1e-3)
    import llvmlite.binding as llvm

    monkeypatch.setattr(llvm, "get_host_cpu_features", lambda: {"sse2": False})
    with pytest.raises(HloError, match="sse2, which this one lacks"):
        hlo.load_library(path)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (("x86_64-linux-gnu", "x86-64-v2,"), "a name is missing"),
        (("x86_64-linux-gnu", ""), "a name is missing"),
        (("x86_64-linux-gnu", "generic,x86-64"), "duplicate processor x86-64"),
        (("x86_64-linux-gnu", "x86-64-v3,x86-64-v3"), "duplicate processor x86-64-v3"),
        (("x86_64-linux-gnu", "x86-64-v2,znver99"), "did you mean 'znver"),
        (("aarch64-linux-gnu", "generic,cortex-a76"), "for x86_64 and i686, .* not for aarch64"),
        (("wasm32", "generic,mvp"), "not for wasm32"),
        (("m68k-linux", "a,b"), "code generation does not support 'm68k'"),
    ],
)
def test_processors_that_cannot_be(target: Sequence[str], words: str) -> None:
    with pytest.raises(HloError, match=words) as error:
        platforms(*target)
    assert error.value.code == "bad-target"
