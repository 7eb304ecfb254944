"""In which iterations the loops of an entry function are, counted by native code."""

from __future__ import annotations

import numpy as np

from hlo.codegen.entry.state import EntryState
from hlo.codegen.llvm import i64

# An entry function runs one iteration of each loop around at a time: a word for each depth.
LOOPS_IR = """
@hlo_trace_active = external global i64

define void @hlo_trace_loop(i64 %level) {
  %at = getelementptr i64, ptr @hlo_trace_active, i64 %level
  store i64 -1, ptr %at
  ret void
}

define void @hlo_trace_iteration(i64 %level) {
  %at = getelementptr i64, ptr @hlo_trace_active, i64 %level
  %before = load i64, ptr %at
  %now = add i64 %before, 1
  store i64 %now, ptr %at
  ret void
}
"""


class LoopCounters:
    """The counters: `active[n]` is the iteration of the loop that n others are around."""

    def __init__(self) -> None:
        self.active = np.zeros(1, np.int64)

    def reserve(self, depth: int) -> dict[str, int]:
        """Return the symbols of counters for loops that are nested so deep."""
        self.active = np.zeros(max(1, depth), np.int64)
        return {"hlo_trace_active": self.active.ctypes.data}

    def begin(self, entry: EntryState, level: int) -> None:
        """Write what precedes a loop."""
        self._call(entry, "hlo_trace_loop", level)

    def iterate(self, entry: EntryState, level: int) -> None:
        """Write what precedes an iteration."""
        self._call(entry, "hlo_trace_iteration", level)

    def _call(self, entry: EntryState, name: str, level: int) -> None:
        entry.module.declare(name, "void", ["i64"])
        entry.b.call_void(name, [i64(level)])
