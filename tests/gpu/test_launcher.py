"""C programs for GPUs, on a stub of the CUDA driver whose device is the SIMT machine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hlo.compiler.gpu_translation import translate_for_gpu
from hlo.errors import HloError
from hlo.eval import interpret
from hlo.frontends.text import parse
from hlo.objects.gpu.targets import gpu_platform
from hlo.testing.compare import compare
from tests.gpu.launchers import SANITIZED, code_of, run_program, write_code, write_example
from tests.gpu.stub_driver.library import CLEAN, build_driver, build_program, environment
from tests.harness.c_programs import arguments
from tests.harness.native import logical, physical
from tests.harness.oracle import leaves
from tests.harness.paths import EXAMPLES, ROOT
from tests.sweeps.compare_launchers import compare_launchers, examples, generated

# Loops that the host runs, with data-dependent and with known turns; state in place, scalars.
LOOPS = """HloModule loops, input_output_alias={ {1}: (1, {}, may-alias) }
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
halve { s = (f32[300,200], s32[]) parameter(0)
  x = f32[300,200] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  one = s32[] constant(1)
  m = s32[] add(n, one)
  h = f32[] constant(0.5)
  b = f32[300,200] broadcast(h), dimensions={}
  y = f32[300,200] multiply(x, b)
  ROOT r = (f32[300,200], s32[]) tuple(y, m) }
large { s = (f32[300,200], s32[]) parameter(0)
  x = f32[300,200] get-tuple-element(s), index=0
  z = f32[] constant(0)
  t = f32[] reduce(x, z), dimensions={0,1}, to_apply=add
  most = f32[] constant(1000)
  ROOT p = pred[] compare(t, most), direction=GT }
step { s = (s32[], f32[300,200]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[300,200] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[300,200] reverse(x), dimensions={1}
  w = f32[300,200] add(y, x)
  ROOT r = (s32[], f32[300,200]) tuple(j, w) }
three { s = (s32[], f32[300,200]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT p = pred[] compare(i, n), direction=LT }
ENTRY main {
  x = f32[300,200] parameter(0)
  keep = s64[4] parameter(1)
  a = f32[300,200] abs(x)
  zero = s32[] constant(0)
  t = (f32[300,200], s32[]) tuple(a, zero)
  l = (f32[300,200], s32[]) while(t), condition=large, body=halve
  y = f32[300,200] get-tuple-element(l), index=0
  n = s32[] get-tuple-element(l), index=1
  u = (s32[], f32[300,200]) tuple(zero, y)
  k = (s32[], f32[300,200]) while(u), condition=three, body=step
  z = f32[300,200] get-tuple-element(k), index=1
  d = s64[4] add(keep, keep)
  ROOT r = (f32[300,200], s64[4], s32[]) tuple(z, d, n) }
"""
# Branches by an index; types that C has not; arrays without elements; constants; nested tuples.
BRANCHES = """HloModule branches
twice { x = bf16[70] parameter(0)
  ROOT y = bf16[70] add(x, x) }
square { x = bf16[70] parameter(0)
  ROOT y = bf16[70] multiply(x, x) }
sine { x = bf16[70] parameter(0)
  ROOT y = bf16[70] sine(x) }
ENTRY main {
  p = (bf16[70], u4[5], (c64[2,3]{0,1})) parameter(0)
  i = s32[] parameter(1)
  e = f32[0,4] parameter(2)
  m = pred[9] parameter(3)
  x = bf16[70] get-tuple-element(p), index=0
  u = u4[5] get-tuple-element(p), index=1
  q = (c64[2,3]{0,1}) get-tuple-element(p), index=2
  c = c64[2,3]{0,1} get-tuple-element(q), index=0
  b = bf16[70] conditional(i, x, x, x), branch_computations={twice, square, sine}
  v = u4[5] add(u, u)
  w = c64[2,3]{0,1} multiply(c, c)
  f = f32[4,0] transpose(e), dimensions={1,0}
  n = pred[9] not(m)
  k = f64[3] constant({1, -2.5, 1e300})
  ROOT r = (bf16[70], (u4[5], c64[2,3]{0,1}), f32[4,0], pred[9], f64[3]) tuple(b, vw, f, n, k) }
""".replace("  k = f64", "  vw = (u4[5], c64[2,3]{0,1}) tuple(v, w)\n  k = f64")
# Blocks count which of them is the last, in every turn, and in reductions to 1 and to 40 results.
COUNTS = """HloModule counts
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
body { s = (f32[4000,40], s32[]) parameter(0)
  x = f32[4000,40] get-tuple-element(s), index=0
  i = s32[] get-tuple-element(s), index=1
  zero = f32[] constant(0)
  all = f32[] reduce(x, zero), dimensions={0,1}, to_apply=sum
  columns = f32[40] reduce(x, zero), dimensions={0}, to_apply=sum
  n = f32[] constant(4000)
  m = f32[] constant(160000)
  mean = f32[] divide(all, m)
  ns = f32[40] broadcast(n), dimensions={}
  means = f32[40] divide(columns, ns)
  a = f32[4000,40] broadcast(mean), dimensions={}
  b = f32[4000,40] broadcast(means), dimensions={1}
  c = f32[4000,40] add(a, b)
  y = f32[4000,40] subtract(x, c)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = (f32[4000,40], s32[]) tuple(y, j) }
test { s = (f32[4000,40], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=1
  n = s32[] constant(3)
  ROOT p = pred[] compare(i, n), direction=LT }
ENTRY main { x = f32[4000,40] parameter(0)
  zero = s32[] constant(0)
  t = (f32[4000,40], s32[]) tuple(x, zero)
  l = (f32[4000,40], s32[]) while(t), condition=test, body=body
  ROOT y = f32[4000,40] get-tuple-element(l), index=0 }
"""
NOTHING = "HloModule n\nENTRY e { ROOT r = () tuple() }\n"
SMALL = """HloModule small
ENTRY e { x = f32[100] parameter(0)
  c = f32[100] iota(), iota_dimension=0
  ROOT y = f32[100] add(x, c) }
"""
SIZES = """HloModule sizes
ENTRY e { x = f32[<=8] parameter(0)
  n = s32[] parameter(1)
  y = f32[<=8] add(x, x)
  ROOT z = f32[<=8] set-dimension-size(y, n), dimensions={0} }
"""
ENDLESS = """HloModule endless
body { s = (f32[100], pred[]) parameter(0)
  ROOT r = (f32[100], pred[]) copy(s) }
test { s = (f32[100], pred[]) parameter(0)
  ROOT p = pred[] get-tuple-element(s), index=1 }
ENTRY e { x = f32[100] parameter(0)
  p = pred[] parameter(1)
  t = (f32[100], pred[]) tuple(x, p)
  ROOT l = (f32[100], pred[]) while(t), condition=test, body=body }
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_driver(tmp_path_factory.mktemp("driver"))


def run_example(folder: Path, text: str, args: Sequence[Any], driver: Path) -> None:
    """Run the example of a module on values, and compare with the interpreter."""
    interface = write_example(folder, text, driver).interface
    files = []
    for n, (leaf, value) in enumerate(zip(interface.inputs, leaves(tuple(args)), strict=True)):
        files.append(f"in{n}.bin")
        (folder / files[-1]).write_bytes(physical(value, leaf.shape))
    done = run_program(folder, driver, "-o", "out", *files)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert (folder / "report").read_text() == CLEAN
    want = leaves(interpret(parse(text), args))
    for n, leaf in enumerate(interface.outputs):
        got = logical((folder / f"out{n}.bin").read_bytes(), leaf.shape)
        compared = compare(got, np.asarray(want[n]))
        assert compared.same, f"{leaf.ident}: {compared}"


@pytest.mark.parametrize(
    "text", [LOOPS, NOTHING, SMALL, COUNTS], ids=["loops", "nothing", "small", "counts"]
)
def test_a_program_computes_what_the_interpreter_does(
    text: str, tmp_path: Path, driver: Path
) -> None:
    run_example(tmp_path, text, arguments(text), driver)


@pytest.mark.parametrize("index", [-1, 0, 1, 7])
def test_branches_and_types(index: int, tmp_path: Path, driver: Path) -> None:
    args = arguments(BRANCHES)
    args[1] = np.int32(index)
    run_example(tmp_path, BRANCHES, args, driver)


def test_many_arrays_have_no_typed_function(tmp_path: Path, driver: Path) -> None:
    count = 130
    lines = [f"  p{n} = s32[3] parameter({n})" for n in range(count)]
    lines += [f"  sum{n} = s32[3] add(p{n}, p{(n + 1) % count})" for n in range(count)]
    shape = ", ".join(["s32[3]"] * count)
    names = ", ".join(f"sum{n}" for n in range(count))
    text = "\n".join(["HloModule m", "ENTRY e {", *lines, f"  ROOT r = ({shape}) tuple({names})"])
    text += " }\n"
    run_example(tmp_path, text, arguments(text), driver)
    assert "int m(" not in (tmp_path / "m.h").read_text()


CONSTANTS = """HloModule constants
ENTRY e { x = f32[40] parameter(0)
  c = f32[40] constant({VALUES})
  k = s8[3] constant({1, -2, 3})
  y = f32[40] add(x, c)
  ROOT r = (f32[40], s8[3]) tuple(y, k) }
""".replace("VALUES", ", ".join(str(n * n / 8) for n in range(40)))


@pytest.mark.parametrize("kind", [".c", ".o", ".a"])
def test_constants_are_in_every_form(kind: str, tmp_path: Path, driver: Path) -> None:
    code = code_of(CONSTANTS)
    for path, data in code.example("m.hlo", str(tmp_path)).items():
        Path(path).write_bytes(data)
    (tmp_path / "m.c").unlink()
    (tmp_path / f"m{kind}").write_bytes(code.write(kind, f"m{kind}"))
    build_program(tmp_path, ["example.c", f"m{kind}"], driver)
    done = run_program(tmp_path, driver)
    assert done.stdout.splitlines() == [
        "out0 f32[40]{0}: 0 0.125 0.5 1.125 2 3.125 4.5 6.125", "out1 s8[3]{0}: 1 -2 3",
    ]  # fmt: skip
    assert (tmp_path / "report").read_text() == CLEAN


def test_kernels_ask_for_much_shared_memory(tmp_path: Path, driver: Path) -> None:
    text = """HloModule product
    ENTRY e { x = f32[1024,32] parameter(0)
      w = f32[32,1024] parameter(1)
      ROOT d = f32[1024,1024] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"""
    if all(launch.shared_bytes <= 48 << 10 for launch in code_of(text).plan.launches):
        pytest.skip("no kernel of this product has more than any kernel may have")
    run_example(tmp_path, text, arguments(text), driver)
    assert "cuFuncSetAttribute" in (tmp_path / "m.c").read_text()


def test_many_modules_in_one_program(tmp_path: Path, driver: Path) -> None:
    """A share of what `python -m tests.sweeps.compare_launchers` compares."""
    cases = [*list(examples())[::16], *generated("nested", 0, 3), *generated("dynamic", 0, 3)]
    count, wrong = compare_launchers(tmp_path, cases)
    assert count > 15 and not wrong, wrong


# --- what goes wrong ----------------------------------------------------------------------------


def test_sizes_are_checked(tmp_path: Path, driver: Path) -> None:
    write_example(tmp_path, SIZES, driver)
    for size, fits in ((8, True), (0, True), (9, False), (-1, False)):
        (tmp_path / "n.bin").write_bytes(np.int32(size).tobytes())
        (tmp_path / "x.bin").write_bytes(bytes(32))
        (tmp_path / "s.bin").write_bytes(np.int32(8).tobytes())
        done = run_program(tmp_path, driver, "x.bin", "s.bin", "n.bin")
        assert done.returncode == (0 if fits else 1), done.stderr
        assert fits or "m returns -16: size: " in done.stderr
        assert (tmp_path / "report").read_text() == CLEAN


def test_loops_that_never_end(tmp_path: Path, driver: Path) -> None:
    write_example(tmp_path, ENDLESS, driver)
    assert run_program(tmp_path, driver).returncode == 0
    (tmp_path / "p.bin").write_bytes(b"\1")
    (tmp_path / "x.bin").write_bytes(bytes(400))
    done = run_program(tmp_path, driver, "x.bin", "p.bin")
    assert done.returncode == 1 and "m returns -16: loop: " in done.stderr
    assert (tmp_path / "report").read_text() == CLEAN


# Functions of the driver in the order of their first calls, and in which call one fails.
CALLS = [
    ("cuInit", 1), ("cuDeviceGet", 1), ("cuDevicePrimaryCtxRetain", 1),
    ("cuCtxPushCurrent_v2", 1), ("cuCtxGetDevice", 1), ("cuDeviceGetAttribute", 2),
    ("cuModuleLoadData", 1), ("cuModuleGetFunction", 1), ("cuStreamCreate", 1),
    ("cuMemAllocHost_v2", 1), ("cuMemAlloc_v2", 1), ("cuMemAlloc_v2", 2),
    ("cuMemcpyHtoDAsync_v2", 1), ("cuMemcpyHtoDAsync_v2", 2), ("cuMemcpyDtoDAsync_v2", 1),
    ("cuLaunchKernel", 1), ("cuMemcpyDtoHAsync_v2", 1), ("cuStreamSynchronize", 2),
]  # fmt: skip


@pytest.fixture(scope="module")
def fragile(tmp_path_factory: pytest.TempPathFactory, driver: Path) -> Path:
    """A program that calls every function of the driver."""
    folder = tmp_path_factory.mktemp("fragile")
    write_example(folder, LOOPS, driver)
    return folder


@pytest.mark.parametrize(("function", "call"), CALLS)
def test_what_the_driver_refuses_is_said_and_nothing_leaks(
    function: str, call: int, fragile: Path, driver: Path
) -> None:
    done = run_program(fragile, driver, HLO_STUB_FAIL=f"{function}:{call}:2")
    assert done.returncode == 1 and "out of memory" in done.stderr, done.stderr
    report = fragile / "report"
    assert not report.exists() or report.read_text() == CLEAN


def test_devices_that_do_not_run_the_code(fragile: Path, driver: Path) -> None:
    done = run_program(fragile, driver, HLO_STUB_CAPABILITY="86")
    assert done.returncode == 1 and "does not run code of this architecture" in done.stderr
    assert (fragile / "report").read_text() == CLEAN


@pytest.mark.parametrize(
    ("cpu", "is_machine_code", "first", "last"),
    [
        ("sm_80", False, 80, 9999), ("sm_80", True, 80, 89), ("sm_90a", False, 90, 90),
        ("sm_100f", False, 100, 109), ("sm_120", True, 120, 129),
    ],
)  # fmt: skip
def test_which_devices_run_code(cpu: str, is_machine_code: bool, first: int, last: int) -> None:
    found = gpu_platform("nvptx64", cpu).capabilities(is_machine_code=is_machine_code)
    assert found == (first, last)


# --- callers ------------------------------------------------------------------------------------

# Two programs, two handles of one, a context of the caller's, arrays of the device.
CALLER = """\
#include <stdio.h>
#include "hlo_cuda_driver.h"
#include <string.h>

#include "a.h"
#include "b.h"

CUresult cuStreamBeginCapture_v2(CUstream stream, int mode);
CUresult cuStreamEndCapture(CUstream stream, void **graph);
CUresult cuGraphInstantiateWithFlags(void **made, void *graph, unsigned long long flags);
CUresult cuGraphLaunch(void *graph, CUstream stream);
CUresult cuGraphDestroy(void *graph);
CUresult cuGraphExecDestroy(void *graph);

#define NEED(x) do { if ((x) != 0) { printf("line %d\\n", __LINE__); return 1; } } while (0)

int main(void) {
  static float x[100], y[100], z[100];
  CUdevice device;
  CUcontext context;
  CUdeviceptr in, out;
  CUstream stream;
  void *graph, *executable;
  a_program *first, *second;
  b_program *other;
  for (int i = 0; i < 100; i++) x[i] = (float)i;
  NEED(a_create(NULL, 0, NULL) != HLO_BAD_ARGUMENT);
  NEED(a_create(&first, 1, NULL) == 0 || first != NULL);
  NEED(a_create(&first, 0, NULL));
  NEED(cuDeviceGet(&device, 0));
  NEED(cuDevicePrimaryCtxRetain(&context, device));
  NEED(a_create(&second, 0, context));
  NEED(b_create(&other, 0, context));
  NEED(a(first, x, y));
  NEED(b(other, y, z));
  NEED(cuCtxPushCurrent(context));
  NEED(cuMemAlloc(&in, sizeof x));
  NEED(cuMemAlloc(&out, sizeof x));
  NEED(cuMemcpyHtoDAsync(in, z, sizeof z, NULL));
  NEED(a_run(second, &in, &out, NULL));
  NEED(cuMemcpyDtoHAsync(y, out, sizeof y, NULL));
  NEED(cuStreamSynchronize(NULL));
  for (int i = 0; i < 100; i++) NEED(y[i] != 6 * (float)i);
  NEED(a_error(second)[0] != 0);

  /* A graph of both. */
  NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  NEED(cuStreamBeginCapture_v2(stream, 0));
  NEED(a_run(second, &in, &out, stream));
  NEED(b_run(other, &out, &in, stream));
  NEED(cuStreamEndCapture(stream, &graph));
  NEED(cuGraphInstantiateWithFlags(&executable, graph, 0));
  NEED(cuGraphLaunch(executable, stream));
  NEED(cuGraphLaunch(executable, stream));
  NEED(cuMemcpyDtoHAsync(y, in, sizeof y, stream));
  NEED(cuStreamSynchronize(stream));
  for (int i = 0; i < 100; i++) NEED(y[i] != 22 * (float)i);
  NEED(cuGraphExecDestroy(executable));
  NEED(cuGraphDestroy(graph));
  NEED(cuStreamDestroy(stream));

  in += 4;
  NEED(a_run(second, &in, &out, NULL) != HLO_BAD_ARGUMENT);
  printf("%s\\n", a_error(second));
  NEED(a(second, NULL, y) != HLO_BAD_ARGUMENT);
  printf("%s\\n", a_error(second));
  NEED(a_run(NULL, &in, &out, NULL) != HLO_BAD_ARGUMENT);
  NEED(a_run(second, NULL, &out, NULL) != HLO_BAD_ARGUMENT);
  const void *from[] = {x};
  NEED(a_call(second, from, NULL) != HLO_BAD_ARGUMENT);
  NEED(strcmp(a_error(second), "a table of arrays: an address is null, or not aligned"));
  NEED(a_error(NULL)[0] != 0);
  printf("%s, %s\\n", a_status_text(0), a_status_text(209));
  printf("%lu %lu\\n", (unsigned long)a_device_bytes(), (unsigned long)b_device_bytes());

  NEED(cuMemFree(in - 4));
  NEED(cuMemFree(out));
  NEED(cuCtxPopCurrent(&context));
  a_destroy(first);
  a_destroy(second);
  a_destroy(NULL);
  b_destroy(other);
  NEED(cuDevicePrimaryCtxRelease(device));
  return 0;
}
"""
DOUBLE = """HloModule double
ENTRY e { y = f32[100] parameter(0)
  ROOT z = f32[100] add(y, y) }
"""


def test_programs_beside_each_other(tmp_path: Path, driver: Path) -> None:
    for symbol, text in (("a", SMALL), ("b", DOUBLE)):
        write_code(tmp_path, text, symbol)
    (tmp_path / "caller.c").write_text(CALLER.replace("6 *", "5 *"))
    build_program(tmp_path, ["caller.c", "a.c", "b.c"], driver, SANITIZED)
    done = run_program(tmp_path, driver)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [
        *["array x: an address is null, or not aligned"] * 2,
        "no error, no kernel image is available for the device", "0 0",
    ]  # fmt: skip
    assert (tmp_path / "report").read_text() == CLEAN


def test_the_example_program(tmp_path: Path, driver: Path) -> None:
    """As the comment in front of `examples/gpu/rnn_scan.c` says."""
    module = parse((EXAMPLES / "rnn_scan.hlo").read_text())
    code = translate_for_gpu(module, gpu_platform("nvptx64"), "rnn_scan", source="rnn_scan.hlo")
    (tmp_path / "rnn_scan.c").write_bytes(code.write(".c", "rnn_scan.c"))
    for path, data in code.headers("rnn_scan.hlo", str(tmp_path / "rnn_scan.h")).items():
        Path(path).write_bytes(data)
    source = str(EXAMPLES / "gpu/rnn_scan.c")
    build_program(tmp_path, [source, "rnn_scan.c"], driver, SANITIZED)
    done = run_program(tmp_path, driver)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "report").read_text() == CLEAN
    args: list[Any] = []
    for n, shape in enumerate(module.entry.parameter_shapes):
        numbers = np.arange(int(np.prod(shape.dims))) * 37 % 101 - 50
        args.append((numbers.astype(np.float32) / np.float32(500 + 100 * n)).reshape(shape.dims))
    args[0], _ = interpret(module, args)
    states = np.asarray(interpret(module, args)[1]).reshape(-1)
    *_, first, second, _, _, total = done.stdout.replace(",", "").split()
    assert np.allclose([float(first), float(second)], states[:2], atol=2e-5)
    assert np.isclose(float(total), states.astype(np.float64).sum(), atol=2e-3)


# --- the stub driver, and Python beside it ------------------------------------------------------


def test_python_runs_on_the_stub_driver(tmp_path: Path, driver: Path) -> None:
    if find_spec("cuda") is None or find_spec("cuda.bindings") is None:
        pytest.skip("cuda-bindings is not installed")
    (tmp_path / "m.hlo").write_text(LOOPS)
    report = tmp_path / "report"
    done = subprocess.run(
        [sys.executable, "-c", "from hlo_tools.run.command import main; main()", "m.hlo",
         "--backend=gpu", "--check"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
        env=environment(driver, HLO_STUB_REPORT=str(report)),
    )  # fmt: skip
    assert done.returncode == 0 and "3 of 3 results match the interpreter" in done.stderr, done
    assert report.read_text() == CLEAN


def test_machine_code_is_embedded_if_that_is_wanted(tmp_path: Path, driver: Path) -> None:
    """The stub refuses it as a driver refuses that of another architecture."""
    from hlo.gpu.ptxas import find_ptxas

    if find_ptxas() is None:
        pytest.skip("ptxas is not installed")
    code = translate_for_gpu(
        parse(SMALL), gpu_platform("nvptx64", "sm_90"), "m", source="m.hlo", has_cubin=True
    )
    for path, data in code.example("m.hlo", str(tmp_path)).items():
        Path(path).write_bytes(data)
    build_program(tmp_path, ["example.c", "m.c"], driver)
    done = run_program(tmp_path, driver)
    assert done.returncode == 1 and "no kernel image is available" in done.stderr
    assert (tmp_path / "report").read_text() == CLEAN


def test_amd_has_no_c_program() -> None:
    code = translate_for_gpu(parse(DOUBLE), gpu_platform("amdgcn"), "m")
    with pytest.raises(HloError, match="nvptx64 only"):
        code.headers("m.hlo", "m.h")


def test_the_stub_declares_what_programs_call() -> None:
    """Names that the launcher calls are all of the stub's: both include one header."""
    text = (ROOT / "hlo/include/hlo_gpu_launcher.c").read_text()
    called = {word for word in text.replace("(", " ").split() if word.startswith("cu")}
    stub = (ROOT / "tests/gpu/stub_driver/driver.c").read_text()
    assert all(f"CUresult {name}(" in stub for name in called if name[2:3].isupper())
