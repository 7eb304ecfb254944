"""Simplification of dynamic dimension sizes."""

from __future__ import annotations

from hlo.ir import Module
from hlo.passes.algsimp.algsimp import RULES
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites

# What shape computations are made of: lists of sizes, put together and taken apart.
_CHOSEN = frozenset(
    "concatenate_flat concatenate_one slice_of_concatenate slice_of_all reshape_twice "
    "reshape_to_itself reshape_of_scalar_broadcast convert_to_own_type size_of_static_array "
    "size_of_static_dimension size_that_was_set".split()
)


@module_pass
def dynamic_dimension_simplifier(module: Module, rewrites: Rewrites) -> None:
    """Simplify dynamic sizes by the subset of `algsimp` rules that they need."""
    skipped = frozenset(n for n in RULES.rules if n.partition(".")[2] not in _CHOSEN)
    RULES.apply(module, rewrites, skipped=skipped)
