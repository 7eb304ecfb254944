"""What the launches of a SIMT machine share."""

from __future__ import annotations

from hlo.gpu.simt.access import Space
from hlo.gpu.simt.layout import GLOBAL_BASE
from hlo.gpu.simt.memory import Heap, large_memory
from hlo.gpu.simt.races import Cells
from hlo.gpu.simt.report import SimtReport


class Machine:
    """The memory of the device, who has accessed it, and what launches did.

    has_checks, limit: as of `SimtDevice`. next_stamp: the first stamp of the next launch.
    """

    def __init__(self, *, has_checks: bool, limit: int) -> None:
        self.has_checks, self.limit = has_checks, limit
        self.heap = Heap(large_memory(has_map=has_checks))
        self.space = Space("global", self.heap.memory, GLOBAL_BASE, self.heap.memory.size)
        self.cells, self.next_stamp = Cells(), 1
        self.report = SimtReport()
