"""What the steps of sorts do, as the SIMT machine counts it."""

from __future__ import annotations

from hlo.codegen.targets.gpu.kernels.sort.records import Rows
from hlo.gpu.work import Unit, Work

# Operations for a record: of the first sort of a thread's few records, for each doubling of runs in
# a tile, for a tile's part of a merge, to count its digit, and to move it to its place.
FIRST, DOUBLING, MERGE, COUNT, MOVE = 150, 50, 88, 20, 60


def work_of(
    rows: Rows, records: int, operations: int, *, reads_elements: bool, writes_elements: bool,
    shared_accesses: int = 0, rounds: int = 2,
) -> Work:  # fmt: skip
    """Return the work of a step on so many records, given what it does for each.

    reads_elements, writes_elements: elements rather than records of scratch memory.
    """
    size = rows.element_bytes if reads_elements else rows.record_bytes
    size += rows.element_bytes if writes_elements else rows.record_bytes
    return Work(
        ((Unit.INTEGER, operations * records),), size * records,
        shared_bytes=shared_accesses * rows.record_bytes * records, rounds=rounds,
    )  # fmt: skip
