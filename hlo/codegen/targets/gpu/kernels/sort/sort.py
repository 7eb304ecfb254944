"""The choice of how to sort, by comparator and length."""

from __future__ import annotations

from collections.abc import Mapping

from hlo.analysis.fusion.roles import Role
from hlo.codegen.kernels.sort.keys import SortKey
from hlo.codegen.kernels.sort.sorting import needed_results
from hlo.codegen.targets.base import Plan
from hlo.codegen.targets.gpu.base import Gpu
from hlo.codegen.targets.gpu.kernels.sort.merge import plan_merges
from hlo.codegen.targets.gpu.kernels.sort.radix import plan_radix
from hlo.codegen.targets.gpu.kernels.sort.records import (
    ComparedSorting,
    KeySorting,
    Sorting,
    lines_of,
)
from hlo.codegen.targets.gpu.kernels.sort.tiles import SortRows, most_records, tile_for
from hlo.ir import Instruction

# Positions in rows are numbers of 32 bits.
MOST_LENGTH = 1 << 31

# Rows of so many records for each bit of the key are sorted by digits: a digit is three launches,
# and passes over the records, where a merge is one.
RADIX_FROM = 1 << 12
# The counts of digits of so many rows are small beside the rows.
_FEW_ROWS = 64


def plan_sort(inst: Instruction, _: Mapping[Instruction, Role], gpu: Gpu) -> Plan | None:
    """Plan a sort."""
    lines, needed = lines_of(inst), needed_results(inst)
    if not lines.count or not lines.length or not needed:
        return Plan(())
    if lines.length >= MOST_LENGTH:
        return None
    has_key = SortKey.of(inst.to_apply) is not None
    return plan_rows(inst, KeySorting(needed) if has_key else ComparedSorting(needed), gpu)


def plan_rows(inst: Instruction, sorting: Sorting, gpu: Gpu) -> Plan:
    """Plan the sort of rows of records."""
    rows, bits = sorting.rows(inst), sorting.key_bits(inst)
    if rows.length <= most_records(rows.record_bytes):
        return Plan((SortRows(sorting, tile_for(rows)),))
    if bits and gpu.matches_lanes and rows.length >= RADIX_FROM * bits and rows.count <= _FEW_ROWS:
        return plan_radix(inst, sorting)
    return plan_merges(inst, sorting)


PLANNERS = {"sort": plan_sort}
