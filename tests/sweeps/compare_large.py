"""Compare random programs at the sizes of real ones with XLA, by their errors.

python -m tests.sweeps.compare_large [KIND...] [--first N] [--count N]

Floats are judged by the distance from XLA's results in double precision, beside that of XLA's own;
everything else has to be equal. Each program also runs on one and on three threads, which has to
give the same bits.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator

import jax
import numpy as np

import hlo
from tests.generators.programs import KINDS, Program
from tests.harness.paths import ROOT

sys.path.append(str(ROOT / "bench"))
from accuracy import in_double, relative_error, widened
from measure import xla

# Errors that no result is blamed for, by type: some units in the last place of long sums.
_FREE = {"float32": 3e-6, "bfloat16": 3e-2, "float16": 4e-3, "complex64": 3e-6}
_EXACT = 1e-12
_WIDE = ("float64", "complex128", "int64", "uint64")


def as_text(program: Program) -> str:
    is_wide = any(a.dtype.name in _WIDE for a in program.args)
    with jax.enable_x64(is_wide):
        lowered = jax.jit(program.function, keep_unused=True).lower(*program.args)
        return str(lowered.compiler_ir("hlo").as_hlo_text(True))


def ours(module: hlo.Module, args: list[np.ndarray], threads: int) -> list[np.ndarray]:
    found = hlo.compile(module, cache=False, threads=threads)(*args)
    return list(found) if isinstance(found, tuple) else [found]


def wrong(program: Program) -> Iterator[str]:
    """Yield what is wrong with our results."""
    text = as_text(program)
    module, args = hlo.parse(text), list(program.args)
    got, again = (ours(module, args, threads) for threads in (1, 3))
    for n, (a, b) in enumerate(zip(got, again, strict=True)):
        if a.tobytes() != b.tobytes():
            yield f"result {n} depends on the number of threads"
    want = [np.asarray(a) for a in xla(text, args)()]
    wide = in_double(text)
    exact = want
    if wide is not None:
        exact = [np.asarray(a) for a in xla(hlo.print_module(wide), widened(args))()]
    for n, (g, w, e) in enumerate(zip(got, want, exact, strict=True)):
        if g.dtype.kind in "iub":
            if not np.array_equal(g, w):
                yield f"result {n}: {np.count_nonzero(g != w)} of {g.size} integers differ"
            continue
        free = _FREE.get(g.dtype.name, _EXACT)
        error, other = (relative_error([x], [e]) or _distance(x, e) for x in (g, w))
        if error > 4 * other + free:
            yield f"result {n}: error {error:.2g}, XLA's {other:.2g}"
        is_nan, should_be = np.isnan(g.astype(e.dtype)), np.isnan(e)
        if free <= _FREE["float32"] and not np.array_equal(is_nan, should_be):
            yield f"result {n}: {is_nan.sum()} NaN, {should_be.sum()} expected"


def _distance(x: np.ndarray, exact: np.ndarray) -> float:
    """Return the relative distance of what is in double precision as it is."""
    with np.errstate(invalid="ignore"):
        difference = np.abs(x - exact) if x.dtype == exact.dtype else np.zeros(1)
    size = np.abs(exact[np.isfinite(exact)]).max(initial=0)
    found = difference[np.isfinite(difference)].max(initial=0)
    return float(found / size) if size else float(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("kinds", nargs="*", choices=[[], *KINDS], metavar="KIND")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=20, help="of each kind")
    options = parser.parse_args()
    start, failed, done = time.perf_counter(), 0, 0
    for name in options.kinds or KINDS:
        for seed in range(options.first, options.first + options.count):
            program = KINDS[name](random.Random(f"{name} {seed}"))
            done += 1
            try:
                found = list(wrong(program))
            except jax.errors.JaxRuntimeError as e:
                print(f"{name} {seed}: XLA does not run it: {str(e)[:80]}", flush=True)
                continue
            for what in found:
                print(f"{name} {seed} {program.about}: {what}", flush=True)
            failed += bool(found)
    seconds = time.perf_counter() - start
    print(f"{done} programs: {failed} failed, {seconds:.0f} s")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
