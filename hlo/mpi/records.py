"""The records of `hlo/include/hlo_collectives.h`, as ctypes has them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

_POINTER, _I32, _I64 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64


class CollectiveKind(IntEnum):
    """`HLO_ALL_GATHER`, ..."""

    ALL_GATHER = 1
    ALL_REDUCE = 2
    REDUCE_SCATTER = 3
    ALL_TO_ALL = 4
    COLLECTIVE_PERMUTE = 5
    COLLECTIVE_BROADCAST = 6
    COLLECTIVE_REDUCE = 7
    RAGGED_ALL_TO_ALL = 8


class Reduction(IntEnum):
    """`HLO_REDUCE_SUM`, ..."""

    OTHER = 0
    SUM = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    AND = 5
    OR = 6
    XOR = 7


class _Shape(ctypes.Structure):
    """`hlo_ffi_shape`"""

    _fields_ = (("type", _I32), ("rank", _I32), ("dims", _POINTER), ("minor_to_major", _POINTER))


class CollectiveArray(ctypes.Structure):
    """`hlo_collective_array`"""

    _fields_ = (
        ("shape", _Shape), ("element_bytes", _I64), ("count", _I64), ("rows", _I64),
        ("columns", _I64), ("part", _I64), ("reduction", _I32), ("reserved", _I32),
        ("reduce", _POINTER),
    )  # fmt: skip


class CollectiveRecord(ctypes.Structure):
    """`hlo_collective`"""

    _fields_ = (
        ("size", _I64), ("name", ctypes.c_char_p), ("opcode", ctypes.c_char_p),
        ("signature", ctypes.c_char_p), ("kind", _I32), ("number", _I32), ("channel_id", _I64),
        ("num_replicas", _I32), ("num_partitions", _I32), ("num_groups", _I64),
        ("group_ends", _POINTER), ("devices", _POINTER), ("sources", _POINTER),
        ("has_parts", _I32), ("has_dynamic_root", _I32), ("num_operands", _I64),
        ("operands", _POINTER), ("num_results", _I64), ("results", _POINTER),
        ("combine", _POINTER), ("errors", _POINTER),
    )  # fmt: skip

    def arrays(self) -> tuple[Sequence[CollectiveArray], Sequence[CollectiveArray]]:
        """Return the operands and the results."""
        return (
            _items(CollectiveArray, self.operands, self.num_operands),
            _items(CollectiveArray, self.results, self.num_results),
        )

    def group(self, device: int) -> tuple[int, ...]:
        """Return the devices of a device's group, in group order; empty if it is in none."""
        ends = _items(_I64, self.group_ends, self.num_groups)
        devices = _items(_I64, self.devices, ends[-1].value if ends else 0)
        begin = 0
        for end in ends:
            members = tuple(d.value for d in devices[begin : end.value])
            if device in members:
                return members
            begin = end.value
        return ()

    def senders(self, count: int) -> list[int]:
        """Return the place that each of `count` places of a permutation gets from, or -1."""
        return [n.value for n in _items(_I64, self.sources, count)]


def _items(kind: Any, address: int | None, count: int) -> list[Any]:
    """Return the elements of an array in memory."""
    if not count:
        return []
    step = ctypes.sizeof(kind)
    return [kind.from_address((address or 0) + n * step) for n in range(count)]


class CollectiveCall(ctypes.Structure):
    """`hlo_collective_call`"""

    _fields_ = (
        ("size", _I64), ("context", _POINTER), ("op", _POINTER), ("operands", _POINTER),
        ("results", _POINTER), ("request", _POINTER), ("message", _POINTER),
        ("message_size", _I64), ("device", _I64),
    )  # fmt: skip

    def record(self) -> CollectiveRecord:
        """Return the description of the operation that is called."""
        return CollectiveRecord.from_address(self.op)

    def addresses(self, op: CollectiveRecord) -> tuple[list[int], list[int]]:
        """Return the addresses of the operands and of the results."""
        return tuple(  # type: ignore[return-value]
            list((ctypes.c_size_t * n).from_address(at)) if n else []
            for at, n in ((self.operands, op.num_operands), (self.results, op.num_results))
        )


class Collectives(ctypes.Structure):
    """`hlo_collectives`"""

    _fields_ = (
        ("size", _I64), ("context", _POINTER), ("run", _POINTER), ("start", _POINTER),
        ("wait", _POINTER),
    )  # fmt: skip
