"""Find an instruction that makes a NaN, put at random places of real modules, as native code.

python -m tests.sweeps.find_nan_models --count 20 examples/*.hlo

A module that makes a NaN of its own on its random inputs may have that found instead, and is left
out. A line for each module says how long searching took, and a run with its compilation.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import hlo
from hlo.errors import HloError
from tests.generators.nan_models import seed


def _cpu(f: Callable[..., Any], *args: Any) -> tuple[float, Any]:
    start = time.process_time()
    found = f(*args)
    return time.process_time() - start, found


def _check(path: str, first: int, count: int) -> tuple[int, int]:
    """Return how many were wrong, of how many."""
    module = hlo.load(path)
    values = hlo.random_inputs(module)
    plain, _ = _cpu(lambda: hlo.compile(module, cache=False)(*values))
    clean, own = _cpu(hlo.find_nan, module, *values)
    print(f"{path}: a run {plain:.1f} s, a search {clean:.1f} s of CPU", flush=True)
    if own is not None and own.source == "instruction":
        print(f"  left out: {own}")
        return 0, 0
    wrong, spent = 0, 0.0
    for number in range(first, first + count):
        seeded = module.clone()
        place = seed(seeded, number)
        seeded = hlo.parse(str(seeded), path)
        seconds, found = _cpu(hlo.find_nan, seeded, *values)
        spent += seconds
        name = "nothing" if found is None else found.instruction
        if name != "seeded":
            wrong += 1
            print(f"  seed {number}, {place}: {name}", flush=True)
    print(f"  {count - wrong} of {count} found, {spent / count:.1f} s of CPU each", flush=True)
    return wrong, count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=10, help="how many seeds for each file")
    args = parser.parse_args()
    wrong = total = 0
    for path in args.files:
        try:
            new_wrong, count = _check(path, args.first, args.count)
        except HloError as e:
            print(f"{path}: {e}")
            new_wrong, count = 1, 1
        wrong, total = wrong + new_wrong, total + count
    print(f"{total - wrong} of {total} found")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
