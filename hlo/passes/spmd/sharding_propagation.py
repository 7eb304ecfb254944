"""Sharding propagation as a pass, of shardings in the form of GSPMD."""

from __future__ import annotations

from hlo.ir import Module
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.spmd.contract import contract_of
from hlo.spmd.propagation import has_meshes, propagate


@module_pass
def sharding_propagation(module: Module, rewrites: Rewrites, *, by_cost: bool = True) -> None:
    """Give each instruction a sharding, from those that are annotated.

    by_cost: where other shardings of what is not annotated cost less than those that propagate,
    the cheapest are chosen. Custom calls that only annotate become what they annotate. A module
    with Shardy's meshes is one for `shardy-xla`, and left as it is; so is one that has been
    partitioned.
    """
    if module.device_counts[1] == 1 or has_meshes(module) or contract_of(module) is not None:
        return
    propagate(module, rewrites.allow, by_cost=by_cost)
