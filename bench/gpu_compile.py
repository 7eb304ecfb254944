"""Compare how long modules take to compile for a GPU and for this processor.

    python bench/gpu_compile.py FILE ... [--cpu sm_90] [--runs 3]

Each is compiled in processes of its own, without anything known, from the parsed module to PTX, and
to object code. Times are of the processor, all threads together, the least of some runs, in
seconds; LLVM's tables have been read before. Exits with 1 if a module takes more than twice as long
for the GPU.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import hlo
from hlo.codegen.launches.program import write_launches
from hlo.codegen.targets.gpu import Nvptx
from hlo.compiler.lowering import Clock, plan
from hlo.compiler.pipeline import build
from hlo.ir import Module
from hlo.runtime.assembly import assembly_of
from hlo.runtime.jit import host_machine
from hlo.support.memory import collector_paused

MOST = 2.0
_FIRST = "HloModule m ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] sqrt(x) }"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--cpu", default="sm_90")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--as", dest="kind", choices=["gpu", "processor"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.kind:
        print(json.dumps(measured(options.files[0], options.kind, options.cpu)))
        return 0
    print(f"{'module':40}{'processor':>10}{options.cpu:>10}{'ratio':>8}")
    slow, totals = 0, [0.0, 0.0]
    for file in options.files:
        times = [
            min(apart(file, kind, options.cpu) for _ in range(options.runs))
            for kind in ("processor", "gpu")
        ]
        totals = [a + b for a, b in zip(totals, times, strict=True)]
        slow += times[1] > MOST * times[0]
        row(Path(file).stem, times)
    row("all", totals)
    return 1 if slow else 0


def row(name: str, times: list[float]) -> None:
    print(f"{name[:39]:40}{times[0]:10.2f}{times[1]:10.2f}{times[1] / times[0]:8.2f}", flush=True)


def apart(file: str, kind: str, cpu: str) -> float:
    """Return the seconds that a process of its own takes."""
    command = [sys.executable, __file__, file, "--cpu", cpu, "--as", kind]
    return float(json.loads(subprocess.run(command, capture_output=True, check=True).stdout))


def measured(file: str, kind: str, cpu: str) -> float:
    compiled = for_gpu if kind == "gpu" else for_processor
    compiled(hlo.parse(_FIRST), cpu)
    module = hlo.load(file)
    start = time.process_time()
    compiled(module, cpu)
    return time.process_time() - start


def for_gpu(module: Module, cpu: str) -> None:
    gpu = Nvptx(cpu)
    with collector_paused():
        program = write_launches(plan(module, gpu, Clock()), gpu)
    assembly_of(program.module, cpu)


def for_processor(module: Module, _: str) -> None:
    build(module, host_machine(), Clock())


if __name__ == "__main__":
    sys.exit(main())
