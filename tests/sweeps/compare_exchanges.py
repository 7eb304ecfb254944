"""Random collectives: compiled programs give the interpreter's bits, on 2 to 8 devices.

    python -m tests.sweeps.compare_exchanges --count 1000

Prints programs that differ, or on which only one of the two fails, and exits with 1 if there are
any.
"""

from __future__ import annotations

import argparse
import collections
import sys

import numpy as np

from hlo.errors import HloError
from tests.generators.exchanges import generate_exchange
from tests.harness.devices import run_here
from tests.harness.replicas import Program

Outcome = list[list[np.ndarray]] | str


def outcome(program: Program, backend: str) -> Outcome:
    """Return what a program gives, or the code of its error."""
    try:
        return run_here(program, backend)
    except HloError as e:
        return e.code


def same(a: Outcome, b: Outcome) -> bool:
    """True for equal bits on all devices; a NaN is one whatever its payload."""
    if isinstance(a, str) or isinstance(b, str):
        return isinstance(a, str) and a == b
    return all(
        _same_bits(x, y)
        for mine, theirs in zip(a, b, strict=True)
        for x, y in zip(mine, theirs, strict=True)
    )


def _same_bits(x: np.ndarray, y: np.ndarray) -> bool:
    if x.shape != y.shape or x.dtype != y.dtype:
        return False
    if x.tobytes() == y.tobytes():
        return True
    with np.errstate(invalid="ignore"):
        parts = [(x.real, y.real), (x.imag, y.imag)] if x.dtype.kind == "c" else [(x, y)]
        return all(
            np.array_equal(p != p, q != q) and np.where(p != p, 0, p).tobytes()
            == np.where(q != q, 0, q).tobytes()
            for p, q in parts
        )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    options = parser.parse_args()
    outcomes: collections.Counter[str] = collections.Counter()
    different = 0
    for seed in range(options.first, options.first + options.count):
        program = generate_exchange(seed)
        got, want = (outcome(program, backend) for backend in ("compiled", "reference"))
        outcomes[want if isinstance(want, str) else "values"] += 1
        if not same(got, want):
            different += 1
            print(f"seed {seed}: compiled {_shown(got)}, interpreted {_shown(want)}\n{program[0]}")
    print(f"{options.count} programs ({dict(outcomes)}), {different} differ")
    return 1 if different else 0


def _shown(found: Outcome) -> str:
    return found if isinstance(found, str) else "has values"


if __name__ == "__main__":
    sys.exit(main())
