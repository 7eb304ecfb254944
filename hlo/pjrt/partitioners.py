"""PJRT's extension for custom partitioning: custom calls that say how they can be cut."""

from __future__ import annotations

from typing import Any

from hlo.pjrt.entries import bytes_at, entry

# Targets whose leading dimensions are a batch: each device computes its own part of it.
BATCH_PARTITIONABLE: set[str] = set()


@entry("Register_Batch_Partitionable")
def _register_batch_partitionable(args: Any) -> None:
    BATCH_PARTITIONABLE.add(bytes_at(args.name, args.name_size).decode(errors="replace"))


# For each target the address of its callbacks, a `JAX_CustomCallPartitioner_Callbacks`.
CALLBACKS: dict[str, int] = {}


@entry("Register_Custom_Partitioner")
def _register_custom_partitioner(args: Any) -> None:
    CALLBACKS[bytes_at(args.name, args.name_size).decode(errors="replace")] = args.callbacks
