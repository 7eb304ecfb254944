"""What profiling costs, and whether the times of a profile add up.

python bench/profile_overhead.py [--threads N] [--seconds S] FILE...

Runs each module as it is and with the profiler's counters, in turns, on the same random inputs. A
line for each module: the time of native code without and with counters (least of all rounds; of
processors, if it is more than 10 ms), what they cost (median over the rounds of the ratio of two
neighbours, and the ratio of the least times), and the sum of all entries of the profile but
Python's, beside the time of calls of native code on the clock outside.
"""

from __future__ import annotations

import time
from statistics import median

from overhead import FEWEST, Timed, run

import hlo
from hlo.profiler.measure import compile_profiled
from hlo.runtime.executable import Executable

# None of the runs that take longer is undisturbed on a machine that others load: their time is that
# of the processors, with what is around native code.
_LONG_S = 0.01


def _measure(path: str, threads: int | None, seconds: float) -> str:
    module = hlo.load(path)
    executable = hlo.compile(module, threads=threads, cache=False)
    assert isinstance(executable, Executable)
    plain = Timed(executable)
    profiled = compile_profiled(module, threads=threads)
    values = hlo.random_inputs(module)
    start = time.perf_counter()
    for _ in range(2):
        plain.run_values(values)
        profiled.run_values(values)
    once = max(plain.seconds / 2, 1e-7)
    # A round of each is short enough that some are not interrupted, or one run.
    batch = max(1, round(0.0005 / once))
    profiled.forget()
    ratios, least = [], [float("inf")] * 2
    while time.perf_counter() - start < seconds or len(ratios) < FEWEST:
        plain.seconds, before = 0.0, len(profiled.runs.native_s)
        begin = time.process_time()
        for _ in range(batch):
            plain.run_values(values)
        middle = time.process_time()
        for _ in range(batch):
            profiled.run_values(values)
        pair = [plain.seconds, sum(profiled.runs.native_s[before:])]
        if once > _LONG_S:
            pair = [middle - begin, time.process_time() - middle]
        ratios.append(pair[1] / pair[0])
        least = [min(x, y / batch) for x, y in zip(least, pair, strict=True)]
    found = profiled.profile()
    total = sum(e.self_s for e in found.entries if e.kind != "call")
    entries = sum(e.self_s > 0 for e in found.entries)
    return (
        f"{least[0] * 1e6:12.1f} {least[1] * 1e6:12.1f} {median(ratios) - 1:8.2%} "
        f"{least[1] / least[0] - 1:8.2%} {total / found.native_s.mean:8.2%} {entries:5d}  {path}"
    )


if __name__ == "__main__":
    columns = f"{'plain us':>12} {'profiled us':>12} {'median':>8} {'least':>8} {'sum':>8} lines"
    run(__doc__, columns, _measure)
