"""Communication of the devices of one run: collectives, and point-to-point connections.

Each device runs in a thread of its own. It arrives at a rendezvous with its operands and waits for
the other members; the last to arrive computes the results of all. Collectives of native code go
through a transport of its own. Deadlocks are detected: whenever a device begins to wait, or ends,
devices that can never continue get an error; who waits in native code is looked at from time to
time.
"""

from __future__ import annotations

import contextvars
import ctypes
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from hlo.errors import HloError, InferError
from hlo.ops.collective.device_groups import Line
from hlo.ops.spec import OpView


class _Stopped(Exception):
    """Ends the run of a device because another one has failed."""


@dataclass
class _Meeting:
    """The rendezvous of one collective: the operands of each member, and then its result."""

    devices: tuple[int, ...]
    # Members of this process that have not arrived.
    missing: set[int]
    arrived: dict[int, tuple[OpView, Sequence[Any]]] = field(default_factory=dict)
    results: list[Any] | None = None
    error: InferError | None = None

    def arrive(self, device: int, op: OpView, args: Sequence[Any]) -> None:
        self.arrived[device] = op, args
        self.missing.discard(device)

    def result(self, place: int) -> Any:
        """Return the result of a member. Raises the exception that all of them get instead."""
        if self.error is not None:
            e = self.error
            raise InferError(e.message, operand=e.operand, attr=e.attr, code=e.code, hint=e.hint)
        assert self.results is not None
        return self.results[place]


class _Wait(NamedTuple):
    """A device that waits in an operation, which is named, and the devices it waits for."""

    where: str
    # Members of a rendezvous share one set object.
    missing: Callable[[], set[int]]
    # Whether any one of the missing devices suffices.
    one_is_enough: bool = False


def _that_may_end(waits: Mapping[int, _Wait], going: set[int]) -> list[int]:
    """Return the waiting devices whose missing members may be among those that can continue."""
    # By identity of the set, so that each is scanned once; kept alive so that ids stay unique.
    known: dict[tuple[int, bool], tuple[set[int], bool]] = {}
    found = []
    for device, wait in waits.items():
        missing = wait.missing()
        key = id(missing), wait.one_is_enough
        if key not in known:
            some = bool(missing) and wait.one_is_enough
            known[key] = missing, bool(missing & going) if some else missing <= going
        if known[key][1]:
            found.append(device)
    return found


class Exchange:
    """The rendezvous and connections of one run; thread-safe.

    devices: those that run here. count: how many there are, if others run elsewhere.
    """

    def __init__(self, devices: range, count: int | None = None) -> None:
        self.devices = devices
        self.count = len(devices) if count is None else count
        self._lock = threading.Condition()
        self._waits: dict[int, _Wait] = {}
        self._ended: set[int] = set()
        self._meetings: dict[tuple[int | None, tuple[int, ...]], _Meeting] = {}
        self._sent: dict[Line, deque[Any]] = {}
        # Of channels between two programs: values sent, the sender and the receiver.
        self._channels: dict[int, deque[Any]] = {}
        self._ends: dict[tuple[int, str], int] = {}
        self._stopped = False
        # Polled by native code.
        self._stop_word = ctypes.c_int64(0)
        self.stop_at = ctypes.addressof(self._stop_word)
        # Why the run was stopped, once it was.
        self._deadlock = ""
        # Of collectives of native code.
        self._transport: Any = None

    def transport(self, make: Callable[[int], Any]) -> Any:
        """Return what collectives of native code go through, made by the first that asks for it.

        make: takes the number of devices. Its `waits()` are the devices that wait there, each with
        where and for which others; None where that is changing.
        """
        with self._lock:
            if self._transport is None:
                self._transport = make(len(self.devices))
            return self._transport

    def meet(
        self, op: OpView, devices: tuple[int, ...], place: int, args: Sequence[Any],
        define: Callable[[Sequence[Sequence[Any]]], list[Any]],
    ) -> Any:  # fmt: skip
        """Return the result of one member of a collective when all members have arrived.

        devices: the members in group order. place: position of the caller among them. define:
        computes the members' results from their operands. Members are matched in the order of their
        arrival, separately for each channel. Raises InferError if they do not match, and if one of
        them can never arrive.
        """
        key = op.channel_id, devices
        with self._lock:
            self.need_going()
            meeting = self._meetings.get(key)
            if meeting is None:
                here = set(devices).intersection(self.devices)
                meeting = self._meetings[key] = _Meeting(devices, here)
            meeting.arrive(devices[place], op, args)
            if meeting.missing:
                wait = _Wait(named_op(op), lambda: meeting.missing)
                self._wait(devices[place], wait, lambda: bool(meeting.results or meeting.error))
                return meeting.result(place)
            del self._meetings[key]
            for device in meeting.arrived:
                self._waits.pop(device, None)
        try:
            meeting.results = self._results(devices, meeting.arrived, define)
        except InferError as e:
            meeting.error = e
        with self._lock:
            self._lock.notify_all()
        return meeting.result(place)

    def _results(
        self, devices: tuple[int, ...], arrived: Mapping[int, tuple[OpView, Sequence[Any]]],
        define: Callable[[Sequence[Sequence[Any]]], list[Any]],
    ) -> list[Any]:  # fmt: skip
        """Return the results of all members of a collective; those of this process have arrived.

        Raises InferError.
        """
        members = [arrived[device] for device in devices]
        need_alike(devices, [kind_of(op) for op, _ in members])
        return define([args for _, args in members])

    def send(self, line: Line, value: Any) -> None:
        """Send a value to the device at the end of a connection, without waiting."""
        with self._lock:
            self.need_going()
            self._sent.setdefault(line, deque()).append(value)
            self._lock.notify_all()

    def receive(self, op: OpView, line: Line) -> Any:
        """Return the next value sent on a connection. Raises InferError if none can arrive."""
        with self._lock:
            self.need_going()
            queue = self._sent.setdefault(line, deque())
            # The sender does not know of waiting receivers: take a value that has arrived already.
            wait = _Wait(named_op(op), lambda: set() if queue else {line.source})
            self._wait(line.target, wait, lambda: bool(queue))
            del self._waits[line.target]
            return queue.popleft()

    def send_on(self, channel: int, device: int, value: Any) -> None:
        """Send a value to the one device that receives on a channel.

        Raises InferError if another device sends on it.
        """
        with self._lock:
            self.need_going()
            self._claim(channel, "send", device)
            self._channels.setdefault(channel, deque()).append(value)
            self._lock.notify_all()

    def receive_on(self, op: OpView, channel: int, device: int) -> Any:
        """Return the next value that the one sender of a channel has sent.

        Raises InferError if none can arrive, or another device receives on it.
        """
        with self._lock:
            self.need_going()
            self._claim(channel, "receive", device)
            queue = self._channels.setdefault(channel, deque())
            others = set(self.devices) - {device}
            wait = _Wait(named_op(op), lambda: set() if queue else others, one_is_enough=True)
            self._wait(device, wait, lambda: bool(queue))
            del self._waits[device]
            return queue.popleft()

    def _claim(self, channel: int, end: str, device: int) -> None:
        other = self._ends.setdefault((channel, end), device)
        if other != device:
            raise InferError(
                f"devices {min(device, other)} and {max(device, other)} both {end} on channel "
                f"{channel}", code="bad-channel",
                hint="_xla_send_recv_source_target_pairs, a frontend attribute, says who sends to "
                "whom",
            )  # fmt: skip

    def end(self, device: int) -> None:
        """Record that a device has finished its program."""
        with self._lock:
            self._ended.add(device)
            self._look()

    def stop(self) -> None:
        """Stop the run: devices that wait, or start to wait, raise an exception."""
        with self._lock:
            self._stopped = True
            self._stop_word.value = 1
            self._lock.notify_all()

    def failed(self, device: int, error: BaseException) -> None:
        """Hear of the error that has ended the program of a device."""

    # --- waiting, under the lock ------------------------------------------------------------------

    def _wait(self, device: int, wait: _Wait, is_over: Callable[[], bool]) -> None:
        self._waits[device] = wait
        self._look()
        while not is_over():
            self.need_going()
            self._lock.wait()

    def need_going(self) -> None:
        """Raise the exception that ends a device's run, if it is stopped or cannot continue."""
        if self._deadlock:
            raise InferError(
                self._deadlock, code="deadlock",
                hint="every member of a collective has to come to it, in one order: loops and "
                "branches around collectives go the same way on all devices",
            )  # fmt: skip
        if self._stopped:
            raise _Stopped

    def look(self) -> None:
        """Find deadlocked devices, those that wait in native code included."""
        with self._lock:
            waits = None if self._transport is None else self._transport.waits()
            if waits:
                named = {d: _Wait(at, partial(set, who)) for d, (at, who) in waits.items()}
                self._look(named)

    def _look(self, others: Mapping[int, _Wait] = {}) -> None:
        """Find deadlocked devices, and notify all of them. others: those in native code."""
        stuck = {**self._waits, **others}
        going = set(self.devices) - self._ended - set(stuck)
        while found := _that_may_end(stuck, going):
            going.update(found)
            for device in found:
                del stuck[device]
        if stuck and not self._deadlock:
            self._deadlock = "deadlock: " + "; ".join(
                f"device {d} in {wait.where} for {_devices(wait.missing())}"
                for d, wait in sorted(stuck.items())
            )
            missing = set[int]().union(*(wait.missing() for wait in stuck.values()))
            if missing & self._ended:
                self._deadlock += f"; {_devices(missing & self._ended)} came to the end"
            self._stop_word.value = 1
            self._lock.notify_all()


def named_op(op: OpView) -> str:
    """Return an operation as errors about waiting devices name it."""
    channel = op.channel_id
    return f"{op.name} ({op.opcode}" + (")" if channel is None else f", channel {channel})")


def _devices(numbers: set[int]) -> str:
    word = "device " if len(numbers) == 1 else "devices "
    return word + ", ".join(map(str, sorted(numbers)))


# The attributes that have to be equal for all members of a collective.
_ALIKE = ("dimensions", "source_target_pairs", "slice_sizes", "has_dynamic_root")


class Kind(NamedTuple):
    """What has to be equal for all members of a collective, and what errors call it."""

    what: tuple[str, ...]
    named: str


def kind_of(op: OpView) -> Kind:
    """Return what the other members of a collective have to agree with."""
    shapes = ", ".join(s.to_string(False) for s in op.operand_shapes)
    attrs = (str(op.attrs.get(key)) for key in _ALIKE)
    return Kind((op.opcode.removesuffix("-start"), shapes, *attrs), f"{named_op(op)} of {shapes}")


def need_alike(devices: Sequence[int], kinds: Sequence[Kind]) -> None:
    """Raise InferError unless operations of several devices form one collective."""
    first = kinds[0]
    for device, kind in zip(devices, kinds, strict=True):
        if kind.what != first.what:
            raise InferError(
                f"devices {devices[0]} and {device} meet in different collectives: "
                f"{first.named}, {kind.named}", code="mismatched-collectives",
            )  # fmt: skip


# How often waits in native code are looked at.
_LOOK_SECONDS = 0.02

# --- running ------------------------------------------------------------------------------------


def run_devices(
    exchange: Exchange, devices: Sequence[int], runs: Sequence[Callable[[], Any]]
) -> list[Any]:
    """Call one function for each device, in threads; returns their results in order.

    devices: their numbers. When one raises, the others are stopped at their next wait. Raises the
    exception of the first device that failed by itself; an HloError names the device.
    """
    results: list[Any] = [None] * len(runs)
    errors: dict[int, BaseException] = {}

    def work(place: int) -> None:
        try:
            results[place] = runs[place]()
            exchange.end(devices[place])
        except _Stopped:
            pass
        except BaseException as e:
            errors[devices[place]] = _of_device(devices[place], e)
            exchange.stop()
            exchange.failed(devices[place], errors[devices[place]])

    threads = [
        # Threads inherit the caller's context, such as numpy's error state.
        threading.Thread(target=contextvars.copy_context().run, args=(work, n), daemon=True)
        for n in range(len(runs))
    ]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            while thread.is_alive():
                thread.join(_LOOK_SECONDS)
                exchange.look()
    except BaseException:  # Ctrl-C
        exchange.stop()
        raise
    if errors:
        raise errors[min(errors)]
    return results


def _of_device(device: int, error: BaseException) -> BaseException:
    if not isinstance(error, HloError):
        return error
    # A message about all devices, or the same for all, needs no device number.
    return HloError(
        [
            d if d.code in _OF_ALL else replace(d, message=f"device {device}: {d.message}")
            for d in error.diagnostics
        ]
    )


_OF_ALL = ("deadlock", "mismatched-collectives", "timeout")
