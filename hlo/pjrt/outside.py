"""What programs call outside of their code, for each device of an executable."""

from __future__ import annotations

import threading
import traceback
from typing import TYPE_CHECKING, NoReturn

from hlo.compiler.pipeline import on_host
from hlo.errors import HloError
from hlo.pjrt.calls import functions
from hlo.pjrt.entries import PjrtError, code_of
from hlo.runtime.executable import Executable as NativeExecutable
from hlo.runtime.outside import HostTable
from hlo.runtime.watch import Ended

if TYPE_CHECKING:
    from hlo.host import Host
    from hlo.host.exchange import Exchange


class Devices:
    """The tables of external functions of the devices that run a program together.

    They live as long as the executable: a device runs its programs one after the other, so that
    the members of a collective come to it in the same order, run for run. After a failure they do
    not, and have to be renewed.
    """

    def __init__(self, native: NativeExecutable, counts: tuple[int, int]) -> None:
        """counts: of replicas and of partitions."""
        self._native, self._counts = native, counts
        self._lock = threading.Lock()
        # The first error of the devices since they were renewed.
        self._first: PjrtError | None = None
        self._exchange: Exchange | None = None
        self._hosts: list[Host] = []
        # Most programs call nothing outside, and need not wait for what does.
        if native.uses_host:
            self._make_hosts(counts[0] * counts[1])
        self._tables = [on_host(native, host).host_table() for host in self._hosts]
        self._begin_tables()

    def _make_hosts(self, count: int) -> None:
        from hlo.host import Host
        from hlo.host.exchange import Exchange

        self._exchange = Exchange(range(count)) if count > 1 else None
        calls = {**functions(), **self._native.custom_calls}
        self._hosts = [Host(custom_calls=calls) for _ in range(count)]
        self._begin_hosts()

    def _begin_hosts(self) -> None:
        for number, host in enumerate(self._hosts):
            host.begin(number, self._counts, self._exchange)

    def _begin_tables(self) -> None:
        for table in self._tables:
            table.begin()

    @property
    def addresses(self) -> list[int]:
        """The addresses of the tables; none where the program calls nothing outside."""
        return [t.address for t in self._tables]

    @property
    def stop_at(self) -> int:
        """The address of the word that stops devices that meet each other, 0 where none do."""
        return self._exchange.stop_at if self._exchange is not None else 0

    def renew(self) -> int:
        """Have the devices, none of which runs, meet again; returns `stop_at`."""
        assert self._exchange is not None
        self._exchange = type(self._exchange)(self._exchange.devices)
        self._first = None
        self._begin_hosts()
        self._begin_tables()
        return self.stop_at

    def fail(self, device: int, status: int) -> NoReturn:
        """Raise the error of a run on a device that has ended with a status."""
        table = self._tables[device] if self._tables else None
        error = self._error(status, table)
        with self._lock:
            # Not what is raised: its traceback has the frames of a run in the caller's thread, and
            # these have the executable.
            self._first = self._first or PjrtError(error.code.name, error.message)
        if table is not None:
            # The others are stopped now.
            table.leave()
        raise error

    def _error(self, status: int, table: HostTable | None) -> PjrtError:
        """Return the error of a run."""
        if status == Ended.STOPPED:
            first = self._first
            assert first is not None
            return PjrtError(first.code.name, f"another device failed: {first.message}")
        try:
            self._native.fail(status, table)
        except HloError as e:
            return _error_of(e)
        except Exception as e:
            return PjrtError("INTERNAL", _said(e))


def _error_of(e: HloError) -> PjrtError:
    """Return the error of a run: of a Python function with its traceback, as XLA:CPU says it."""
    if isinstance(e.__cause__, Exception):
        return PjrtError("INTERNAL", f"{_said(e.__cause__)}\n{e}")
    return PjrtError(code_of(e, "INTERNAL"), str(e))


def _said(e: Exception) -> str:
    text = "".join(traceback.format_exception(e)).rstrip()
    return f"CpuCallback error calling callback: {text}"
