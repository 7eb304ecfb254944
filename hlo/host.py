"""The world outside a module: device numbers, queues, random state, custom-call targets."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Host:
    """What a run may see besides its arguments. A fresh one is a single device with empty queues.

    custom_calls: target name -> `f(op, args) -> value`.
    infeed: values in the order they will be read; outfeed: values in the order they were written.
    channels: values sent and not yet received, by channel id.
    rng_state: the 128-bit counter of `rng-get-and-update-state`, which `rng` draws from too.
    """

    custom_calls: dict[str, Callable[..., Any]] = field(default_factory=dict)
    infeed: deque[Any] = field(default_factory=deque)
    outfeed: list[Any] = field(default_factory=list)
    channels: dict[int, deque[Any]] = field(default_factory=dict)
    rng_state: int = 0x7012395  # where XLA:CPU starts
    replica_id: int = 0
    partition_id: int = 0
