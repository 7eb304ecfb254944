"""The text form of original values: which values of the unoptimized program these were.

`{({"a"}, {"b" {1}})}` is a tuple of the result of `a` and element 1 of that of `b`. The call they
were in may follow: `{({"a"}),["w#$"]}`. A module's recovery table describes how removed values are
computed from others, each by a module in a string. The text is checked here and kept verbatim, not
interpreted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from hlo.values.scan import Scanner

SYNTHETIC = "[synthetic_call]"


# A string, or any other character but spaces.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s"]', re.DOTALL)


class Origin(NamedTuple):
    """An original value: an index path of an instruction's result."""

    instruction: str
    place: tuple[int, ...]


class Recovery(NamedTuple):
    """An entry of the table: a removed value, its source, and the module that computes it."""

    old: Origin | None
    new: Origin | None
    module: str | None


class Origins(NamedTuple):
    """leaves: the index path of each leaf of a value, and its origin. call: the instruction that
    called the computation it was in; empty for a synthetic call, which has no leaves."""

    leaves: list[tuple[tuple[int, ...], Origin | None]]
    call: str | None


def read_origins(s: Scanner) -> Origins:
    """Parse the origins of a value. Raises TextError."""
    s.expect("{")
    if s.accept(SYNTHETIC):
        s.expect("}")
        return Origins([], "")
    leaves = list(_leaves(s))
    call = None
    if s.accept(","):
        s.expect("[")
        call = s.string()
        s.expect("]")
    s.expect("}")
    return Origins(leaves if call != "" else [], call)


def _leaves(s: Scanner) -> Iterator[tuple[tuple[int, ...], Origin | None]]:
    path: list[int] = []
    while True:
        if s.accept("("):
            path.append(0)
            if not s.accept(")"):
                continue
            path.pop()
        else:
            yield tuple(path), _read_origin(s)
        # Close every tuple that ends here.
        while path:
            if s.accept(","):
                path[-1] += 1
                break
            s.expect(")")
            path.pop()
        else:
            return


def _read_origin(s: Scanner) -> Origin | None:
    s.expect("{")
    origin = None
    if s.peek('"'):
        origin = Origin(s.string(), s.integers() if s.peek("{") else ())
    s.expect("}")
    return origin


def recoveries(s: Scanner) -> Iterator[Recovery]:
    """Parse the entries of a module's table. Raises TextError."""
    s.expect("{")
    while not s.accept("}"):
        old = _read_origin(s)
        s.expect(":")
        new = _read_origin(s)
        s.accept(",")
        yield Recovery(old, new, s.string() if s.peek('"') else None)


def read_origin_text(s: Scanner) -> str:
    """Return the text of an origin, checked. Raises TextError."""
    start = s.pos
    if read_origins(s).call == "":
        return f"{{{SYNTHETIC}}}"
    # Spaces are where XLA prints them: between the elements of a tuple, and before an index path.
    written: list[str] = []
    open_brackets: list[str] = []
    for token in _TOKEN.findall(s.text[start : s.pos]):
        if token == "," and open_brackets[-1] == "(":
            token = ", "
        elif token == "{" and written and written[-1].endswith('"'):
            token = " {"
        if token[-1] in "({[":
            open_brackets.append(token[-1])
        elif token in ")}]":
            open_brackets.pop()
        written.append(token)
    return "".join(written)


def read_recovery_text(s: Scanner) -> str:
    """Return the text of a module's table, checked. Raises TextError."""
    start = s.pos
    for _ in recoveries(s):
        pass
    return s.text[start : s.pos].rstrip()
