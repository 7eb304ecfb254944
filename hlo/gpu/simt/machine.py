"""What the launches of a SIMT machine share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hlo.gpu.simt.access import Space
from hlo.gpu.simt.layout import GLOBAL_BASE
from hlo.gpu.simt.memory import Heap, large_memory
from hlo.gpu.simt.races import Cells
from hlo.gpu.simt.report import SimtReport

# The numbers of so many blocks, in the order in which they run.
BlockOrder = Callable[[int], np.ndarray]


class Machine:
    """The memory of the device, who has accessed it, and what launches did.

    has_checks, limit, order: as of `SimtDevice`. next_stamp: the first stamp of the next launch.
    """

    def __init__(self, *, has_checks: bool, limit: int, order: BlockOrder | None) -> None:
        self.has_checks, self.limit, self.order = has_checks, limit, order
        self.heap = Heap(large_memory(has_map=has_checks))
        self.space = Space("global", self.heap.memory, GLOBAL_BASE, self.heap.memory.size)
        self.cells, self.next_stamp = Cells(), 1
        self.report = SimtReport()
