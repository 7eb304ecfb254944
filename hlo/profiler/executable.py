"""Programs of which each call leaves what its sections took."""

from __future__ import annotations

import ctypes
import math
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hlo.errors import HloError
from hlo.profiler.counters import Counters
from hlo.profiler.recorder import (
    COUNTDOWN,
    EVENT,
    EVENT_WORDS,
    EVENTS_AT,
    FLAG,
    MOST_EVENTS,
    MOST_SHARES,
    RECORD,
    SHARE,
    SHARE_WORDS,
    SHARES_AT,
)
from hlo.profiler.resident import reset_peak, status_bytes
from hlo.profiler.symbols import native_symbols
from hlo.runtime.executable import Executable
from hlo.runtime.jit import NativeCode
from hlo.runtime.outside import Outside
from hlo.runtime.pool import Pool
from hlo.runtime.program import NativeProgram
from hlo.runtime.ticks import Ticker, ticker

# How many events and shares of work a timeline holds, of all runs together.
_MOST_EVENTS, _MOST_SHARES = 1 << 16, 1 << 15
# Runs in which the members of groups are timed: at least one in so many, and so that the readings
# take about a hundredth of the time of the groups.
_FEWEST_DETAILED, _READING_S = 64, 2e-8
_SHARE_OF_READINGS = 0.01


@dataclass
class Runs:
    """What the runs of a program on one device left.

    words: the record after each run; the first is before all of them. wall_s: how long each took,
    with the memory that Python allocates for results; native_s: the call of native code.
    events, shares: those of the timeline.
    """

    words: list[np.ndarray] = field(default_factory=list)
    wall_s: list[float] = field(default_factory=list)
    native_s: list[float] = field(default_factory=list)
    events: np.ndarray = field(default_factory=lambda: np.zeros((_MOST_EVENTS, EVENT_WORDS), "i8"))
    shares: np.ndarray = field(default_factory=lambda: np.zeros((_MOST_SHARES, SHARE_WORDS), "i8"))


class RecordingExecutable(Executable):
    """An executable whose code divides its time into sections.

    Calls from several Python threads run one after the other: they share one record.
    """

    def __init__(
        self,
        counters: Counters,
        program: NativeProgram,
        *,
        threads: int | None = None,
        outside: Outside | None = None,
        called: Mapping[str, int] = {},
    ) -> None:
        """Load a program that `counters` were written into; see `Executable`."""
        self._counters, self.sections = counters, counters.sections
        # Of the module's stack frames.
        self.tables = counters.tables
        self.clock: Ticker = ticker()
        self._program, self._own_called = program, dict(called)
        self._turn = threading.Lock()
        self.record = np.zeros(self.sections.words, np.int64)
        super().__init__(program, threads=threads, outside=outside, called=called)
        if self._pool is not None:
            self._pool = _TimedPool(self._pool, self._code.addresses["hlo.profile.run"])
        cost = ctypes.CFUNCTYPE(ctypes.c_int64)(self._code.addresses["hlo.profile.cost"])
        # The ticks of a section in which nothing is done.
        self.reading_ticks = cost()
        self._plain_call, self._call = self._call, self._timed_call
        # The high-water mark of a run, arguments and constants included, if it is known.
        self.memory_bytes: int | None = None
        self._is_used = False
        self.forget()

    def _load(self, program: NativeProgram, called: Mapping[str, int]) -> int:
        known = {**self._support.called, **called, RECORD: self.record.ctypes.data}
        symbols = [program.symbol, "hlo.profile.cost"]
        if self._counters.has_threads:
            symbols.append("hlo.profile.run")
        self._code = NativeCode(program.code, *symbols, called=known)
        return self._code.addresses[program.symbol]

    def beside(self, outside: Outside | None) -> RecordingExecutable:
        """Return the same code with other external functions, and a record of its own."""
        other = type(self)(
            self._counters, self._program, threads=self.threads, outside=outside,
            called=self._own_called,
        )  # fmt: skip
        other.trees, other.compile_seconds = self.trees, self.compile_seconds
        return other

    def forget(self) -> None:
        """Forget the runs so far."""
        runs = self.runs = Runs()
        self.record[:] = 0
        for loop in self.sections.loops:
            self.record[loop + COUNTDOWN] = 1
        self.record[[MOST_EVENTS, EVENTS_AT]] = len(runs.events), runs.events.ctypes.data
        self.record[[MOST_SHARES, SHARES_AT]] = len(runs.shares), runs.shares.ctypes.data
        runs.words.append(self.record.copy())
        self._until_detailed = 1

    def _run(
        self,
        memory: Sequence[np.ndarray],
        donated: Mapping[int, np.ndarray],
        timeout: float | None = None,
    ) -> list[np.ndarray]:
        with self._turn:
            self.record[FLAG] = self._until_detailed == 0
            held = self._held_before()
            start = time.perf_counter()
            try:
                results = super()._run(memory, donated, timeout)
            except BaseException:
                # A run that ended somewhere in the middle says nothing.
                self.forget()
                raise
            runs = self.runs
            runs.wall_s.append(time.perf_counter() - start)
            if held is not None:
                given = sum(m.nbytes for m in memory) + self._program.constants.nbytes
                self.memory_bytes = status_bytes("VmHWM") - held + given
            runs.native_s.append(self._native_s)
            runs.words.append(self.record.copy())
            self._plan_detail()
            return results

    def _held_before(self) -> int | None:
        """Return the memory of the process before the first run, whose high-water mark is measured.

        Later ones find temporary memory that is there; of several devices, all use the same.
        """
        if self._is_used or math.prod(self._program.device_counts) > 1:
            return None
        self._is_used = True
        try:
            return reset_peak()
        except HloError:  # this system does not tell
            return None

    def _timed_call(self, watch: int) -> int:
        start = time.perf_counter()
        status = self._plain_call(watch)
        self._native_s = time.perf_counter() - start
        return status

    def _plan_detail(self) -> None:
        """Choose after how many runs the members of groups are timed again."""
        if self._until_detailed:
            self._until_detailed -= 1
            return
        members = sum(s.parent is not None and s.parent.kind == "group" for s in self.sections.all)
        price = members * _READING_S / (_SHARE_OF_READINGS * max(self.runs.native_s[-1], 1e-9))
        self._until_detailed = min(_FEWEST_DETAILED, math.ceil(price))

    def symbols(self) -> list[tuple[int, int, str]]:
        """Return address, size and name of the native functions, as far as they are found."""
        return native_symbols(self._program.code, self._entry_at)

    @property
    def is_shared(self) -> bool:
        """Whether threads share the work of kernels."""
        return self._pool is not None

    @property
    def dropped(self) -> int:
        """How many events the timeline has no room for."""
        return max(0, int(self.record[EVENT]) - len(self.runs.events))

    def recorded(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the events, and the shares, of the timeline."""
        events, shares = int(self.record[EVENT]), int(self.record[SHARE])
        return self.runs.events[:events], self.runs.shares[:shares]


class _TimedPool(Pool):
    """A thread pool whose threads add up the time that they work."""

    def __init__(self, pool: Pool, run: int) -> None:
        self._pool, self._run_at = pool, run
        self._known: dict[int, Any] = {}

    @property
    def handle(self) -> int:
        """The address of a `Threads` pair that times the shares of the pool's own."""
        inner = self._pool.handle
        if inner not in self._known:
            words = ctypes.c_void_p * 2
            pair = words(self._run_at, inner)
            self._known[inner] = pair
        return ctypes.addressof(self._known[inner])
