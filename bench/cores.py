"""Estimate what programs gain from more processors than there are here.

    python bench/cores.py [CASE|FILE ...] [--cores N,N,...] [--channels N]

Each kernel is timed on one processor. On N it takes the time of the shares that one of them gets,
shares being what code generation cuts it into, the same on any machine; but no less than its bytes
take, at so many times the bandwidth of one processor as memory has channels. Waking threads and
waiting for the last one is added. The last column is what this machine gains with all of its
processors, beside the estimate for as many.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from dataclasses import dataclass
from typing import Any

from cases import CASES
from run import EXAMPLES, program

import hlo
from hlo.codegen.entry.commands import Command, KernelCall
from hlo.codegen.entry.state import EntryState
from hlo.codegen.targets.base import Extent
from hlo.codegen.targets.cpu.threads import ThreadLauncher
from hlo.compiler.pipeline import compile_instrumented
from hlo.profiler.counters import Counters
from hlo.profiler.measure import ProfiledExecutable
from hlo.profiler.roofline import machine_peak
from hlo.runtime.jit import host_machine

# Seconds to wake threads that spin and to wait for them, for each doubling of their number.
WAKE_S = 1e-6
REPEAT = 5


@dataclass(frozen=True)
class Kernel:
    """A kernel on one processor.

    seconds, bytes, calls: of a run. shares: how many its steps are cut into, one where they are
    not.
    """

    seconds: float
    bytes: float
    calls: float
    shares: tuple[int, ...]

    def on(self, cores: int, bandwidth: float) -> float:
        """Return its seconds on so many processors. bandwidth: bytes a second of all together."""
        # Steps are taken to be alike.
        steps = self.shares or (1,)
        parts = [math.ceil(n / cores) / n for n in steps]
        divided = self.seconds * sum(parts) / len(parts)
        wakes = self.calls * sum(n > 1 for n in steps) * WAKE_S * math.log2(cores)
        return max(divided, min(self.bytes / bandwidth, self.seconds)) + wakes


class _Launches(Counters):
    """Counters that note into how many shares kernels are cut, by instruction."""

    def __init__(self) -> None:
        super().__init__(host_machine().triple, has_threads=True)
        self.shares: dict[str, list[int]] = {}
        self.inst = ""

    def before(self, entry: EntryState, command: Command) -> None:
        super().before(entry, command)
        self.inst = command.inst.name if isinstance(command, KernelCall) else ""

    def note(self, launcher: ThreadLauncher, extent: Extent) -> None:
        count = 1
        if launcher.divides(extent):
            count = -(-extent.iterations // launcher.share(extent))
        self.shares.setdefault(self.inst, []).append(count)


def kernels(module: hlo.Module, args: list[Any]) -> tuple[list[Kernel], float]:
    """Return the kernels of a module, and the seconds of a run that are in none."""
    launches, launch = _Launches(), ThreadLauncher.launch

    def noted(self: ThreadLauncher, function: str, arguments: Any, extent: Extent) -> float:
        launches.note(self, extent)
        return launch(self, function, arguments, extent)

    def profiled(*given: Any, **named: Any) -> ProfiledExecutable:
        return ProfiledExecutable(launches, *given, **named)

    ThreadLauncher.launch = noted  # type: ignore[method-assign]
    try:
        run = compile_instrumented(module, launches, kind=profiled, threads=1)
    finally:
        ThreadLauncher.launch = launch  # type: ignore[method-assign]
    run(*args)
    run.forget()
    for _ in range(REPEAT):
        run(*args)
    profile = run.profile()
    found = [
        Kernel(e.self_s, e.bytes, e.calls, tuple(launches.shares.get(e.name, ())))
        for e in profile.entries if e.kind in ("kernel", "group")
    ]  # fmt: skip
    rest = sum(e.self_s for e in profile.entries) - sum(k.seconds for k in found)
    return found, rest


def gained(module: hlo.Module, args: list[Any], threads: int) -> float:
    """Return the time of a run on one processor over that on several of this machine."""
    runs = [hlo.compile(module, cache=False, threads=n) for n in (1, threads)]
    least = [math.inf, math.inf]
    for _ in range(1 + REPEAT):
        for n, run in enumerate(runs):
            start = time.perf_counter()
            run(*args)
            least[n] = min(least[n], time.perf_counter() - start)
    return least[0] / least[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("programs", nargs="*", metavar="CASE|FILE")
    parser.add_argument("--cores", default="2,16,64", metavar="N,N,...")
    parser.add_argument("--channels", type=int, default=8, metavar="N", help="of memory (8)")
    options = parser.parse_args()
    cores, here = [int(n) for n in options.cores.split(",")], os.cpu_count() or 1
    one = machine_peak(1, ["f32"]).bytes
    heads = "".join(f"{n:>8}" for n in cores)
    print(f"{'times faster on':28}{heads}{f'{here} here':>9}")
    sums = [0.0] * len(cores)
    names = options.programs or [*CASES, *EXAMPLES]
    for name in names:
        text, args = program(name)
        module = hlo.parse(text)
        found, rest = kernels(module, args)
        alone = rest + sum(k.seconds for k in found)
        speedups = [
            alone / (rest + sum(k.on(n, one * min(n, options.channels)) for k in found))
            for n in cores
        ]
        sums = [s + math.log(x) for s, x in zip(sums, speedups, strict=True)]
        columns = "".join(f"{s:8.1f}" for s in speedups)
        print(f"{name[-27:]:28}{columns}{gained(module, args, here):9.1f}", flush=True)
    means = "".join(f"{math.exp(s / len(names)):8.1f}" for s in sums)
    print(f"{'geometric mean':28}{means}")


if __name__ == "__main__":
    main()
