"""The collectives of native code over MPI: the table of functions that a program calls.

The first call of each instruction comes here, to Python, which prepares its steps (`plans.py`);
later ones stay in native code (`steps.py`). What has no steps is done here each time: groups with
several members on a rank, and operations whose sizes are known only when they run. For these all
operands are gathered, and the program's own definition, `combine`, computes the results here.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hlo.errors import HloError
from hlo.mpi.board import Board, NativeState
from hlo.mpi.communicators import Communicators
from hlo.mpi.plans import Planner, Prepared, zeros_only
from hlo.mpi.records import CollectiveCall, CollectiveRecord, Collectives
from hlo.mpi.steps import Context, Functions
from hlo.runtime.collectives import Collective

_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
_COMBINE = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
)


class _Absent(Exception):
    """A collective is for devices that the run does not have."""


class Table:
    """The functions of one device, for one program: an `hlo_collectives`."""

    def __init__(
        self, transport: MpiTransport, device: int, collectives: Sequence[Collective]
    ) -> None:
        self.device, self.collectives, self._transport = device, collectives, transport
        self._plans = (ctypes.c_int64 * max(1, len(collectives)))()
        self._prepared: dict[int, Prepared] = {}
        # For the watch: where a call waits, what it is called, who takes part.
        self._described: dict[int, tuple[str, str, tuple[int, ...]]] = {}
        self._keep = [_FUNCTION(f) for f in (self._run, self._start, self._wait)]
        python = [ctypes.cast(f, ctypes.c_void_p).value or 0 for f in self._keep]
        self._context = Context((ctypes.c_int64 * 3)(*python), 0, 0, ctypes.addressof(self._plans))
        native = transport.functions.table
        self._native = {name: _FUNCTION(address) for name, address in native.items()}
        self._record = Collectives(
            ctypes.sizeof(Collectives), ctypes.addressof(self._context), native["run"],
            native["start"], native["wait"],
        )  # fmt: skip
        self.address = ctypes.addressof(self._record)
        self.error: BaseException | None = None

    # --- functions, called by native code -------------------------------------------------------

    def _run(self, address: int) -> int:
        return self._guarded("run", address)

    def _start(self, address: int) -> int:
        return self._guarded("start", address)

    def _wait(self, address: int) -> int:
        # What has no steps was done by its start.
        return 0

    def _guarded(self, name: str, address: int) -> int:
        try:
            call = CollectiveCall.from_address(address)
            op = call.record()
            known = self.collectives[op.number]
            prepared = self._transport.prepared(self.device, op, known, begins=name == "start")
            if prepared is None:
                self._transport.call(self.device, call, op, known)
                return 0
            self._prepared[op.number] = prepared
            self._described[op.number] = described(op, op.group(self.device))
            self._plans[op.number] = prepared.address
        except BaseException as e:
            self.error = e
            return 1
        status: int = self._native[name](address)
        return status

    # --- the watch ------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin to count calls, for a new run."""
        for prepared in self._prepared.values():
            prepared.plan.calls = 0

    def state(self) -> NativeState:
        """Return what the device does in native code."""
        met: dict[str, int] = {}
        # Others add while this is read.
        for number, prepared in list(self._prepared.items()):
            place = self._described[number][0]
            met[place] = met.get(place, 0) + prepared.plan.calls
        found = self._described.get(self._context.current - 1)
        return NativeState(self._context.moves, met, found)


class MpiTransport:
    """The collectives of the native programs on the devices of this rank."""

    def __init__(self, ranks: Communicators, board: Board) -> None:
        self._ranks, self._board = ranks, board
        self.functions = Functions(ranks.MPI)
        self._tables: dict[int, list[Table]] = {}
        # By device: the table of the program that runs there.
        self._running: dict[int, Table] = {}
        self._meetings: dict[tuple[object, ...], _Meeting] = {}
        self._lock = threading.Condition()

    # --- what the runtime asks of a transport ---------------------------------------------------

    def table(self, device: int, collectives: Sequence[Collective]) -> int:
        """Return the address of the `hlo_collectives` of a program on a device."""
        tables = self._tables.setdefault(device, [])
        table = next((t for t in tables if t.collectives is collectives), None)
        if table is None:
            table = Table(self, device, collectives)
            tables.append(table)
        table.begin()
        self._running[device] = table
        self._board.watch(device, table.state)
        return table.address

    def fail(self, device: int, collective: Collective) -> None:
        """Raise the error of a call that has failed, unless that is for want of devices."""
        error, self._running[device].error = self._running[device].error, None
        if error is None:
            raise HloError.at("mpi-failed", f"{collective}: MPI reports an error")
        if not isinstance(error, _Absent):
            raise error

    def leave(self, device: int) -> None:
        """Hear that the program of a device ends early: that ends all ranks, and their memory."""

    # --- calls ----------------------------------------------------------------------------------

    def prepared(
        self, device: int, op: CollectiveRecord, known: Collective, *, begins: bool
    ) -> Prepared | None:
        """Return the steps of a collective of a device; None where it has none.

        Raises HloError, and _Absent.
        """
        devices = op.group(device)
        if not devices and known.groups:
            if known.is_partial:
                return zeros_only(op)
            raise HloError.at(
                "bad-replica-groups", f"{known.name}: {known.opcode}: device {device} is in no "
                "replica group",
            )  # fmt: skip
        if not devices or max(devices) >= self._ranks.device_count:
            raise _Absent
        ranks = {self._ranks.rank_of(d) for d in devices}
        if len(ranks) < len(devices) or len(devices) == 1:
            return None
        place, what, members = described(op, devices)
        # Making a communicator waits for the others too.
        first = f"first {place}"
        self._board.come(device, first)
        self._board.wait(device, first, what, members)
        comm = self._ranks.group(devices, op.channel_id, op.signature)
        self._board.leave(device)
        return Planner(self._ranks.MPI, self.functions, comm, begins=begins).plan(op)

    def call(
        self, device: int, call: CollectiveCall, op: CollectiveRecord, known: Collective
    ) -> None:
        """Do a collective that has no steps. Raises HloError."""
        devices = op.group(device)
        key = (devices, op.channel_id, op.signature)
        place, what, members = described(op, devices)
        self._board.come(device, place)
        self._board.wait(device, place, what, members)
        with self._lock:
            meeting = self._meetings.setdefault(key, _Meeting())
            meeting.calls[device] = call
            is_last = len(meeting.calls) == sum(d in self._ranks.devices for d in devices)
            if is_last:
                del self._meetings[key]
        if is_last:
            meeting.status = self._combined(devices, meeting.calls, op)
            with self._lock:
                meeting.is_over = True
                self._lock.notify_all()
        else:
            with self._lock:
                self._lock.wait_for(lambda: meeting.is_over)
        self._board.leave(device)
        if meeting.status:
            code, message = known.errors[meeting.status - 1]
            raise HloError.at(code, f"{known.name}: {known.opcode}: {message}")

    def _combined(
        self, devices: tuple[int, ...], calls: Mapping[int, CollectiveCall], op: CollectiveRecord
    ) -> int:
        """Compute the results of the members on this rank; returns the status of `combine`."""
        keep: list[Any] = []
        operands = self._gathered(devices, calls, op, keep)
        sizes = [a.count * a.element_bytes for a in op.arrays()[1]]
        members = []
        for device in devices:
            mine = calls.get(device)
            results = _scratch(sizes, keep) if mine is None else mine.addresses(op)[1]
            members.append(_member(operands[device], results, keep))
        table = (ctypes.c_void_p * len(members))(*map(ctypes.addressof, members))
        combine = _COMBINE(op.combine)
        n = len(devices)
        at = ctypes.addressof(op), ctypes.addressof(table)
        statuses = [combine(*at, n, place) for place in range(n)]
        return max(statuses)

    def _gathered(
        self, devices: tuple[int, ...], calls: Mapping[int, CollectiveCall], op: CollectiveRecord,
        keep: list[Any],
    ) -> dict[int, list[int]]:  # fmt: skip
        """Return the addresses of the operands of all members, by device."""
        found = {device: call.addresses(op)[0] for device, call in calls.items()}
        if len(found) == len(devices):
            return found
        sizes = [a.count * a.element_bytes for a in op.arrays()[0]]
        each, rank_of = sum(sizes), self._ranks.rank_of
        comm = self._ranks.group(devices, op.channel_id, op.signature)
        ranks = list(dict.fromkeys(map(rank_of, devices)))
        members = [[d for d in devices if rank_of(d) == rank] for rank in ranks]
        counts = [each * len(own) for own in members]
        memory = np.empty(max(1, sum(counts)), np.uint8)
        keep.append(memory)
        at = int(memory.ctypes.data)
        for device in (d for own in members for d in own):
            sources, targets = found.get(device), []
            for k, size in enumerate(sizes):
                if sources is not None:
                    ctypes.memmove(at, sources[k], size)
                targets.append(at)
                at += size
            found[device] = targets
        mpi = self._ranks.MPI
        comm.Allgatherv(mpi.IN_PLACE, [memory, counts, None, mpi.BYTE])
        return found


class _Meeting:
    """The calls of the members of a group on this rank."""

    def __init__(self) -> None:
        self.calls: dict[int, CollectiveCall] = {}
        self.status = 0
        self.is_over = False


def described(op: CollectiveRecord, devices: tuple[int, ...]) -> tuple[str, str, tuple[int, ...]]:
    """Return where a collective meets, what it is called, and its members, for the board."""
    name = f"{op.name.decode(errors='replace')} ({op.opcode.decode()}"
    what = f"{name}, channel {op.channel_id})" if op.channel_id else f"{name})"
    place = f"group {','.join(map(str, devices))}, channel {op.channel_id}, "
    return place + op.signature.decode(errors="replace"), what, devices


def _scratch(sizes: Sequence[int], keep: list[Any]) -> list[int]:
    """Return the addresses of memory for results that nobody wants."""
    found = [np.empty(max(1, size), np.uint8) for size in sizes]
    keep += found
    return [int(a.ctypes.data) for a in found]


def _member(operands: Sequence[int], results: Sequence[int], keep: list[Any]) -> CollectiveCall:
    tables = [(ctypes.c_size_t * max(1, len(t)))(*t) for t in (operands, results)]
    keep += tables
    call = CollectiveCall(ctypes.sizeof(CollectiveCall))
    call.operands, call.results = map(ctypes.addressof, tables)
    return call
