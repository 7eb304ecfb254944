"""JAX programs on the plug-in beside XLA:CPU.

    python bench/jax_plugin.py [--only NAME] [--runs N]

Each program runs in processes of its own, those of the two backends in turns: time to compile, time
of the first call, of a later one (the best), and peak memory. Then the overheads of a dispatch and
of copies, both backends in one process, call by call in turns.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

ROOT = Path(__file__).parents[1]
BACKENDS = {"hlo": "hlo", "xla": "cpu"}
_SECONDS = 1.5


def measure_here(name: str) -> dict[str, float]:
    """Return the times of a program in this process, in seconds, and its peak memory in bytes."""
    import jax

    from bench.jax_programs import PROGRAMS

    jax.devices()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    step, state = PROGRAMS[name]()
    state = jax.device_put(state)
    begin = time.perf_counter()
    compiled = step.lower(state).compile()
    compiled_at = time.perf_counter()
    state = jax.block_until_ready(compiled(state))
    first_at = time.perf_counter()
    times = []
    while time.perf_counter() - first_at < _SECONDS:
        at = time.perf_counter()
        state = jax.block_until_ready(compiled(state))
        times.append(time.perf_counter() - at)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "compile": compiled_at - begin, "first": first_at - begin, "steady": min(times),
        "memory": (peak - before) * 1024.0, "peak": peak * 1024.0,
    }  # fmt: skip


def measure(name: str, backend: str) -> dict[str, float]:
    """Return what `measure_here` does in a new process on a backend."""
    command = [sys.executable, __file__, "--here", name]
    env = os.environ | {"JAX_PLATFORMS": BACKENDS[backend], "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{name} on {backend} failed:\n{done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def compare(names: list[str], runs: int) -> None:
    """Print the ratios of hlo to XLA of each program, from so many runs of each in turns."""
    print(f"{'program':24} {'hlo ms':>9} {'XLA ms':>9} {'speed':>6} {'first':>6} {'peak':>6}")
    ratios: dict[str, list[float]] = {"steady": [], "first": [], "peak": []}
    for name in names:
        found: dict[str, list[dict[str, float]]] = {b: [] for b in BACKENDS}
        for _ in range(runs):
            for backend in BACKENDS:
                found[backend].append(measure(name, backend))
        best = {b: {k: min(r[k] for r in rows) for k in rows[0]} for b, rows in found.items()}
        for key, values in ratios.items():
            values.append(best["hlo"][key] / best["xla"][key])
        hlo, xla = best["hlo"]["steady"] * 1e3, best["xla"]["steady"] * 1e3
        print(
            f"{name:24} {hlo:9.3f} {xla:9.3f} {xla / hlo:6.2f} {ratios['first'][-1]:6.2f} "
            f"{ratios['peak'][-1]:6.2f}",
            flush=True,
        )
    speed = 1 / geometric_mean(ratios["steady"])
    rest = (geometric_mean(ratios[key]) for key in ("first", "peak"))
    print(f"{'geometric mean':44} {speed:6.2f}", *(f"{x:6.2f}" for x in rest))


def overheads() -> None:
    """Print the microseconds of a dispatch, and of copies, of both backends in one process."""
    import jax
    import numpy as np

    devices = {"hlo": jax.devices("hlo")[0], "xla": jax.devices("cpu")[0]}
    small, large = np.arange(8, dtype=np.float32), np.ones(1 << 20, np.float32)

    def one(device: Any) -> Callable[[], Any]:
        f, x = jax.jit(lambda x: x + 1), jax.device_put(small, device)
        return lambda: f(x)

    def waited(device: Any) -> Callable[[], Any]:
        f, x = jax.jit(lambda x: x + 1), jax.device_put(small, device)
        return lambda: f(x).block_until_ready()

    def fifty(device: Any) -> Callable[[], Any]:
        f = jax.jit(lambda *xs: sum(xs))
        xs = [jax.device_put(small + n, device) for n in range(50)]
        return lambda: f(*xs)

    def put(device: Any) -> Callable[[], Any]:
        return lambda: jax.device_put(large, device).block_until_ready()

    def get(device: Any) -> Callable[[], Any]:
        f, x = jax.jit(lambda x: x + 1), jax.device_put(large, device)
        return lambda: np.asarray(f(x))

    kinds = {
        "jit(x + 1)": one, "... and wait": waited, "50 arguments": fifty, "device_put 4 MB": put,
        "run and read 4 MB": get,
    }  # fmt: skip
    print(f"{'microseconds':24} {'hlo':>9} {'XLA':>9} {'ratio':>6}")
    for title, make in kinds.items():
        calls = {b: make(d) for b, d in devices.items()}
        times: dict[str, list[float]] = {b: [] for b in devices}
        count = 200 if "MB" in title else 2000
        for _ in range(15):
            for backend, f in calls.items():
                f()
                at = time.perf_counter()
                for _ in range(count // 10):
                    f()
                times[backend].append((time.perf_counter() - at) / (count // 10) * 1e6)
        hlo, xla = (min(times[b]) for b in ("hlo", "xla"))
        ratio = median(h / x for h, x in zip(times["hlo"], times["xla"], strict=True))
        print(f"{title:24} {hlo:9.2f} {xla:9.2f} {ratio:6.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="programs whose name has this text")
    parser.add_argument("--runs", type=int, default=3, help="of each program on each backend")
    parser.add_argument("--here", help=argparse.SUPPRESS)
    parser.add_argument("--overheads", action="store_true", help="only these")
    args = parser.parse_args()
    if args.here:
        print(json.dumps(measure_here(args.here)))
        return
    sys.path.insert(0, str(ROOT))
    from bench.jax_programs import PROGRAMS

    if not args.overheads:
        compare([name for name in PROGRAMS if args.only in name], args.runs)
    if not args.only:
        overheads()


if __name__ == "__main__":
    main()
