"""JAX programs that are right: `hlo.first_divergence` may name nothing in them.

    python -m tests.sweeps.jax_divergences --count 300

Runs programs of `tests/generators/jax_functions.py`, optimized by the default passes, beside the
interpreter; every eighth as native code, every eighth beside XLA as well. --plant plants a
miscompilation in each, which has to be named. Prints what was named without reason, or not named.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter

import numpy as np

import hlo
from hlo.ir import Module
from tests.generators.jax_functions import arguments, programs, traced
from tests.generators.miscompilations import register, sites
from tests.sweeps.divergences import WAYS, named

# How each of eight programs runs, and beside what: passes on the interpreter are fastest.
_PASSES = ("reference{passes=default}", "reference")
_SIDES = (
    _PASSES,
    _PASSES,
    _PASSES,
    ("compiled", "reference"),
    _PASSES,
    _PASSES,
    _PASSES,
    ("compiled", "xla"),
)


def right(module: Module, values: list[np.ndarray], backend: str, against: str) -> str:
    """Return what is named in a module that is right: nothing, or a path."""
    found = hlo.first_divergence(module, *values, backend=backend, against=against)
    return (
        "" if found is None else f"{found.path or found.kind} ({found.opcode}; {found.counterpart})"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=300, help="programs")
    parser.add_argument("--first", type=int, default=0, help="after so many programs")
    parser.add_argument("--seed", type=int, default=0, help="of their order and arguments")
    parser.add_argument("--form", help="only this one")
    parser.add_argument("--plant", action="store_true", help="plant a miscompilation in each")
    options = parser.parse_args()
    register()
    counts: Counter[str] = Counter()
    start = time.perf_counter()
    chosen = programs(options.seed, options.form)[: options.first + options.count]
    for number, (expression, form) in list(enumerate(chosen))[options.first :]:
        values = arguments(options.seed + number)
        module = traced(expression, form, values)
        if module is None:
            counts["not traced"] += 1
            continue
        if number % 2:  # instructions with places in a text
            module = hlo.parse(str(module))
        backend, against = _SIDES[number % len(_SIDES)]
        way = f"{backend} / {against}"
        try:
            if options.plant:
                rng = np.random.default_rng(number)
                places = [s for s in sites(module) if s[1].num_users or s[1].is_root]
                kind, bad = places[rng.integers(len(places))]
                way = WAYS[rng.integers(len(WAYS))]
                found = named(module, kind, bad, way, values)
                what = f"{kind} at {bad.name}"
            else:
                found, what = right(module, values, backend, against), ""
        except hlo.HloError as e:
            counts[f"error {e.code}"] += 1
            continue
        except Exception:
            print(f"{number}: {form}: {expression}, {way}")
            traceback.print_exc()
            counts["crashed"] += 1
            continue
        if found is None:
            counts["no difference"] += 1
            continue
        counts[f"{way}: {'wrong' if found else 'right'}"] += 1
        if found:
            print(f"{number}: {form}: {expression}, {what} {way}: named {found}", flush=True)
    print(", ".join(f"{n} {what}" for what, n in sorted(counts.items())))
    print(f"{time.perf_counter() - start:.0f} s")
    return 1 if any("wrong" in what or "crashed" in what for what in counts) else 0


if __name__ == "__main__":
    sys.exit(main())
