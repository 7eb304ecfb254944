"""Which rank has which devices, and the communicators of groups of them."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Sequence
from typing import Any

# Tags of MPI are at least 15 bits.
_TAGS = 1 << 15
# Libraries have some 2000 for each process. Beyond this many, purposes share those of a group.
_MOST_COMMUNICATORS = 1000


class Communicators:
    """The ranks of a run, each with equally many devices, and how groups of them communicate.

    Attributes:
        MPI: mpi4py's.
        rank, size: of this process, and how many there are.
        devices: the numbers of the devices of this rank.
        comm, lines: communicators of all ranks, for collectives and for messages between two.
    """

    def __init__(self, mpi: Any, devices_per_process: int) -> None:
        self.MPI = mpi
        # Our own, so that messages of others in this process are not ours.
        self.comm = mpi.COMM_WORLD.Dup()
        self.lines = self.comm.Dup()
        self.rank: int = self.comm.rank
        self.size: int = self.comm.size
        self.devices_per_process = devices_per_process
        first = self.rank * devices_per_process
        self.devices = range(first, first + devices_per_process)
        self._groups: dict[tuple[object, ...], Any] = {}
        self._lock = threading.Lock()

    @property
    def device_count(self) -> int:
        """How many devices all ranks have."""
        return self.size * self.devices_per_process

    def rank_of(self, device: int) -> int:
        """Return the rank that has a device."""
        return device // self.devices_per_process

    def group(self, devices: Sequence[int], *purpose: object) -> Any:
        """Return the communicator of the ranks of some devices, made when it is first needed.

        All these ranks call this. They are in the order in which their first devices come. Each
        group of devices has a communicator of its own for each purpose, so that what does not
        belong together never meets.
        """
        key = (tuple(devices), *purpose)
        with self._lock:
            if len(self._groups) >= _MOST_COMMUNICATORS:
                key = key[:1]
            if key in self._groups:
                return self._groups[key]
        ranks = dict.fromkeys(self.rank_of(d) for d in devices)
        members = self.comm.group.Incl(list(ranks))
        comm = self.comm.Create_group(members, zlib.crc32(repr(key).encode()) % _TAGS)
        members.Free()
        with self._lock:
            self._groups[key] = comm
        return comm
