"""Passes that make modules simpler: of tuples, loops, fusions and calls."""

from __future__ import annotations

from collections.abc import Sequence

from hlo.ir import Module
from hlo.passes import Rewrites
from hlo.passes.registry import find_pass

_PASSES = ("tuple-simplifier", "simplify-while-loops", "defuser", "call-inliner")


def targets(module: Module) -> list[str]:
    return list(_PASSES)


def apply(module: Module, targets: Sequence[str]) -> bool:
    done = False
    for name in targets:
        rewrites = Rewrites()
        try:
            find_pass(name).run(module, {}, rewrites)
        except Exception:  # it may be this pass that is wrong
            return False
        done |= rewrites.changed
    return done
