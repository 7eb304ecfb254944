"""Assignment of parallel tasks to loops."""

from __future__ import annotations

import json
import math
import os

from hlo.analysis.cost import cost_of_instruction
from hlo.analysis.memory import shape_bytes
from hlo.ir import Instruction, Module
from hlo.ops import Trait
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import unfused
from hlo.values.layout.bitcasts import layout_of
from hlo.values.types import ArrayShape

# The size of an L2 cache in bytes, and 100 us of work in cycles.
_LEAST_BYTES = 256 << 10
_LEAST_CYCLES = 100_000
_SPLIT = frozenset(
    "broadcast concatenate dynamic-slice gather iota pad reduce reduce-window reshape reverse "
    "slice transpose".split()
)


@module_pass
def cpu_parallel_task_assigner(
    module: Module, rewrites: Rewrites, *, max_parallelism: int = 0
) -> None:
    """Annotate loops with their outer dimension partitions in `backend_config`.

    The annotations are XLA:CPU's, by its cost model; code generation here has its own.
    max_parallelism: maximum number of tasks; 0: the number of processors.
    """
    most = max_parallelism or os.cpu_count() or 1
    for comp in unfused(module):
        for inst in comp:
            if "backend_config" in inst.annotations or not _may_split(inst):
                continue
            counts = _partitions(inst.array_shape, _tasks(inst, most))
            if math.prod(counts) > 1 and rewrites.allow("cpu_parallel_task_assigner", inst):
                config = {"outer_dimension_partitions": list(map(str, counts))}
                inst.annotations["backend_config"] = json.dumps(config, separators=(",", ":"))


def _may_split(inst: Instruction) -> bool:
    """True for loops whose elements are computed independently, in memory of their own."""
    if not isinstance(inst.shape, ArrayShape) or inst.shape.is_dynamic:
        return False
    if inst.opcode == "fusion":
        root = inst.calls.root
        return inst.fusion_kind == "kLoop" and root.opcode != "dynamic-update-slice"
    return inst.opcode in _SPLIT or inst.spec.has(Trait.ELEMENTWISE)


def _tasks(inst: Instruction, most: int) -> int:
    """Return the number of tasks for an instruction."""
    cost = cost_of_instruction(inst)
    if cost.operations + cost.transcendentals <= cost.bytes:
        # Memory bandwidth is shared: more tasks than this gain nothing.
        most = min(most, math.ceil(math.sqrt(most)))
        return min(most, max(1, shape_bytes(inst.shape) // _LEAST_BYTES))
    cycles = cost.operations + 2 * cost.transcendentals + 10 * cost.bytes
    return min(most, max(1, cycles // _LEAST_CYCLES))


def _partitions(shape: ArrayShape, tasks: int) -> list[int]:
    """Return the parts of each of the outer dimensions, the outermost first.

    As many dimensions as necessary are split about equally; if one is too small, the others make up
    for it, from the outermost on.
    """
    sizes: list[int] = []
    for dim in reversed(layout_of(shape).minor_to_major):
        sizes.append(shape.dims[dim])
        if math.prod(sizes) >= tasks:
            break
    tasks = min(tasks, math.prod(sizes))
    if tasks < 2:
        return []
    alike = int(tasks ** (1 / len(sizes)))
    counts = [min(size, alike) for size in sizes]
    for n, size in enumerate(sizes):
        others = math.prod(counts) // counts[n]
        counts[n] = max(counts[n], min(size, tasks // others))
    return counts
