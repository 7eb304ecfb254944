"""Run random changes of distribution on all devices, and compare with slices of the whole arrays.

python -m tests.sweeps.compare_reshards [--first SEED] [--count N] [--each N]
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback

from tests.generators.reshards import check, generate


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000, help="programs")
    parser.add_argument("--each", type=int, default=16, help="changes in each program")
    options = parser.parse_args()
    began = time.perf_counter()
    wrong = 0
    for seed in range(options.first, options.first + options.count):
        for backend in ("reference", "compiled"):
            try:
                check(generate(seed, options.each), backend)
            except Exception:
                wrong += 1
                print(f"seed {seed}, {backend}:")
                traceback.print_exc(limit=-3, file=sys.stdout)
    seconds = time.perf_counter() - began
    print(f"{options.count * options.each} changes, {wrong} programs wrong, {seconds:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
