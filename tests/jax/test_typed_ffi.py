"""Functions with the interface of XLA's typed FFI, and those that programs register with JAX."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import jax
import numpy as np
import pytest

import hlo
from hlo.errors import HloError
from hlo.host.typed_ffi import TypedFunction
from tests.jax.test_plugin import run_program

SOURCE = Path(__file__).with_name("typed_ffi.c")
X = np.arange(6, dtype=np.float32).reshape(2, 3)
SCALE = """HloModule m ENTRY e {
  x = f32[2,3] parameter(0)
  ROOT y = (f32[2,3]LAYOUT, s32[]) custom-call(x), custom_call_target="scale",
    operand_layout_constraints={f32[2,3]LAYOUT}, api_version=API_VERSION_TYPED_FFI,
    backend_config={sizes = array<i64: 5, 6, 7>, by = 2.0 : f32, name = "hi", inner = {flag = true}}
}"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("there is no C compiler")
    file = tmp_path_factory.mktemp("ffi") / "typed_ffi.so"
    command = [compiler, "-shared", "-fPIC", f"-I{jax.ffi.include_dir()}", str(SOURCE), "-o", file]
    subprocess.run(command, check=True)
    return file


def function(library: Path, **stages: str) -> TypedFunction:
    loaded = ctypes.CDLL(str(library))
    cast = ctypes.cast
    return TypedFunction(
        {s: cast(loaded[n], ctypes.c_void_p).value or 0 for s, n in stages.items()}
    )


@pytest.fixture
def host(library: Path) -> hlo.Host:
    return hlo.Host(
        custom_calls={
            "scale": function(library, execute="scale"),
            "count": function(library, instantiate="make_counter", execute="count"),
            "later": function(library, execute="later"),
            "stream": function(library, execute="ask_for_stream"),
        }
    )


@pytest.mark.parametrize("layout", ["{1,0}", "{0,1}"])
def test_arrays_and_attributes(host: hlo.Host, layout: str) -> None:
    module = hlo.parse(SCALE.replace("LAYOUT", layout))
    for results in (hlo.interpret(module, X, host=host), hlo.compile(module, host=host)(X)):
        np.testing.assert_array_equal(results[0], 2 * X + 7)
        assert results[1] == 200 + 20 + 3


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("by = 2.0", "by = -2.0", "by is negative"),
        ("2.0 : f32", "2.0 : f64", "by is no f32"),
        ("name =", "nom =", "no name"),
    ],
)
def test_errors(host: hlo.Host, old: str, new: str, message: str) -> None:
    run = hlo.compile(hlo.parse(SCALE.replace("LAYOUT", "{1,0}").replace(old, new)), host=host)
    with pytest.raises(HloError, match=f"scale: {message}"):
        run(X)


def test_state_is_kept_from_call_to_call(host: hlo.Host) -> None:
    """There is one for each set of attributes."""
    text = """HloModule m ENTRY e { ROOT y = s32[] custom-call(), custom_call_target="count",
      custom_call_has_side_effect=true, api_version=API_VERSION_TYPED_FFI,
      backend_config={from = 40 : i32} }"""
    runs = [hlo.compile(hlo.parse(text.replace("40", n)), host=host) for n in ("40", "90")]
    assert [int(run()) for run in (*runs, *runs, *runs)] == [41, 91, 42, 92, 43, 93]


def test_results_that_come_later(host: hlo.Host) -> None:
    run = hlo.compile(hlo.parse("""HloModule m ENTRY e {
      x = f32[1] parameter(0)
      ROOT y = f32[1] custom-call(x), custom_call_target="later",
        api_version=API_VERSION_TYPED_FFI, backend_config={} }"""), host=host)  # fmt: skip
    assert run([1.0]) == [2.0]
    with pytest.raises(HloError, match="later: too late"):
        run([-1.0])


def test_what_a_cpu_does_not_have_is_an_error(host: hlo.Host) -> None:
    run = hlo.compile(hlo.parse("""HloModule m ENTRY e {
      ROOT y = f32[1] custom-call(), custom_call_target="stream",
        api_version=API_VERSION_TYPED_FFI, backend_config={} }"""), host=host)  # fmt: skip
    with pytest.raises(HloError, match="a CPU has no streams"):
        run()


def test_functions_registered_with_jax(library: Path) -> None:
    """For the CPU and for this backend, typed and not, before and after there is a client."""
    code = f"""
import ctypes
import jax, numpy as np
library = ctypes.CDLL({str(library)!r})
capsule = jax.ffi.pycapsule
jax.ffi.register_ffi_target("cpu_later", capsule(library.later), platform="cpu")
jax.ffi.register_ffi_target("hlo_later", capsule(library.later), platform="hlo")
x = jax.device_put(np.float32([1]))
jax.ffi.register_ffi_target("after", capsule(library.later), platform="cpu")
jax.ffi.register_ffi_target("counter", {{
    "instantiate": capsule(library.make_counter), "execute": capsule(library.count)}})
jax.ffi.register_ffi_target("untyped", capsule(library.untyped), platform="hlo", api_version=0)
kind = jax.ShapeDtypeStruct((1,), np.float32)
for name in ("cpu_later", "hlo_later", "after"):
    print(jax.jit(jax.ffi.ffi_call(name, kind))(x))
print(jax.ffi.ffi_call("untyped", kind, custom_call_api_version=1)(x))
count = jax.jit(lambda: jax.ffi.ffi_call("counter", jax.ShapeDtypeStruct((), np.int32),
    has_side_effect=True)(**{{"from": np.int32(5)}}))
print(count(), count())
try:
    print(jax.jit(jax.ffi.ffi_call("after", kind))(-x).block_until_ready())
except jax.errors.JaxRuntimeError as e:
    print("too late" in str(e))
"""
    done = run_program(code, JAX_PLATFORMS="hlo")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [*["[2.]"] * 3, "[3.]", "6 7", "True"]
