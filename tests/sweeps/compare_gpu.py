"""Run generated modules and the op table's examples on the SIMT machine, beside the interpreter.

python -m tests.sweeps.compare_gpu [--kind KIND] [--first SEED] [--count N] [--cpu sm_90] [--text]
    [--low-limits]

Each defect that the machine finds, a race or an access out of bounds, is a failure. --text: stop at
the PTX. --low-limits: small modules are computed in the ways of large ones.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Callable, Iterator

import numpy as np

from hlo.codegen.launches.program import write_launches
from hlo.codegen.targets.gpu import Nvptx
from hlo.compiler.lowering import Clock, plan
from hlo.errors import HloError
from hlo.eval import interpret
from hlo.frontends.text import parse
from hlo.ir import Module
from hlo.ops import OPS
from hlo.runtime.assembly import assembly_of
from hlo.testing.sampling import random_value
from hlo.values.arrays import actual
from tests.generators.ops import Case
from tests.harness.low_limits import lower_limits
from tests.harness.oracle import leaves
from tests.sweeps.compare_generated import GENERATORS, OF_ONE, compare_results

# Rounding differs from the interpreter's in a dozen operations.
_RTOL = 1e-4


# They wait for what another device or the host sends.
_WAITING = frozenset({"infeed", "recv", "recv-done"})


def examples() -> Iterator[tuple[str, Module]]:
    """Yield the op table's examples."""
    for opcode, spec in OPS.items():
        if opcode in _WAITING:
            continue
        for number, text in enumerate(spec.examples):
            yield f"{opcode} {number}", parse(text)


def ptx_of(module: Module, cpu: str, passes: str = "") -> str:
    """Return the PTX of a module."""
    target = Nvptx(cpu)
    planned = plan(module, target, Clock(), passes=passes)
    return assembly_of(write_launches(planned, target).module, cpu)


def compare_emulated(case: Case, cpu: str = "sm_90") -> None:
    """Fail unless a module computes on the SIMT machine what it means."""
    from hlo.compiler.backends import load

    want = [actual(leaf) for leaf in leaves(interpret(case.module, case.args))]
    got = leaves(load(case.module, "gpu-emulated", passes="")(*case.args))
    compare_results([actual(leaf) for leaf in got], want, case.rtol)


def example(module: Module, seed: int) -> Case:
    """Return a module with random arguments."""
    rng = np.random.default_rng(seed)
    values = [random_value(rng, s) for s in module.entry.parameter_shapes]
    return Case(module, values, rtol=_RTOL)


def _cases(options: argparse.Namespace) -> Iterator[tuple[str, Callable[[], Case]]]:
    if options.kind in (None, "examples"):
        for number, (name, module) in enumerate(examples()):
            yield f"examples {name}", lambda m=module, n=number: example(m, n)
    kinds = [options.kind] if options.kind else list(GENERATORS)
    for kind in kinds:
        if kind != "examples":
            make = (GENERATORS | OF_ONE)[kind]
            for seed in range(options.first, options.first + options.count):
                yield f"{kind} {seed}", lambda make=make, seed=seed: make(seed)


def main() -> int:
    parser = argparse.ArgumentParser(description="Run random modules on the SIMT machine.")
    parser.add_argument("--kind", choices=["examples", *GENERATORS, *OF_ONE])
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=100, help="how many of each kind")
    parser.add_argument("--cpu", default="sm_90", help="LLVM's name of the GPU")
    parser.add_argument("--text", action="store_true", help="stop at the PTX")
    parser.add_argument("--trace", action="store_true", help="print tracebacks")
    parser.add_argument("--low-limits", action="store_true", help="compile as if all were large")
    options = parser.parse_args()
    if options.low_limits:
        lower_limits(on_gpus=True)
    failed, count, start = 0, 0, time.perf_counter()
    for name, make in _cases(options):
        count += 1
        try:
            if options.text:
                ptx_of(make().module, options.cpu)
            else:
                compare_emulated(make(), options.cpu)
        except Exception as e:  # whatever goes wrong is a result
            failed += 1
            first = (str(e) or "no message").splitlines()[0][:150]
            print(f"{name}: {type(e).__name__}: {first}", flush=True)
            if options.trace and not isinstance(e, HloError):
                traceback.print_exc()
    print(f"{count} modules: {failed} failed, {time.perf_counter() - start:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
