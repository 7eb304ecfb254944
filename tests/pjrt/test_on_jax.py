"""The plug-in under JAX: each test is a program in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

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
