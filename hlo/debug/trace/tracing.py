"""Traces of runs: what each instruction computed, in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hlo.analysis.source_location import SourceLocation, source_location
from hlo.debug.trace.leaves import leaves
from hlo.debug.trace.probes import Probe, with_probes
from hlo.debug.trace.record import Frame, Trace, TracedValue
from hlo.debug.trace.running import fresh_host, need_backend, optimized, run_probed
from hlo.debug.trace.selection import EVERYTHING, Selection
from hlo.debug.trace.series import Series, in_order, notes_of
from hlo.debug.trace.statistics import statistics_of
from hlo.debug.trace.stored import trace_stored
from hlo.debug.trace.unmatched import unmatched
from hlo.host import Host
from hlo.ir import Instruction, Module
from hlo.support.memory import check_available
from hlo.values.types import array, element_type_of


@dataclass
class Recorder:
    """Collects the values of a run, in bounded memory unless arrays are asked for."""

    selection: Selection
    arrays: bool
    _locations: dict[Instruction, SourceLocation] = field(default_factory=dict)
    _series: dict[tuple[Any, ...], Series] = field(default_factory=dict)
    _count: int = 0

    def take(self, device: int, probe: Probe, values: list[Any], frames: tuple[Frame, ...]) -> None:
        """Record the value that a probe hands over."""
        iteration = next((f.iteration for f in reversed(frames) if f.iteration is not None), None)
        if not self.selection.takes_iteration(iteration):
            return
        inst = probe.inst
        location = self._locations.get(inst)
        if location is None:
            location = self._locations[inst] = source_location(inst)
        comp = inst.parent.name if inst.parent is not None else ""
        for leaf, value in leaves(values[0]):
            shape = array(element_type_of(value.dtype), value.shape).to_string(False)
            kept = None
            if self.arrays:
                check_available("a trace with arrays", {"arrays": value.nbytes})
                kept = value.copy()
            traced = TracedValue(
                comp, inst.name, inst.opcode, shape, leaf, frames, statistics_of(value), kept,
                location, device,
            )  # fmt: skip
            # What has an array of its own is not put together with others.
            key = (device, probe, leaf, self._count if self.arrays else None)
            self._series.setdefault(key, Series()).add(self._count, traced)
            self._count += 1

    def trace(self, name: str) -> Trace:
        """Return what was recorded, in the order of execution."""
        series = self._series.values()
        return Trace(name, in_order(series), notes_of(series))


def trace_values(
    module: Module, values: Sequence[Sequence[Any]], *, backend: str = "compiled",
    passes: str = "default", select: Selection = EVERYTHING, arrays: bool = False,
    host: Host | None = None, threads: int | None = None, verify: str = "strict",
) -> Trace:  # fmt: skip
    """Return the trace of a run.

    Of native code it is of what that stores, taken by the code itself; where instructions are
    selected, or arrays wanted, each of these is stored, and handed over by a call.

    values: checked arguments, for each device. Else as `hlo.trace`. Raises HloError.
    """
    need_backend(backend)
    run = optimized(module, passes if backend == "compiled" else "", verify)
    dynamic = any(inst.shape.is_dynamic for inst in run.instructions())
    if backend == "compiled" and not (
        arrays or dynamic or select.selects_instructions or len(values) > 1
    ):
        return trace_stored(run, values[0], select, fresh_host(host), threads)
    recorder = Recorder(select, arrays)
    probed = with_probes(run, lambda inst: (inst,) if select.takes(inst) else ())
    run_probed(probed, values, recorder.take, backend=backend, host=host, threads=threads)
    trace = recorder.trace(module.name)
    trace.notes += unmatched(trace, select, module, run)
    return trace
