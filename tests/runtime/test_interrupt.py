"""Calls that end early: by Ctrl-C and other signals, by a deadline, by other devices.

Whatever ends a call, the program can be called again afterwards, and its threads work.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hlo_tools.run.command import main as run_command

import hlo
from hlo import HloError
from hlo.runtime.executable import Executable
from tests.harness.processes import HANG_S

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")

# Counts down to zero; a negative number counts for ever, as the step is two from odd to odd.
LOOP = """HloModule count
test { p = (s64[], f32[]) parameter(0)
  i = s64[] get-tuple-element(p), index=0
  zero = s64[] constant(0)
  ROOT go = pred[] compare(i, zero), direction=NE }
body { p = (s64[], f32[]) parameter(0)
  i = s64[] get-tuple-element(p), index=0
  x = f32[] get-tuple-element(p), index=1
  two = s64[] constant(2)
  j = s64[] subtract(i, two)
  one = f32[] constant(1)
  y = f32[] add(x, one)
  ROOT t = (s64[], f32[]) tuple(j, y) }
ENTRY e { n = s64[] parameter(0)
  x = f32[] constant(0)
  t = (s64[], f32[]) tuple(n, x)
  w = (s64[], f32[]) while(t), condition=test, body=body
  ROOT r = f32[] get-tuple-element(w), index=1 }
"""
# The same for each element, on threads.
MAPPED = """HloModule mapped
test { p = (s64[], s64[]) parameter(0)
  i = s64[] get-tuple-element(p), index=0
  zero = s64[] constant(0)
  ROOT go = pred[] compare(i, zero), direction=NE }
body { p = (s64[], s64[]) parameter(0)
  i = s64[] get-tuple-element(p), index=0
  x = s64[] get-tuple-element(p), index=1
  two = s64[] constant(2)
  j = s64[] subtract(i, two)
  y = s64[] add(x, i)
  ROOT t = (s64[], s64[]) tuple(j, y) }
f { n = s64[] parameter(0)
  x = s64[] constant(0)
  t = (s64[], s64[]) tuple(n, x)
  w = (s64[], s64[]) while(t), condition=test, body=body
  ROOT r = s64[] get-tuple-element(w), index=1 }
ENTRY e { n = s64[20000] parameter(0)
  ROOT m = s64[20000] map(n), dimensions={0}, to_apply=f }
"""
ENDLESS = np.int64(1)


class Signalled(Exception):
    """What the handler raises here: pytest has a use of its own for KeyboardInterrupt."""


@contextmanager
def signalled(handler: object, after_s: float = 0.2) -> Iterator[None]:
    """Have a handler for SIGUSR1, and get that signal after some time."""

    def send() -> None:
        os.kill(os.getpid(), signal.SIGUSR1)

    if threading.current_thread() is not threading.main_thread():
        pytest.skip("only the main thread has signals")
    before = signal.signal(signal.SIGUSR1, handler)  # type: ignore[arg-type]
    timer = threading.Timer(after_s, send)
    timer.start()
    try:
        yield
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)


def raising(number: int, frame: object) -> None:
    raise Signalled


def compiled(text: str, threads: int | None = None) -> Executable:
    return hlo.compile(hlo.parse(text), cache=False, threads=threads)


def test_a_signal_ends_an_endless_loop() -> None:
    exe = compiled(LOOP)
    with pytest.raises(Signalled), signalled(raising):
        exe(ENDLESS)
    assert exe(np.int64(10)) == 5


def test_ctrl_c() -> None:
    code = f"""
        import os, signal, threading, hlo, numpy as np
        signal.signal(signal.SIGINT, signal.default_int_handler)
        exe = hlo.compile(hlo.parse({LOOP!r}), cache=False)
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            exe(np.int64(1))
        except KeyboardInterrupt:
            print("ended", exe(np.int64(10)))
    """
    run = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(run, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert (done.stdout, done.stderr) == ("ended 5.0\n", "")


def test_a_handler_that_returns_ends_nothing() -> None:
    exe = compiled(LOOP)
    seen: list[float] = []
    with signalled(lambda *_: seen.append(time.monotonic()), 0.05):
        while not seen:
            assert exe(np.int64(20_000_000)) == 10_000_000


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_loops_on_threads_end_too(threads: int) -> None:
    exe = compiled(MAPPED, threads)
    n = np.arange(0, 40000, 2)[:20000] % 64
    endless = n.copy()
    endless[[0, 9000, -1]] = 1
    for _ in range(2):
        with pytest.raises(HloError) as error:
            exe(endless, timeout=0.05)
        assert error.value.code == "timeout"
        np.testing.assert_array_equal(exe(n), n // 2 * (n // 2 + 1))


@pytest.mark.parametrize("threads", [1, 2])
def test_a_large_kernel_ends_between_its_shares(threads: int) -> None:
    exe = compiled(
        "f32[1200,1200] dot(f32[1200,1200] a, f32[1200,1200] b), lhs_contracting_dims={1}, "
        "rhs_contracting_dims={0}", threads,
    )  # fmt: skip
    x = np.full((1200, 1200), 0.5, np.float32)
    with pytest.raises(HloError, match=r"had not finished after 0\.001 s"):
        exe(x, x, timeout=0.001)
    assert (exe(x, x) == 300).all()


@pytest.mark.skipif(not (shutil.which("cc") or shutil.which("ld.lld")), reason="there is no linker")
def test_libraries_end_between_their_shares(tmp_path: Path) -> None:
    exe = compiled(
        "f32[1200,1200] dot(f32[1200,1200] a, f32[1200,1200] b), lhs_contracting_dims={1}, "
        "rhs_contracting_dims={0}"
    )
    exe.save(tmp_path / "dot.so")
    library = hlo.load_library(tmp_path / "dot.so", threads=2)
    x = np.full((1200, 1200), 0.5, np.float32)
    for _ in range(2):
        with pytest.raises(HloError) as error:
            library(x, x, timeout=0.001)
        assert error.value.code == "timeout"
        assert (library(x, x) == 300).all()


def test_threads_have_deadlines_of_their_own() -> None:
    exe = compiled(LOOP)
    ended: dict[float, float] = {}

    def run(timeout: float) -> None:
        start = time.monotonic()
        try:
            exe(ENDLESS, timeout=timeout)
        except HloError:
            ended[timeout] = time.monotonic() - start

    threads = [threading.Thread(target=run, args=(t,)) for t in (0.05, 0.4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert 0.04 < ended[0.05] and 0.39 < ended[0.4]


def test_a_deadline_ends_the_interpreter() -> None:
    module = hlo.parse(LOOP)
    start = time.monotonic()
    with pytest.raises(HloError, match=r"count had not finished after 0\.1 s") as error:
        hlo.interpret(module, ENDLESS, timeout=0.1)
    assert error.value.code == "timeout" and time.monotonic() - start > 0.09
    assert hlo.interpret(module, np.int64(4), timeout=100) == 2


def wait_for_threads(count: int) -> None:
    """Wait until no more than that many threads are alive."""
    deadline = time.monotonic() + HANG_S
    while threading.active_count() > count:
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("backend", ["compiled", "reference"])
def test_a_deadline_ends_runs_of_a_client_on_all_devices(backend: str) -> None:
    client, before = hlo.Client(2, backend=backend, cache=False), threading.active_count()
    two = hlo.parse(LOOP.replace("HloModule count", "HloModule two, replica_count=2"))
    one = hlo.parse(LOOP)
    ended: dict[str, Callable[[], object]] = {
        "count": lambda: client.execute(one, [ENDLESS], timeout=0.05),
        "two": lambda: client.execute_replicated(two, [[np.int64(2)], [ENDLESS]], 0.05),
        "(count|two)": lambda: client.execute_parallel([(one, [ENDLESS]), (two, [ENDLESS])], 0.05),
    }
    for name, run in ended.items():
        with pytest.raises(HloError, match=rf"^error: {name} had not finished") as error:
            run()
        assert error.value.code == "timeout"
    last = client.execute_replicated(two, [[np.int64(2)], [np.int64(4)]], timeout=100)
    assert [np.asarray(r) for r in last] == [1, 2]
    wait_for_threads(before)


def test_a_deadline_ends_devices_that_wait_for_others() -> None:
    text = LOOP.replace("HloModule count", "HloModule two, replica_count=2").replace(
        "ROOT r = f32[] get-tuple-element(w), index=1 }",
        "q = f32[] get-tuple-element(w), index=1\n"
        "  ROOT r = f32[2] all-gather(f32[1] reshape(q)), dimensions={0}, replica_groups={{0,1}} }",
    )
    for backend in ("compiled", "reference"):
        client = hlo.Client(2, backend=backend, cache=False)
        with pytest.raises(HloError) as error:
            client.execute_replicated(hlo.parse(text), [[np.int64(2)], [ENDLESS]], timeout=0.1)
        assert error.value.code == "timeout"


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf")])
def test_a_deadline_is_a_time_to_come(timeout: float) -> None:
    n, module = np.int64(2), hlo.parse(LOOP)
    for run in (
        lambda: compiled(LOOP)(n, timeout=timeout),
        lambda: hlo.interpret(module, n, timeout=timeout),
        lambda: hlo.Client(backend="reference").execute(module, [n], timeout=timeout),
    ):
        with pytest.raises(ValueError, match="timeout"):
            run()


def test_a_call_in_a_custom_call_ends_alone() -> None:
    inner = compiled(LOOP)

    def run(op: object, args: list[np.ndarray]) -> np.ndarray:
        with pytest.raises(HloError, match="count had not"):
            inner(ENDLESS, timeout=0.05)
        return args[0] + 1

    host = hlo.Host({"run": run})
    text = 's32[] custom-call(s32[] a), custom_call_target="run"'
    outer = hlo.compile(hlo.parse(text), cache=False, host=host)
    assert outer(np.int32(1), timeout=100) == 2


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*fork.*:RuntimeWarning")  # of JAX, where a test uses it
def test_a_forked_process_has_signals_of_its_own() -> None:
    exe = compiled(MAPPED, 2)
    n = np.zeros(20000, np.int64)
    exe(n)
    child = os.fork()
    if child == 0:
        n[5] = 1
        try:
            with signalled(raising, 0.1):
                exe(n)
        except Signalled:
            os._exit(0 if not exe(n * 0).any() else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


DEVICES = LOOP.replace("HloModule count", "HloModule devices, replica_count=2").replace(
    "ENTRY e { n = s64[] parameter(0)",
    """ENTRY e { n = s64[] parameter(0)
  c = s64[] custom-call(n), custom_call_target="fail_at_zero", custom_call_has_side_effect=true
""",
)


def test_a_device_that_fails_ends_the_loops_of_others() -> None:
    def fail_at_zero(op: object, args: list[np.ndarray]) -> np.ndarray:
        if args[0] == 0:
            time.sleep(0.1)
            raise Signalled
        return args[0]

    client = hlo.Client(device_count=2, host=hlo.Host({"fail_at_zero": fail_at_zero}))
    with pytest.raises(Signalled):
        client.execute_replicated(hlo.parse(DEVICES), [[np.int64(0)], [ENDLESS]])


def test_a_signal_ends_the_loops_of_devices() -> None:
    text = LOOP.replace("HloModule count", "HloModule devices, replica_count=2")
    client, before = hlo.Client(device_count=2), threading.active_count()
    with pytest.raises(Signalled), signalled(raising):
        client.execute_replicated(hlo.parse(text), [[ENDLESS], [ENDLESS]])
    wait_for_threads(before)


# --- hlo-run --timeout --------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["compiled", "reference"])
def test_a_command_ends_after_its_time(backend: str, tmp_path: Path) -> None:
    file = tmp_path / "count.hlo"
    file.write_text(LOOP)
    args = [str(file), "--backend", backend, "--no-cache", "--input"]
    runner = CliRunner()
    done = runner.invoke(run_command, [*args, "10", "--timeout", "1000"])
    assert done.stdout == "out0 = f32[] 5\n"
    done = runner.invoke(run_command, [*args, "1", "--timeout", "0.5"])
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr in [
        f"error: timed out after 0.5 s (while {what} {file}) [timeout]\n"
        for what in ("preparing", "running")
    ]
    done = runner.invoke(run_command, [*args, "1", "--timeout", "0.5", "--json"])
    (error,) = json.loads(done.stdout)["errors"]
    assert (done.exit_code, error["code"], done.stderr) == (1, "timeout", "")


def test_a_command_ends_where_nothing_sees_that_it_is_to() -> None:
    code = """
        import signal, sys, time
        import hlo_tools.run.command as tool

        def stuck(*args, **options):
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
            time.sleep(3600)

        tool._run = stuck
        tool.main(["x.hlo", "--timeout", "0.1"])
    """
    run = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(run, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: timed out after 0.1 s (while starting) [timeout]\n"
