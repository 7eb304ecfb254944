"""XLA:CPU with several devices, in a process of its own: one program, an argument a replica."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from typing import Any

import numpy as np


def run_on_replicas(programs: list[tuple[str, list[np.ndarray]]], replicas: int) -> list[Any]:
    """Return, for each program, the results of the replicas, or the text of XLA's error.

    programs: a module of one result with as many replicas, and for each parameter an array whose
    first dimension is the replicas'.
    """
    env = os.environ | {
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={replicas}",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    asked = pickle.dumps((programs, replicas))
    done = subprocess.run(
        [sys.executable, __file__], input=asked, capture_output=True, env=env, timeout=120
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-2000:]
    found: list[Any] = pickle.loads(done.stdout)
    return found


def _serve() -> None:
    import jax
    import jaxlib._hlo as hlo
    from jaxlib import _jax, xla_client

    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    programs, replicas = pickle.load(sys.stdin.buffer)
    devices = jax.devices("cpu")
    options = xla_client.CompileOptions()
    options.num_replicas = replicas
    ids = np.arange(replicas).reshape(replicas, 1)
    options.device_assignment = xla_client.DeviceAssignment.create(ids)
    mesh = jax.sharding.Mesh(np.array(devices), "r")
    place = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("r"))
    found: list[Any] = []
    for text, args in programs:
        try:
            proto = hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
            mlir = _jax.mlir.xla_computation_to_mlir_module(hlo.XlaComputation(proto))
            client = devices[0].client
            exe = client.compile_and_load(mlir, xla_client.DeviceList(tuple(devices)), options)
            # A replica's argument has no dimension of replicas: it is merged into the first one.
            flat = [a.reshape(-1, *a.shape[2:]) for a in args]
            results = exe.execute_sharded([jax.device_put(a, place) for a in flat])
            [parts] = results.disassemble_into_single_device_arrays()
            found.append([np.asarray(p) for p in parts])
        except Exception as e:
            found.append(f"{type(e).__name__}: {e}")
    pickle.dump(found, answers)


if __name__ == "__main__":
    _serve()
