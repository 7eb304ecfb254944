"""What programs call outside of their code, for each device of an executable."""

from __future__ import annotations

from typing import NoReturn

from hlo.compiler.pipeline import on_host
from hlo.host import Host
from hlo.host.exchange import Exchange
from hlo.pjrt.calls import functions
from hlo.runtime.executable import Executable as NativeExecutable


class Devices:
    """The tables of external functions of the devices that run a program together.

    They live as long as the executable: a device runs its programs one after the other, so that
    the members of a collective come to it in the same order, run for run.
    """

    def __init__(self, native: NativeExecutable, counts: tuple[int, int]) -> None:
        """counts: of replicas and of partitions."""
        self._native, self._counts = native, counts
        self._tables = []
        count = counts[0] * counts[1]
        if not native.uses_host:
            return
        exchange = Exchange(range(count)) if count > 1 else None
        for number in range(count):
            host = Host(custom_calls=functions())
            host.begin(number, counts, exchange)
            table = on_host(native, host).host_table()
            table.begin()
            self._tables.append(table)

    @property
    def addresses(self) -> list[int]:
        """The addresses of the tables; none where the program calls nothing outside."""
        return [t.address for t in self._tables]

    def fail(self, device: int, status: int) -> NoReturn:
        """Raise the error of a run on a device that has ended with a status."""
        self._native.fail(status, self._tables[device] if self._tables else None)
