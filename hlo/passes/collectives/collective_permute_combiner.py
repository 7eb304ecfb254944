"""Arrays sent along the same lines at the same time."""

from __future__ import annotations

from hlo.ir import Module
from hlo.passes.collectives._collective import meeting
from hlo.passes.collectives._combine import combine_collectives
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites


@module_pass
def collective_permute_combiner(
    module: Module,
    rewrites: Rewrites,
    *,
    combine_threshold_in_bytes: int = 1024,
    combine_threshold_count: int = 1024,
) -> None:
    """Combine independent collective-permutes between the same devices into one.

    combine_threshold_in_bytes, combine_threshold_count: maximum bytes and number of results of a
    combined one.
    """
    combine_collectives(
        module, rewrites, "collective_permute_combiner", "collective-permute", meeting,
        threshold_bytes=combine_threshold_in_bytes, threshold_count=combine_threshold_count,
    )  # fmt: skip
