"""Code generation with lower limits, so that small modules are computed in the ways of large ones.

Where loops go in blocks, work is shared out, lines are sorted by all threads, values are computed
again rather than kept, and so on, is a matter of speed: results may not depend on it.
"""

from __future__ import annotations

from importlib import import_module

from hlo.analysis.fusion.chains import USUAL_CHAINS
from hlo.analysis.fusion.rows import USUAL_ROWS

# Each constant's value instead of its own, by module of `hlo`: that which uses it.
LOWER: dict[str, dict[str, object]] = {
    "analysis.fusion.accesses": {"_LARGE": 16},
    "analysis.fusion.chains": {"_ROWS_STORED": 8, "_FEW": 4, "_DEEP": 16},
    "analysis.fusion.post_dominators": {"_MAX_DETOUR": 4},
    "analysis.fusion.roles": {"_MAX_DEPTH": 12, "MAX_READS": 6},
    "analysis.fusion.siblings": {"_MAX_RESULTS": 3},
    "codegen.entry.assignment": {"_REUSED_BYTES": 256},
    "codegen.kernels.chain.chain": {"_BLOCK_BYTES": 2048, "_BLOCK_ROWS": 12, "_LEAST_TILES": 1},
    "codegen.kernels.conv.stencil_plan": {"_PANEL_BYTES": 1024, "_TASK_WORK": 32},
    "codegen.kernels.fft.rows": {"_LONG": 8},
    "codegen.kernels.linalg.cholesky": {"_SHARED": 8},
    "codegen.kernels.linalg.triangular_solve": {"_CHUNK_BYTES": 512},
    "codegen.kernels.matmul.scheduler": {"_DEPTH_BYTES": 128, "_CHAIN": 24,
                                         "_SUMS_BYTES": 2048, "_IN_PLACE_BYTES": 256,
                                         "_TASK_COST": 16, "_LARGE_TASK_COST": 1024},
    "codegen.kernels.matmul.streaming": {"_LEAST_BYTES": 64, "_LEAST_COLUMNS": 4, "_BLOCK": 64,
                                         "_COLUMN_BYTES": 128, "_TASK_ROWS": 8},
    "codegen.kernels.reduce.columns": {"_SHORT": 8},
    "codegen.kernels.reduce.combiner": {"_SEQUENTIAL_MAX": 8, "_SEQUENTIAL_PICK_MAX": 4},
    "codegen.kernels.reduce.reducer": {"_STRIP_BYTES": 256, "_SHARES": 5, "_PART_ELEMENTS": 32,
                                       "_PART_ROWS": 4},
    "codegen.kernels.reduce.running": {"_SHORT": 2, "_CHUNK": 16, "_BLOCK": 32,
                                       "_STRIP_BYTES": 256},
    "codegen.kernels.reduce.select_scatter": {"_STRIP": 16},
    "codegen.kernels.reduce.window": {"_UNROLLED": 4, "_STRIP_BYTES": 256},
    "codegen.kernels.sort.counting": {"_SHORTEST": {8: 8, 16: 32}, "_LONG": 40,
                                      "_FEW_LINES": 3, "_BLOCKS": 4, "_LEAST_BLOCK": 8,
                                      "_CHUNK": 16},
    "codegen.kernels.sort.key_sort": {"_LONG": 512, "_FEW_LINES": 3, "_BLOCKS": 4,
                                      "_LEAST_BLOCK": 64},
    "codegen.kernels.sort.lines": {"_GROUPS": 3},
    "codegen.kernels.sort.radix": {"_LONG": 32, "_FEW_LINES": 3},
    "codegen.kernels.sort.radix_long": {"_BLOCKS": 4, "_LEAST_BLOCK": 8},
    "codegen.kernels.sort.records": {"_SHORT": 16},
    "codegen.kernels.sort.sorting": {"_RADIX_MIN": 24, "_LONG": 40, "_FEW_LINES": 3,
                                     "_BLOCK": 32},
    "codegen.kernels.sort.topk": {"_BLOCK": 8},
    "codegen.kernels.update.scatter": {"_RANGES": 3, "_WINDOW_PER_RANGE": 1},
    "codegen.lower.reduction": {"_LARGE_WINDOW": 4, "_SORTED_LINE": 16, "_SELECTED": 4,
                                "_SELECTED_PART": 8},
    "codegen.targets.base": {"_PANEL_BYTES": 2048},
    "codegen.plan.kernel_order": {"_LARGE_BYTES": 64},
    "codegen.plan.recompute": {"_LARGE_BYTES": 64, "_BATCH": 2},
    "codegen.targets.cpu.threads": {"_PARALLEL_COST": 16},
}  # fmt: skip

# The same for GPUs.
_GPU = "codegen.targets.gpu."
LOWER_ON_GPUS: dict[str, dict[str, object]] = {
    "codegen.launches.one_block": {"_MOST_WORK": 1 << 10},
    "codegen.launches.scalars": {"MOST_OPERATIONS": 2},
    f"{_GPU}base": {"_JOINED_BYTES": 1 << 10, "_MOST_SHARES": 32},
    f"{_GPU}kernels.attention.kernel": {"_TOGETHER": 1},
    f"{_GPU}kernels.attention.plan": {"_BLOCKS": {8: 0, 4: 0, 2: 0, 1: 0}},
    f"{_GPU}kernels.division": {"_COLUMNS": 8, "_MANY_COLUMNS": 4, "_WARP_ROW": 8, "_MANY_ROWS": 2,
                                "_WANTED_THREADS": 1024, "_WANTED_BLOCKS": 16, "_PART_ELEMENTS": 5,
                                "_WORTH_PARTS": 2, "_LONGEST_GROUP": 8, "_BLOCK": 64},
    f"{_GPU}kernels.elements": {"_MANY_THREADS": 1},
    f"{_GPU}kernels.fft.rows": {"_SHARED_BYTES": 1024},
    f"{_GPU}kernels.matmul.choice": {"_LEAST_MMA": 2, "_LEAST_SPLIT": 1, "_LEAST_STEPS": 1,
                                     "_NARROW": 2, "_DEEP": 8, "_SHALLOW": 1},
    f"{_GPU}kernels.matmul.narrow": {"_BUSY": 256},
    f"{_GPU}kernels.matmul.staging": {"_MOST_COPIES": 2},
    f"{_GPU}kernels.reduce": {"_TURNS": 2},
    f"{_GPU}kernels.rows": {"_LARGEST": 64, "_WANTED": 2, "_BLOCK": 32},
    f"{_GPU}kernels.scan": {"_LONGEST_GROUP": 4, "_SIDE_BY_SIDE": 4, "_WANTED_THREADS": 16,
                            "_WANTED_BLOCKS": 16, "_CHUNK_TILES": 1, "_CHUNK_ELEMENTS": 4,
                            "_MOST_CHUNKS": 33, "_MOST_THREAD_CHUNKS": 5},
    f"{_GPU}kernels.scatter": {"_CHUNK": 4},
    f"{_GPU}kernels.sort.radix": {"_LEAST_CHUNK": 32, "_MOST_CHUNKS": 8},
    f"{_GPU}kernels.sort.sort": {"RADIX_FROM": 1},
    f"{_GPU}kernels.sort.tiles": {"_MOST_RECORDS": 64, "_WANTED_RECORDS": 32},
    f"{_GPU}kernels.sort.topk": {"_PART": 2},
    f"{_GPU}kernels.transpose": {"_SHORTEST": 2},
    f"{_GPU}kernels.windows": {"_UNROLLED": 2, "_MOST_LOOKS": 4},
}  # fmt: skip


# What targets may have others of: fields of the limits that all have who name none.
LOWER_USUAL: tuple[tuple[object, dict[str, object]], ...] = (
    (USUAL_ROWS, {"shortest": 2, "count": 2}),
    (USUAL_CHAINS, {"reduced_bytes": 2048, "plain_bytes": 2048}),
)


def lower_limits(*, on_gpus: bool = False) -> None:
    """Lower the limits of this process. on_gpus: those of GPUs, too."""
    for name, values in (LOWER | LOWER_ON_GPUS if on_gpus else LOWER).items():
        module = import_module(f"hlo.{name}")
        for constant, value in values.items():
            assert hasattr(module, constant), f"hlo.{name} has no {constant}"
            setattr(module, constant, value)
    for limits, values in LOWER_USUAL:
        for field, value in values.items():
            assert hasattr(limits, field), f"{limits} have no {field}"
            object.__setattr__(limits, field, value)
