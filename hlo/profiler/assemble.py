"""From what profiled runs left to a profile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from hlo.analysis.cost import Cost
from hlo.analysis.source_location import source_location
from hlo.ir import Instruction
from hlo.profiler.executable import RecordingExecutable
from hlo.profiler.profile import Profile, spread
from hlo.profiler.recorder import (
    BUSY,
    COUNTDOWN,
    ITERATION_MARK,
    ITERATIONS,
    MOST_THREADS,
    SECTION_WORDS,
    THREADS,
    VISITS,
)
from hlo.profiler.records import KernelTime, Slice, Spread
from hlo.profiler.sections import Executions, Section
from hlo.values.types import ArrayShape

# The place of the section of what was not timed in a loop, behind its own.
_REST = SECTION_WORDS


def assemble(executable: RecordingExecutable, *, device: int = 0) -> Profile:
    """Return the profile of the runs of a program on one device since they were forgotten."""
    return _Assembly(executable).profile(device)


class _Assembly:
    def __init__(self, executable: RecordingExecutable) -> None:
        self.executable = executable
        self.runs = executable.runs
        self.sections = executable.sections.all
        self.tick_s = executable.clock.seconds_per_tick
        words = np.array(self.runs.words)
        # What each run has added to each word, and all of them together.
        self.by_run = np.diff(words, axis=0)
        self.sums = words[-1] - words[0]
        self.last = words[-1]
        self.children: dict[Section, list[Section]] = {s: [] for s in self.sections}
        for s in self.sections:
            if s.parent is not None:
                self.children[s.parent].append(s)
        self.factors: dict[Section, float] = {}
        # The ticks of loops and groups of which nothing was timed: they are their own.
        self.undivided: dict[Section, float] = {}
        # The outermost loop or group around each section whose time is a share of that.
        self.sampled: dict[Section, Section] = {}
        # Sections in what is sampled: there, readings may take as long as kernels.
        self.corrected: set[Section] = set()
        for s in self.sections:
            if s.parent in self.corrected or self._rest(s):
                self.corrected.add(s)
        self._scale(self.sections[0], 1.0, None)

    # --- ticks ----------------------------------------------------------------------------------

    def _rest(self, s: Section) -> int:
        """Return the ticks of a loop or a group in which its parts were not timed."""
        if s.kind == "group":
            return int(self.sums[s.word]) if self.children[s] else 0
        return int(self.sums[s.word + _REST]) if s.loop is not None else 0

    def _own(self, s: Section) -> int:
        """Return the ticks of a section itself, in what is sampled without those of readings."""
        if s.kind == "group" and self.children[s]:
            return 0
        ticks = int(self.sums[s.word])
        if s in self.corrected:
            ticks = max(0, ticks - int(self.sums[s.word + VISITS]) * self.executable.reading_ticks)
        return ticks

    def _measured(self, s: Section) -> int:
        """Return the ticks of a section and all inside, as they were measured."""
        return self._own(s) + self._rest(s) + sum(map(self._measured, self.children[s]))

    def _passed(self, s: Section) -> int:
        """Return the ticks that passed in a section and all inside, with those of readings."""
        rest = int(self.sums[s.word + _REST]) if s.loop is not None else 0
        return int(self.sums[s.word]) + rest + sum(map(self._passed, self.children[s]))

    def _scale(self, s: Section, factor: float, sampled: Section | None) -> None:
        """Set by which factor the times of a section and those inside are too small."""
        rest = self._rest(s)
        if rest:
            # All that passed is divided in proportion to what was timed, less the readings.
            measured = self._measured(s)
            whole = measured if sampled is not None else self._passed(s)
            timed = measured - rest
            self.undivided[s] = 0.0 if timed else factor * whole
            factor *= whole / timed if timed else 0.0
            sampled = sampled or s
        self.factors[s] = factor
        if sampled is not None:
            self.sampled[s] = sampled
        for child in self.children[s]:
            self._scale(child, factor, sampled)

    def _self_ticks(self, s: Section) -> float:
        return self._own(s) * self.factors[s] + self.undivided.get(s, 0.0)

    def _total_ticks(self, s: Section) -> float:
        return self._self_ticks(s) + sum(map(self._total_ticks, self.children[s]))

    def _ticks_by_run(self, s: Section) -> np.ndarray:
        """Return the ticks of a section and all inside in each run."""
        whole = self.sampled.get(s)
        if whole is None:
            found = self.by_run[:, s.word].astype(float)
            for child in self.children[s]:
                found += self._ticks_by_run(child)
            return found
        passed = self._passed(whole)
        return self._passed_by_run(whole) * (self._total_ticks(s) / passed if passed else 0.0)

    def _passed_by_run(self, s: Section) -> np.ndarray:
        found = self.by_run[:, s.word].astype(float)
        if s.loop is not None:
            found += self.by_run[:, s.word + _REST]
        for child in self.children[s]:
            found += self._passed_by_run(child)
        return found

    # --- counts ---------------------------------------------------------------------------------

    def _iterations(self, loop: int) -> int:
        """Return the iterations of a loop so far: up to the next timed one, less those left."""
        return int(self.last[loop + ITERATIONS] - self.last[loop + COUNTDOWN] + 1)

    def _count(self, s: Section) -> float:
        """Return how often a section ran in a run, on average."""
        return self._executions(s.executions, s)

    def _executions(self, e: Executions, s: Section) -> float:
        runs = len(self.by_run)
        if e.of is not None:
            assert s.parent is not None
            return e.times * self._executions(e.of, s.parent)
        if e.is_loop:
            count = self._iterations(e.word)
            # The condition is computed once more for each time that the loop is entered.
            return count / runs + (self._count(s.parent) if e.is_test and s.parent else 0)
        return int(self.sums[e.word]) / runs if e.word else 1.0

    def _loop_iterations(self, s: Section) -> float:
        runs = len(self.by_run)
        if s.trips is not None:
            return s.trips * self._count(s)
        if s.loop is not None:
            return self._iterations(s.loop) / runs
        return int(self.sums[s.iterations]) / runs if s.iterations is not None else 0.0

    def _is_sampled(self, s: Section) -> bool:
        outer = s.parent
        while outer is not None:
            if self._rest(outer):
                return True
            outer = outer.parent
        return False

    # --- the profile ----------------------------------------------------------------------------

    @cached_property
    def _kept(self) -> list[Section]:
        """The sections that become entries: groups, or the kernels in them if these were timed."""
        return [
            s for s in self.sections
            if not (s.kind == "group" and self._is_detailed(s))
            and not (s.parent is not None and s.parent.kind == "group"
                     and not self._is_detailed(s.parent))
        ]  # fmt: skip

    def _is_detailed(self, group: Section) -> bool:
        return any(self.sums[s.word] for s in self.children[group])

    def profile(self, device: int) -> Profile:
        runs, ex = self.runs, self.executable
        count = len(self.by_run)
        kept = self._kept
        number = {s: n for n, s in enumerate(kept)}

        def parent_of(s: Section) -> int:
            outer = s.parent
            while outer is not None and outer not in number:
                outer = outer.parent
            return -1 if outer is None else number[outer]

        entries = [self._entry(s, parent_of(s)) for s in kept]
        native = sum(e.self_s for e in entries)
        wall = spread(runs.wall_s)
        around = [max(0.0, w - native_s) for w, native_s in self._around()]
        entries.append(
            KernelTime(
                ex.name,
                "call",
                self_s=max(0.0, wall.mean - native),
                total_s=max(0.0, wall.mean - native),
                runs_s=spread(around),
            )
        )
        threads = ex.threads if ex.is_shared else 1
        idle = sum((threads - min(threads, e.busy_threads)) * e.self_s for e in entries[:-1])
        busy = self._thread_ticks() * self.tick_s / max(1, count)
        return Profile(
            ex.name, "compiled", device, count, threads, wall, spread(runs.native_s),
            tuple(entries), idle, tuple(busy.tolist()), tuple(self._timeline(number)),
            ex.dropped, memory_bytes=ex.memory_bytes,
        )  # fmt: skip

    def _around(self) -> Sequence[tuple[float, float]]:
        root = self._passed_by_run(self.sections[0]) * self.tick_s
        return list(zip(self.runs.wall_s, root.tolist(), strict=True))

    def _entry(self, s: Section, parent: int) -> KernelTime:
        runs = len(self.by_run)
        calls = self._count(s)
        own = self._self_ticks(s) * self.tick_s / runs
        total = self._total_ticks(s) * self.tick_s / runs
        cost = Cost() if self.children[s] else s.cost
        seconds = spread((self._ticks_by_run(s) * self.tick_s).tolist())
        entry = KernelTime(
            self.executable.name, s.kind, parent, calls=calls, iterations=self._loop_iterations(s),
            self_s=own, total_s=total, runs_s=_bounded(seconds), is_sampled=self._is_sampled(s),
            operations=cost.operations * calls, transcendentals=cost.transcendentals * calls,
            bytes=cost.bytes * calls, steps=s.steps, busy_threads=self._busy_threads(s),
        )  # fmt: skip
        if s.kind == "group":
            members = [c.inst for c in self.children[s] if c.inst is not None]
            first = members[0]
            return replace(
                entry, name=_names(members), opcode="group", fused=tuple(i.name for i in members),
                computation=_computation(first),
                location=source_location(first, self.executable.tables),
            )  # fmt: skip
        if s.inst is None:
            return entry
        return replace(
            entry, name=s.inst.name, opcode=s.inst.opcode, computation=_computation(s.inst),
            fused=tuple(i.name for i in s.fused), element_type=_element_type(s.inst),
            hlo=str(s.inst), location=source_location(s.inst, self.executable.tables),
        )  # fmt: skip

    # --- threads --------------------------------------------------------------------------------

    def _busy_threads(self, s: Section) -> float:
        """Return how many threads worked in a section, on average."""
        ticks, busy = int(self.sums[s.word]), int(self.sums[s.word + BUSY])
        if s.loop is not None:
            ticks += int(self.sums[s.word + _REST])
            busy += int(self.sums[s.word + _REST + BUSY])
        return max(1.0, busy / ticks) if ticks else 1.0

    def _thread_ticks(self) -> np.ndarray:
        """Return the ticks that each thread worked on shares of kernels."""
        table = self.sums[THREADS : THREADS + 2 * MOST_THREADS].reshape(-1, 2)
        used = self.last[THREADS : THREADS + 2 * MOST_THREADS : 2] != 0
        return table[used, 1]

    # --- the timeline ---------------------------------------------------------------------------

    def _timeline(self, number: dict[Section, int]) -> list[Slice]:
        events, shares = self.executable.recorded()
        by_word = {s.word: s for s in self.sections}
        by_word |= {s.word + _REST: s for s in self.sections if s.loop is not None}
        marks = {s.word + _REST: "untimed" for s in self.sections if s.loop is not None}
        places = {}
        for word, section in by_word.items():
            s: Section | None = section
            while s is not None and s not in number:
                s = s.parent
            places[word] = number[s] if s is not None else 0
        start = int(events[0][1]) if len(events) else 0
        found = []
        begins = True
        for (what, begin), (_, end) in pairwise(events.tolist()):
            word = what & (ITERATION_MARK - 1)
            # Zero is the end of a run: what follows is not of the program.
            if word:
                at, duration = (begin - start) * self.tick_s, (end - begin) * self.tick_s
                mark = "iteration" if what & ITERATION_MARK else "run" if begins else ""
                found.append(Slice(places[word], at, duration, 0, marks.get(word, mark)))
            begins = not word
        lanes: dict[int, int] = {}
        for word, slot, begin, end in shares.tolist():
            lane = lanes.setdefault(slot, len(lanes) + 1)
            at, duration = (begin - start) * self.tick_s, (end - begin) * self.tick_s
            found.append(Slice(places.get(word, 0), at, duration, lane))
        return found


def _bounded(seconds: Spread) -> Spread:
    return Spread(*(max(0.0, x) for x in (seconds.min, seconds.median, seconds.mean)))


def _names(members: Sequence[Instruction]) -> str:
    names = [i.name for i in members]
    return ", ".join(names[:3]) + (f", ... ({len(names)} kernels)" if len(names) > 3 else "")


def _computation(inst: Instruction) -> str:
    return inst.parent.name if inst.parent is not None else ""


def _element_type(inst: Instruction) -> str:
    """Return the element type that an instruction computes in: that of its first array operand."""
    shapes = [s for o in inst.operands for _, s in o.shape.leaves()]
    shapes += [s for _, s in inst.shape.leaves()]
    found = next((s for s in shapes if isinstance(s, ArrayShape)), None)
    return "" if found is None else found.element_type.name
