"""The SPMD partitioner as a pass."""

from __future__ import annotations

from hlo.ir import Module
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.spmd.partitioner import partition_module


@module_pass
def spmd_partitioning(module: Module, rewrites: Rewrites) -> None:
    """Make a module with shardings the program that each of its partitions runs.

    Instructions without a sharding are replicated: `sharding-propagation` goes before. The module
    takes and returns shards afterwards; its header says of which arrays.
    """
    if module.device_counts[1] > 1 and rewrites.allow("spmd-partitioning", module.entry.root):
        rewrites.notes += map(str, partition_module(module).notes)
