"""Who says how a custom call is partitioned, where that is not known here.

This file imports nothing: programs without such calls need not wait for what partitions them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hlo.ir import Instruction, Module
    from hlo.values.sharding import Sharding
    from hlo.values.types import ArrayShape

    Arrays = Sequence[tuple[ArrayShape, Sharding]]


@dataclass(frozen=True)
class Partitioned:
    """What a device does for a call.

    module: takes shards of the operands and returns shards of the results. operands, results: how
    these are cut.
    """

    module: Module
    operands: Sequence[Sharding]
    results: Sequence[Sharding]


if TYPE_CHECKING:
    # Partitions a call, from the shapes and shardings of its operands and of its results.
    Partitioner = Callable[[Instruction, Arrays, Arrays], Partitioned]

PARTITIONERS: dict[str, Partitioner] = {}
"""By the target of custom calls; of this process."""
