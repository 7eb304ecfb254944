"""Sums of sums over devices."""

from __future__ import annotations

from hlo.ir import Module
from hlo.passes.collectives._reassociate import reassociate
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites


@module_pass
def all_reduce_reassociate(
    module: Module, rewrites: Rewrites, *, reassociate_converted_ar: bool = False
) -> None:
    """Reassociate sums of all-reduced sums into one all-reduce of a sum; other ops likewise.

    reassociate_converted_ar: also where results are converted to a wider type and then added.
    """
    reassociate(module, rewrites, "all-reduce", converted=reassociate_converted_ar)
