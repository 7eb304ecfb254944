"""Find the instruction that makes a NaN in generated programs, on both backends.

python -m tests.sweeps.find_nan --count 500
"""

from __future__ import annotations

import argparse
import sys
import time

import hlo
from tests.generators.nan_sources import nan_program


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=500, help="how many seeds")
    parser.add_argument("--passes", default="default", help="the pipeline of native code")
    args = parser.parse_args()
    wrong, start, inside = 0, time.monotonic(), 0
    for seed in range(args.first, args.first + args.count):
        program = nan_program(seed)
        inside += bool(program.inside)
        module = hlo.parse(program.text, f"seed{seed}.hlo")
        for backend in ("reference", "compiled"):
            found = hlo.find_nan(module, program.x, backend=backend, passes=args.passes)
            name = found.instruction if found is not None else "nothing"
            last = [f.iteration for f in found.frames if f.iteration is not None] if found else []
            if name != "seeded" or (last and last[-1] != program.iteration):
                wrong += 1
                print(f"seed {seed} ({program.source} in {program.inside}), {backend}: {name} "
                      f"{last} instead of {program.iteration}")  # fmt: skip
    print(
        f"{args.count} programs, {inside} of them inside loops, branches, calls or fusions: "
        f"{2 * args.count - wrong} of {2 * args.count} found, in {time.monotonic() - start:.0f} s"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
