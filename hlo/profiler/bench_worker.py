"""A process that runs one side of a benchmark when it is told to.

It is started as a program of its own by any Python that has the package, in any version: it takes
the path of a file, and a request for each line of standard input, as JSON, and answers on standard
output. Only the public interface is used.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any


def xla_run(proto: bytes, args: list[Any], platform: str = "cpu") -> Callable[[], Any]:
    """Return a function that runs a program compiled by XLA, by default for this processor."""
    import jax
    import jax._src.lax.linalg  # registers the LAPACK custom-call targets
    import jaxlib._hlo
    import jaxlib.xla_client
    from jaxlib import _jax, lapack

    # Lowering a program does this; here a lowered one is read.
    lapack._lapack.initialize()
    device = jax.devices(platform)[0]
    computation = jaxlib._hlo.XlaComputation(proto)
    mlir = _jax.mlir.xla_computation_to_mlir_module(computation)
    devices = jaxlib.xla_client.DeviceList((device,))
    exe = device.client.compile_and_load(mlir, devices, jaxlib.xla_client.CompileOptions())
    with jax.enable_x64(True):
        buffers = [jax.device_put(a, device) for a in args]

    def run() -> list[Any]:
        results = exe.execute_sharded(buffers).disassemble_into_single_device_arrays()
        for r in results:
            r[0].block_until_ready()
        return [r[0] for r in results]

    return run


def prepared(side: dict[str, Any]) -> tuple[Callable[[], Any], dict[str, Any]]:
    """Return a function that runs a side, and what it is: its version, the seconds to compile."""
    import hlo

    module = hlo.load(side["file"])
    args = _arguments(module, side)
    if side["backend"] == "xla":
        import jaxlib

        start = time.perf_counter()
        run = xla_run(hlo.to_proto(module), args)
        cold = time.perf_counter() - start
        # XLA keeps no programs on disk by itself.
        return run, _about(f"jaxlib {jaxlib.__version__}", cold, None)

    def compiled() -> tuple[Any, float]:
        start = time.perf_counter()
        # Other versions of the package may not know it.
        options = {"passes": side["passes"], "threads": side["threads"]}
        if side["strict"]:
            options["strict"] = True
        exe = hlo.compile(module, **options)
        return exe, time.perf_counter() - start

    # What this process keeps of the compiler belongs to the first time; at the second one the
    # program is in the cache, which was empty.
    (_, cold), (exe, warm) = compiled(), compiled()
    return functools.partial(exe, *args), _about(f"hlo {hlo.__version__}", cold, warm)


def _arguments(module: Any, side: dict[str, Any]) -> list[Any]:
    """Return the arrays of the side's file of inputs, or random inputs."""
    import numpy as np

    import hlo

    if not side.get("inputs"):
        return hlo.random_inputs(module, seed=side["seed"])
    shapes = [s for p in module.entry.parameters for _, s in p.shape.leaves() if not s.is_token]
    with np.load(side["inputs"]) as file:
        arrays = [file[f"arr_{n}"] for n in range(len(shapes))]
    # Types that numpy does not know are bytes in its files.
    return [a.view(s.element_type.dtype) for a, s in zip(arrays, shapes, strict=True)]


def _about(version: str, cold: float, warm: float | None) -> dict[str, Any]:
    return {"version": version, "compile_s": cold, "warm_compile_s": warm}


def failure(error: Exception) -> dict[str, Any]:
    """Return what is wrong: of an HloError its first diagnostic in parts."""
    for found in getattr(error, "diagnostics", ())[:1]:
        place = f"{found.span}: " if found.span else ""
        return {"failed": place + found.message, "code": found.code, "hint": found.hint}
    return {"failed": str(error) or type(error).__name__}


def main() -> None:
    side = json.loads(sys.stdin.readline())
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, side["cpus"])
    # Whatever a program prints is no answer.
    answers, sys.stdout = sys.stdout, sys.stderr

    def answer(value: dict[str, Any]) -> None:
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    try:
        run, about = prepared(side)
        run()
    except Exception as e:
        answer(failure(e))
        return
    answer(about)
    for line in sys.stdin:
        count = json.loads(line)
        start = time.perf_counter()
        for _ in range(count):
            run()
        answer({"seconds": time.perf_counter() - start})


if __name__ == "__main__":
    main()
