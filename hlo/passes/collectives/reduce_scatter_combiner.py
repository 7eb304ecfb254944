"""Arrays reduced over devices, a part for each, at the same time."""

from __future__ import annotations

from hlo.ir import Module
from hlo.passes.collectives._collective import meeting
from hlo.passes.collectives._combine import combine_collectives
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites


@module_pass
def reduce_scatter_combiner(
    module: Module,
    rewrites: Rewrites,
    *,
    combine_threshold_in_bytes: int = 1024,
    combine_threshold_count: int = 1024,
    combine_by_dim: bool = True,
    combine_while_loops: bool = True,
) -> None:
    """Combine independent reduce-scatters over the same devices into one.

    combine_threshold_in_bytes, combine_threshold_count: maximum bytes and number of results of a
    combined one. combine_by_dim: only along the same dimension; others are transposed for it.
    combine_while_loops: in loops, too.
    """
    without = () if combine_by_dim else ("dimensions",)
    combine_collectives(
        module, rewrites, "reduce_scatter_combiner", "reduce-scatter",
        lambda inst, congruence: meeting(inst, congruence, without=without),
        threshold_bytes=combine_threshold_in_bytes, threshold_count=combine_threshold_count,
        in_loops=combine_while_loops,
    )  # fmt: skip
