"""Traces of runs: what each instruction computed, in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hlo.analysis.source_location import SourceLocation, source_location
from hlo.debug.trace.leaves import leaves
from hlo.debug.trace.probes import Probe, with_probes
from hlo.debug.trace.record import Frame, Trace, TracedValue
from hlo.debug.trace.running import need_backend, optimized, run_probed
from hlo.debug.trace.selection import EVERYTHING, Selection
from hlo.debug.trace.statistics import merged, statistics_of
from hlo.host import Host
from hlo.ir import Instruction, Module
from hlo.support.memory import check_available
from hlo.values.types import array, element_type_of

# Of an instruction that runs more often than twice this, neighbouring executions are one record.
RECORDS = 64


@dataclass
class _Series:
    """The records of one result: each of `width` executions, but for the last."""

    width: int = 1
    records: list[tuple[int, TracedValue]] = field(default_factory=list)

    def add(self, number: int, value: TracedValue) -> None:
        """Add an execution, with its number among all of the run."""
        records = self.records
        if records and records[-1][1].executions < self.width:
            records[-1] = _joined(records[-1], (number, value))
            return
        if len(records) == 2 * RECORDS:
            pairs = zip(records[::2], records[1::2], strict=True)
            self.records = records = [_joined(a, b) for a, b in pairs]
            self.width *= 2
        records.append((number, value))


def _joined(a: tuple[int, TracedValue], b: tuple[int, TracedValue]) -> tuple[int, TracedValue]:
    first, last = a[1], b[1]
    together = replace(
        first, statistics=merged([first.statistics, last.statistics]),
        executions=first.executions + last.executions, last_frames=last.last_frames or last.frames,
    )  # fmt: skip
    return a[0], together


@dataclass
class Recorder:
    """Collects the values of a run, in bounded memory unless arrays are asked for."""

    selection: Selection
    arrays: bool
    _locations: dict[Instruction, SourceLocation] = field(default_factory=dict)
    _series: dict[tuple[Any, ...], _Series] = field(default_factory=dict)
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
            self._series.setdefault(key, _Series()).add(self._count, traced)
            self._count += 1

    def trace(self, name: str) -> Trace:
        """Return what was recorded, in the order of execution."""
        found = [record for series in self._series.values() for record in series.records]
        values = [value for _, value in sorted(found, key=lambda record: record[0])]
        joined = sum(series.width > 1 for series in self._series.values())
        notes = []
        if joined:
            notes.append(
                f"{joined} results of instructions that ran more than {2 * RECORDS} times: "
                "neighbouring executions are put together; iteration=N:M selects single ones"
            )
        return Trace(name, values, notes)


def trace_values(
    module: Module, values: Sequence[Sequence[Any]], *, backend: str = "compiled",
    passes: str = "default", select: Selection = EVERYTHING, arrays: bool = False,
    host: Host | None = None, threads: int | None = None, verify: str = "strict",
) -> Trace:  # fmt: skip
    """Return the trace of a run.

    values: checked arguments, for each device. Else as `hlo.trace`. Raises HloError.
    """
    need_backend(backend)
    run = optimized(module, passes if backend == "compiled" else "", verify)
    recorder = Recorder(select, arrays)
    probed = with_probes(run, lambda inst: (inst,) if select.takes(inst) else ())
    run_probed(probed, values, recorder.take, backend=backend, host=host, threads=threads)
    return recorder.trace(module.name)
