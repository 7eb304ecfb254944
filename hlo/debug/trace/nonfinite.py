"""Probes of native code that look for a NaN or an infinity by themselves.

They write down where the first ones were, or call Python where there is one: a run without is about
as fast as without probes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from hlo.codegen.entry.commands import Command, HostCall
from hlo.codegen.entry.host import leaf_addresses
from hlo.codegen.entry.instrumentation import Instrumentation
from hlo.codegen.entry.state import EntryState
from hlo.codegen.llvm import TRUE, Val, i64, ptr
from hlo.debug.trace.loop_counters import LOOPS_IR, LoopCounters
from hlo.debug.trace.nonfinite_ir import bit_test, function_name, nonfinite_ir
from hlo.debug.trace.probes import TARGET, LoopMark, Probe, Probed, frames_of
from hlo.debug.trace.record import Frame
from hlo.values.layout.plain import is_plain
from hlo.values.types import ArrayShape, ElementType, complex_part

# Writes down that a probe met a NaN or an infinity: the first time with the number of that among
# all probes, and the iterations of the loops around.
_NOTE_IR = """
@hlo_trace_met = external global i64
@hlo_trace_count = external global i64
@hlo_trace_iterations = external global i64
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define void @hlo_trace_meet(i64 %probe, i1 %bad) {{
  br i1 %bad, label %look, label %done
look:
  %at = getelementptr i64, ptr @hlo_trace_met, i64 %probe
  %before = load i64, ptr %at
  %new = icmp eq i64 %before, 0
  br i1 %new, label %note, label %done
note:
  %count = atomicrmw add ptr @hlo_trace_count, i64 1 monotonic
  %number = add i64 %count, 1
  store i64 %number, ptr %at
  %first = mul i64 %probe, {depth}
  %to = getelementptr i64, ptr @hlo_trace_iterations, i64 %first
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr @hlo_trace_active, i64 {bytes}, i1 false)
  br label %done
done:
  ret void
}}
"""


class NonfiniteProbes(Instrumentation):
    """Writes, in place of the calls of probes, code that looks at the first value of each.

    calls: the call is made where that has a NaN or an infinity; else it is written down, for
    `first_met`. devices: how many run the code; the iterations of loops are counted for one alone,
    several call for that.
    """

    def __init__(self, probed: Probed, *, calls: bool, devices: int) -> None:
        self._marks = probed.calls
        self._calls = calls
        self._counts = devices == 1
        levels = (m.loop.level + 1 for m in probed.calls if isinstance(m, LoopMark))
        self._depth = max(1, *levels, 0)
        self._loops = LoopCounters()
        self._types: dict[str, ElementType] = {}
        self._met = np.zeros(max(1, len(probed.calls)), np.int64)
        self._count = np.zeros(1, np.int64)
        self._iterations = np.zeros((len(self._met), self._depth), np.int64)
        self._symbols = self._loops.reserve(self._depth)

    @property
    def iterations(self) -> np.ndarray | None:
        """The iterations of the loops that run, by their level; None if they are not counted."""
        return self._loops.active if self._counts else None

    @property
    def ir(self) -> str:  # type: ignore[override]
        note = _NOTE_IR.format(depth=self._depth, bytes=8 * self._depth)
        return LOOPS_IR + note + nonfinite_ir(list(self._types.values()))

    @property
    def called(self) -> Mapping[str, int]:
        return {
            "hlo_trace_met": self._met.ctypes.data,
            "hlo_trace_count": self._count.ctypes.data,
            "hlo_trace_iterations": self._iterations.ctypes.data,
            **self._symbols,
        }

    def first_met(self) -> list[tuple[Probe, tuple[Frame, ...]]]:
        """Return the probes that met a NaN or an infinity, the earliest first, and where."""
        found = []
        for number in sorted(np.flatnonzero(self._met), key=lambda n: int(self._met[n])):
            probe = self._marks[number]
            assert isinstance(probe, Probe)
            found.append((probe, frames_of(probe, self._iterations[number])))
        return found

    # --- code -----------------------------------------------------------------------------------

    def command(self, entry: EntryState, command: Command, emit: Callable[[], None]) -> None:
        inst = command.inst
        if not isinstance(command, HostCall) or inst.opcode != "custom-call" or (
            inst.custom_call_target != TARGET
        ):  # fmt: skip
            emit()
            return
        number = int(inst.operands[0].literal.array)
        what = self._marks[number]
        if isinstance(what, Probe):
            self._look(entry, command, number, emit)
        elif self._counts:
            write = self._loops.begin if what.begins else self._loops.iterate
            write(entry, what.loop.level)
        elif self._calls:
            emit()

    def _look(
        self, entry: EntryState, command: HostCall, number: int, emit: Callable[[], None]
    ) -> None:
        b, bad = entry.b, self._is_bad(entry, command)
        if bad is None:
            return
        if not self._calls:
            entry.module.declare("hlo_trace_meet", "void", ["i64", "i1"])
            b.call_void("hlo_trace_meet", [i64(number), bad])
            return
        call, go = b.new_label("nonfinite"), b.new_label("finite")
        b.branch(bad, call, go)
        b.place(call)
        with b.scope():
            emit()
        b.jump(go)
        b.place(go)

    def _is_bad(self, entry: EntryState, command: HostCall) -> Val | None:
        """Write the test of the first value; returns its result, None if there is none."""
        value = command.inst.operands[1]
        shapes = [s for _, s in value.shape.leaves() if isinstance(s, ArrayShape)]
        found: Val | None = None
        for shape, address in zip(shapes, leaf_addresses(entry, value), strict=True):
            et = complex_part(shape.element_type)
            if not et.is_float or bit_test(et) is None:
                continue
            if not is_plain(shape):
                # Whether it is, is found where it is called.
                return TRUE
            name, count = function_name(et), shape.num_elements
            self._types[name] = et
            entry.module.declare(name, "i1", ["ptr", "i64", "ptr"])
            parts = count * (2 if shape.element_type.is_complex else 1)
            bad = entry.b.call(name, [ptr(address), i64(parts), ptr("%threads")], "i1")
            entry.spend(parts / 8)
            found = bad if found is None else entry.b.binary("or", found, bad)
        return found
