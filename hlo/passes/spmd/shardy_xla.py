"""Sharding propagation as a pass, of shardings in the form of Shardy."""

from __future__ import annotations

from hlo.ir import Module
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.spmd.propagation import has_meshes, propagate


@module_pass
def shardy_xla(module: Module, rewrites: Rewrites, *, by_cost: bool = True) -> None:
    """Give each instruction a sharding, from Shardy's axes in its frontend attributes.

    by_cost: as for `sharding-propagation`. Manual computations become what is between
    `SPMDFullToShardShape` and `SPMDShardToFullShape`. A module without Shardy's meshes is left as
    it is.
    """
    if has_meshes(module) and rewrites.allow("shardy-xla", module.entry.root):
        propagate(module, rewrites.allow, by_cost=by_cost)
