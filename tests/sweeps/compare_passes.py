"""Check that a pipeline keeps what random modules compute, leaves them valid, and ends.

python -m tests.sweeps.compare_passes [--passes PIPELINE] [--kind KIND] [--first SEED] [--count N]

After each pass that changes something the module is verified, and run before and after on seeded
inputs with special values; a second run of the pipeline has to find nothing more to do.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable

from hlo.ir import Module
from hlo.passes import run_pipeline
from hlo.passes.default import pipeline_of
from hlo.passes.observers import VerifyEach
from hlo.passes.validate import Validate
from hlo.verifier import verify
from tests.generators.collectives import generate_collectives
from tests.sweeps.compare_generated import GENERATORS

KINDS: dict[str, Callable[[int], Module]] = {
    **{kind: lambda seed, make=make: make(seed).module for kind, make in GENERATORS.items()},
    "collectives": generate_collectives,
}


def compare_pipeline(module: Module, passes: str) -> list[str]:
    """Fail unless a pipeline does right by a module; returns the rules that fired, in order."""
    pipeline = pipeline_of(passes)
    runs = run_pipeline(module, pipeline, [VerifyEach(verify), Validate(module)])
    again = [r for run in run_pipeline(module, pipeline) for r in run.rewrites]
    assert not again, f"a second run changes more: {again[0].rule} at {again[0].instruction}"
    return [rewrite.rule for run in runs for rewrite in run.rewrites]


def main() -> int:
    parser = argparse.ArgumentParser(description="Check a pipeline on random modules.")
    parser.add_argument("--passes", default="default", help="the pipeline")
    parser.add_argument("--kind", choices=list(KINDS), help="one kind of modules")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1000, help="how many of each kind")
    parser.add_argument("--rules", action="store_true", help="list how often each rule fired")
    options = parser.parse_args()
    kinds = [options.kind] if options.kind else list(KINDS)
    failed, start, fired = 0, time.perf_counter(), Counter[str]()
    for kind in kinds:
        for seed in range(options.first, options.first + options.count):
            try:
                fired.update(compare_pipeline(KINDS[kind](seed), options.passes))
            except Exception as e:  # whatever goes wrong is a result
                failed += 1
                first = (str(e) or "no message").splitlines()[0][:250]
                print(f"{kind} {seed}: {type(e).__name__}: {first}", flush=True)
    if options.rules:
        print("\n".join(f"{count:7} {rule}" for rule, count in fired.most_common()))
    seconds = time.perf_counter() - start
    rules = f"{fired.total()} rewrites by {len(fired)} rules"
    print(f"{options.count * len(kinds)} modules, {rules}: {failed} failed, {seconds:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
