"""Have ptxas assemble all that we emit, and list what it refuses and where registers spill.

python -m tests.sweeps.ptxas_all [FILE ...] [--cpu CPU] [--kind KIND] [--first SEED] [--count N]

The op table's examples (with --kind types in every element type), generated modules of each kind,
or the modules in files, for each GPU.
Kernels of products and reductions should not spill: that is a failure, as is what is refused; the
spills of others are listed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import hlo
from hlo.codegen.launches.program import write_launches
from hlo.codegen.targets.gpu import Nvptx
from hlo.compiler.coverage import instances
from hlo.compiler.lowering import Clock, plan
from hlo.errors import HloError
from hlo.gpu.ptxas import Assembled, assemble, find_ptxas
from hlo.ir import Instruction, Module
from hlo.ops import OPS
from hlo.runtime.assembly import assembly_of
from hlo.values.types import ELEMENT_TYPES
from tests.sweeps.compare_generated import GENERATORS, OF_ONE
from tests.sweeps.compare_gpu import examples

CPUS = ("sm_80", "sm_90a", "sm_100a")
# Where nothing may spill.
WITHOUT_SPILLS = frozenset({"dot", "convolution", "reduce", "ragged-dot", "scaled-dot"})


@dataclass(frozen=True)
class Compiled:
    """The PTX of a module for a GPU, and what each kernel computes."""

    name: str
    cpu: str
    ptx: str
    instructions: dict[str, Instruction]


def compiled(name: str, module: Module, cpu: str, passes: str) -> Compiled:
    gpu = Nvptx(cpu)
    program = write_launches(plan(module, gpu, Clock(), passes=passes), gpu)
    code = assembly_of(program.module, cpu) if program.plan.launches else ""
    return Compiled(name, cpu, code, dict(program.instructions))


class Tally:
    """What ptxas has said."""

    def __init__(self) -> None:
        self.kernels: Counter[str] = Counter()
        self.refused: list[str] = []
        self.failed: list[str] = []
        self.spills: list[tuple[bool, str]] = []

    def take(self, code: Compiled, done: Assembled) -> None:
        self.kernels[code.cpu] += len(done.resources)
        for kernel, taken in done.resources.items():
            size = taken.spill_store_bytes + taken.spill_load_bytes
            if size:
                inst = code.instructions.get(kernel)
                opcode = inst.opcode if inst is not None else "scalars"
                what = f"{code.cpu} {code.name}: {kernel} ({opcode}) spills {size} bytes"
                self.spills.append((opcode in WITHOUT_SPILLS, what))
                print(what, flush=True)

    def refuse(self, what: str) -> None:
        self.refused.append(what)
        print(what, flush=True)

    def fail(self, what: str) -> None:
        self.failed.append(what)
        print(what, flush=True)

    def __str__(self) -> str:
        forbidden = sum(is_forbidden for is_forbidden, _ in self.spills)
        kernels = ", ".join(f"{n} kernels for {cpu}" for cpu, n in self.kernels.items())
        return (
            f"{kernels}: {len(self.failed)} modules without PTX, {len(self.refused)} refused, "
            f"{forbidden} products and reductions that spill, "
            f"{len(self.spills) - forbidden} other kernels that do"
        )

    @property
    def is_good(self) -> bool:
        return not (self.failed or self.refused or any(spill for spill, _ in self.spills))


def modules(options: argparse.Namespace) -> Iterator[tuple[str, Callable[[], Module], str]]:
    """Yield names, what makes the modules, and the passes that run on them."""
    for path in options.files:
        yield path, lambda path=path: hlo.load(path), "default"
    if options.files:
        return
    if options.kind in (None, "examples"):
        for name, module in examples():
            yield f"example {name}", lambda module=module: module, ""
    if options.kind == "types":
        for name, module in typed_examples():
            yield f"example {name}", lambda module=module: module, ""
    kinds = [options.kind] if options.kind else list(GENERATORS)
    for kind in kinds:
        if kind in ("examples", "types"):
            continue
        make = (GENERATORS | OF_ONE)[kind]
        for seed in range(options.first, options.first + options.count):
            yield f"{kind} {seed}", lambda make=make, seed=seed: make(seed).module, ""


def typed_examples() -> Iterator[tuple[str, Module]]:
    """Yield the op table's examples in every element type that they have a meaning for."""
    for opcode, spec in OPS.items():
        for element_type in ELEMENT_TYPES:
            for text in instances(spec, element_type):
                try:
                    module = hlo.parse(text)
                    hlo.verify(module)
                except HloError:
                    continue
                yield f"{opcode} {element_type}", module


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="*")
    parser.add_argument("--cpu", action="append", help=f"by default {', '.join(CPUS)}")
    parser.add_argument("--kind", choices=["examples", "types", *GENERATORS, *OF_ONE])
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=100, help="how many of each kind")
    options = parser.parse_args()
    if find_ptxas() is None:
        print("there is no ptxas: pip install 'hlo-tools[cuda]'")
        return 2
    tally, start, number = Tally(), time.perf_counter(), 0
    # ptxas runs while the next module is compiled.
    with ThreadPoolExecutor(2) as pool:
        waiting = []
        for name, make, passes in modules(options):
            number += 1
            module = make()
            for cpu in options.cpu or CPUS:
                try:
                    code = compiled(name, module, cpu, passes)
                except Exception as e:
                    said = str(e).splitlines() or [""]
                    tally.fail(f"{cpu} {name}: {type(e).__name__}: {said[0][:200]}")
                    continue
                if code.ptx:
                    waiting.append((code, pool.submit(assemble, code.ptx, cpu)))
            while len(waiting) > 16:
                settle(tally, *waiting.pop(0))
        for code, done in waiting:
            settle(tally, code, done)
    print(f"{number} modules in {time.perf_counter() - start:.0f} s; {tally}")
    return 0 if tally.is_good else 1


def settle(tally: Tally, code: Compiled, done) -> None:  # type: ignore[no-untyped-def]
    try:
        tally.take(code, done.result())
    except HloError as e:
        tally.refuse(f"{code.name}: {e.diagnostics[0].message}")


if __name__ == "__main__":
    sys.exit(main())
