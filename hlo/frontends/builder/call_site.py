"""Where in a Python program an operation was asked for."""

from __future__ import annotations

import linecache
import os
import sys
from dataclasses import replace
from types import CodeType, FrameType
from typing import Any

from hlo.errors import Diagnostic, HloError, InferError, InstructionSpan, Source, TextError

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
# The lines of files as linecache has them, which reads a file anew when it has changed.
_sources: dict[str, tuple[list[str], Source]] = {}
_spans: dict[tuple[str, CodeType, int], InstructionSpan | None] = {}
_MOST_SPANS = 100_000


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
    if frame is None or frame.f_lineno is None:
        return None
    # Code that is loaded anew, from a file that has changed, is other code.
    key = (frame.f_code.co_filename, frame.f_code, frame.f_lineno)
    try:
        return _spans[key]
    except KeyError:
        if len(_spans) == _MOST_SPANS:
            _spans.clear()
        found = _spans[key] = _line(key[0], key[2], frame.f_globals)
        return found


def _line(name: str, number: int, names: dict[str, Any]) -> InstructionSpan | None:
    """Return a line of a file as it is now; names: the globals of its code, which may have it."""
    linecache.checkcache(name)
    lines = linecache.getlines(name, names)
    if not 0 < number <= len(lines):
        return None
    if name not in _sources or _sources[name][0] is not lines:
        _sources[name] = lines, Source(name, "".join(lines))
    source = _sources[name][1]
    line = source.line(number)
    start = source.line_start(number) + len(line) - len(line.lstrip())
    return InstructionSpan(source, start, start + len(line.strip()))


def error_here(error: InferError | TextError | HloError) -> HloError:
    """Return a broken rule, or an error without a place, as an error of the line that runs now."""
    if isinstance(error, HloError):
        here = None if all(d.span for d in error.diagnostics) else call_site()
        if here is None:
            return error
        return HloError(replace(d, span=d.span or here) for d in error.diagnostics)
    return HloError([Diagnostic(error.code, error.message, call_site(), error.hint)])
