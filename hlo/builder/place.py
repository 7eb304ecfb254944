"""Where in a Python program an operation was asked for."""

from __future__ import annotations

import linecache
import os
import sys
from dataclasses import replace
from types import FrameType

from hlo.errors import Diagnostic, HloError, InferError, InstructionSpan, Source, TextError

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_sources: dict[str, Source] = {}


class Unnamed(HloError):
    """An error that does not yet say which operation is wrong."""

    def named(self, operation: str) -> HloError:
        """Return the error as one of an operation."""
        return HloError(replace(d, message=f"{operation}: {d.message}") for d in self.diagnostics)


def call_site() -> InstructionSpan | None:
    """Return the line outside this package that runs now; None if its text is not known."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    if frame is None:
        return None
    name = frame.f_code.co_filename
    source = _sources.get(name)
    if source is None:
        source = _sources[name] = Source(name, "".join(linecache.getlines(name, frame.f_globals)))
    if not source.text or frame.f_lineno is None:
        return None
    line = source.line(frame.f_lineno)
    start = source.line_start(frame.f_lineno)
    text = line.strip()
    return InstructionSpan(source, start + line.find(text), start + line.find(text) + len(text))


def error_here(error: InferError | TextError | HloError) -> HloError:
    """Return a broken rule, or an error without a place, as an error of the line that runs now."""
    if isinstance(error, HloError):
        here = None if all(d.span for d in error.diagnostics) else call_site()
        if here is None:
            return error
        return HloError(replace(d, span=d.span or here) for d in error.diagnostics)
    return HloError([Diagnostic(error.code, error.message, call_site(), error.hint)])
