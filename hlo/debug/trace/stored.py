"""Traces of native code as it is: statistics of what its kernels store, taken inside the entry.

After each kernel a native function reads the result once and appends an event to a buffer; a full
buffer is handed to Python, which puts the executions of long loops together. What a kernel computes
on the way is not stored, and not seen.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from hlo.analysis.fusion.operations import is_multi_output, updated_operands
from hlo.analysis.source_location import source_location
from hlo.codegen.entry.commands import Block, Branches, Command, HostCall, KernelCall, Loop
from hlo.codegen.entry.commands import ComputeScalar as Scalar
from hlo.codegen.entry.instrumentation import Instrumentation
from hlo.codegen.entry.state import EntryState
from hlo.codegen.llvm import i64, ptr
from hlo.codegen.plan.liveness import array_leaves
from hlo.codegen.scalar import operations as scalar
from hlo.compiler.pipeline import compile_instrumented
from hlo.debug.trace.loop_counters import LoopCounters
from hlo.debug.trace.origin import Origins
from hlo.debug.trace.place_rows import PlaceRows
from hlo.debug.trace.record import Frame, Trace, TracedValue
from hlo.debug.trace.selection import Selection
from hlo.debug.trace.series import Series, in_order, notes_of
from hlo.debug.trace.statistics import Statistics
from hlo.debug.trace.statistics_ir import function_name, statistics_ir
from hlo.debug.trace.statistics_rows import ROW, values_of_keys
from hlo.host import Host
from hlo.ir import Instruction, Module
from hlo.values.layout.plain import is_plain
from hlo.values.types import ArrayShape, ElementType, complex_part

# Events that the buffer holds.
_EVENTS = 1 << 13

STORED_ONLY = "only values that native code stores are shown; selected ones also inside of kernels"
"""The note of a trace without a selection."""


@dataclass(frozen=True)
class _Place:
    """A stored value: an instruction, the leaf of its result, and the loops and branches around."""

    inst: Instruction
    leaf: tuple[int, ...]
    shape: ArrayShape
    callers: tuple[Instruction, ...]

    @property
    def parts(self) -> ElementType:
        """The element type, of a complex number that of its parts."""
        return complex_part(self.shape.element_type)


class Probes(Instrumentation):
    """Writes a call behind each kernel that takes the statistics of what it has stored."""

    def __init__(self) -> None:
        self.places: list[_Place] = []
        self.depth = 0
        self.skipped: Counter[str] = Counter()
        self._callers: list[Instruction] = []
        self._types: dict[str, ElementType] = {}
        self.state = np.zeros(2, np.int64)
        self.events = np.zeros(0, np.int64)
        self._loops = LoopCounters()
        # What empties the buffer when it is full.
        self.on_full: Callable[[], None] = lambda: None
        self._flush: Any = None

    @property
    def words(self) -> int:
        """The words of an event: its place, the row, and an iteration for each loop around."""
        return 1 + ROW + self.depth

    @property
    def ir(self) -> str:  # type: ignore[override]
        return statistics_ir(list(self._types.values()), self.depth)

    @property
    def called(self) -> Mapping[str, int]:
        self.events = np.zeros((_EVENTS + 1) * self.words, np.int64)
        self.state[:] = 0, _EVENTS * self.words
        self._flush = ctypes.CFUNCTYPE(None)(self.on_full)
        flush = ctypes.cast(self._flush, ctypes.c_void_p).value
        assert flush is not None
        return {
            "hlo_trace_state": self.state.ctypes.data,
            "hlo_trace_events": self.events.ctypes.data,
            "hlo_trace_flush": flush,
            **self._loops.reserve(self.depth),
        }

    # --- code -----------------------------------------------------------------------------------

    def begin(self, entry: EntryState) -> None:
        self.depth = _depth(entry.assignment.entry)

    def before(self, entry: EntryState, command: Command) -> None:
        if isinstance(command, Loop):
            self._loops.begin(entry, self._level)
            self._callers.append(command.inst)
        elif isinstance(command, Branches):
            self._callers.append(command.inst)

    def iteration(self, entry: EntryState, loop: Loop) -> None:
        self._callers.pop()
        self._loops.iterate(entry, self._level)
        self._callers.append(loop.inst)

    def after(self, entry: EntryState, command: Command) -> None:
        match command:
            case KernelCall():
                in_place = updated_operands(command.inst) if self._level else {}
                for (path, shape), number in zip(
                    array_leaves(command.inst), command.results, strict=True
                ):
                    if path in in_place:
                        # A slice of it is new in each iteration: reading all would be quadratic.
                        self.skipped["updated in place in loops"] += 1
                        continue
                    pointer = entry.pointers[command.buffers[number]]
                    self._take(entry, self._place(command.inst, path, shape), pointer)
            case HostCall():
                for path, buffer in command.results.items():
                    leaf = command.inst.shape.at(path)
                    assert isinstance(leaf, ArrayShape)
                    place = self._place(command.inst, path, leaf)
                    self._take(entry, place, entry.pointers[buffer])
            case Scalar(inst):
                self._take_scalar(entry, inst)
            case Loop() | Branches():
                self._callers.pop()

    @property
    def _level(self) -> int:
        """How many loops are around."""
        return sum(c.opcode == "while" for c in self._callers)

    def _place(self, inst: Instruction, path: tuple[int, ...], shape: ArrayShape) -> _Place:
        if is_multi_output(inst):
            inst, path = inst.operands[path[0]], path[1:]
        return _Place(inst, path, shape, tuple(self._callers))

    def _take(self, entry: EntryState, place: _Place, pointer: str) -> None:
        shape = place.shape
        if not is_plain(shape):
            self.skipped["in a layout of tiles or packed bits"] += 1
            return
        name = function_name(place.parts)
        self._types.setdefault(name, place.parts)
        count = shape.num_elements * (2 if shape.element_type.is_complex else 1)
        data, number = ptr(pointer), i64(len(self.places))
        if count == 1:
            entry.module.declare(f"{name}_one", "void", ["ptr", "i64"])
            entry.b.call_void(f"{name}_one", [data, number])
        else:
            entry.module.declare(name, "void", ["ptr", "i64", "i64", "ptr"])
            entry.b.call_void(name, [data, i64(count), number, ptr("%threads")])
        self.places.append(place)

    def _take_scalar(self, entry: EntryState, inst: Instruction) -> None:
        """Take a scalar of the entry, but counters and conditions: they are every other command."""
        et = inst.array_shape.element_type
        if inst.opcode == "constant" or et.is_pred or et.is_integer:
            self.skipped["scalar integers"] += inst.opcode != "constant"
            return
        slot = entry.b.alloca(scalar.memory_type(et), 2 if et.is_complex else 1, align=16)
        scalar.store(entry.b, et, entry.scalar(inst), slot.name, 0)
        self._take(entry, self._place(inst, (), inst.array_shape), slot.name)


def _depth(block: Block) -> int:
    """Return how deep loops are nested."""
    depths = [0]
    for command in block.commands:
        if isinstance(command, Loop):
            depths.append(1 + max(_depth(command.condition), _depth(command.body)))
        elif isinstance(command, Branches):
            depths += [_depth(branch) for branch, _ in command.branches]
    return max(depths)


# --- events ---------------------------------------------------------------------------------------


class _Collector:
    """Makes records of events."""

    def __init__(self, probes: Probes, selection: Selection, module: Module) -> None:
        self._probes = probes
        self._selection = selection
        self._origins = Origins(module)
        self._rows: dict[int, PlaceRows] = {}
        self._known: dict[int, TracedValue] = {}
        self._count = 0

    def take(self) -> None:
        """Empty the buffer."""
        probes = self._probes
        end = int(probes.state[0])
        probes.state[0] = 0
        rows = probes.events[:end].reshape(-1, probes.words)
        numbers = np.arange(self._count, self._count + len(rows))
        self._count += len(rows)
        order = np.argsort(rows[:, 0], kind="stable")
        rows, numbers = rows[order], numbers[order]
        starts = np.flatnonzero(np.diff(rows[:, 0], prepend=-1))
        for begin, stop in pairwise([*starts, len(rows)]):
            self._take_place(int(rows[begin, 0]), rows[begin:stop], numbers[begin:stop])

    def _take_place(self, number: int, rows: np.ndarray, order: np.ndarray) -> None:
        """Take the events of one place, in the order of execution."""
        place = self._probes.places[number]
        loops = [n for n, c in enumerate(place.callers) if c.opcode == "while"]
        if loops and self._selection.iterations:
            level, shift = len(loops) - 1, _ahead(place, loops[-1])
            kept = [
                self._selection.takes_iteration(int(i) + shift) for i in rows[:, 1 + ROW + level]
            ]
            rows, order = rows[kept], order[kept]
        found = self._rows.get(number)
        if found is None:
            found = self._rows[number] = PlaceRows()
        found.add(rows, order)

    def _value(self, number: int) -> TracedValue:
        """Return what is the same of all executions."""
        known = self._known.get(number)
        if known is None:
            place = self._probes.places[number]
            source = self._origins.of(place.inst) or place.inst
            comp = source.parent.name if source.parent is not None else ""
            known = self._known[number] = TracedValue(
                comp, place.inst.name, place.inst.opcode, place.shape.to_string(False),
                place.leaf, location=source_location(source),
            )  # fmt: skip
        return known

    def _records(self, number: int, found: PlaceRows) -> Series:
        """Return the records of a place."""
        place, series = self._probes.places[number], Series()
        for order, count, row, last in zip(
            found.order, found.executions, found.rows, found.last, strict=True
        ):
            value = replace(
                self._value(number), frames=_frames(place, row), executions=int(count),
                statistics=_statistics(place, row),
                last_frames=_frames(place, last) if count > 1 else (),
            )  # fmt: skip
            series.records.append((int(order), value))
        return series

    def trace(self, name: str) -> Trace:
        """Return what was collected."""
        self.take()
        series = [self._records(number, rows) for number, rows in self._rows.items()]
        notes = notes_of(series)
        notes.append(STORED_ONLY)
        for what, count in self._probes.skipped.items():
            if count:
                notes.append(f"left out: {count} {what}")
        return Trace(name, in_order(series), notes)


def _ahead(place: _Place, n: int) -> int:
    """Return by how much the iteration of a caller is ahead of the count of its body's runs.

    What is in the condition belongs to the iteration that it decides about.
    """
    caller = place.callers[n]
    within = place.callers[n + 1] if n + 1 < len(place.callers) else place.inst
    return int(within.parent is caller.condition)


def _frames(place: _Place, row: np.ndarray) -> tuple[Frame, ...]:
    frames, level = [], 1 + ROW
    for n, caller in enumerate(place.callers):
        if caller.opcode == "while":
            frames.append(Frame(caller.name, int(row[level]) + _ahead(place, n)))
            level += 1
        else:
            frames.append(Frame(caller.name))
    return tuple(frames)


def _statistics(place: _Place, row: np.ndarray) -> Statistics:
    nans, infs, zeros, denormals, count = map(int, row[4:9])
    if not count:
        return Statistics(0)
    low, high = values_of_keys(place.parts, row[1:3])
    finite = count - nans - infs
    total = float(row[3:4].view(np.float64)[0])
    return Statistics(
        count // 2 if place.shape.element_type.is_complex else count,
        low if finite else None, high if finite else None, total / finite if finite else None,
        nans, infs, zeros, denormals,
    )  # fmt: skip


def trace_stored(
    module: Module, values: Sequence[Any], selection: Selection, host: Host,
    threads: int | None,
) -> Trace:  # fmt: skip
    """Return the trace of an optimized module as native code, on one device.

    values: checked arguments. Raises HloError.
    """
    probes = Probes()
    collector = _Collector(probes, selection, module)
    probes.on_full = collector.take
    program = compile_instrumented(
        module, probes, threads=threads, host=host, passes="", verify="lenient"
    )
    program.run_values(values)
    return collector.trace(module.name)
