"""How fast one device computes: a roofline."""

from __future__ import annotations

from dataclasses import dataclass

from hlo.analysis.cost import Cost
from hlo.support.quantities import quantity_text


@dataclass(frozen=True)
class Machine:
    """The peaks of a device.

    flops: operations per second. memory_bandwidth: bytes per second between memory and processor.
    overhead: seconds to start one kernel. jitter: the standard deviation of the time of a
    computation, as a part of it.
    """

    flops: float = 100e12
    memory_bandwidth: float = 2e12
    overhead: float = 0.0
    jitter: float = 0.0

    def seconds(self, cost: Cost) -> float:
        """Return how long one kernel takes: arithmetic or memory, whichever takes longer.

        What costs neither operations nor bytes is no kernel.
        """
        work = cost.operations + cost.transcendentals
        if not work and not cost.bytes:
            return 0.0
        return self.overhead + max(work / self.flops, cost.bytes / self.memory_bandwidth)

    def __str__(self) -> str:
        parts = [
            quantity_text(self.flops, "FLOP/s"),
            f"memory {quantity_text(self.memory_bandwidth, 'B/s')}",
        ]
        if self.overhead:
            parts.append(f"{quantity_text(self.overhead, 's')} to start a kernel")
        if self.jitter:
            parts.append(f"jitter {self.jitter:.3g}")
        return ", ".join(parts)
