"""Code generation with lower limits, so that small modules are computed in the ways of large ones.

Where loops go in blocks, work is shared out, lines are sorted by all threads, values are computed
again rather than kept, and so on, is a matter of speed: results may not depend on it.
"""

from __future__ import annotations

from importlib import import_module

# Each constant's value instead of its own, by module of `hlo.codegen`.
LOWER: dict[str, dict[str, int]] = {
    "fusion": {"_MAX_DEPTH": 12, "_MAX_READS": 6},
    "lower_reduction": {"_LARGE_WINDOW": 4, "_SORTED_LINE": 16, "_SELECTED": 4,
                        "_SELECTED_PART": 8},
    "memory": {"_REUSED_BYTES": 256},
    "merge": {"_LARGE": 16},
    "recompute": {"_LARGE_BYTES": 64, "_BATCH": 2},
    "rejoining": {"_MAX_DETOUR": 4},
    "rows": {"_SHORTEST": 2, "_ROWS": 2},
    "schedule": {"_LARGE_BYTES": 64},
    "siblings": {"_MOST_RESULTS": 3},
    "targets.cpu.threads": {"_PARALLEL_COST": 16},
    "kernels.cholesky": {"_SHARED": 8},
    "kernels.columns": {"_SHORT": 8},
    "kernels.combiner": {"_SEQUENTIAL_MAX": 8, "_SEQUENTIAL_PICK_MAX": 4},
    "kernels.fft": {"_LONG": 8},
    "kernels.radix": {"_GROUPS": 3, "_LONG": 32, "_FEW_LINES": 3},
    "kernels.radix_long": {"_BLOCKS": 4, "_LEAST_BLOCK": 8},
    "kernels.records": {"_SHORT": 16},
    "kernels.reducer": {"_STRIP_BYTES": 256, "_SHARES": 5, "_PART_ELEMENTS": 32, "_PART_ROWS": 4},
    "kernels.running": {"_SHORT": 2, "_CHUNK": 16, "_BLOCK": 32, "_STRIP_BYTES": 256},
    "kernels.scatter": {"_RANGES": 3, "_WINDOW_PER_RANGE": 1},
    "kernels.scheduler": {"_DEPTH_BYTES": 128, "_PANEL_BYTES": 2048, "_SUMS_BYTES": 2048,
                          "_IN_PLACE_BYTES": 256, "_TASK_COST": 16},
    "kernels.select_scatter": {"_STRIP": 16},
    "kernels.sorting": {"_RADIX_MIN": 24, "_GROUPS": 3, "_LONG": 40, "_FEW_LINES": 3,
                        "_BLOCK": 32},
    "kernels.stencil_plan": {"_PANEL_BYTES": 1024, "_TASK_WORK": 32},
    "kernels.topk": {"_GROUPS": 3, "_BLOCK": 8},
    "kernels.triangular_solve": {"_CHUNK_BYTES": 512},
    "kernels.window": {"_UNROLLED": 4, "_STRIP_BYTES": 256},
}  # fmt: skip


def lower_limits() -> None:
    """Lower the limits of this process."""
    for name, values in LOWER.items():
        module = import_module(f"hlo.codegen.{name}")
        for constant, value in values.items():
            assert hasattr(module, constant), f"hlo.codegen.{name} has no {constant}"
            setattr(module, constant, value)
