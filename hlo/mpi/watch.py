"""The watch over all ranks: who fails, who is gone, who can never continue.

It has connections of its own (TCP), not MPI's: a rank that waits in MPI cannot also listen there
unless every call of MPI takes locks, which doubles the time of small ones; and a connection closes
when a process dies. Rank 0 listens, every rank reports to it what its devices do; it decides.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from hlo.errors import Diagnostic, HloError
from hlo.mpi.board import Board, deadlock, named

# How often a rank reports, and how long rank 0 collects failures before it shows the first.
_BEAT_S = 0.5
_COLLECT_S = 0.3
# How long the process may take to be ended by MPI_Abort before it ends itself.
_GRACE_S = 5.0
# How long others let rank 0 show an error: the launcher ends it as soon as one of them ends.
_SHOWING_S = 15.0
# A connection says who it is within this time.
_HELLO_S = 30.0

# What every rank needs to find the one that listens: addresses, port and a shared secret.
Address = tuple[list[str], int, str]


class _Line:
    """A connection that carries JSON objects, a line each."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""
        self._lock = threading.Lock()

    def send(self, message: dict[str, Any]) -> None:
        """Send a message; what cannot be sent any more is found by who reads."""
        data = json.dumps(message).encode() + b"\n"
        with self._lock:
            try:
                self.socket.sendall(data)
            except OSError:
                return

    def receive(self) -> Iterator[dict[str, Any] | None]:
        """Return what has arrived, without waiting for more; None at the end."""
        try:
            data = self.socket.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            yield None
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            yield json.loads(line)


class Watch:
    """One rank's part of the watch, and for rank 0 that of all ranks.

    board: what the devices of this rank do. patience_s: after how long a rank that says nothing is
    lost. end: shows an error, if this rank has to, and ends all ranks; it is called once, in a
    thread of its own.
    """

    def __init__(
        self, rank: int, board: Board, patience_s: float, end: Callable[[HloError], None]
    ) -> None:
        self._rank, self._board = rank, board
        self._patience_s, self._end = patience_s, end
        self._line: _Line | None = None
        self._is_over = threading.Event()
        self._is_leaving = threading.Event()
        # Set by rank 0 once all ranks are gone.
        self._all_are_gone = threading.Event()
        self._ending = threading.Lock()
        self._hub: _Hub | None = None

    def listen(self, size: int) -> Address:
        """Begin to listen, as rank 0; returns where."""
        self._hub = _Hub(size, self._patience_s, self._once)
        return self._hub.address

    def connect(self, address: Address, same_machine: bool) -> None:
        """Connect to rank 0, and begin to report. Raises HloError."""
        hosts, port, secret = address
        failed: OSError | None = None
        for host in ["127.0.0.1"] if same_machine else hosts:
            try:
                connection = socket.create_connection((host, port), self._patience_s)
                break
            except OSError as e:
                failed = e
        else:
            raise HloError.at(
                "mpi-failed", f"rank {self._rank} cannot connect to rank 0 at "
                f"{', '.join(hosts)}, port {port}: {failed}",
            )  # fmt: skip
        connection.settimeout(None)
        self._line = _Line(connection)
        hello = {"secret": secret, "rank": self._rank, "pid": os.getpid(),
                 "host": socket.gethostname()}  # fmt: skip
        self._line.send(hello)
        threading.Thread(target=self._report, name="hlo-watch", daemon=True).start()

    def fail(self, error: HloError, device: int) -> None:
        """Report an error that ends all ranks, and wait for the end; never returns.

        device: the one that failed, or a larger number than any: the error of the lowest is shown.
        """
        assert self._line is not None
        self._line.send({"failed": _packed(error), "device": device})
        time.sleep(_SHOWING_S + self._rank)
        self._once(error)
        time.sleep(_GRACE_S)
        os._exit(1)

    def say_done(self) -> None:
        """Tell the others that the devices of this rank come to nothing any more."""
        assert self._line is not None
        self._line.send({"done": True})

    def close(self) -> None:
        """End the watch, when all ranks do."""
        assert self._line is not None
        self._is_leaving.set()
        self._line.send({"gone": True})
        self._all_are_gone.wait()
        self._is_over.set()

    def _once(self, error: HloError) -> None:
        if not self._ending.acquire(blocking=False) or self._is_over.is_set():
            return
        threading.Thread(target=self._last_resort, daemon=True).start()
        self._end(error)

    def _last_resort(self) -> None:
        """End the process where MPI_Abort does not."""
        time.sleep(_GRACE_S)
        os._exit(1)

    def _report(self) -> None:
        """Tell rank 0 what goes on here, and hear from it."""
        assert self._line is not None
        heard, line = time.monotonic(), self._line
        with selectors.DefaultSelector() as selector:
            selector.register(line.socket, selectors.EVENT_READ)
            while not self._is_over.is_set():
                line.send({"status": self._board.status()})
                if selector.select(_BEAT_S):
                    for message in line.receive():
                        if message is None:
                            if self._is_leaving.is_set():
                                # Nothing is wanted of rank 0 any more.
                                self._all_are_gone.set()
                            else:
                                self._lost("ended without a word")
                            return
                        if "end" in message:
                            # Rank 0 shows the error, and ends us.
                            time.sleep(_SHOWING_S)
                            os._exit(1)
                        if "over" in message:
                            self._all_are_gone.set()
                            return
                    heard = time.monotonic()
                if time.monotonic() - heard > self._patience_s:
                    self._lost(f"has not answered for {self._patience_s:g} s")
                    return

    def _lost(self, why: str) -> None:
        if self._is_over.is_set():
            return
        # One of us will do: the first ends the others.
        time.sleep(0.5 * self._rank)
        self._once(_lost_rank(0, why, [], self._board.status()["devices"]))


class _Rank:
    """What rank 0 knows of a rank."""

    def __init__(self, line: _Line, where: str) -> None:
        self.line, self.where = line, where
        self.heard = time.monotonic()
        self.status: dict[str, Any] | None = None
        self.is_done = self.is_gone = False


class _Hub:
    """What rank 0 does for all: collects reports, and finds out when all have to end."""

    def __init__(self, size: int, patience_s: float, end: Callable[[HloError], None]) -> None:
        self._size, self._patience_s, self._end = size, patience_s, end
        self._secret = secrets.token_hex(16)
        self._server = socket.create_server(("", 0), backlog=size)
        self._ranks: dict[int, _Rank] = {}
        self._strangers: dict[_Line, float] = {}
        self._failures: list[tuple[int, HloError]] = []
        self._failed_at = 0.0
        # The status in which a deadlock was seen before.
        self._seen: dict[int, tuple[int, int]] = {}
        self._seen_at = 0.0
        threading.Thread(target=self._serve, name="hlo-watch-all", daemon=True).start()

    @property
    def address(self) -> Address:
        name = socket.gethostname()
        try:
            found = {str(info[4][0]) for info in socket.getaddrinfo(name, None, socket.AF_INET)}
        except OSError:
            found = set()
        # What the name of this machine means here may be its loopback.
        others = sorted(a for a in found if not a.startswith("127."))
        return [*others, name], self._server.getsockname()[1], self._secret

    def _serve(self) -> None:
        beat = 0.0
        with selectors.DefaultSelector() as selector, self._server:
            selector.register(self._server, selectors.EVENT_READ, None)
            while not (
                len(self._ranks) == self._size
                and all(rank.is_gone for rank in self._ranks.values())
            ):
                for key, _ in selector.select(_BEAT_S / 5):
                    if key.data is None:
                        connection, _ = self._server.accept()
                        line = _Line(connection)
                        self._strangers[line] = time.monotonic()
                        selector.register(connection, selectors.EVENT_READ, line)
                    else:
                        for message in key.data.receive():
                            if not self._take(key.data, message):
                                selector.unregister(key.data.socket)
                                key.data.socket.close()
                                break
                now = time.monotonic()
                if now - beat > _BEAT_S:
                    beat = now
                    for rank in self._ranks.values():
                        rank.line.send({"beat": True})
                    self._look(now)
                if self._failures and now - self._failed_at >= _COLLECT_S:
                    self._finish()
                    return
            # Rank 0 last: this thread ends with its process.
            for number in sorted(self._ranks, reverse=True):
                self._ranks[number].line.send({"over": True})

    def _take(self, line: _Line, message: dict[str, Any] | None) -> bool:
        """Take a message in; returns whether the connection stays."""
        if line in self._strangers:
            del self._strangers[line]
            if message is None or not hmac.compare_digest(str(message.get("secret")), self._secret):
                return False
            where = f"process {message['pid']} on {message['host']}"
            self._ranks[message["rank"]] = _Rank(line, where)
            return True
        number = next(n for n, r in self._ranks.items() if r.line is line)
        rank = self._ranks[number]
        rank.heard = time.monotonic()
        if message is None:
            self._fail(self._lost(number, "ended without a word"), 1 << 62)
            # The launcher is about to end us as well.
            self._failed_at -= _COLLECT_S
            return False
        rank.is_done |= "done" in message
        rank.is_gone |= "gone" in message
        if "failed" in message:
            self._fail(_unpacked(message["failed"]), message["device"])
        if "status" in message:
            rank.status = message["status"]
        return True

    def _fail(self, error: HloError, device: int) -> None:
        if not self._failures:
            self._failed_at = time.monotonic()
        self._failures.append((device, error))

    def _finish(self) -> None:
        """End all ranks with the error of the first device."""
        error = min(self._failures, key=lambda f: f[0])[1]
        for number, rank in self._ranks.items():
            if number:
                rank.line.send({"end": True})
        self._end(error)

    def _devices(self) -> dict[int, dict[str, Any]]:
        """Return what all devices do, by their numbers; nothing unless all are in one run."""
        ranks = [r for r in self._ranks.values() if r.status is not None]
        if len(ranks) < self._size:
            return {}
        if len({r.status["run"] for r in ranks if r.status and not r.is_done}) > 1:
            return {}
        found = {}
        for rank in ranks:
            assert rank.status is not None
            for device, status in rank.status["devices"].items():
                # What is done is in none of the runs of others.
                gone = {**status, "ended": True, "met": {}, "place": None}
                found[int(device)] = gone if rank.is_done else status
        return found

    def _look(self, now: float) -> None:
        """Find ranks that are lost, and devices that can never continue."""
        for line, since in list(self._strangers.items()):
            if now - since > _HELLO_S:
                del self._strangers[line]
                line.socket.close()
        for number, rank in self._ranks.items():
            if now - rank.heard > self._patience_s and not self._failures:
                why = f"has not answered for {self._patience_s:g} s"
                self._fail(self._lost(number, why), 1 << 62)
                return
        devices = self._devices()
        text = deadlock(devices)
        steps = {d: (s["steps"], int(s["ended"])) for d, s in devices.items()} if text else {}
        if steps != self._seen:
            self._seen, self._seen_at = steps, now
        elif text and now - self._seen_at > 2 * _BEAT_S and not self._failures:
            # Every rank has reported twice that nothing has changed: it was all true at one time.
            hint = (
                "every member of a collective has to come to it, in one order: loops and branches "
                "around collectives go the same way on all devices"
            )
            self._fail(HloError.at("deadlock", text, hint=hint), -1)

    def _lost(self, number: int, why: str) -> HloError:
        own = self._ranks[number].status
        mine = [int(d) for d in own["devices"]] if own is not None else []
        devices: dict[Any, dict[str, Any]] = {}
        for rank in self._ranks.values():
            if rank.status is not None:
                devices |= {int(d): s for d, s in rank.status["devices"].items()}
        return _lost_rank(number, f"({self._ranks[number].where}) {why}", mine, devices)


def _lost_rank(rank: int, why: str, own: list[int], devices: dict[Any, dict[str, Any]]) -> HloError:
    """Return the error of a rank that is gone, with who waits for its devices."""
    text = f"rank {rank} {why}"
    waits = [
        f"device {d} waits in {s['what']}" for d, s in sorted(devices.items())
        if s["place"] is not None and d not in own and (not own or set(own) & set(s["members"]))
    ]  # fmt: skip
    if own and waits:
        text += f"; for {named(set(own))}, "
        text += "; ".join(waits)
    elif waits:
        text += "; " + "; ".join(waits)
    return HloError.at("lost-rank", text)


def _packed(error: HloError) -> list[dict[str, Any]]:
    """Return an error as JSON has it. Places in files are part of the message."""
    return [{"code": d.code, "message": _located(d), "hint": d.hint} for d in error.diagnostics]


def _located(diagnostic: Diagnostic) -> str:
    span = diagnostic.span
    if span is None:
        return diagnostic.message
    line, column = span.source.line_column(span.start)
    return f"{span.source.name}:{line}:{column}: {diagnostic.message}"


def _unpacked(items: list[dict[str, Any]]) -> HloError:
    return HloError([Diagnostic(i["code"], i["message"], None, i["hint"]) for i in items])
