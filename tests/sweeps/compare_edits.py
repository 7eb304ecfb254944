"""Edits of modules, hidden among other names and another order: `hlo.diff` has to name just them.

    python -m tests.sweeps.compare_edits FILE... --count 20

Prints every edit that was not found, or was not all that was found, and how many there were.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter

import hlo
from hlo.debug.difference import Difference
from hlo.ir import Instruction, Module
from tests.generators.edits import EDITS, Edit, edit
from tests.generators.shuffled import shuffle


def wrong(found: Difference, made: Edit, became: dict[Instruction, Instruction]) -> str:
    """Return what is wrong with a difference that is to be one edit, or nothing."""
    after = {became[i] for i in made.after}
    named = False
    for change in found.changes:
        left, right = change.left, change.right
        if left is not None and left.parent is not None:
            if (left.parent.name, left.name) not in made.before:
                return f"{change.kind} {left.name} is not part of it"
        if right is not None and right not in after:
            return f"{change.kind} {right} is not part of it"
        named = named or change.kind == made.reported_as
    if found.header:
        return f"the header is not part of it: {found.header}"
    return "" if named else f"not reported as {made.reported_as}: {found.summary}"


def try_edit(module: Module, kind: str, seed: int) -> tuple[str, Difference | None]:
    """Make an edit, and return what is wrong with the difference; None if there is no place."""
    rng = random.Random(f"{kind} {seed}")
    edited = module.clone()
    made = edit(edited, kind, rng)
    if made is None:
        return "", None
    other, became = shuffle(edited, seed)
    try:
        found = hlo.diff(module, other)
    except hlo.HloError:
        return "", None  # the edit is no valid module
    return wrong(found, made, became), found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--count", type=int, default=5, help="edits of each kind and file")
    parser.add_argument("--kind", choices=sorted(EDITS), action="append")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    tried: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for file in args.files:
        module = hlo.load(file)
        if hlo.diff(module, shuffle(module, args.seed)[0]):
            print(f"{file}: another order is a difference")
            failed["order"] += 1
        for kind in args.kind or EDITS:
            for seed in range(args.seed, args.seed + args.count):
                problem, found = try_edit(module, kind, seed)
                if found is not None:
                    tried[kind] += 1
                if problem:
                    failed[kind] += 1
                    print(f"{file}: {kind} {seed}: {problem}\n{found}", flush=True)
    for kind, count in tried.items():
        print(f"{kind:16} {count:5} edits, {failed[kind]} not as they are")
    print(f"{tried.total()} edits, {failed.total()} wrong")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
