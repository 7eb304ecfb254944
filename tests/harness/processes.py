"""Processes that tests start: a limit for hangs, and a check that none outlives its tests."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

HANG_S = 900.0
"""Seconds after which a test takes a process for hung: far more than a busy machine needs."""

PERSISTENT: set[int] = set()
"""Ids of processes that serve many tests; whoever starts one adds it."""

_GRACE_S = 10.0
_PR_SET_CHILD_SUBREAPER = 36


@contextlib.contextmanager
def started(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """Start a command in a process group of its own, which is killed when the block is left.

    `options` are those of `subprocess.Popen`.
    """
    process = subprocess.Popen(command, start_new_session=True, **options)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def adopt_orphans() -> None:
    """Make this process the parent of descendants whose own parent has exited."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill_leftovers() -> list[str]:
    """Kill the running children of this process that are not persistent; return their commands.

    A child that is about to exit has some seconds to do so. Without /proc the list is empty.
    """
    deadline = time.monotonic() + _GRACE_S
    while (running := _running_children()) and time.monotonic() < deadline:
        time.sleep(0.02)
    for pid in running:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return list(running.values())


def _running_children() -> dict[int, str]:
    commands = {}
    for folder in Path("/proc").glob("[0-9]*"):
        pid = int(folder.name)
        with contextlib.suppress(OSError):  # it has exited meanwhile
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            if int(parent) == os.getpid() and state != "Z" and pid not in PERSISTENT:
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                # Python's own process, which frees what the other processes of a pool share.
                if "multiprocessing.resource_tracker" not in command:
                    commands[pid] = command
    return commands
