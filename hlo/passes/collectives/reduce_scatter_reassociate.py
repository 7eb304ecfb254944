"""Sums of parts of sums over devices."""

from __future__ import annotations

from hlo.ir import Module
from hlo.passes.collectives._reassociate import reassociate
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites


@module_pass
def reduce_scatter_reassociate(module: Module, rewrites: Rewrites) -> None:
    """Reassociate sums of reduce-scattered sums into one reduce-scatter; other ops likewise."""
    reassociate(module, rewrites, "reduce-scatter")
