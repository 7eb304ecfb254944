"""The ranks of a run, and what they settle among each other outside of the program itself."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import stat
import sys
import termios
import threading
import time
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from math import prod
from typing import Any

from hlo.errors import HloError
from hlo.mpi.board import Board
from hlo.mpi.communicators import Communicators
from hlo.mpi.exchange import MpiExchange
from hlo.mpi.library import launched_ranks, library
from hlo.mpi.transport import MpiTransport
from hlo.mpi.watch import Watch

# A larger number than that of any device.
_NO_DEVICE = 1 << 61
# How long the launcher may take to read what a rank has written.
_READING_S = 3.0


def _show(error: HloError) -> None:
    print(error, file=sys.stderr, flush=True)


def _wait_until_read() -> None:
    """Wait until the launcher has read what is in the pipes of our output.

    MPI_Abort has it end us at once, and what it has not read by then is lost.
    """
    until = time.monotonic() + _READING_S
    unread = array("i", [0])
    for stream in (sys.stdout, sys.stderr):
        try:
            number = stream.fileno()
            while stat.S_ISFIFO(os.fstat(number).st_mode) and time.monotonic() < until:
                fcntl.ioctl(number, termios.FIONREAD, unread)
                if not unread[0]:
                    break
                time.sleep(0.005)
        except (AttributeError, OSError, ValueError):
            continue  # closed, or no file: there is nothing to lose


class World:
    """The ranks of an MPI run, each with equally many devices, one after the other.

    All methods but `fail` and `abandon` are called by all ranks, in the same order.

    Attributes:
        rank, size: of this process, and how many there are.
        communicators: which rank has which devices, and how groups of them communicate.
    """

    def __init__(
        self, devices_per_process: int = 1, *, patience_s: float = 60.0,
        show: Callable[[HloError], None] = _show,
    ) -> None:  # fmt: skip
        """Begin MPI, if nobody has, and the watch over all ranks.

        patience_s: after how many seconds a rank that says nothing is lost. show: shows the error
        that ends all ranks, by default on standard error. Raises HloError.
        """
        self._show = show
        started = threading.Event()
        threading.Thread(target=self._need_start, args=(started, patience_s), daemon=True).start()
        self._began = "mpi4py.MPI" not in sys.modules
        mpi = library(several_threads=devices_per_process > 1)
        self.communicators = Communicators(mpi, devices_per_process)
        self.rank, self.size = self.communicators.rank, self.communicators.size
        self._mpi, self._comm = mpi, self.communicators.comm
        self._board = Board(self.devices)
        self._watch = Watch(self.rank, self._board, patience_s, self._end)
        address = self._watch.listen(self.size) if self.rank == 0 else None
        here = mpi.Get_processor_name()
        address, there = self._comm.bcast((address, here))
        assert address is not None
        with self.settled():
            self._watch.connect(address, same_machine=here == there)
        started.set()
        atexit.register(self._leave)

    def _need_start(self, started: threading.Event, patience_s: float) -> None:
        """End this process, and the others with it, unless all begin in time: the watch does not
        run yet."""
        size, rank = launched_ranks()
        # The first rank says it, unless it is the one that is lost.
        if not started.wait(patience_s + min(rank, 1) * 2 + rank * 0.5):
            try:
                self._show(HloError.at(
                    "lost-rank", f"not all of {size} ranks have started within {patience_s:g} s",
                    hint="--rank-timeout of hlo-run sets another limit",
                ))  # fmt: skip
                _wait_until_read()
            finally:  # whoever reads our output may be gone
                os._exit(1)

    def close(self) -> None:
        """End the run of all ranks, and MPI if it was begun here; this is done at exit as well."""
        atexit.unregister(self._leave)
        self._watch.say_done()
        if self._began:
            self._mpi.Finalize()
        self._watch.close()

    def _leave(self) -> None:
        """End with the process: well, unless an exception ends it, of which the others know
        nothing."""
        if hasattr(sys, "last_value"):
            self._mpi.COMM_WORLD.Abort(1)
        self.close()

    def abandon(self) -> None:
        """Have this process end without waiting for the others, which end with it."""
        atexit.unregister(self._leave)
        # What `python -m mpi4py` does for an exception that nobody catches.
        self._mpi._set_abort_status(1)

    # --- errors ---------------------------------------------------------------------------------

    def fail(self, error: HloError, device: int = _NO_DEVICE) -> None:
        """End all ranks, with one error; never returns.

        device: the one that has failed: the error of the first is shown.
        """
        self._watch.fail(error, device)

    def _end(self, error: HloError) -> None:
        self._show(error)
        _wait_until_read()
        if not self._mpi.Is_finalized():
            self._mpi.COMM_WORLD.Abort(1)
        os._exit(1)

    @contextlib.contextmanager
    def settled(self, **facts: object) -> Iterator[None]:
        """Do something on all ranks that may fail on some: then it fails on all, with one error.

        facts: what has to be the same on all ranks, by what it is called. Raises HloError.
        """
        failed: HloError | None = None
        try:
            yield
        except HloError as e:
            failed = e
        self._settle(failed, facts)

    def need_same(self, **facts: object) -> None:
        """Raise HloError on all ranks unless something is the same on all of them.

        facts: by what it is called.
        """
        self._settle(None, facts)

    def _settle(self, failed: HloError | None, facts: Mapping[str, object]) -> None:
        mine = failed.diagnostics if failed is not None else None, facts
        found = self._comm.allgather(mine)
        errors = {rank: e for rank, (e, _) in enumerate(found) if e is not None}
        if errors:
            rank = min(errors)
            texts = {tuple(d.message for d in e) for e in errors.values()}
            whose = "" if len(errors) == self.size and len(texts) == 1 else f"rank {rank}: "
            raise HloError([replace(d, message=whose + d.message) for d in errors[rank]])
        first = found[0][1]
        for rank, (_, theirs) in enumerate(found):
            different = [name for name in first if first[name] != theirs.get(name)]
            if different:
                raise HloError.at(
                    "mismatched-programs", f"ranks 0 and {rank} do not run the same: they differ "
                    f"in {', '.join(name.replace('_', ' ') for name in different)}",
                    hint="every rank needs the same module, the same flags and the same version",
                )  # fmt: skip

    # --- devices --------------------------------------------------------------------------------

    @property
    def devices(self) -> range:
        """The numbers of the devices of this rank."""
        return self.communicators.devices

    @property
    def device_count(self) -> int:
        """How many devices all ranks have."""
        return self.communicators.device_count

    def need_counts(self, counts: tuple[int, int]) -> None:
        """Raise HloError unless the ranks have as many devices as replicas times partitions."""
        count = prod(counts)
        each = self.communicators.devices_per_process
        if count == self.size * each:
            return
        fitting = count // self.size if count % self.size == 0 else 0
        raise HloError.at(
            "bad-device", f"the module runs on {count} device{'s' if count > 1 else ''} "
            f"({counts[0]} replicas, {counts[1]} partitions), {self.size} ranks of "
            f"{each} have {self.size * each}",
            hint=f"--devices-per-process {fitting}" if fitting else
            "replica_count and num_partitions of the module say how many; --num-replicas and "
            "--num-partitions of hlo-run change them",
        )  # fmt: skip

    def exchange(self) -> MpiExchange:
        """Return what connects the devices of this rank with all others in a run."""
        return MpiExchange(self.communicators, self._board, lambda: self._native, self.fail)

    @cached_property
    def _native(self) -> MpiTransport:
        return MpiTransport(self.communicators, self._board)

    def everywhere(self, value: Any) -> list[Any]:
        """Return the values of all ranks."""
        found: list[Any] = self._comm.allgather(value)
        return found

    def from_first(self, value: Any) -> Any:
        """Return the value of rank 0."""
        return self._comm.bcast(value)

    def gathered(self, value: Any) -> list[Any] | None:
        """Return the values of all ranks at rank 0, None at the others."""
        found: list[Any] | None = self._comm.gather(value)
        return found
