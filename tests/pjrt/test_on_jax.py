"""The plug-in under JAX: each test is a program in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax")

_START = """
import jax, jax.numpy as jnp, numpy as np
from jax._src import xla_bridge
from hlo.pjrt.table import capsule
xla_bridge.register_plugin("hlo", c_api=capsule())
"""


def run_program(program: str, **variables: str) -> str:
    """Return what a program prints that runs on the plug-in."""
    environment = {**os.environ, "JAX_PLATFORMS": "hlo,cpu", **variables}
    done = subprocess.run(
        [sys.executable, "-c", _START + program], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_function_runs() -> None:
    printed = run_program("""
x = np.arange(8, dtype=np.float32)
print(jax.devices(), jax.jit(lambda x: x + 1)(x), np.isclose(jnp.sin(x).sum(), 0.553733))
""")
    assert printed == "[HloDevice(id=0)] [1. 2. 3. 4. 5. 6. 7. 8.] True\n"


def test_facts_of_a_compiled_function() -> None:
    printed = run_program("""
made = jax.jit(lambda x: jnp.sin(x) @ x).lower(np.ones((8, 8), np.float32)).compile()
print(made.cost_analysis()["flops"], made.cost_analysis()["transcendentals"])
print(made.memory_analysis().argument_size_in_bytes, made.memory_analysis().output_size_in_bytes)
print("dot(" in made.as_text(), made.input_formats, made.output_formats)
""")
    assert printed.startswith("1024.0 64.0\n256 256\nTrue "), printed


def test_arrays_have_the_layouts_that_a_program_asks_for() -> None:
    printed = run_program("""
from jax.experimental.layout import Format, Layout
x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
format = Format(Layout((2, 0, 1)), jax.sharding.SingleDeviceSharding(jax.devices()[0]))
y = jax.jit(lambda x: x * 2, out_shardings=format)(x)
z = jax.jit(lambda y: y.sum(0), in_shardings=format)(y)
put = jax.device_put(x, format)
print(y.format.layout.major_to_minor, put.format.layout.major_to_minor)
print(np.array_equal(y, 2 * x), np.array_equal(z, 2 * x.sum(0)), np.array_equal(put, x))
print(np.array_equal(jax.jit(lambda x: x)(x[:, ::2, ::-1]), x[:, ::2, ::-1]))
""")
    assert printed == "(2, 0, 1) (2, 0, 1)\nTrue True True\nTrue\n"


def test_executables_serialize() -> None:
    printed = run_program("""
from jax.experimental import serialize_executable
f = lambda x: (jnp.sin(x) @ x, {"y": x + 1})
made = jax.jit(f).lower(np.ones((4, 4), np.float32)).compile()
again = serialize_executable.deserialize_and_load(*serialize_executable.serialize(made))
x = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)
print(jax.tree.map(lambda a, b: bool((a == b).all()), again(x), made(x)))
""")
    assert printed == "(True, {'y': True})\n"


def test_programs_run_on_several_devices() -> None:
    printed = run_program("""
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))
x = np.arange(64, dtype=np.float32).reshape(8, 8)
put = jax.device_put(x, NamedSharding(mesh, P("x", "y")))
product = jax.jit(lambda a: a @ a.T)(put)
total = jax.jit(jax.shard_map(
    lambda a: jax.lax.psum(a, "x"), mesh=mesh, in_specs=P("x", "y"), out_specs=P(None, "y")))(put)
mean = jax.pmap(lambda a: jax.lax.pmean(a, "i"), axis_name="i")(np.arange(8.0))
print(product.sharding.spec, np.array_equal(product, x @ x.T))
print(np.array_equal(total, x.reshape(4, 2, 8).sum(0)), np.unique(mean))
""", HLO_PJRT_DEVICES="8")  # fmt: skip
    assert printed == "P('x',) True\nTrue [3.5]\n"


def test_a_device_that_fails_stops_the_others() -> None:
    printed = run_program("""
from hlo.pjrt.calls import register
from jax.sharding import Mesh, PartitionSpec as P
failing = True
def double(op, args):
    if failing and args[0][0] == 2:
        raise ValueError("two is too many")
    return 2 * args[0]
register("double", double)
mesh = Mesh(np.array(jax.devices()), ("x",))
f = jax.jit(jax.shard_map(
    lambda x: jax.lax.psum(jax.ffi.ffi_call("double", x)(x), "x"),
    mesh=mesh, in_specs=P("x"), out_specs=P()))
x = np.arange(4, dtype=np.float32)
for _ in range(3):
    try:
        f(x).block_until_ready()
    except jax.errors.JaxRuntimeError as e:
        print("CpuCallback error calling callback" in str(e), "two is too many" in str(e))
failing = False
print(f(x))
""", HLO_PJRT_DEVICES="4")  # fmt: skip
    assert printed == "True True\n" * 3 + "[12.]\n"


def test_arrays_are_in_the_memory_that_a_program_asks_for() -> None:
    printed = run_program("""
device = jax.devices()[0]
host = jax.sharding.SingleDeviceSharding(device, memory_kind="pinned_host")
x = jax.device_put(np.arange(4.0), host)
y = jax.jit(lambda x: (2 * x, x + 1), out_shardings=(host, None))(np.arange(4.0))
print([m.kind for m in device.addressable_memories()], device.default_memory().kind)
print(x.sharding.memory_kind, [r.sharding.memory_kind for r in y], y[0])
""")
    assert printed == (
        "['device', 'pinned_host', 'unpinned_host'] device\n"
        "pinned_host ['pinned_host', 'device'] [0. 2. 4. 6.]\n"
    )


def test_layouts_that_are_left_open_take_no_copy() -> None:
    printed = run_program("""
from jax.experimental.layout import Format, Layout
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("x", "y"))
x = np.arange(16 * 8).reshape(16, 8)
put = jax.device_put(x, NamedSharding(mesh, P("x", "y")))
made = jax.jit(lambda x: x.T, out_shardings=Format(Layout.AUTO)).lower(put).compile()
print(made.output_formats.layout.major_to_minor, np.array_equal(made(put), x.T))
""", HLO_PJRT_DEVICES="4")  # fmt: skip
    assert printed == "(1, 0) True\n"


def test_a_program_that_was_compiled_before_is_not_read_again(tmp_path: Path) -> None:
    program = """
from hlo.pjrt import prepare
read = prepare.read_program
prepare.read_program = lambda *given: (print("reads"), read(*given))[1]
f = jax.jit(lambda x: {"y": jnp.sin(x) @ x, "z": x + 1}, donate_argnums=0)
print(f(np.eye(3, dtype=np.float32))["y"][0, 0])
"""
    first = run_program(program, HLO_PJRT_CACHE=str(tmp_path))
    assert "reads" in first
    assert run_program(program, HLO_PJRT_CACHE=str(tmp_path)) == first.replace("reads\n", "")


def test_errors_of_small_programs_are_those_of_their_calls_and_the_end_is_clean() -> None:
    printed = run_program("""
from hlo.pjrt.calls import register
def fails(*_):
    raise ValueError("no such number")
register("hlo_python_callback", {0: fails})
f = jax.jit(lambda x: jax.ffi.ffi_call("hlo_python_callback", x)(x, index=np.int64(0)))
made = [jax.jit(lambda x, n=n: x + n) for n in range(5)]
results = [g(np.ones(3)) for g in made]
try:
    f(np.ones(3))
except jax.errors.JaxRuntimeError as e:
    print("no such number" in str(e))
""")
    assert printed == "True\n"


def test_arrays_of_other_libraries_keep_the_order_of_their_elements() -> None:
    printed = run_program("""
x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
for y in (x, x.T, x.transpose(1, 0, 2)):
    taken = jnp.from_dlpack(y)
    print(np.array_equal(taken, y), np.array_equal(jax.jit(lambda a: a + 1)(taken), y + 1))
""")
    assert printed == "True True\n" * 3


def test_compiling_for_a_topology_is_refused_not_waited_for() -> None:
    printed = run_program("""
from jax.experimental import topologies
from jax.sharding import NamedSharding, PartitionSpec as P
found = topologies.get_topology_desc("", "hlo", num_devices=2)
mesh = topologies.make_mesh(found, (2,), ("x",))
x = jax.ShapeDtypeStruct((8,), np.float32, sharding=NamedSharding(mesh, P("x")))
try:
    jax.jit(jnp.sin).lower(x).compile()
    print(jax.__version_info__ >= (0, 12))
except jax.errors.JaxRuntimeError as e:
    print("not for a topology" in str(e))
""")
    assert printed == "True\n"
