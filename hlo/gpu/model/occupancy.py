"""How many blocks of a kernel a multiprocessor holds at a time."""

from __future__ import annotations

from dataclasses import dataclass

from hlo.gpu.model.devices import GpuModel

_WARP = 32
# Registers are given to warps, shared memory to blocks, in multiples of these.
_REGISTER_UNIT, _SHARED_UNIT = 256, 128
# What the system keeps of each block's shared memory, from compute capability 8 on.
_RESERVED_SHARED = 1024


@dataclass(frozen=True)
class Residents:
    """What a block takes: its threads, registers of each thread, bytes of shared memory."""

    threads: int
    registers: int
    shared_bytes: int = 0


@dataclass(frozen=True)
class Occupancy:
    """blocks: of a multiprocessor at a time. limit: what there is too little of for more of them.

    share: of the threads that a multiprocessor has room for.
    """

    blocks: int
    limit: str
    share: float


def occupancy(block: Residents, device: GpuModel) -> Occupancy:
    """Return how many blocks a multiprocessor holds; none if not even one fits."""
    warps = -(-block.threads // _WARP)
    threads = warps * _WARP
    of_warp = -(-max(1, block.registers) * _WARP // _REGISTER_UNIT) * _REGISTER_UNIT
    shared = block.shared_bytes + _RESERVED_SHARED
    shared = -(-shared // _SHARED_UNIT) * _SHARED_UNIT
    limits = {
        "threads": device.threads // threads,
        "blocks": device.blocks,
        "registers": device.registers // of_warp // warps,
        "shared memory": device.shared_bytes // shared,
    }
    limit = min(limits, key=limits.__getitem__)
    blocks = limits[limit]
    return Occupancy(blocks, limit, blocks * threads / device.threads)
