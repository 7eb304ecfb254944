"""Starts workers, watches their time and memory, and goes on where one of them dies."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.sweeps.jax_suite.files import SuiteFile

_WORKER = Path(__file__).with_name("worker.py")
_PAGE = os.sysconf("SC_PAGE_SIZE")
# Importing JAX and making a file's test cases, on a loaded machine.
_LOAD_SECONDS = 300.0
_EXIT_SECONDS = 60.0


@dataclass
class Outcome:
    id: str
    outcome: str  # passed, failed, skipped, error, crash, timeout or memory
    seconds: float
    reason: str = ""  # the last line of the error
    details: str = ""  # the end of its traceback

    def line(self) -> str:
        return json.dumps(asdict(self)) + "\n"


@dataclass
class Limits:
    seconds: float  # for each test
    bytes: int  # resident, of each worker


@dataclass
class Runner:
    """Runs tests of a checkout of JAX under a Python that has the matching jax."""

    python: str
    tree: Path
    environment: Mapping[str, str]
    limits: Limits
    logs: Path  # folder where each worker's output goes

    def version(self) -> str:
        """Return the version of the installed jax, after a check that its tests can be loaded."""
        command = [self.python, "-c", "import jax._src.test_util; print(jax.__version__)"]
        process = subprocess.run(command, check=False, capture_output=True, text=True)
        if process.returncode:
            problem = process.stderr.strip().rpartition("\n")[2]
            raise RuntimeError(
                f"{self.python} cannot run JAX's tests: {problem}; "
                f"pip install jax -r {self.tree}/build/test-requirements.txt"
            )
        return process.stdout.strip()

    def collect(self, file: SuiteFile) -> list[str]:
        """Return the ids of a file's tests."""
        worker = _Worker(self, file, [], {"JAX_PLATFORMS": "cpu"})
        words = list(worker.lines())
        if worker.code() or worker.stopped:
            raise RuntimeError(f"{file.name}: {worker.last_line()}")
        return [id_ for kind, id_ in words if kind == "test"]

    def run(self, file: SuiteFile, ids: Sequence[str]) -> Iterator[Outcome]:
        """Yield each test's outcome, and one with the id `FILE::exit` for each unclean exit."""
        left = list(ids)
        while left:
            yield from self._run_in_one_process(file, left)

    def _run_in_one_process(self, file: SuiteFile, left: list[str]) -> Iterator[Outcome]:
        """Run tests until the process ends, and remove from `left` what has an outcome."""
        worker = _Worker(self, file, left, {})
        count = len(left)
        running = ""
        started = 0.0
        for kind, *words in worker.lines():
            worker.limit = self.limits.seconds
            if kind == "start":
                running, started = words[0], time.monotonic()
                continue
            running = ""
            if words[0] in left:
                left.remove(words[0])
            yield Outcome(*words)
        code = worker.code()
        outcome = worker.stopped or ("crash" if code < 0 else "error")
        if running:
            left.remove(running)
            seconds = round(time.monotonic() - started, 3)
            yield Outcome(running, outcome, seconds, worker.last_line(), worker.tail())
        elif not left:
            if code or worker.stopped:
                id_ = f"{file.name}::exit"
                yield Outcome(id_, outcome, 0.0, worker.last_line(), worker.tail())
        elif len(left) == count:
            for id_ in left:
                yield Outcome(id_, outcome, 0.0, worker.last_line(), worker.tail())
            left.clear()


class _Worker:
    """A worker's process. It may be silent for `limit` seconds; `stopped` is the limit it broke."""

    def __init__(
        self, runner: Runner, file: SuiteFile, ids: Sequence[str], environment: Mapping[str, str]
    ) -> None:
        self.stopped = ""
        self.limit = _LOAD_SECONDS
        self._limits = runner.limits
        self._scratch = tempfile.TemporaryDirectory(prefix="jax-suite-")
        log, name = tempfile.mkstemp(".log", file.name.replace("/", "-") + "-", runner.logs)
        self._log = Path(name)
        self._read, write = os.pipe()
        variables = {**os.environ, **runner.environment, **environment}
        variables |= {"TEST_TMPDIR": self._scratch.name, "JAX_SUITE_CHANNEL": str(write)}
        if file.devices > 1:
            variables["HLO_PJRT_DEVICES"] = str(file.devices)
        self._process = subprocess.Popen(
            [runner.python, str(_WORKER), str(runner.tree), file.name, *file.flags],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            pass_fds=[write],
            env=variables,
            start_new_session=True,
        )
        os.close(write)
        os.close(log)
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(list(ids)).encode())
            self._process.stdin.close()

    def lines(self) -> Iterator[list[Any]]:
        """Yield what the worker says; stop it when it says nothing for `limit` seconds."""
        heard, rest = time.monotonic(), b""
        while not self.stopped:
            if select.select([self._read], [], [], 0.5)[0]:
                data = os.read(self._read, 1 << 16)
                if not data:
                    break
                *complete, rest = (rest + data).split(b"\n")
                heard = time.monotonic()
                yield from map(json.loads, complete)
            elif time.monotonic() - heard > self.limit:
                self._stop("timeout")
            if self._resident() > self._limits.bytes:
                self._stop("memory")
        os.close(self._read)

    def code(self) -> int:
        """Return the exit status, after the process has ended."""
        try:
            result = self._process.wait(_EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            self._stop("timeout")
            result = self._process.wait()
        with suppress(ProcessLookupError, PermissionError):  # what its tests have left running
            os.killpg(self._process.pid, signal.SIGKILL)
        self._scratch.cleanup()
        if not result:
            self._log.unlink()
        return result

    def _stop(self, reason: str) -> None:
        self.stopped = reason
        self._process.send_signal(signal.SIGABRT)  # faulthandler prints where all threads are
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _resident(self) -> int:
        try:
            pages = Path(f"/proc/{self._process.pid}/statm").read_text().split()
        except OSError:
            return 0
        return int(pages[1]) * _PAGE if len(pages) > 1 else 0

    def tail(self) -> str:
        return self._log.read_text(errors="replace")[-4000:] if self._log.exists() else ""

    def last_line(self) -> str:
        """Return what the process ended with: a limit, signal or error, and where it was."""
        code = self._process.returncode
        lines = [x for x in self.tail().splitlines() if x.strip()]
        if code >= 0:
            return f"exit status {code}: {lines[-1] if lines else ''}"
        stack = [x for x in lines if x.startswith("Fatal") or x.startswith("F0") or "File " in x]
        return " ".join([self.stopped or signal.Signals(-code).name, *map(str.strip, stack[:2])])
