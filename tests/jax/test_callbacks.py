"""Python functions that programs call on the plug-in."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import hlo
from tests.jax.test_plugin import run_program

jax = pytest.importorskip("jax")

from hlo.jax import callbacks  # noqa: E402

X = np.float32(3)
TARGET = "xla_ffi_python_cpu_callback"


@pytest.fixture(autouse=True)
def _emitter(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have JAX lower for its own CPU as for the plug-in."""
    import jax._src.callback as own

    made = callbacks.emitter(own.emit_python_callback, "cpu")
    monkeypatch.setattr(own, "emit_python_callback", made)
    yield
    jax.clear_caches()


def scaled(by: int, *, ordered: bool = False) -> Any:
    def f(x: Any) -> Any:
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return jax.experimental.io_callback(lambda x: by * x, shape, x, ordered=ordered)

    return jax.jit(f).lower(X)


@pytest.mark.parametrize("ordered", [False, True])
def test_programs_name_functions_by_numbers_of_the_process(ordered: bool) -> None:
    lowered = [scaled(by, ordered=ordered) for by in (2, 5)]
    modules = [hlo.from_stablehlo(p.as_text()) for p in lowered]
    assert not any(m.custom_calls for m in modules)
    for module, by in zip(modules, (2, 5), strict=True):
        callbacks.give_functions(module)
        *_, result = (hlo.interpret(module, X),) if not ordered else hlo.interpret(module, X)
        assert result == by * X
    numbers = [list(m.custom_calls[TARGET]) for m in modules]
    assert numbers[0] != numbers[1]
    assert hlo.compile(lowered[0])(X) == 2 * X


def test_functions_live_as_long_as_what_calls_them() -> None:
    lowered = scaled(7)
    module = hlo.from_stablehlo(lowered.as_text())
    callbacks.give_functions(module)
    (number,) = module.custom_calls[TARGET]
    del lowered
    jax.clear_caches()
    gc.collect()
    run = hlo.compile(module)
    del module
    gc.collect()
    assert number in callbacks._known
    assert run(X) == 21
    del run
    gc.collect()
    assert number not in callbacks._known


def test_results_are_checked_as_on_the_cpu() -> None:
    def f(x: Any) -> Any:
        return jax.pure_callback(lambda x: np.zeros(3), jax.ShapeDtypeStruct((), x.dtype), x)

    with pytest.raises(hlo.HloError, match="Incorrect output shape"):
        hlo.compile(jax.jit(f).lower(X))(X)


def test_calls_of_other_processes_have_no_function() -> None:
    text = scaled(2).as_text().replace("index = ", "index = 9")
    module = hlo.from_stablehlo(text)
    callbacks.give_functions(module)
    with pytest.raises(hlo.HloError, match="Python function of the process"):
        hlo.interpret(module, X)


def test_the_plug_in_calls_them() -> None:
    """`JAX_PLATFORMS=hlo` alone: JAX puts arguments of callbacks on a CPU device."""
    done = run_program(
        """
import gc
import jax, jax.numpy as jnp, numpy as np
from jax.experimental import io_callback, serialize_executable
from jax import lax

seen = []
def shape(x): return jax.ShapeDtypeStruct(x.shape, x.dtype)
def loop(x):
    def step(i, x):
        jax.debug.print("step {i}", i=i, ordered=True)
        return io_callback(lambda x: (seen.append(float(x)), x + 1)[1], shape(x), x, ordered=True)
    return lax.fori_loop(0, 3, step, x)
print(jax.jit(loop)(1.0), seen)

def double(x): return jax.pure_callback(lambda x: 2 * x, shape(x), x, vmap_method="sequential")
doubled = jax.jit(double)
print([float(doubled(x)) for x in (1.0, 2.0, 3.0)], jax.vmap(doubled)(jnp.arange(3.0)))
nested = jax.jit(lambda x: jax.pure_callback(lambda x: doubled(x) + jnp.sin(x), shape(x), x))
print(nested(0.0))

from jax.experimental.buffer_callback import buffer_callback
def write(context, out, x): np.asarray(out)[...] = 2 * np.asarray(x)
x = jnp.arange(3.0)
print(jax.jit(buffer_callback(write, shape(x)))(x))

def fails(x): raise ValueError("no such number")
try:
    jax.block_until_ready(jax.jit(lambda x: jax.pure_callback(fails, shape(x), x))(1.0))
except jax.errors.JaxRuntimeError as e:
    print("ValueError: no such number" in str(e))
try:
    jax.jit(lambda x: io_callback(fails, shape(x), x, ordered=True))(1.0)
except jax.errors.JaxRuntimeError as e:
    print("fails at once")
jax.effects_barrier()
try:
    serialize_executable.serialize(doubled.lower(1.0).compile())
except Exception as e:
    print("calls Python functions of this process" in str(e))

from hlo.jax import callbacks
del doubled, double, nested, loop
jax.clear_caches()
gc.collect()
jax.jit(lambda x: x + 3)(1.0)
gc.collect()
print(len(callbacks._known))
""",
        JAX_PLATFORMS="hlo",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "step 0", "step 1", "step 2", "4.0 [1.0, 2.0, 3.0]",
        "[2.0, 4.0, 6.0] [0. 2. 4.]", "0.0", "[0. 2. 4.]", "True", "fails at once",
        "True", "0",
    ]  # fmt: skip
