"""Collectives among the threads of one process, beside copies of the same memory.

python bench/collectives.py [--devices N] [--megabytes N] [--rounds N]

An all-reduce of n bytes on each of d devices reads d*n bytes and writes d*n, each device its part;
so do d threads that copy n bytes each. Both are timed in turn, on memory that is in use already:
the ratio of the best times is the bandwidth of the all-reduce over that of `memcpy`. Then the time
of one all-reduce of few elements, in a loop of thousands.
"""

from __future__ import annotations

import argparse
import ctypes
import time
from collections.abc import Callable
from threading import Barrier, Thread

import numpy as np

import hlo

_ADD = """add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
"""
# All-reduces in a program that is timed: starting its threads takes some tenths of a millisecond.
CHAIN = 8
TURNS = 20000


def chain(devices: int, elements: int) -> str:
    """Return a program of all-reduces, each of the result of the one before."""
    shape = f"f32[{elements}]"
    lines = [
        f"y{n} = {shape} all-reduce({f'y{n - 1}' if n else 'x'}), replica_groups={{}}, to_apply=add"
        for n in range(CHAIN)
    ]
    lines[-1] = f"ROOT {lines[-1]}"
    body = "\n".join(f"  {line}" for line in (f"x = {shape} parameter(0)", *lines))
    return f"HloModule chain, replica_count={devices}\n{_ADD}ENTRY e {{\n{body}\n}}\n"


def loop(devices: int, elements: int) -> str:
    """Return a program with a loop around an all-reduce."""
    array = f"f32[{elements}]"
    state = f"(s32[], {array})"
    return f"""HloModule loop, replica_count={devices}
{_ADD}go {{
  p = {state} parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant({TURNS})
  ROOT r = pred[] compare(i, n), direction=LT
}}
turn {{
  p = {state} parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = {array} get-tuple-element(p), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = {array} all-reduce(x), replica_groups={{}}, to_apply=add
  ROOT r = {state} tuple(j, y)
}}
ENTRY e {{
  x = {array} parameter(0)
  i = s32[] constant(0)
  s = {state} tuple(i, x)
  w = {state} while(s), condition=go, body=turn
  ROOT r = {array} get-tuple-element(w), index=1
}}
"""


def timed(run: Callable[[], object]) -> float:
    """Return the seconds of one run."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def copies(devices: int, size_bytes: int) -> Callable[[], float]:
    """Return a function that copies memory in as many threads; it returns the seconds of one copy.

    Each copies as often as `chain` reduces.
    """
    pairs = [[np.ones(size_bytes, np.uint8) for _ in range(2)] for _ in range(devices)]

    def run() -> float:
        barrier = Barrier(devices + 1)

        def work(source: np.ndarray, target: np.ndarray) -> None:
            barrier.wait()
            for _ in range(CHAIN):
                ctypes.memmove(target.ctypes.data, source.ctypes.data, size_bytes)
            barrier.wait()

        threads = [Thread(target=work, args=pair) for pair in pairs]
        for thread in threads:
            thread.start()
        barrier.wait()
        seconds = timed(barrier.wait) / CHAIN
        for thread in threads:
            thread.join()
        return seconds

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--megabytes", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    devices, size = options.devices, options.megabytes << 20
    client = hlo.Client(devices, cache=False)
    large = client.compile(hlo.parse(chain(devices, size // 4)))
    arguments = [[np.zeros(size // 4, np.float32)] for _ in range(devices)]
    copy = copies(devices, size)
    reduced, copied = [], []
    for _ in range(options.rounds):
        reduced.append(timed(lambda: client.execute_replicated(large, arguments)) / CHAIN)
        copied.append(copy())
    moved = 2 * devices * size / 1e9
    ratio = min(copied) / min(reduced)
    print(
        f"all-reduce of {options.megabytes} MB on {devices} devices: "
        f"{moved / min(reduced):.1f} GB/s, memcpy {moved / min(copied):.1f} GB/s: ratio {ratio:.2f}"
    )
    for elements in (1, 1024):
        small = client.compile(hlo.parse(loop(devices, elements)))
        values = [[np.zeros(elements, np.float32)] for _ in range(devices)]
        times = [
            timed(lambda p=small, v=values: client.execute_replicated(p, v))
            for _ in range(options.rounds)
        ]
        print(f"all-reduce of {elements} elements: {min(times) / TURNS * 1e6:.1f} us")


if __name__ == "__main__":
    main()
