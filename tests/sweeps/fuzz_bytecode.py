"""Mutates portable artifacts of StableHLO and reads what comes out: only our own errors, and soon.

    python -m tests.sweeps.fuzz_bytecode --count 20000 [--seed 0] [--keep DIR]

Prints the first input of every kind of failure, and exits 1 when there was one.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator

import hlo
from hlo.errors import HloError
from tests.harness.bytecode import artifact
from tests.sweeps import fuzz, fuzz_protos
from tests.sweeps.fuzz import tally, watched
from tests.sweeps.fuzz_stablehlo import corpus


def artifacts() -> list[bytes]:
    """Return the cases of the tests as bytecode."""
    made = (artifact(text, ("0.19.0",)) for text in corpus())
    return [data for one in made if one is not None for data in one.bytecode.values()]


def mutants(count: int, seed: int) -> Iterator[bytes]:
    """Yield `count` mutated artifacts."""
    rng = random.Random(seed)
    known = artifacts()
    for _ in range(count):
        data = rng.choice(known)
        for _i in range(rng.choice((1, 1, 1, 2, 3))):
            data = rng.choice(_MUTATIONS)(rng, data, known)
        yield data


_MUTATIONS = (fuzz_protos._bytes, fuzz_protos._bytes, fuzz_protos._pieces, fuzz_protos._truncate)


def failure(data: bytes) -> str | None:
    """Return what is wrong with how an artifact is taken, or None."""

    def check() -> str | None:
        module = hlo.from_stablehlo(data)
        hlo.verify(module)
        return fuzz.difference(module, str(module))

    return watched(check, _judge)


def _judge(error: HloError) -> str | None:
    return None if error.diagnostics else "an error without a diagnostic"


def main() -> int:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--count", type=int, default=20_000)
    arguments.add_argument("--seed", type=int, default=0)
    fuzz.add_folders(arguments)
    options = arguments.parse_args()
    inputs = mutants(options.count, options.seed)
    return tally(inputs, failure, fuzz.keeper(options.keep, f"{options.seed}"))


if __name__ == "__main__":
    sys.exit(main())
