"""What the plug-in does in a program with JAX that does not use it, and how it is chosen."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from tests.harness.paths import ROOT


def run_program(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program with JAX in a process of its own."""
    unset = {"JAX_PLATFORMS", "XLA_FLAGS", *(n for n in os.environ if n.startswith("HLO_PJRT_"))}
    kept = {name: value for name, value in os.environ.items() if name not in unset}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT,
        env=kept | environment, timeout=120,
    )  # fmt: skip


def test_a_program_that_does_not_use_it_imports_a_stub() -> None:
    code = """
import sys
import jax
print(jax.jit(lambda x: x + 1)(1), jax.devices(), jax.default_backend())
print(sorted(m for m in sys.modules if m.split(".")[0] in ("hlo", "llvmlite", "lark")))
"""
    done = run_program(code)
    assert done.stderr == ""
    device, modules = done.stdout.splitlines()
    assert device == "2 [CpuDevice(id=0)] cpu"
    assert modules == str(
        ["hlo", "hlo.jax", "hlo.jax.plugin", "hlo.jax.private", "hlo.jax.private.backends",
         "hlo.jax.private.targets", "hlo.version"]
    )  # fmt: skip


def test_devices_are_listed_without_the_compiler() -> None:
    code = """
import sys
import jax
jax.devices()
print([name for name in ("hlo.ir", "hlo.ops", "hlo.passes", "lark") if name in sys.modules])
"""
    assert run_program(code, JAX_PLATFORMS="hlo").stdout == "[]\n"


def test_the_number_of_devices_is_also_that_of_jaxs_cpu() -> None:
    code = """
import os
import jax
from hlo.jax.clients import _devices_of_cpu
from hlo.pjrt.options import client_options
def devices():
    return client_options(_devices_of_cpu()).num_devices
print(devices())
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
print(devices())
jax.config.update("jax_num_cpu_devices", 5)
print(devices())
os.environ["HLO_PJRT_DEVICES"] = "3"
print(devices())
"""
    assert run_program(code).stdout.split() == ["1", "4", "5", "3"]


def test_the_example_trains() -> None:
    file = ROOT / "examples" / "train_spirals.py"
    done = run_program(f"import sys; sys.argv[1:] = ['60']; exec(open({str(file)!r}).read())")
    assert done.returncode == 0, done.stderr
    first, *steps = done.stdout.splitlines()
    assert first == "training on hlo"
    losses = [float(re.search(r"loss ([\d.]+)", step)[1]) for step in steps]  # type: ignore[index]
    assert len(losses) == 3 and losses[0] > losses[1] > losses[2]
