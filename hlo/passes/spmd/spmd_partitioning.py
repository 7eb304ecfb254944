"""The SPMD partitioner as a pass."""

from __future__ import annotations

from hlo.errors import HloError, InferError
from hlo.ir import Module
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.spmd.contract import contract_of
from hlo.spmd.partitioner import partition_module
from hlo.spmd.propagation import has_meshes


@module_pass
def spmd_partitioning(module: Module, rewrites: Rewrites) -> None:
    """Make a module with shardings the program that each of its partitions runs.

    Instructions without a sharding are replicated: `sharding-propagation` goes before. The module
    takes and returns shards afterwards; its header says of which arrays, and that it is done.
    """
    if module.device_counts[1] == 1 or contract_of(module) is not None:
        return
    if has_meshes(module):
        raise HloError.at(
            "bad-sharding",
            f"{module.name} has shardings by axes of Shardy's meshes: spmd-partitioning reads "
            "those that shardy-xla makes of them",
            hint="--passes=shardy-xla,spmd-partitioning",
        )
    if rewrites.allow("spmd-partitioning", module.entry.root, approximate=True):
        try:
            rewrites.notes += map(str, partition_module(module).notes)
        except InferError as e:
            raise HloError.at(e.code, e.message, hint=e.hint) from None
