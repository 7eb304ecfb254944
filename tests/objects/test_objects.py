"""Objects, archives, libraries and headers: what C programs get, on this machine and others."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import hlo
from hlo.errors import HloError
from hlo.eval import interpret
from hlo.frontends.text import parse
from hlo.host import run_together
from hlo.objects.exports import Reserved
from hlo.objects.header import header
from hlo.objects.headers import headers
from hlo.objects.interface import find_interfaces, identifiers, is_symbol, symbol_of_file
from hlo.objects.targets import platform, spelled_out
from hlo.testing.compare import compare
from tests.harness.c_programs import arguments, run_program, write_program
from tests.harness.native import (
    MACHINES,
    STRICT,
    Machine,
    logical,
    physical,
    run_command,
    undefined,
)
from tests.harness.oracle import leaves
from tests.sweeps.compare_objects import (
    LIBC,
    Small,
    compare_objects,
    examples,
    generated,
    in_every_type,
)

NATIVE = MACHINES["native"]

MIXED = """HloModule mixed, input_output_alias={ {1}: (1, {}, may-alias) }
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
less { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT }
body { s = (s32[], f32[5,7]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[5,7] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  t = f32[5,7] tanh(x)
  e = f32[5,7] exponential(t)
  ROOT r = (s32[], f32[5,7]) tuple(j, e) }
test { s = (s32[], f32[5,7]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT p = pred[] compare(i, n), direction=LT }
ENTRY main {
  p = (f32[5,7], bf16[6]{0}) parameter(0)
  keep = s64[4] parameter(1)
  u = u4[3] parameter(2)
  w = c64[2,3]{0,1} parameter(3)
  x = f32[5,7] get-tuple-element(p), index=0
  h = bf16[6] get-tuple-element(p), index=1
  z = s32[] constant(0)
  t = (s32[], f32[5,7]) tuple(z, x)
  l = (s32[], f32[5,7]) while(t), condition=test, body=body
  y = f32[5,7] get-tuple-element(l), index=1
  c = f32[7,4] constant({{1,2,3,4},{5,6,7,8},{1,0,1,0},{0,1,0,1},{2,2,2,2},{3,3,3,3},{9,8,7,6}})
  d = f32[5,4] dot(y, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  zero = f32[] constant(0)
  q = f32[5] reduce(d, zero), dimensions={1}, to_apply=add
  o = f32[5] sort(q), dimensions={0}, to_apply=less
  k = s64[4] add(keep, keep)
  hh = bf16[6] multiply(h, h)
  uu = u4[3] add(u, u)
  ww = c64[2,3]{0,1} multiply(w, w)
  ROOT r = (f32[5], s64[4], (bf16[6], u4[3]), c64[2,3]{0,1}) tuple(o, k, i, ww)
}
""".replace("tuple(o, k, i, ww)", "tuple(o, k, i, ww)").replace(
    "  ROOT r = (f32[5], s64", "  i = (bf16[6], u4[3]) tuple(hh, uu)\n  ROOT r = (f32[5], s64"
)

SMALL = "HloModule m\nENTRY e { x = f32[3] parameter(0)\n  ROOT y = f32[3] add(x, x) }\n"


SHARED_OUT = """HloModule m
ENTRY e { x = f32[100,90] parameter(0)
  t = f32[100,90] tanh(x)
  d = f32[100,100] dot(t, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  e = f32[100,90] dot(d, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT y = f32[100,90] tanh(e) }
"""

# A kernel of it has a table of 32 KiB on its stack.
SORT = """HloModule m
less { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT }
ENTRY e { x = f32[100000] parameter(0)
  ROOT y = f32[100000] sort(x), dimensions={0}, to_apply=less }
"""
HOST = """HloModule m
ENTRY e { x = f32[3] parameter(0)
  ROOT y = f32[3] custom-call(x), custom_call_target="triple", api_version=API_VERSION_TYPED_FFI
}
"""


@pytest.mark.parametrize("name", MACHINES)
def test_a_c_program_computes_what_the_interpreter_does(tmp_path: Path, name: str) -> None:
    run_program(tmp_path, MACHINES[name], MIXED)


# --- what a C program sees ----------------------------------------------------------------------


@pytest.mark.parametrize("text", [MIXED, SMALL, "HloModule n\nENTRY e { ROOT r = () tuple() }\n"])
def test_headers_compile_without_a_warning(tmp_path: Path, text: str) -> None:
    NATIVE.need()
    write_program(tmp_path, NATIVE, text)
    compilers = [c for c in ("gcc", "clang", "g++", "clang++") if shutil.which(c)]
    for compiler in compilers:
        language = "c++" if compiler.endswith("++") else "c"
        standards = ["c++11", "c++20"] if language == "c++" else ["c99", "c11", "c17"]
        for standard in standards:
            flags = [f"-std={standard}", "-Wall", "-Wextra", "-pedantic", "-Werror", "-Wconversion"]
            source = '#include "m.h"\n#include "m.h"\nint main(void) { return 0; }\n'
            (tmp_path / "use.c").write_text(source)
            run_command([compiler, *flags, "-x", language, "-fsyntax-only", "use.c"], tmp_path)


# --- what a C++ program sees --------------------------------------------------------------------

CPP = ("-std=c++17", "-Wall", "-Wextra", "-pedantic", "-Werror", "-Wconversion", "-Wshadow")


def write_wrapper(folder: Path, text: str, symbol: str = "m") -> None:
    """Write object and headers of a module, and a second file that includes them."""
    code = NATIVE.code(text, symbol)
    (folder / f"{symbol}.o").write_bytes(code.write(".o", f"{symbol}.o"))
    for path, data in headers(code.interface, "m.hlo", str(folder / f"{symbol}.hpp")).items():
        Path(path).write_bytes(data)
    with (folder / "other.cpp").open("a") as other:
        print(*(f'#include "{symbol}.{end}"' for end in ("hpp", "hpp", "h")), sep="\n", file=other)


def run_cpp(folder: Path, text: str, program: str, *flags: str) -> str:
    """Build a C++ program around the class of a module, and run it."""
    NATIVE.need()
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    write_wrapper(folder, text)
    (folder / "use.cpp").write_text(f'#include "m.hpp"\n{program}')
    run_command(["g++", *CPP, *flags, "use.cpp", "m.o", "-o", "use"], folder)
    return run_command(["./use"], folder)


def test_a_class_in_cpp(tmp_path: Path) -> None:
    text = """HloModule m
ENTRY e { x = f32[3] parameter(0)
  c = c64[2] parameter(1)
  h = bf16[2] parameter(2)
  s = s64[] parameter(3)
  y = f32[3] add(x, x)
  d = c64[2] multiply(c, c)
  n = s64[] negate(s)
  t = (f32[3], s64[]) tuple(y, n)
  ROOT r = ((f32[3], s64[]), c64[2], bf16[2]) tuple(t, d, h) }"""
    program = """
int main() {
  hlo::m model;
  const std::vector<float> x = {1, 2, 3};
  std::complex<float> c[] = {{0, 1}, {2, 0}};
  const std::uint16_t h[] = {1, 2};
  const std::int64_t s[] = {-5};
  auto r = model.run(x, c, h, s);
  std::printf("%g %d %g %g %d\\n", r.out0[2], int(r.out1[0]), r.out2[0].real(), r.out2[1].real(),
              r.out3[1]);
  float y[3], few[2];
  std::int64_t n;
  std::vector<std::complex<float>> d(2);
  std::uint16_t g[2];
  hlo::m moved = std::move(model);
  moved.run_into(x, c, h, s, y, {&n, 1}, d, g);
  std::printf("%g %d %g %d\\n", y[0], int(n), d[1].real(), g[1]);
  std::printf("%s %d\\n", hlo::m::inputs()[1].type, int(hlo::m::outputs().size()));
  try {
    moved.run_into(x, c, h, s, few, {&n, 1}, d, g);
  } catch (const hlo::Error &e) {
    std::printf("%s, %d\\n", e.what(), e.status());
  }
  return 0;
}
"""
    assert run_cpp(tmp_path, text, program).split("\n") == [
        "6 5 -1 4 2", "2 5 4 2", "c64[2]{0} 4",
        "m: out0 has 2 elements, 3 are needed, 0", "",
    ]  # fmt: skip


def test_a_class_in_cpp_shares_work_out(tmp_path: Path) -> None:
    program = """
static int shares;
static void shared(void *, void (*task)(void *, std::int64_t, std::int64_t), void *context,
                   std::int64_t n, std::int64_t chunk) {
  for (std::int64_t at = 0; at < n; at += chunk, shares++)
    task(context, at, at + chunk < n ? at + chunk : n);
}
int main() {
  hlo::m one, two;
  two.set_threads({shared, nullptr});
  std::vector<float> x(9000);
  for (std::size_t i = 0; i < x.size(); i++) x[i] = static_cast<float>(i % 1000) / 500 - 1;
  return one.run(x).out0 == two.run(x).out0 && shares > 2 ? 0 : 1;
}
"""
    assert run_cpp(tmp_path, SHARED_OUT, program) == ""


def test_a_class_in_cpp_says_what_failed_outside(tmp_path: Path) -> None:
    program = """
static std::int32_t failing(hlo_ffi_call *call) { return hlo_ffi_fail(call, "no way", 6); }
int main() {
  char message[99] = "";
  hlo_host host{};
  host.message = message;
  host.message_size = sizeof message;
  host.imports[0].function = failing;
  try {
    hlo::m(host).run(std::vector<float>{1, 2, 3});
  } catch (const std::runtime_error &e) {
    std::puts(e.what());
  }
}
"""
    assert run_cpp(tmp_path, HOST, program) == "m returns 1: no way\n"


def test_a_class_in_cpp_without_exceptions(tmp_path: Path) -> None:
    program = """
int main() {
  hlo::m model;
  const float x[] = {1, 2, 3};
  float y[3];
  const void *in[] = {x};
  void *out[] = {y};
  const int status = model.call(in, out);
  return status == 0 && y[2] == 6 ? 0 : 1;
}
"""
    assert run_cpp(tmp_path, SMALL, program, "-fno-exceptions", "-fno-rtti", "other.cpp") == ""


ODD_NAMES = """HloModule m
ENTRY e {
  in = f32[] parameter(0)
  std = f32[] parameter(1)
  results = f32[] parameter(2)
  arena_ = f32[] parameter(3)
  hlo = f32[] parameter(4)
  m = f32[] parameter(5)
  ROOT out0 = f32[] parameter(6) }
"""


def test_cpp_headers_of_all_kinds_live_together(tmp_path: Path) -> None:
    many = f"HloModule m\nENTRY e {{ ROOT p = ({', '.join(['f32[]'] * 200)}) parameter(0) }}\n"
    none = "HloModule n\nENTRY e { ROOT r = () tuple() }\n"
    for symbol, text in {"a": MIXED, "b": none, "c": many, "m": ODD_NAMES, "Span": HOST}.items():
        write_wrapper(tmp_path, text, symbol)
    for compiler, standard in (("g++", "c++17"), ("clang++", "c++20")):
        if shutil.which(compiler):
            flags = [f"-std={standard}", *CPP[1:]]
            run_command([compiler, *flags, "-fsyntax-only", "other.cpp"], tmp_path)


def test_both_headers_are_written_from_python(tmp_path: Path) -> None:
    exe = hlo.compile(hlo.parse(SMALL), weights={"x": np.float32([1, 2, 3])}, cache=False)
    exe.save(tmp_path / "k.o", header=str(tmp_path / "k.hpp"))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["k.h", "k.hpp", "k.o"]
    assert "int k(float *out0, void *workspace);" in (tmp_path / "k.h").read_text()


def test_an_old_cpp_compiler_is_told(tmp_path: Path) -> None:
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    write_wrapper(tmp_path, SMALL)
    command = ["g++", "-std=c++14", "-fsyntax-only", "other.cpp"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode and "this header needs C++17" in done.stderr


@pytest.mark.parametrize("text", [MIXED, HOST])
def test_examples_are_c99(tmp_path: Path, text: str) -> None:
    NATIVE.need()
    interface = write_program(tmp_path, NATIVE, text)
    for path, data in headers(interface, "m.hlo", str(tmp_path / "m.h")).items():
        Path(path).write_bytes(data)
    flags = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror"]
    for compiler in filter(shutil.which, ("gcc", "clang")):
        run_command([compiler, *flags, "-fsyntax-only", "example.c"], tmp_path)


def test_what_a_header_says() -> None:
    text = header(NATIVE.code(MIXED).interface, "/tmp/mixed.hlo", "mixed.h")
    prototype = re.search(r"^int m\((.*?)\);", text, re.MULTILINE | re.DOTALL)
    assert prototype is not None
    assert re.sub(r"\s+", " ", prototype[1]) == (
        "const float *p_0, const uint16_t *p_1, const int64_t *keep, const uint8_t *u, "
        "const float *w, float *out0, int64_t *out1, uint16_t *out2, uint8_t *out3, float *out4, "
        "void *workspace"
    )
    assert "out1: s64[4]{0}, 32 bytes; may be keep itself" in text
    assert "w: c64[2,3]{0,1}, 48 bytes (real and imaginary parts in turn)" in text
    assert "p_1: bf16[6]{0}, 12 bytes (the bits of bf16), p.1 in the module" in text


def test_names_for_c() -> None:
    assert identifiers(["x", "x", "a.1", "a-1", "int", "0", "out0", ""], ["out0"]) == [
        "x", "x_2", "a_1", "a_1_2", "int_2", "p0", "out0_2", "p",
    ]  # fmt: skip
    assert is_symbol("model") and not is_symbol("int") and not is_symbol("a.b")
    assert (
        not is_symbol("memcpy")
        and not is_symbol("_x")
        and not is_symbol("")
        and not is_symbol("1a")
    )
    assert symbol_of_file("out/libmodel.so") == "model"
    assert symbol_of_file("my-model.v2.o") == "my_model"
    assert symbol_of_file("int.o") == "hlo_int"


def test_nothing_but_the_interface_is_visible(tmp_path: Path) -> None:
    NATIVE.need()
    write_program(tmp_path, NATIVE, MIXED)
    (tmp_path / "libm.so").write_bytes(NATIVE.code(MIXED).write(".so", "libm.so"))
    defined = run_command(["nm", "-D", "--defined-only", "libm.so"], tmp_path).splitlines()
    symbols = {line.split()[-1] for line in defined}
    parts = ["call", "workspace_bytes", "signature", "inputs", "outputs"]
    parts += ["processor"] if platform().arch in ("x86_64", "i686") else []
    assert symbols == {"m", *(f"m_{p}" for p in parts)}
    assert undefined(NATIVE, tmp_path / "m.o") <= LIBC


DRIVER = """
#include "m.h"
#include <stdio.h>
#include <string.h>

static int shares;
static void run(void *state, void (*task)(void *, int64_t, int64_t), void *context, int64_t n,
                int64_t chunk) {
  (void)state;
  /* Backwards, in shares of no round length. */
  for (int64_t end = n; end > 0; end -= chunk * 2 / 3 + 1, shares++) {
    int64_t begin = end - (chunk * 2 / 3 + 1);
    task(context, begin > 0 ? begin : 0, end);
  }
}

static float x[100 * 90], a[100 * 90], b[100 * 90];
static _Alignas(64) char workspace[m_WORKSPACE_BYTES + 65];

int main(void) {
  for (int i = 0; i < 100 * 90; i++) x[i] = (float)(i % 1000) / 500 - 1;
  const void *in[] = {x};
  void *out[] = {b};
  hlo_threads threads = {run, 0};
  if (m(x, a, workspace) != 0 || m_call(in, out, workspace, &threads) != 0) return 1;
  if (memcmp(a, b, sizeof a) != 0) return 2;
  if (shares < 3) return 3;
  if (m_workspace_bytes() != m_WORKSPACE_BYTES || m_inputs[0].bytes != sizeof x) return 4;
  if (strcmp(m_inputs[0].name, "x") || strcmp(m_outputs[0].type, "f32[100,90]{1,0}")) return 5;
  if (m_inputs[0].rank != 2 || m_inputs[0].dims[0] != 100 || m_inputs[0].dims[1] != 90) return 6;
  if (m(x, a, workspace + 1) != -1 || m(x, a, 0) != -1) return 7;
  puts("fine");
  return 0;
}
"""


@pytest.mark.parametrize("name", ["native", "riscv64", "wasm32", "armv7", "i686"])
def test_threads_are_the_callers(tmp_path: Path, name: str) -> None:
    machine = MACHINES[name]
    machine.need()
    write_program(tmp_path, machine, SHARED_OUT)
    (tmp_path / "driver.c").write_text(DRIVER)
    run_command([*machine.compiler, *STRICT, "driver.c", "m.o", "-o", "driver"], tmp_path)
    assert run_command([*machine.runner, "./driver"], tmp_path) == "fine\n"


def test_a_donated_argument_is_updated_in_place(tmp_path: Path) -> None:
    NATIVE.need()
    text = """HloModule m, input_output_alias={ {}: (0, {}, may-alias) }
    ENTRY e { x = s32[3] parameter(0)
      ROOT y = s32[3] add(x, x) }"""
    write_program(tmp_path, NATIVE, text)
    driver = """
    #include "m.h"
    int main(void) {
      int32_t x[3] = {1, 2, 3}, y[3];
      if (m(x, y, 0) != 0 || x[2] != 3 || y[2] != 6) return 1;
      return m(x, x, 0) != 0 || x[0] != 2 || x[2] != 6;
    }"""
    (tmp_path / "driver.c").write_text(driver)
    run_command(["cc", *STRICT, "driver.c", "m.o", "-o", "driver"], tmp_path)
    run_command(["./driver"], tmp_path)


@pytest.mark.parametrize("name", ["native", "riscv64", "wasm32", "armv7", "i686"])
def test_functions_outside_are_in_a_table(tmp_path: Path, name: str) -> None:
    machine = MACHINES[name]
    machine.need()
    interface = write_program(tmp_path, machine, HOST)
    for path, data in headers(interface, "m.hlo", str(tmp_path / "m.h")).items():
        Path(path).write_bytes(data)
    assert "0: triple" in (tmp_path / "m.h").read_text()
    build = [*machine.compiler, *STRICT, "example.c", "m.o", "-o", "example"]
    run_command(build, tmp_path)
    command = [*machine.runner, "./example"]
    failed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (failed.returncode, failed.stderr) == (1, "m returns 1: triple: to be written\n")
    filled = (tmp_path / "example.c").read_text()
    start, end = filled.index("  static const char message"), filled.index("}\n\n/* Memory")
    body = """  const float *x = call->operands[0];
  float *y = call->results[0];
  for (int i = 0; i < 3; i++) y[i] = 3 * x[i];
  return 0;
"""
    (tmp_path / "example.c").write_text(filled[:start] + body + filled[end:])
    run_command(build, tmp_path)
    np.float32([1, 2, 3]).tofile(tmp_path / "x.bin")
    assert run_command([*command, "x.bin"], tmp_path) == "out0 f32[3]{0}: 3 6 9\n"


def test_more_arrays_than_c_takes(tmp_path: Path) -> None:
    NATIVE.need()
    shapes = ", ".join(["f32[]"] * 200)
    text = f"HloModule m\nENTRY e {{ ROOT p = ({shapes}) parameter(0) }}\n"
    run_program(tmp_path, NATIVE, text)
    assert "int m(" not in (tmp_path / "m.h").read_text()


# --- every operation, everywhere ----------------------------------------------------------------

_EVERYWHERE = sorted(MACHINES.keys() - {"native", "x86-64-v3"})


@pytest.mark.parametrize("name", _EVERYWHERE)
def test_every_operation_needs_libc_alone_and_computes(tmp_path: Path, name: str) -> None:
    machine = MACHINES[name]
    machine.need()
    part = _EVERYWHERE.index(name)
    cases = [*examples(name), *in_every_type(name, part, 80), *generated(part, 1)]
    if machine.is_narrow:
        # Two of them, which lack the same: each tries a half.
        cases = cases[part % 2 :: 2]
    count, wrong = compare_objects(tmp_path, machine, cases)
    assert not wrong, "\n".join(wrong)
    assert count > (55 if machine.is_narrow else 110)


# --- what 32-bit processors lack ----------------------------------------------------------------

WIDE = """HloModule wide
ENTRY e {
  x = s64[N] parameter(0)
  y = s64[N] parameter(1)
  d = f64[N] parameter(2)
  f = f32[N] parameter(3)
  i = s32[N] parameter(4)
  j = s32[N] parameter(5)
  ux = u64[N] bitcast-convert(x)
  uy = u64[N] bitcast-convert(y)
  ui = u32[N] bitcast-convert(i)
  uj = u32[N] bitcast-convert(j)
  r0 = s64[N] divide(x, y)
  r1 = s64[N] remainder(x, y)
  r2 = u64[N] divide(ux, uy)
  r3 = u64[N] remainder(ux, uy)
  r4 = s32[N] divide(i, j)
  r5 = s32[N] remainder(i, j)
  r6 = u32[N] divide(ui, uj)
  r7 = u32[N] remainder(ui, uj)
  r8 = f64[N] convert(x)
  r9 = f64[N] convert(ux)
  r10 = f32[N] convert(x)
  r11 = f32[N] convert(ux)
  r12 = s64[N] convert(d)
  r13 = u64[N] convert(d)
  r14 = s64[N] convert(f)
  r15 = u64[N] convert(f)
  ROOT r = (s64[N], s64[N], u64[N], u64[N], s32[N], s32[N], u32[N], u32[N], f64[N], f64[N], f32[N], f32[N], s64[N], u64[N], s64[N], u64[N]) tuple(r0, r1, r2, r3, r4, r5, r6, r7, r8, r9, r10, r11, r12, r13, r14, r15)
}
"""  # noqa: E501


COPY = "HloModule m\nENTRY e { x = f32[N] parameter(0)\n  ROOT y = f32[N] copy(x) }\n"


def _of_every_length(rng: np.random.Generator, count: int) -> np.ndarray:
    """Return numbers with any count of significant bits, where conversions round to even too."""
    numbers = rng.integers(0, 1 << 63, count, np.uint64) << np.uint64(1)
    numbers |= np.uint64(1 << 63)
    # Long runs of zeros or ones behind the first bits: ties, and what is just beside them.
    cut = rng.integers(0, 64, count).astype(np.uint64)
    numbers = numbers >> cut << cut
    numbers += rng.integers(-1, 2, count).astype(np.uint64)
    return (numbers >> rng.integers(0, 64, count).astype(np.uint64)).view(np.int64)


@pytest.mark.parametrize("name", ["armv7", "i686"])
def test_numbers_of_64_bits(tmp_path: Path, name: str) -> None:
    count, machine, rng = 3000, MACHINES[name], np.random.default_rng(0)
    machine.need()
    x, y = (_of_every_length(rng, count) for _ in range(2))
    d = x.view(np.uint64).astype(np.float64) * rng.choice([1, -1, 0.5, -0.5], count)
    args = [x, y, d, d.astype(np.float32), x.astype(np.int32), y.astype(np.int32)]
    text = WIDE.replace("[N]", f"[{count}]")
    problems = compare_objects(tmp_path, machine, [Small("m", text, args)])
    assert problems == (1, [])


@pytest.mark.parametrize("cpu", ["generic", "cortex-a15", "swift"])
def test_arm_computes_with_subnormal_numbers(cpu: str) -> None:
    # Of NEON's registers, d and q, none takes part in arithmetic of f32.
    code = Machine("armv7-linux-gnueabihf", cpu).code(SHARED_OUT).write(".s", "m.s").decode()
    found = re.findall(r"\bv(?:add|mul|sub|fma|mla)\.f32\s+(\w)", code)
    assert found and set(found) == {"s"}


@pytest.mark.parametrize(
    ("triple", "text", "names"),
    [
        ("armv7-linux-gnueabihf", WIDE, {"__aeabi_ldivmod", "__aeabi_idiv", "__aeabi_l2f"}),
        ("armv7-none-eabihf", COPY, {"__aeabi_memcpy"}),
        ("i686-linux-gnu", WIDE, {"__divdi3", "__udivdi3"}),
    ],
)
def test_an_object_has_the_functions_of_a_compilers_library(
    tmp_path: Path, triple: str, text: str, names: set[str]
) -> None:
    if shutil.which("llvm-nm") is None:
        pytest.skip("llvm-nm is not installed")
    machine = Machine(triple, nm="llvm-nm")
    (tmp_path / "m.o").write_bytes(machine.code(text.replace("[N]", "[900]")).write(".o", "m.o"))
    assert undefined(machine, tmp_path / "m.o") <= LIBC
    local = {
        line.split()[-1]
        for line in run_command(["llvm-nm", "m.o"], tmp_path).splitlines()
        if " t " in line
    }
    assert names <= local


# --- Windows ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("triple", "needs", "tables"),
    [
        ("x86_64-pc-windows-msvc", {"_fltused", "memset"}, ".debug$S"),
        ("x86_64-pc-windows-gnu", {"memset"}, ".debug_line"),
    ],
)
def test_objects_for_windows(tmp_path: Path, triple: str, needs: set[str], tables: str) -> None:
    if shutil.which("llvm-readobj") is None:
        pytest.skip("llvm-readobj is not installed")
    machine = Machine(triple, nm="llvm-nm")
    data = machine.code(SORT, source="m.hlo").write(".obj", "m.obj")
    (tmp_path / "m.obj").write_bytes(data)
    # The machine, and no time.
    assert data[:2] == b"\x64\x86" and data[4:8] == bytes(4)
    assert undefined(machine, tmp_path / "m.obj") <= needs
    said = run_command(["llvm-readobj", "--sections", "--symbols", "m.obj"], tmp_path)
    names = set(re.findall(r"Name: (\S+)", said))
    assert {".text", ".pdata", ".xdata", tables, "m", "m_call"} <= names
    assert ("__chkstk" in names) == triple.endswith("msvc")
    assert ("___chkstk_ms" in names) == triple.endswith("gnu")


def test_more_stack_than_a_page_on_windows(tmp_path: Path) -> None:
    run_program(tmp_path, MACHINES["windows"], SORT)


def test_a_dll(tmp_path: Path) -> None:
    for tool in ("x86_64-w64-mingw32-gcc", "llvm-readobj"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    code = MACHINES["windows"].code(SMALL)
    data = code.write(".dll", "m.dll")
    assert data[:2] == b"MZ" and data == code.write(".dll", "m.dll")
    (tmp_path / "m.dll").write_bytes(data)
    said = run_command(["llvm-readobj", "--coff-exports", "m.dll"], tmp_path)
    parts = ("call", "inputs", "outputs", "processor", "signature", "workspace_bytes")
    assert re.findall(r"Name: (\S+)", said) == ["m", *(f"m_{p}" for p in parts)]


# --- constants ----------------------------------------------------------------------------------


def _with_constant(count: int) -> str:
    values = ",".join(str(i % 251) for i in range(count))
    return (
        f"HloModule m\nENTRY e {{ c = u8[{count}] constant({{{values}}})\n"
        f"  x = u8[{count}] parameter(0)\n  ROOT y = u8[{count}] add(x, c) }}\n"
    )


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("count", [1, 3, 63, 64, 65, 3000])
def test_constants_are_in_the_object(tmp_path: Path, name: str, count: int) -> None:
    run_program(tmp_path, MACHINES[name], _with_constant(count))


def test_constants_are_read_only(tmp_path: Path) -> None:
    NATIVE.need()
    (tmp_path / "m.o").write_bytes(NATIVE.code(_with_constant(3000)).write(".o", "m.o"))
    sections = run_command(["objdump", "-h", "-w", "m.o"], tmp_path).splitlines()
    (line,) = [x for x in sections if " .rodata " in x]
    assert "READONLY" in line and int(line.split()[2], 16) >= 3000


def test_reserved_data_takes_the_place_of_its_mark() -> None:
    data = np.arange(100, dtype=np.uint8)
    reserved = Reserved("c", data)
    module_text = f'target triple = "x86_64-linux-gnu"\n{reserved.definition}'
    machine = platform("x86_64-linux-gnu").machine
    code = machine.object_code(machine.optimize(module_text))
    assert data.tobytes() in reserved.fill(code) and data.tobytes() not in code


# --- files of every kind ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [".o", ".a", ".so", ".ll", ".s", ".bc"])
def test_equal_inputs_give_equal_bytes(kind: str) -> None:
    if kind == ".so":
        NATIVE.need()
    first, again = (NATIVE.code(MIXED, source="m.hlo").write(kind, f"m{kind}") for _ in range(2))
    assert first == again


def test_bytes_do_not_depend_on_the_process(tmp_path: Path) -> None:
    script = (
        "import hashlib, hlo; from hlo.compiler.translation import translate; "
        "from hlo.objects.targets import platform; "
        f"c = translate(hlo.parse({MIXED!r}), platform('aarch64-linux-gnu'), 'm', source='m.hlo'); "
        "print([hashlib.sha256(c.write(k, 'm' + k)).hexdigest() for k in ('.o', '.ll', '.s')])"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed, folder in (("1", tmp_path), ("2", Path.cwd()))
    }  # fmt: skip
    assert len(digests) == 1


@pytest.mark.parametrize("kind", [".a", ".s", ".bc", ".ll"])
def test_other_forms_link_too(tmp_path: Path, kind: str) -> None:
    compiler = "clang" if kind in (".bc", ".ll") else "cc"
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    code = MACHINES["x86-64"].code(SMALL)
    (tmp_path / f"m{kind}").write_bytes(code.write(kind, f"m{kind}"))
    if kind in (".bc", ".ll"):
        version = run_command([compiler, "--version"], tmp_path)
        found = re.search(r"version (\d+)", version)
        if found is None or int(found[1]) < 22:
            pytest.skip(f"this {compiler} does not read our version of LLVM IR")
    (tmp_path / "m.h").write_text(header(code.interface, "m", "m.h"))
    driver = '#include "m.h"\nint main(void) { float x[3] = {1, 2, 3}, y[3]; m(x, y, 0); '
    (tmp_path / "driver.c").write_text(driver + "return y[2] != 6; }\n")
    run_command([compiler, "driver.c", f"m{kind}", "-o", "driver"], tmp_path)
    run_command(["./driver"], tmp_path)


@pytest.mark.parametrize("name", ["m.a", "a_name_that_is_longer_than_a_header_has_room_for.a"])
def test_archives_are_as_ar_has_them(tmp_path: Path, name: str) -> None:
    if shutil.which("ar") is None:
        pytest.skip("ar is not installed")
    (tmp_path / name).write_bytes(NATIVE.code(SMALL).write(".a", name))
    assert run_command(["ar", "t", name], tmp_path) == name.replace(".a", ".o\n")
    index = run_command(["nm", "-s", name], tmp_path)
    assert "m_call in " + name.replace(".a", ".o") in index
    run_command(["ar", "x", name], tmp_path)
    assert (tmp_path / name.replace(".a", ".o")).read_bytes() == NATIVE.code(SMALL).write(".o", "")


# Calls a function of a module with arguments from files, and writes its results; what memory it
# takes lies behind the module's own. Reads places and sizes from the module's tables.
_NODE = """
const fs = require("fs");
const {exports} = new WebAssembly.Instance(new WebAssembly.Module(fs.readFileSync("m.wasm")), {});
const {memory} = exports;
let end = memory.buffer.byteLength;
const room = (bytes) => {
  const at = end;
  end += Math.ceil(bytes / 64) * 64;
  memory.grow(Math.max(0, Math.ceil((end - memory.buffer.byteLength) / 65536)));
  return at;
};
const arrays = (table, count) => Array.from({length: count}, (_, n) => {
  const view = new DataView(memory.buffer);
  const bytes = view.getUint32(table.value + 20 * n + 8, true);
  return {bytes, at: room(bytes)};
});
const [inputs, outputs] = process.argv.slice(1).map(Number);
const given = arrays(exports.m_inputs, inputs), made = arrays(exports.m_outputs, outputs);
given.forEach(({at}, n) => new Uint8Array(memory.buffer).set(fs.readFileSync(`in${n}.bin`), at));
const table = (places) => {
  const at = room(4 * places.length + 4);
  places.forEach((p, n) => new DataView(memory.buffer).setUint32(at + 4 * n, p.at, true));
  return at;
};
const [before, after] = [table(given), table(made)];
const workspace = room(exports.m_workspace_bytes());
const status = exports.m_call(before, after, workspace, 0);
made.forEach(({at, bytes}, n) =>
  fs.writeFileSync(`out${n}.bin`, new Uint8Array(memory.buffer, at, bytes)));
console.log(status);
"""
# Memory is copied, filled, and moved where it overlaps.
MOVED = """HloModule m
ENTRY e { x = f32[4099] parameter(0)
  i = s32[] parameter(1)
  y = f32[4099] copy(x)
  u = f32[99] slice(x), slice={[7:106]}
  v = f32[4099] dynamic-update-slice(x, u, i)
  z = f32[1000] constant({...})
  w = f32[5099] concatenate(y, z), dimensions={0}
  ROOT r = (f32[4099], f32[4099], f32[5099]) tuple(y, v, w) }
"""


@pytest.mark.parametrize("name", ["wasm32", "wasm32-simd"])
@pytest.mark.parametrize(
    "text", [MIXED, SORT, SHARED_OUT, MOVED.replace("{...}", f"{{{','.join(['0'] * 1000)}}}")]
)
def test_a_wasm_module_needs_nothing(
    tmp_path: Path, name: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    code = MACHINES[name].code(text, source="m.hlo")
    with monkeypatch.context() as m:
        m.setenv("PATH", str(tmp_path))
        (tmp_path / "m.wasm").write_bytes(code.write(".wasm", "m.wasm"))
    args = arguments(text)
    interface = code.interface
    for n, (leaf, value) in enumerate(zip(interface.inputs, leaves(tuple(args)), strict=True)):
        (tmp_path / f"in{n}.bin").write_bytes(physical(value, leaf.shape))
    counts = [str(len(interface.inputs)), str(len(interface.outputs))]
    assert run_command(["node", "-e", _NODE, *counts], tmp_path) == "0\n"
    want = leaves(interpret(parse(text), args))
    for n, leaf in enumerate(interface.outputs):
        got = logical((tmp_path / f"out{n}.bin").read_bytes(), leaf.shape)
        assert compare(got, np.asarray(want[n])).same


def test_a_wasm_module_is_the_linkers(tmp_path: Path) -> None:
    tools = ("wasm-ld", "llvm-objdump", "llvm-dwarfdump")
    for tool in tools:
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    code = MACHINES["wasm32-simd"].code(MIXED, source="m.hlo")
    said = []
    for name, linker in (("ours.wasm", ""), ("theirs.wasm", "wasm-ld")):
        (tmp_path / name).write_bytes(code.write(".wasm", name, linker))
        info = run_command(["llvm-dwarfdump", "--debug-info", name], tmp_path)
        lines = run_command(["llvm-dwarfdump", "--debug-line", name], tmp_path)
        listing = run_command(["llvm-objdump", "-d", name], tmp_path)
        # Addresses of data differ, and nothing else.
        listing = re.sub(r"(?m)^.*(i32\.const|memory|i32\.load|i32\.store).*$", "", listing)
        said.append([text.replace(name, "") for text in (info, lines, listing)])
    assert said[0] == said[1]


def test_memory_for_modules_without_a_library(tmp_path: Path) -> None:
    """Copy, move and fill memory at all small distances and sizes, beside the C library's."""
    NATIVE.need()
    import llvmlite.binding as llvm

    from hlo.objects.memory import memory_functions

    text = "\n".join(memory_functions().values()).replace("@mem", "@our_mem")
    machine = platform("i686-linux-gnu").machine
    if shutil.which("i686-linux-gnu-gcc") is None or shutil.which("qemu-i386") is None:
        pytest.skip("there is no compiler or emulator for 32-bit x86")
    module = llvm.parse_assembly(f'target triple = "{machine.triple}"\n{text}')
    (tmp_path / "memory.o").write_bytes(machine.object_code(module))
    (tmp_path / "use.c").write_text("""
#include <string.h>
void *our_memcpy(void *, const void *, unsigned), *our_memmove(void *, const void *, unsigned);
void *our_memset(void *, int, unsigned);
static unsigned char a[128], b[128];
static void start(void) { for (int i = 0; i < 128; i++) a[i] = b[i] = (unsigned char)(i * 7); }
int main(void) {
  for (unsigned n = 0; n < 40; n++) {
    for (unsigned from = 40; from < 60; from++)
      for (unsigned to = 10; to < 80; to++) {
        start();
        if (memmove(a + to, a + from, n) != a + to || our_memmove(b + to, b + from, n) != b + to ||
            memcmp(a, b, 128)) return 1;
        if (to + n > from && from + n > to) continue;
        start();
        if (our_memcpy(b + to, a + from, n) != b + to || memcmp(b + to, a + from, n)) return 2;
        memcpy(a + to, a + from, n);
        if (memcmp(a, b, 128)) return 3;
      }
    start();
    memset(a + 5, 0x1a5, n);
    if (our_memset(b + 5, 0x1a5, n) != b + 5 || memcmp(a, b, 128)) return 4;
  }
  return 0;
}
""")
    run_command(["i686-linux-gnu-gcc", "use.c", "memory.o", "-o", "use"], tmp_path)
    run_command(["qemu-i386", "-L", "/usr/i686-linux-gnu", "./use"], tmp_path)


# --- debug information --------------------------------------------------------------------------


def test_debuggers_find_the_lines_of_hlo(tmp_path: Path) -> None:
    if shutil.which("gdb") is None:
        pytest.skip("gdb is not installed")
    (tmp_path / "m.hlo").write_text(MIXED)
    line = next(n for n, x in enumerate(MIXED.split("\n"), 1) if "tanh" in x)
    write_program(tmp_path, NATIVE, MIXED)
    code = NATIVE.code(MIXED, source="m.hlo")
    (tmp_path / "m.o").write_bytes(code.write(".o", "m.o"))
    run_command(["cc", "example.c", "m.o", "-o", "example"], tmp_path)
    commands = [f"break m.hlo:{line}", "run", "info symbol $pc", "backtrace"]
    said = run_command(
        ["gdb", "-nx", "-batch", *(x for c in commands for x in ("-ex", c)), "example"], tmp_path
    )
    assert f"{line}\t  t = f32[5,7] tanh(x)" in said
    assert "kernel." in said and " m_call ()" in said


def test_debug_information_does_not_change_the_code(tmp_path: Path) -> None:
    NATIVE.need()
    listings = []
    for source in ("m.hlo", None):
        (tmp_path / "m.o").write_bytes(NATIVE.code(MIXED, source=source).write(".o", "m.o"))
        listings.append(run_command(["objdump", "-d", "m.o"], tmp_path))
    assert listings[0] == listings[1]


def test_debug_information_names_no_place_of_this_machine() -> None:
    code = NATIVE.code(MIXED, source="m.hlo").write(".o", "m.o")
    assert str(Path.cwd()).encode() not in code and b"m.hlo\0" in code


# --- targets ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (("m68k-linux",), "code generation does not support 'm68k'"),
        (("aarch65-linux-gnu",), "did you mean 'aarch64'"),
        (("",), "code generation does not support ''"),
        (("x86_64-linux-gnu", "znver99"), "did you mean 'znver"),
        (("x86_64-linux-gnu", "athlon"), "64-bit code requested"),
        (("riscv64-linux-gnu", "sifive-s51"), "no double-precision"),
        (("armv7-linux-gnueabihf", "cortex-m4"), "no double-precision"),
        (("i686-linux-gnu", "i686"), "no SSE2"),
        (("x86_64-linux-gnux32",), "pointers of x86_64 are all of its bits"),
        (("x86_64-pc-windows-gnu-elf",), "objects have the native format of the system"),
        (("arm-linux-gnueabihf",), "did you mean 'armv7'"),
        (("aarch64-pc-windows-msvc",), "only x86_64 is supported on Windows"),
        (("i686-pc-windows-msvc",), "only x86_64 is supported on Windows"),
        (("armv7-apple-ios",), "only supported with ELF"),
        (("riscv64-linux-gnu", "native"), ", not riscv64"),
        (("x86_64-linux-gnu", None, "avx2"), "written as in +avx2"),
        (("x86_64-linux-gnu", None, "+avx2,+sve"), "'+sve': LLVM knows none"),
        ((None, None, "+nonsense"), "'+nonsense': LLVM knows none"),
    ],
)
def test_targets_that_cannot_be(target: tuple[str, ...], words: str) -> None:
    with pytest.raises(HloError) as error:
        platform(*target)
    assert error.value.code == "bad-target" and words in str(error.value)


@pytest.mark.parametrize(
    ("target", "bits"),
    [
        (("x86_64-linux-gnu",), 128),
        (("x86_64-linux-gnu", "x86-64-v3"), 256),
        (("x86_64-linux-gnu", "x86-64-v4"), 512),
        (("x86_64-linux-gnu", None, "+avx2"), 256),
        (("x86_64-linux-gnu", "x86-64-v3", "-fma"), 256),
        (("aarch64-linux-gnu",), 128),
        (("arm64-apple-darwin",), 128),
        (("riscv64-linux-gnu",), 32),
        (("riscv64-linux-gnu", None, "+v"), 128),
        (("i686-linux-gnu",), 128),
        (("i386-linux-gnu", None, "+avx2"), 256),
        (("armv7-linux-gnueabihf",), 32),
        (("armv7a-linux-gnueabihf", "cortex-a15"), 32),
        (("wasm32",), 32),
        (("wasm32", None, "+simd128"), 128),
    ],
)
def test_vectors_of_targets(target: tuple[str, ...], bits: int) -> None:
    assert platform(*target).target.vector_bits == bits


@pytest.mark.parametrize("name", ["wasm32", "armv7", "i686"])
@pytest.mark.parametrize(
    ("size", "words"),
    [
        (600_000_000, "arrays and workspace take 4800000000 bytes; {} has addresses of 32 bits"),
        (536_870_912, "arrays and workspace take 4294967296 bytes; {} has addresses of 32 bits"),
        (536_870_911, ""),
    ],
)
def test_arrays_that_a_target_has_no_addresses_for(name: str, size: int, words: str) -> None:
    text = SMALL.replace("f32[3]", f"f32[{size}]")
    assert MACHINES["aarch64"].code(text).interface.workspace_bytes == 0
    if not words:
        assert MACHINES[name].code(text).interface.inputs[0].size_bytes == 4 * size
        return
    triple = spelled_out(str(MACHINES[name].triple))
    with pytest.raises(HloError, match=words.format(triple)) as e:
        MACHINES[name].code(text)
    assert e.value.code == "too-large"


def test_an_array_takes_half_of_the_addresses_at_most() -> None:
    with pytest.raises(
        HloError, match=r"an array takes 2147483648 bytes; .* half of them for an array"
    ) as e:
        MACHINES["armv7"].code("""HloModule m
ENTRY e { x = u8[2147483648] parameter(0)
  ROOT y = u8[3] slice(x), slice={[2147483645:2147483648]} }""")
    assert e.value.code == "too-large"


# --- libraries from Python ----------------------------------------------------------------------


def saved(tmp_path: Path, text: str, name: str = "libm.so", **options: object) -> Path:
    NATIVE.need()
    hlo.compile(hlo.parse(text), cache=False).save(tmp_path / name, **options)
    return tmp_path / name


def test_a_library_is_called_as_the_module_is(tmp_path: Path) -> None:
    path = saved(tmp_path, MIXED, header=str(tmp_path / "m.h"))
    library = hlo.load_library(path)
    args = arguments(MIXED)
    exe = hlo.compile(hlo.parse(MIXED), cache=False)
    for got, want in zip(leaves(library(*args)), leaves(exe(*args)), strict=True):
        assert got.tobytes() == want.tobytes()
    assert repr(library) == repr(exe)
    assert (tmp_path / "m.h").exists()
    keep = np.arange(4)
    assert library(args[0], keep, *args[2:], donate=True)[1].ctypes.data == keep.ctypes.data
    assert keep.tolist() == [0, 2, 4, 6]
    with pytest.raises(HloError, match="cannot be saved again"):
        library.save(tmp_path / "again.so")


def test_a_library_shares_work_out(tmp_path: Path) -> None:
    path = saved(tmp_path, SHARED_OUT)
    (x,) = arguments(SHARED_OUT)
    one, two = (hlo.load_library(path, threads=n)(x) for n in (1, 2))
    assert one.tobytes() == two.tobytes()
    assert compare(two, np.asarray(interpret(parse(SHARED_OUT), [x]))).same


def test_a_library_that_was_written_again_is_the_new_one(tmp_path: Path) -> None:
    path = saved(tmp_path, SMALL)
    x = np.float32([1, 2, 3])
    first = hlo.load_library(path)
    saved(tmp_path, SMALL.replace("add", "multiply"))
    again = hlo.load_library(path)
    assert (first(x).tolist(), again(x).tolist()) == ([2, 4, 6], [1, 4, 9])


def test_a_library_calls_python(tmp_path: Path) -> None:
    host = hlo.Host(custom_calls={"triple": lambda op, args: 3 * args[0]})
    text = HOST.replace(", api_version=API_VERSION_TYPED_FFI", "")
    NATIVE.need()
    hlo.compile(hlo.parse(text), cache=False, host=host).save(tmp_path / "libm.so")
    library = hlo.load_library(tmp_path / "libm.so", host=host)
    assert library(np.float32([1, 2, 3])).tolist() == [3, 6, 9]
    with pytest.raises(HloError, match="triple"):
        hlo.load_library(tmp_path / "libm.so")


def test_a_library_meets_itself_on_other_devices(tmp_path: Path) -> None:
    text = """HloModule m, replica_count=2
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY e { x = f32[3] parameter(0)
  ROOT y = f32[3] all-reduce(x), replica_groups={{0,1}}, to_apply=add
}"""
    path = saved(tmp_path, text, header=str(tmp_path / "m.h"))
    assert "0: y (all-reduce) of f32[3], devices {{0,1}}" in (tmp_path / "m.h").read_text()
    assert (tmp_path / "hlo_collectives.h").exists()
    hosts = [hlo.Host(), hlo.Host()]
    x = np.float32([1, 2, 3])
    runs = [partial(hlo.load_library(path, host=h), (n + 1) * x) for n, h in enumerate(hosts)]
    assert [y.tolist() for y in run_together(hosts, (2, 1), runs)] == [[3, 6, 9]] * 2
    with pytest.raises(HloError, match="devices 0, 1, and the run has one device"):
        hlo.load_library(path)(x)


THREADS_IN_C = r"""
#include <pthread.h>
#include <stdio.h>
#include "m.h"
#include "hlo_collectives.h"

static pthread_barrier_t barrier;
static const hlo_collective_call *calls[2];

/* Members share memory: each does its part of the definition. */
static int32_t run(hlo_collective_call *call) {
  const int64_t *devices;
  int64_t place;
  int64_t n = hlo_collective_group(call->op, call->device, &devices, &place);
  int32_t status;
  if (n != 2) return hlo_collective_fail(call, "a group of two is needed");
  calls[place] = call;
  pthread_barrier_wait(&barrier);
  status = call->op->combine(call->op, calls, n, place);
  pthread_barrier_wait(&barrier);
  return status;
}
static int32_t start(hlo_collective_call *call) { (void)call; return 0; }

static void *device(void *number) {
  static float in[2][3] = {{1, 2, 3}, {10, 20, 30}}, out[2][6];
  const hlo_collectives table = {sizeof table, NULL, run, start, run};
  hlo_host host = {0};
  int n = *(int *)number;
  host.replica_id = (uint32_t)n;
  host.collectives = &table;
  static unsigned char space[2][m_WORKSPACE_BYTES + 64];
  char *work = (char *)space[n] + (64 - (size_t)space[n] % 64) % 64;
  const int status = m(in[n], out[n], work, &host);
  pthread_barrier_wait(&barrier);
  if (n == 0)
    for (int d = 0; d < 2; d++)
      printf("%d: %g %g %g %g\n", status, out[d][0], out[d][2], out[d][3], out[d][5]);
  return NULL;
}

int main(void) {
  pthread_t threads[2];
  int numbers[2] = {0, 1};
  hlo_host nobody = {0};
  float in[3] = {0}, out[6];
  static char space[m_WORKSPACE_BYTES + 64];
  char *work = space + (64 - (size_t)space % 64) % 64;
  printf("%d\n", m(in, out, work, &nobody) - HLO_COLLECTIVE_FAILED);
  pthread_barrier_init(&barrier, NULL, 2);
  for (int n = 0; n < 2; n++) pthread_create(&threads[n], NULL, device, &numbers[n]);
  for (int n = 0; n < 2; n++) pthread_join(threads[n], NULL);
}
"""


def test_threads_of_a_c_program_are_devices(tmp_path: Path) -> None:
    text = """HloModule m, replica_count=2
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY e { x = f32[3] parameter(0)
  y = f32[3] all-reduce(x), replica_groups={{0,1}}, to_apply=add
  s = (f32[3], f32[6]) all-gather-start(y), replica_groups={{1,0}}, dimensions={0}
  ROOT z = f32[6] all-gather-done(s)
}"""
    NATIVE.need()
    code = NATIVE.code(text, "m")
    for name, data in headers(code.interface, "m.hlo", str(tmp_path / "m.h")).items():
        Path(name).write_bytes(data)
    (tmp_path / "m.o").write_bytes(code.write(".o", ""))
    (tmp_path / "use.c").write_text(THREADS_IN_C)
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-pthread"]
    run_command(["cc", *flags, "use.c", "m.o", "-o", "use"], tmp_path)
    assert run_command(["./use"], tmp_path) == "0\n" + "0: 11 33 11 33\n" * 2


def test_several_functions_in_one_library(tmp_path: Path) -> None:
    NATIVE.need()
    for name in ("one", "two"):
        text = SMALL if name == "one" else SMALL.replace("add", "multiply")
        (tmp_path / f"{name}.o").write_bytes(NATIVE.code(text, name).write(".o", ""))
    run_command(["cc", "-shared", "one.o", "two.o", "-o", "both.so"], tmp_path)
    x = np.float32([1, 2, 3])
    path = tmp_path / "both.so"
    assert hlo.load_library(path, "one")(x).tolist() == [2, 4, 6]
    assert hlo.load_library(path, "two")(x).tolist() == [1, 4, 9]
    with pytest.raises(HloError, match="give a name, it has one, two"):
        hlo.load_library(path)
    with pytest.raises(HloError, match="there is no three"):
        hlo.load_library(path, "three")


def test_what_cannot_be_loaded(tmp_path: Path) -> None:
    good = saved(tmp_path, SMALL).read_bytes()
    other = MACHINES["aarch64"].code(SMALL).write(".o", "")
    cases = {
        "none.so": (None, "no such file"),
        "empty.so": (b"", "empty"),
        "text.so": (b"text", "not a library written by hlo-compile"),
        "other.so": (other, "compiled for aarch64-unknown-linux-gnu"),
        "cut.so": (good[: len(good) // 2], "written by hlo-compile|cannot be loaded"),
        "newer.so": (good.replace(b'"format": 4', b'"format": 9'), "format 9"),
        "broken.so": (good.replace(b'"parameters"', b'"paranoters"'), "signature is broken"),
        "needs.so": (good.replace(b'"avx2"', b'"sse5"'), ""),
    }
    for name, (data, words) in cases.items():
        if data is not None:
            (tmp_path / name).write_bytes(data)
        if words:
            with pytest.raises(HloError, match=words):
                hlo.load_library(tmp_path / name)
    with pytest.raises(HloError, match="is a directory"):
        hlo.load_library(tmp_path)


def test_a_library_for_a_better_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path, SMALL)
    import llvmlite.binding as llvm

    (interface,) = find_interfaces(path.read_bytes())
    (level,) = interface.levels
    lacking = next(f for f in level.features if f in llvm.get_host_cpu_features())
    monkeypatch.setattr(llvm, "get_host_cpu_features", lambda: {lacking: False})
    with pytest.raises(HloError, match=f"{lacking}, which this one lacks"):
        hlo.load_library(path)


def test_a_linker_that_fails(tmp_path: Path) -> None:
    exe = hlo.compile(hlo.parse(SMALL), cache=False)
    with pytest.raises(HloError, match="false fails"):
        exe.save(tmp_path / "m.so", linker="false")
    with pytest.raises(HloError, match="cannot run no-such-linker"):
        exe.save(tmp_path / "m.so", linker="no-such-linker")
    assert not list(tmp_path.iterdir())


def test_no_linker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    exe = hlo.compile(hlo.parse(SMALL), cache=False)
    with pytest.raises(HloError, match=r"no linker for riscv64(.|\n)*gcc-riscv64-linux-gnu or lld"):
        exe.save(tmp_path / "m.so", target="riscv64-linux-gnu")


def test_functions_are_found_by_ctypes(tmp_path: Path) -> None:
    native = ctypes.CDLL(str(saved(tmp_path, SMALL)))
    x, y = np.float32([1, 2, 3]), np.empty(3, np.float32)
    assert native.m(ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data), None) == 0
    assert y.tolist() == [2, 4, 6]


def test_no_name_gets_out_of_a_comment(tmp_path: Path) -> None:
    NATIVE.need()
    from hlo.objects.example import example

    code = NATIVE.code(SMALL)
    bad = 'm*/ int x = "??/\n.hlo'
    (tmp_path / "m.h").write_text(header(code.interface, bad, "m.h"))
    (tmp_path / "m.o").write_bytes(code.write(".o", "m.o"))
    (tmp_path / "example.c").write_text(example(code.interface, bad, "m.h", ["m.o"], "cc"))
    run_command(["cc", *STRICT, "example.c", "m.o", "-o", "example"], tmp_path)
