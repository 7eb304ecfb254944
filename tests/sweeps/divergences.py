"""Miscompilations that were planted: `hlo.first_divergence` has to name each, and nothing else.

    python -m tests.sweeps.divergences --count 300

Plants them in the programs of `tests/generators/miscompiled_programs.py` and in generated modules,
as another file or by a pass, and runs the default passes on modules that are right. Half of the
modules are functions that an entry calls several times. Prints what was not named, or named without
reason, and how many there were.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from typing import Any

import numpy as np

import hlo
from hlo.eval import interpret
from hlo.ir import Instruction, Module
from hlo.passes import run_pipeline
from hlo.passes.default import pipeline_of
from hlo.testing.compare import compare
from hlo.testing.sampling import random_value
from hlo.values.arrays import TOKEN_VALUE, actual
from tests.generators.called import called
from tests.generators.miscompilations import mark, plant, register, sites
from tests.generators.miscompiled_programs import PROGRAMS, program
from tests.generators.modules import generate
from tests.generators.nested import generate_nested

WAYS = ("file", "renamed file", "text", "pass first", "pass last")


def leaves(value: Any) -> list[Any]:
    if isinstance(value, tuple):
        return [leaf for v in value for leaf in leaves(v)]
    return [] if value is TOKEN_VALUE else [actual(value)]


def differ(a: Module, b: Module, args: list[Any]) -> bool:
    """True if the results of two modules differ by more than rounding."""
    try:
        x, y = (leaves(interpret(m, args, timeout=5)) for m in (a, b))
    except hlo.HloError:
        return False
    return not all(compare(p, q).same for p, q in zip(x, y, strict=True))


def named(module: Module, kind: str, bad: Instruction, way: str, args: list[Any]) -> str | None:
    """Return what is named instead of a planted instruction; None if it makes no difference."""
    if way.startswith("pass"):
        given = hlo.parse(str(mark(module, kind, bad)))
        passes = "miscompile,default" if way == "pass first" else "default,miscompile"
        made = given.clone()
        run_pipeline(made, pipeline_of(passes, fuses=False))
        if not differ(given, made, args):
            return None
        found = hlo.first_divergence(given, *args, backend=f"reference{{passes={passes}}}")
    else:
        wrong = plant(module, kind, bad, renames=way == "renamed file")
        if way == "text":
            module, wrong = hlo.parse(str(module)), hlo.parse(str(wrong))
        if not differ(module, wrong, args):
            return None
        found = hlo.first_divergence(module, *args, against=wrong, backend="reference")
    if found is None:
        return "nothing"
    if found.instruction == bad.name:
        return ""
    if kind == "wrong-initial-value" and found.instruction in [o.name for o in bad.operands]:
        return ""  # which constant it is to be is as well that constant's fault
    return f"{found.path} ({found.opcode}; {found.counterpart})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="generated modules")
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    register()
    counts: Counter[str] = Counter()
    start = time.perf_counter()

    def tell(what: str, way: str, found: str | None) -> None:
        if found is None:
            counts["no difference"] += 1
            return
        counts[f"{way}: {'missed' if found else 'named'}"] += 1
        if found:
            print(f"{what}, {way}: named {found}", flush=True)

    x = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)
    for which in PROGRAMS if not options.first else ():
        module, bad = program(which)
        for way in WAYS:
            tell(str(which), way, named(module, which.kind, bad, way, [x]))
    for seed in range(options.first, options.first + options.count):
        module = generate_nested(seed) if seed % 2 else generate(seed)
        module = called(module, seed) if seed % 4 > 1 else hlo.parse(str(module))
        rng = np.random.default_rng(seed)
        args = [random_value(rng, p.shape) for p in module.entry.parameters]
        places = [s for s in sites(module) if s[1].num_users or s[1].is_root]
        for number in rng.permutation(len(places))[:2]:
            kind, bad = places[number]
            way = WAYS[rng.integers(len(WAYS))]
            tell(f"seed {seed}: {kind} at {bad.name}", way, named(module, kind, bad, way, args))
        try:
            right = hlo.first_divergence(module, *args, backend="reference{passes=default}")
        except hlo.HloError as e:
            counts[f"error {e.code}"] += 1
            continue
        tell(f"seed {seed}", "default passes", "" if right is None else right.path)
    print(", ".join(f"{n} {what}" for what, n in sorted(counts.items())))
    print(f"{time.perf_counter() - start:.0f} s")
    return 1 if any("missed" in what for what in counts) else 0


if __name__ == "__main__":
    sys.exit(main())
