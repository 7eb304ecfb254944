"""Modules in the lines of other text: logs, what a program printed, mails, Markdown.

What precedes a module on its first line precedes its other lines too, with other numbers; or it
precedes a message of several lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hlo.io.excerpts.braces import depth_of
from hlo.io.excerpts.excerpt import Piece

_NAME = r"%?[A-Za-z_][\w.-]*+"
# What may stand between computations: nothing else is part of a module.
BETWEEN_COMPUTATIONS = re.compile(
    rf"[ \t]*+(?:$|\\n|//|/\*|\}}|(?:ENTRY[ \t]++)?{_NAME}[ \t]*+(?:\(|\{{)|\d++[ \t]"
    r"|(?:FileNames|FunctionNames|FileLocations|StackFrames)\b)"
)
# Definitions of aliases, before a module of MLIR or behind it.
_ALIAS = re.compile(r"[#!][\w.$-]++[ \t]*=")
_BETWEEN_FUNCTIONS = re.compile(
    rf"[ \t]*+(?:$|//|{_ALIAS.pattern}|func\.func\b|sdy\.mesh\b|(?P<module>module\b))"
)
_FENCE = re.compile(r"[ \t>]*(?:`{3}|~{3})")
# How a message of another begins in a log: glog, timestamps, Python's logging.
_RECORD = re.compile(
    r"[IWEF]\d{4} \d\d:\d\d:\d|\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d|"
    r"\[?(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\b"
)


def lines_from(text: str, at: int, *, is_mlir: bool) -> tuple[int, list[Piece]]:
    """Return where the module that begins at an offset ends, and its pieces of the text."""
    start, end = text.rfind("\n", 0, at) + 1, _line_end(text, at)
    prefix = _prefix(text, text[start:at], end)
    between = _BETWEEN_FUNCTIONS if is_mlir else BETWEEN_COMPUTATIONS
    pieces: list[Piece] = [(at, text[at:end])]
    depth, last = depth_of(text[at:end]), 1
    for _, begin, stop in _rest(text, end, prefix):
        if begin is None:
            if depth > 0 or prefix is not None:
                continue  # another thread's message
            break
        line = text[begin:stop]
        if _FENCE.match(text, begin):
            break
        if depth <= 0:
            m = between.match(line)
            if m is None or (is_mlir and m["module"] and not _ALIAS.match(pieces[last - 1][1])):
                break
        pieces.append((begin, line))
        depth += depth_of(line)
        if line.strip():
            last = len(pieces)
    del pieces[last:]
    return pieces[-1][0] + len(pieces[-1][1]), pieces


def first_line(text: str, at: int) -> int:
    """Return where the aliases begin that a module of MLIR at an offset may use."""
    start = text.rfind("\n", 0, at) + 1
    while start:
        before = text.rfind("\n", 0, start - 1) + 1
        alias = _ALIAS.search(text, before, start)
        if alias is None:
            break
        start, at = before, alias.start()
    return at


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def _rest(
    text: str, at: int, prefix: re.Pattern[str] | None
) -> Iterator[tuple[int, int | None, int]]:
    """Yield the lines from an offset on: start, start without prefix, end.

    The second is None for a line of something else.
    """
    while at < len(text):
        end = _line_end(text, at)
        begin: int | None = at
        if prefix is not None:
            m = prefix.match(text, at, end)
            begin = m.end() if m else at if text[at:end].isspace() else None
        elif _RECORD.match(text, at):
            begin = None
        yield at, begin, end
        at = end


def _prefix(text: str, first: str, at: int) -> re.Pattern[str] | None:
    """Return what all lines of a module begin with; None if they are as they are.

    first: what precedes the first of them. at: where the second begins.
    """
    if not first.strip():
        return None
    # Some write a title into the first line, behind the prefix.
    bracket = max(first.rfind("] "), first.rfind("]\t"))
    for candidate in (first, first[: bracket + 2]) if bracket >= 0 else (first,):
        pattern = _with_other_numbers(candidate)
        for start, _, end in _rest(text, at, None):
            if pattern.match(text, start):
                return pattern
            if not text[start:end].isspace() and not _RECORD.match(text, start):
                break  # a line without any prefix
    return None


def _with_other_numbers(prefix: str) -> re.Pattern[str]:
    """Return the pattern of a prefix in which numbers and the widths of gaps may differ."""
    words = re.findall(r"[ \t]+|[ \t]*\d+|[^ \t\d]+", prefix)
    return re.compile(
        "".join(
            r"[ \t]*+" if w.isspace() else r"[ \t]*+\d++" if w[-1].isdigit() else re.escape(w)
            for w in words
        )
    )
