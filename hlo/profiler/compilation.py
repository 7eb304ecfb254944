"""Where the time of a compilation goes: stages, passes, and the parts that LLVM compiles."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from hlo.compiler.lowering import Clock
from hlo.ir import Module
from hlo.passes.manager import PassRun
from hlo.passes.pipeline import Step
from hlo.profiler.profile import Profile
from hlo.profiler.records import KernelTime, Slice, Spread
from hlo.runtime.parts import Part

_MOST_NAMES = 4


@dataclass
class _Entry:
    """What takes time, wherever it does so. rewrites: those of a pass."""

    name: str
    kind: str
    parent: int
    calls: int = 0
    rewrites: int = 0


class StageClock(Clock):
    """A clock that divides the time since it was made into stages, passes and parts.

    At any time one of them is current in the thread that compiles. Parts are compiled by several
    threads, beside each other.
    """

    def __init__(self) -> None:
        """Start the clock."""
        super().__init__()
        self._entries = [_Entry("compilation", "stage", -1, 1)]
        self._known: dict[tuple[int, str], int] = {}
        self._stack = [0]
        self._start = self._last = time.perf_counter()
        self._slices: list[Slice] = []
        self._shares: list[Slice] = []
        self._lanes: dict[int, int] = {}
        self._lock = threading.Lock()
        self.observers = (_PassTimer(self),)

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        """Time a stage."""
        with super().__call__(stage):
            self.push(stage, "stage")
            try:
                yield
            finally:
                self.pop()

    def observe(self, stage: str, text: Callable[[], str]) -> None:
        """Record that a stage of planning has ended, of which nobody said when it began."""
        self._mark(self._entry(stage, "stage"))

    @contextmanager
    def part(self, part: Part) -> Iterator[None]:
        """Time the compilation of a part, in whichever thread."""
        names = part.names
        more = f", ... ({len(names)} functions)" if len(names) > _MOST_NAMES else ""
        begin = time.perf_counter()
        try:
            yield
        finally:
            end = time.perf_counter()
            with self._lock:
                entry = self._entry(", ".join(names[:_MOST_NAMES]) + more, "part")
                lane = self._lanes.setdefault(threading.get_ident(), len(self._lanes) + 1)
                self._shares.append(Slice(entry, begin - self._start, end - begin, lane))

    def push(self, name: str, kind: str) -> None:
        """Begin something inside of what is current."""
        self._mark(self._stack[-1])
        self._stack.append(self._entry(name, kind))

    def pop(self, rewrites: int = 0) -> None:
        """End what is current."""
        entry = self._stack.pop()
        self._entries[entry].rewrites += rewrites
        self._mark(entry)

    def _entry(self, name: str, kind: str) -> int:
        parent = self._stack[-1]
        number = self._known.setdefault((parent, name), len(self._entries))
        if number == len(self._entries):
            self._entries.append(_Entry(name, kind, parent))
        self._entries[number].calls += 1
        return number

    def _mark(self, entry: int) -> None:
        """Give an entry the time since the last call."""
        now = time.perf_counter()
        self._slices.append(Slice(entry, self._last - self._start, now - self._last))
        self._last = now

    def profile(self, name: str) -> Profile:
        """Return where the time since this clock was made went, for a module of a name."""
        self._mark(0)
        own = [0.0] * len(self._entries)
        for s in self._slices:
            own[s.entry] += s.duration_s
        worked = sum(s.duration_s for s in self._shares)
        entries = [self._time(e, own[n]) for n, e in enumerate(self._entries)]
        # What waits for the parts has none of their time, each part its share of it.
        for s in self._shares:
            stage = self._entries[s.entry].parent
            wall = own[stage] * s.duration_s / worked
            part = entries[s.entry]
            entries[s.entry] = replace(
                part, self_s=part.self_s + wall, busy_threads=worked / own[stage]
            )
        for stage in {self._entries[s.entry].parent for s in self._shares}:
            entries[stage] = replace(entries[stage], self_s=0.0)
        for n in reversed(range(len(entries))):
            total = entries[n].total_s + entries[n].self_s
            entries[n] = replace(entries[n], total_s=total, runs_s=Spread(total, total, total))
            if (parent := entries[n].parent) >= 0:
                outer = entries[parent]
                entries[parent] = replace(outer, total_s=outer.total_s + total)
        whole = Spread(*[self._last - self._start] * 3)
        return Profile(
            name, "compilation", runs=1, threads=max(1, len(self._lanes)), wall_s=whole,
            native_s=whole, entries=tuple(entries), timeline=(*self._timeline(), *self._shares),
        )  # fmt: skip

    def _timeline(self) -> Sequence[Slice]:
        first, *rest = self._slices
        return [replace(first, mark="run"), *rest]

    def _time(self, e: _Entry, seconds: float) -> KernelTime:
        steps = (f"{e.rewrites} rewrites",) if e.rewrites else ()
        return KernelTime(e.name, e.kind, e.parent, calls=e.calls, self_s=seconds, steps=steps)


class _PassTimer:
    """Tells a clock which pass runs."""

    def __init__(self, clock: StageClock) -> None:
        self._clock = clock

    def before(self, module: Module, step: Step) -> None:
        """Begin a pass."""
        self._clock.push(step.spec.name, "pass")

    def after(self, module: Module, run: PassRun) -> None:
        """End it."""
        self._clock.pop(len(run.rewrites))
