"""Random numbers of a distribution by random bits."""

from __future__ import annotations

from hlo.expansions import expand
from hlo.ir import Module
from hlo.passes.expand._inline import expand_instructions
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites


@module_pass
def rng_expander(module: Module, rewrites: Rewrites) -> None:
    """Express `rng` by Philox random bits and arithmetic; the numbers stay the same."""
    expand_instructions(module, rewrites, "rng_expander.expand", ["rng"], expand)
