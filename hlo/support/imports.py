"""What is made once and stays, modules above all: the cycle collector spends no time on it."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def lasting() -> Iterator[None]:
    """Run the body without the cycle collector; what it makes stays for as long as the process.

    The collector would look at all of it again and again while there is more and more: a fifth of
    the time to the first result.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        # To freeze and to unfreeze what there is makes it old at once: only a full collection looks
        # at it. What somebody else has frozen has to stay so.
        if not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
        if enabled:
            gc.enable()


@contextlib.contextmanager
def first_import(name: str) -> Iterator[None]:
    """Import in the body a module, with what it needs; nothing else if it is there already."""
    with contextlib.nullcontext() if name in sys.modules else lasting():
        yield
