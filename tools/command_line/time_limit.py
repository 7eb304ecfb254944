"""`--timeout`: a run that takes too long ends in one error, wherever it is."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from .common import BAD_INPUT, current_work

if TYPE_CHECKING:
    from hlo.errors import HloError

# How long the main thread may take to come to where it sees that its time is over. What LLVM does,
# and a large kernel that is one piece, see nothing: then the process ends without it.
_GRACE_S = 1.0


class _Over(BaseException):
    """Ends what the main thread does."""


@contextlib.contextmanager
def time_limit(seconds: float | None, show: Callable[[HloError], None]) -> Iterator[None]:
    """End what has not ended after so many seconds, and show an error, code `timeout`.

    The process is to end then: an import, or anything else, may be half done.
    """
    if seconds is None:
        yield
        return
    done = threading.Event()
    has_signal = hasattr(signal, "SIGALRM") and (
        threading.current_thread() is threading.main_thread()
    )
    what = ""

    def tell() -> None:
        from hlo.errors import HloError

        doing = what or "starting"
        show(HloError.at("timeout", f"timed out after {seconds:g} s (while {doing})"))

    def over(*_: object) -> None:
        if not done.is_set():
            raise _Over

    def wait() -> None:
        nonlocal what
        if done.wait(seconds):
            return
        what = current_work()
        if has_signal:
            os.kill(os.getpid(), signal.SIGALRM)
            if done.wait(_GRACE_S):
                return
        tell()
        sys.stderr.flush()
        os._exit(BAD_INPUT)

    before = signal.signal(signal.SIGALRM, over) if has_signal else None
    try:
        threading.Thread(target=wait, daemon=True).start()
        yield
    except _Over:
        done.set()
        tell()
    finally:
        done.set()
        if has_signal:
            signal.signal(signal.SIGALRM, before)
