"""Processes that test candidates: each is a fork, which has the module and all code already.

What a test does to its process, be it a crash of native code, a loop without end or memory that
runs out, is its process's end alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import sys
import time
import warnings
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

from hlo.errors import HloError
from hlo.runtime.pool import default_threads

# How often a progress line is brought up to date.
_TICK_S = 0.25
# Loops of candidates may have lost their end. By default a test that takes so many times as long as
# the slowest one that failed is ended, not before so many seconds, and after so many at the latest.
_TIMES, _LEAST_S, _MOST_S = 10, 5.0, 300.0


@dataclass(frozen=True)
class Verdict:
    """What came of testing a candidate.

    problem: what is wrong with it; "" if it passes, is not valid, or could not be tested. digest:
    of its text. ended: how its process ended, if it did not say anything. failed: the error of a
    test that cannot judge.
    """

    problem: str = ""
    digest: str = ""
    ended: str = ""
    failed: str = ""


Work = Callable[[], Verdict]
Tick = Callable[[], None]


@dataclass
class Workers:
    """Runs work in forks, several at a time, and hands verdicts on in the order of the work.

    jobs: how many at a time, by default one a processor; 0 for none: work is done in this process.
    timeout: seconds for each; by default in proportion to what failing tests take.
    tick: called several times a second while something runs.
    """

    jobs: int | None = None
    timeout: float | None = None
    tick: Tick = lambda: None
    tested: int = 0
    ended: dict[str, int] = field(default_factory=dict)
    # Seconds of the slowest test that failed.
    _slowest: float = 0.0

    @property
    def limit(self) -> float:
        """Seconds after which a test is ended."""
        if self.timeout is not None:
            return self.timeout
        if not self._slowest:
            return _MOST_S
        return min(_MOST_S, max(_LEAST_S, _TIMES * self._slowest))

    @property
    def forks(self) -> bool:
        """True where work is done in other processes."""
        return self.jobs != 0

    def verdicts(self, work: Sequence[Work]) -> Generator[Verdict]:
        """Yield the verdict of each; what runs when the iterator is closed is ended."""
        if not self.forks:
            for one in work:
                self.tick()
                self.tested += 1
                yield one()
            return
        at_a_time = self.jobs or default_threads()
        running: dict[int, _Process] = {}
        done: dict[int, Verdict] = {}
        started = 0
        try:
            for number in range(len(work)):
                while number not in done:
                    while started < len(work) and len(running) < at_a_time:
                        running[started] = _Process(work[started])
                        started += 1
                    self._wait(running, done)
                verdict = done.pop(number)
                self.tested += 1
                if verdict.ended:
                    self.ended[verdict.ended] = self.ended.get(verdict.ended, 0) + 1
                yield verdict
        finally:
            for process in running.values():
                process.end()

    def _wait(self, running: dict[int, _Process], done: dict[int, Verdict]) -> None:
        """Wait a moment, and move what has ended from `running` to `done`."""
        with selectors.DefaultSelector() as selector:
            for number, process in running.items():
                selector.register(process.pipe, selectors.EVENT_READ, number)
            for key, _ in selector.select(_TICK_S):
                running[key.data].read()
        for number in list(running):
            verdict = running[number].verdict(self.limit)
            if verdict is not None:
                if verdict.problem:
                    self._slowest = max(self._slowest, running[number].seconds)
                done[number] = verdict
                del running[number]
        self.tick()


class _Process:
    """A fork that does one piece of work, with what that starts in a process group of its own."""

    def __init__(self, work: Work) -> None:
        self.pipe, outlet = os.pipe()
        self._data = b""
        self._closed = False
        self._start = time.monotonic()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        with warnings.catch_warnings():
            # Python and JAX warn of forks beside threads; those here are idle, and the child uses
            # none of theirs.
            for kind in (DeprecationWarning, RuntimeWarning):
                warnings.simplefilter("ignore", kind)
            self._pid = os.fork()
        if not self._pid:
            os.close(self.pipe)
            _work_and_exit(work, outlet)
        os.close(outlet)
        os.set_blocking(self.pipe, False)
        with contextlib.suppress(OSError):
            os.setpgid(self._pid, self._pid)

    def read(self) -> None:
        while True:
            try:
                data = os.read(self.pipe, 1 << 16)
            except BlockingIOError:
                return
            if not data:
                self._closed = True
                return
            self._data += data

    @property
    def seconds(self) -> float:
        """How long it has run."""
        return time.monotonic() - self._start

    def verdict(self, limit: float) -> Verdict | None:
        """Return the verdict if there is one, be it that it ran longer than a limit in seconds."""
        if self._closed:
            status = self._reap()
            if self._data:
                return Verdict(**json.loads(self._data))
            return Verdict(ended=_said(status))
        if self.seconds > limit:
            self.end()
            return Verdict(ended="timeout")
        return None

    def end(self) -> None:
        """Kill it and what it has started."""
        with contextlib.suppress(OSError):
            os.killpg(self._pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            os.kill(self._pid, signal.SIGKILL)
        self._reap()

    def _reap(self) -> int:
        os.close(self.pipe)
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])


def _said(status: int) -> str:
    if status < 0:
        try:
            return signal.Signals(-status).name
        except ValueError:
            return f"signal {-status}"
    return f"exit status {status}"


def _work_and_exit(work: Work, outlet: int) -> Any:
    """Do the work of a fork, write the verdict, and exit: nothing of the parent's is cleaned up."""
    status = 1
    try:
        os.setpgid(0, 0)
        for kind in (signal.SIGINT, signal.SIGTERM):
            signal.signal(kind, signal.SIG_DFL)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nowhere, stream)
        try:
            verdict = work()
        except HloError as e:
            if e.code != "test-failed":
                raise
            verdict = Verdict(failed=e.diagnostics[0].message)
        os.write(outlet, json.dumps(verdict.__dict__).encode())
        status = 0
    except MemoryError:
        status = _OUT_OF_MEMORY
    finally:
        os._exit(status)


_OUT_OF_MEMORY = 12
