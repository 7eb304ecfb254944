"""The time of single kernels, in a program that measures them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hlo.codegen.entry.commands import Command, KernelCall
from hlo.codegen.entry.instrumentation import Instrumentation
from hlo.codegen.entry.state import EntryState
from hlo.codegen.llvm import Val
from hlo.runtime.ticks import ticks_ir

_TICKS, _SUMS = "hlo.tune.ticks", "hlo.tune.sums"
# So many instructions are timed at the most, those that come first.
_MOST = 4096


class KernelTimes(Instrumentation):
    """Adds up the ticks of all calls of a kernel, by the name of its instruction."""

    def __init__(self, triple: str) -> None:
        self.ir = f"""{ticks_ir(triple)}
define i64 @"{_TICKS}"() nounwind {{
  %now = call i64 @ticks()
  ret i64 %now
}}
"""
        self._sums = np.zeros(_MOST, np.int64)
        self._places: dict[str, int] = {}
        self._start: Val | None = None

    @property
    def called(self) -> Mapping[str, int]:
        return {_SUMS: self._sums.ctypes.data}

    def begin(self, entry: EntryState) -> None:
        entry.module.define(_SUMS, "external global i64")
        entry.module.declare(_TICKS, "i64", [], "nounwind")

    def before(self, entry: EntryState, command: Command) -> None:
        self._start = self._ticks(entry) if self._place(command) is not None else None

    def after(self, entry: EntryState, command: Command) -> None:
        place = self._place(command)
        if place is None or self._start is None:
            return
        took = entry.b.binary("sub", self._ticks(entry), self._start)
        at = entry.b.element_address(f"@{_SUMS}", "i64", place)
        entry.b.store(entry.b.binary("add", entry.b.load("i64", at), took), at)

    def taken(self) -> dict[str, int]:
        """Return the ticks since this was called last, by instruction."""
        found = {name: int(self._sums[place]) for name, place in self._places.items()}
        self._sums[:] = 0
        return found

    def _place(self, command: Command) -> int | None:
        if not isinstance(command, KernelCall):
            return None
        if command.inst.name not in self._places and len(self._places) == _MOST:
            return None
        return self._places.setdefault(command.inst.name, len(self._places))

    def _ticks(self, entry: EntryState) -> Val:
        return entry.b.call(_TICKS, [], "i64")
