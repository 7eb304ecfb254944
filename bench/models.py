"""Count what modules take before and after the default pipeline, and as XLA:CPU optimizes them.

    python bench/models.py [FILE ...] [--no-xla]

Without files, the examples. For each file a line for the module as it is, after what `hlo.compile`
runs, which leaves fusion to code generation, after the default pipeline, and as XLA compiles it;
this package's analyses measure all four, of XLA's the text:

all       instructions of all computations
outside   those of the entry and of what it runs through calls, loops and branches, each once
kernels   those of them that compute or move data
MB        what a run reads and writes of memory, operands and results of each kernel
peak MB   the most that a run holds at once, in the order of the text
GFLOP     operations of a run; of custom calls nothing is known
s         what the passes took

Where XLA does not compile a module there is its reason.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import hlo
from hlo.analysis.bitcasts import is_bitcast
from hlo.analysis.cost import cost_of
from hlo.analysis.memory import peak_memory
from hlo.ir import Computation, Module
from hlo.passes import run_pipeline
from hlo.passes.default import default_pipeline

EXAMPLES = Path(__file__).parents[1] / "examples"
# What XLA gets for a module.
TIMEOUT_S = 300
MEMORY_BYTES = 10 << 30
_CONTROL = frozenset({"call", "conditional", "while"})
_NO_KERNEL = _CONTROL | frozenset(
    "add-dependency after-all constant domain get-tuple-element opt-barrier parameter "
    "partition-id replica-id tuple".split()
)
_HEAD = f"{'all':>8}{'outside':>8}{'kernels':>8}{'MB':>11}{'peak MB':>10}{'GFLOP':>10}{'s':>7}"


@dataclass(frozen=True)
class Counts:
    """Of a module; see above."""

    instructions: int
    outside: int
    kernels: int
    bytes: int
    peak: int
    operations: int

    def __str__(self) -> str:
        counts = f"{self.instructions:8}{self.outside:8}{self.kernels:8}"
        sizes = f"{self.bytes / 1e6:11.2f}{self.peak / 1e6:10.2f}{self.operations / 1e9:10.2f}"
        return counts + sizes


def count(module: Module) -> Counts:
    outside = kernels = 0
    todo: list[Computation] = [module.entry]
    seen = set(todo)
    while todo:
        for inst in todo.pop():
            outside += 1
            if inst.opcode in _CONTROL:
                new = [c for c in inst.called_computations if c not in seen]
                seen.update(new)
                todo += new
            elif inst.opcode not in _NO_KERNEL and not is_bitcast(inst):
                kernels += 1
    cost = cost_of(module.entry)
    everything = sum(len(c) for c in module.computations)
    peak = peak_memory(module.entry).bytes
    return Counts(everything, outside, kernels, cost.bytes, peak, cost.operations)


def xla_optimized(path: str) -> str:
    """Return the text of a module as XLA:CPU compiles it. Raises RuntimeError if it does not.

    XLA aborts the process on some modules, and takes all memory for others, so that it runs in a
    process of its own.
    """
    command = [sys.executable, __file__, "--as-xla", path]
    env = os.environ | {
        "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "2",
        "XLA_FLAGS": "--xla_allow_excess_precision=false",
    }  # fmt: skip
    try:
        run = subprocess.run(
            command, capture_output=True, text=True, env=env, timeout=TIMEOUT_S, check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES)),
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"no end in {TIMEOUT_S} s") from None
    if run.returncode:
        said = [line for line in run.stderr.splitlines() if any(map(str.isalnum, line))]
        raise RuntimeError(said[-1] if said else f"exit {run.returncode}")
    return run.stdout


def print_as_xla(path: str) -> None:
    import jax
    import jax._src.lax.linalg  # registers the LAPACK custom-call targets
    import jaxlib._hlo
    import jaxlib.xla_client
    from jaxlib import _jax

    device = jax.devices("cpu")[0]
    module = jaxlib._hlo.hlo_module_from_text(Path(path).read_text())
    computation = jaxlib._hlo.XlaComputation(module.as_serialized_hlo_module_proto())
    mlir = _jax.mlir.xla_computation_to_mlir_module(computation)
    devices = jaxlib.xla_client.DeviceList((device,))
    exe = device.client.compile_and_load(mlir, devices, jaxlib.xla_client.CompileOptions())
    print(exe.hlo_modules()[0].to_string())


def report(path: str, with_xla: bool) -> None:
    """Print the lines of a file."""
    name = Path(path).stem

    def row(what: str, found: object) -> None:
        print(f"{name[:32]:32} {what:8}{found}", flush=True)

    source = hlo.load(path)
    row("as it is", count(source))
    for what, fuses in (("compiled", False), ("default", True)):
        module, start = source.clone(), time.perf_counter()
        run_pipeline(module, default_pipeline(fuses=fuses))
        seconds = time.perf_counter() - start
        row(what, f"{count(module)}{seconds:7.2f}")
    if not with_xla:
        return
    try:
        row("XLA:CPU", count(hlo.parse(xla_optimized(path))))
    except (RuntimeError, hlo.HloError) as e:
        row("XLA:CPU", f"  {str(e).splitlines()[0][:70]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="*", metavar="FILE", help="HLO text; else the examples")
    parser.add_argument("--no-xla", action="store_true", help="leave XLA out")
    parser.add_argument("--as-xla", metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.as_xla:
        print_as_xla(options.as_xla)
        return
    print(f"{'':41}{_HEAD}")
    for path in options.files or sorted(map(str, EXAMPLES.glob("*.hlo"))):
        report(path, not options.no_xla)


if __name__ == "__main__":
    main()
