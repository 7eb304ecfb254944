"""What statistics of every stored value cost, as hlo-run --trace takes them.

python bench/trace_overhead.py [--threads N] [--seconds S] FILE...

Runs the native code of each module as it is and with statistics, in turns, on the same random
inputs. A line for each module: the time of native code without and with (least of all rounds), the
ratio (median over the rounds, and of the least times), and how many values and bytes are read.
"""

from __future__ import annotations

import time
from statistics import median

from overhead import FEWEST, Timed, run

import hlo
from hlo.compiler.pipeline import compile_instrumented
from hlo.debug.trace.running import optimized
from hlo.debug.trace.stored import Probes
from hlo.runtime.executable import Executable


def _measure(path: str, threads: int | None, seconds: float) -> str:
    module = hlo.load(path)
    program = optimized(module, "default", "strict")
    executable = hlo.compile(program, threads=threads, cache=False, passes="", verify="lenient")
    assert isinstance(executable, Executable)
    plain = Timed(executable)
    probes = Probes()
    events = [0]

    def empty() -> None:
        events[0] += int(probes.state[0])
        probes.state[0] = 0

    probes.on_full = empty
    traced = Timed(
        compile_instrumented(program, probes, threads=threads, passes="", verify="lenient")
    )
    values = hlo.random_inputs(module)
    start = time.perf_counter()
    plain.run_values(values)
    traced.run_values(values)
    once = max(plain.seconds, 1e-7)
    empty()
    count = events[0] // probes.words
    size = sum(p.shape.byte_size for p in probes.places)
    batch = max(1, round(0.005 / once))
    ratios, least = [], [float("inf")] * 2
    while time.perf_counter() - start < seconds or len(ratios) < FEWEST:
        plain.seconds = traced.seconds = 0.0
        for _ in range(batch):
            plain.run_values(values)
        for _ in range(batch):
            traced.run_values(values)
        ratios.append(traced.seconds / plain.seconds)
        least = [min(least[0], plain.seconds / batch), min(least[1], traced.seconds / batch)]
    return (
        f"{least[0] * 1e6:12.1f} {least[1] * 1e6:12.1f} {median(ratios):8.2f} "
        f"{least[1] / least[0]:8.2f} {count:8d} {size / 1e6:10.2f}  {path}"
    )


if __name__ == "__main__":
    columns = (
        f"{'plain us':>12} {'traced us':>12} {'median':>8} {'least':>8} {'values':>8} {'MB':>10}"
    )
    run(__doc__, columns, _measure)
