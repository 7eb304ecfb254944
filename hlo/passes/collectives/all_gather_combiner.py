"""Arrays gathered at the same time."""

from __future__ import annotations

from hlo.ir import Module
from hlo.passes.collectives._collective import meeting
from hlo.passes.collectives._combine import combine_collectives
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites


@module_pass
def all_gather_combiner(
    module: Module,
    rewrites: Rewrites,
    *,
    combine_threshold_in_bytes: int = 1024,
    combine_threshold_count: int = 1024,
    combine_by_dim: bool = True,
    combine_different_dtypes: bool = True,
    combine_while_loops: bool = True,
) -> None:
    """Combine independent all-gathers over the same devices into one.

    combine_threshold_in_bytes, combine_threshold_count: maximum bytes and number of results of a
    combined one. combine_by_dim: only along the same dimension; others are transposed for it.
    combine_different_dtypes: of different element types, too. combine_while_loops: in loops, too.
    """
    without = () if combine_by_dim else ("dimensions",)
    combine_collectives(
        module, rewrites, "all_gather_combiner", "all-gather",
        lambda inst, congruence: (
            meeting(inst, congruence, without=without),
            None if combine_different_dtypes else inst.array_shape.element_type,
        ),
        threshold_bytes=combine_threshold_in_bytes, threshold_count=combine_threshold_count,
        in_loops=combine_while_loops,
    )  # fmt: skip
