"""The rendezvous and connections of one run whose devices are in several processes.

The devices of a process meet as in a run of one process; the last one to arrive speaks for them
with the other processes.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hlo.errors import HloError, InferError
from hlo.host.exchange import Exchange, kind_of, named_op, need_alike
from hlo.mpi.board import Board
from hlo.mpi.communicators import Communicators
from hlo.mpi.transport import MpiTransport
from hlo.ops.collective.device_groups import Line
from hlo.ops.spec import OpView

Arrived = Mapping[int, tuple[OpView, Sequence[Any]]]


class MpiExchange(Exchange):
    """Communication of the devices of this rank, with each other and those of other ranks.

    board: where it says who waits. native: makes what collectives of native code go through. fail:
    ends all ranks with the error of a device.
    """

    def __init__(
        self, ranks: Communicators, board: Board, native: Callable[[], MpiTransport],
        fail: Callable[[HloError, int], None],
    ) -> None:  # fmt: skip
        super().__init__(ranks.devices, ranks.device_count)
        self._ranks, self._board, self._native, self._fail = ranks, board, native, fail
        self._board.begin()
        # What has come for a connection, in order; one thread at a time asks MPI for more.
        self._come: defaultdict[Line, deque[Any]] = defaultdict(deque)
        self._asking = threading.Lock()
        self._requests: list[Any] = []

    def transport(self, make: Callable[[int], Any]) -> MpiTransport:
        with self._lock:
            return self._native()

    def end(self, device: int) -> None:
        self._board.end(device)
        super().end(device)

    def failed(self, device: int, error: BaseException) -> None:
        if not isinstance(error, HloError):
            error = HloError.at("rank-failed", f"device {device}: {type(error).__name__}: {error}")
        self._fail(error, device)

    def meet(
        self, op: OpView, devices: tuple[int, ...], place: int, args: Sequence[Any],
        define: Callable[[Sequence[Sequence[Any]]], list[Any]],
    ) -> Any:  # fmt: skip
        device = devices[place]
        where = f"group {','.join(map(str, devices))}"
        self._board.come(device, where)
        self._board.wait(device, where, named_op(op), devices)
        found = super().meet(op, devices, place, args, define)
        self._board.leave(device)
        return found

    def _results(
        self, devices: tuple[int, ...], arrived: Arrived,
        define: Callable[[Sequence[Sequence[Any]]], list[Any]],
    ) -> list[Any]:  # fmt: skip
        if len(arrived) == len(devices):
            return super()._results(devices, arrived, define)
        mine = {d: (kind_of(op), op.channel_id, args) for d, (op, args) in arrived.items()}
        everyone: dict[int, Any] = {}
        for theirs in self._ranks.group(devices).allgather(mine):
            everyone |= theirs
        members = [everyone[d] for d in devices]
        need_alike(devices, [kind for kind, _, _ in members])
        return define([args for _, _, args in members])

    # --- connections ----------------------------------------------------------------------------

    def send(self, line: Line, value: Any) -> None:
        self._board.come(line.source, _place(line))
        to = self._ranks.rank_of(line.target)
        if to == self._ranks.rank:
            super().send(line, value)
            return
        self.need_going()
        self._requests = [r for r in self._requests if not r.Test()]
        self._requests.append(self._ranks.lines.isend((tuple(line), value), to, _TAG))

    def receive(self, op: OpView, line: Line) -> Any:
        self._board.come(line.target, _place(line))
        self._board.wait(line.target, _place(line), named_op(op), (line.source, line.target))
        if self._ranks.rank_of(line.source) == self._ranks.rank:
            value = super().receive(op, line)
        else:
            value = self._received(line)
        self._board.leave(line.target)
        return value

    def _received(self, line: Line) -> Any:
        """Return the next value on a connection from another rank.

        Whoever waits takes in what comes for the others as well.
        """
        comm, queue = self._ranks.lines, self._come[line]
        while True:
            with self._asking:
                if queue:
                    return queue.popleft()
                self.need_going()
                message = comm.improbe(tag=_TAG)
                if message is not None:
                    to, value = message.recv()
                    self._come[Line(*to)].append(value)

    def send_on(self, channel: int, device: int, value: Any) -> None:
        raise _unnamed(channel)

    def receive_on(self, op: OpView, channel: int, device: int) -> Any:
        raise _unnamed(channel)


_TAG = 1


def _place(line: Line) -> str:
    return f"channel {line.channel} from {line.source} to {line.target}"


def _unnamed(channel: int) -> InferError:
    return InferError(
        f"channel {channel} names no devices, and the run is on several ranks",
        code="unsupported",
        hint="_xla_send_recv_source_target_pairs, a frontend attribute, says who sends to whom",
    )
