"""XLA:CPU with several devices, in a process of its own: one program, arguments for each device."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from typing import Any

import numpy as np

from tests.harness.paths import ROOT
from tests.harness.processes import HANG_S

Program = tuple[str, tuple[int, int], list[np.ndarray]]
"""Text of a module, the numbers of replicas and partitions that it is for, and for each parameter
an array whose first dimension is the devices'."""


def run_on_devices(programs: list[Program]) -> list[Any]:
    """Return, for each program, the results of the devices as lists of arrays, or XLA's error."""
    most = max(replicas * partitions for _, (replicas, partitions), _ in programs)
    env = os.environ | {
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={most}",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.harness.replicas"], cwd=ROOT, env=env,
        input=pickle.dumps(programs), capture_output=True,
        timeout=HANG_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-2000:]
    found: list[Any] = pickle.loads(done.stdout)
    return found


def _serve() -> None:
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    found: list[Any] = []
    for program in pickle.load(sys.stdin.buffer):
        try:
            found.append(_run(*program))
        except Exception as e:
            found.append(f"{type(e).__name__}: {e}")
    pickle.dump(found, answers)


def _run(text: str, counts: tuple[int, int], args: list[np.ndarray]) -> list[Any]:
    import jax
    import jaxlib._hlo as hlo
    from jaxlib import _jax, xla_client

    count = counts[0] * counts[1]
    devices = jax.devices("cpu")[:count]
    options = xla_client.CompileOptions()
    options.num_replicas, options.num_partitions = counts
    options.executable_build_options.use_spmd_partitioning = counts[1] > 1
    options.device_assignment = xla_client.DeviceAssignment.create(np.arange(count).reshape(counts))
    mesh = jax.sharding.Mesh(np.array(devices), "d")
    place = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d"))
    proto = hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    mlir = _jax.mlir.xla_computation_to_mlir_module(hlo.XlaComputation(proto))
    client = devices[0].client
    exe = client.compile_and_load(mlir, xla_client.DeviceList(tuple(devices)), options)
    # A device's argument has no dimension of devices: it is merged into the first one.
    flat = [a.reshape(-1, *a.shape[2:]) for a in args]
    results = exe.execute_sharded([jax.device_put(a, place) for a in flat])
    leaves = results.disassemble_into_single_device_arrays()
    return [[np.asarray(leaf[n]) for leaf in leaves] for n in range(count)]


if __name__ == "__main__":
    _serve()
