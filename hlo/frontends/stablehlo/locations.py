"""MLIR's locations as metadata: names of operations, and source locations.

A name with a position is a function's, and nested call sites become stack frames, as in XLA.
Source: MLIR's builtin dialect; XLA's `location_exporter.cc`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from hlo.errors import TextError
from hlo.frontends.stablehlo.cursor import STRING, Cursor
from hlo.frontends.text.annotations import OpMetadata
from hlo.frontends.text.header import FileLocation, StackFrame
from hlo.ir import Module
from hlo.values.scan import unescape

_DEFINITION = re.compile(r"^[ \t]*(#[A-Za-z_][\w$.]*+)[ \t]*=[ \t]*loc\(", re.M)
_ALIAS = re.compile(r"#[A-Za-z_][\w$.]*+")
_PLACE = re.compile(r":(\d{1,9})(?::(\d{1,9}))?(?:\s+to\s+(?:(\d{1,9})?:(\d{1,9})))?")


@dataclass(frozen=True)
class _File:
    name: str
    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True)
class _Name:
    name: str
    inside: _Location


@dataclass(frozen=True)
class _Call:
    callee: _Location
    caller: _Location


@dataclass(frozen=True)
class _Fused:
    parts: tuple[_Location, ...]


_Location = _File | _Name | _Call | _Fused | None


class Locations:
    """The locations of a text, decoded lazily; frames are added to a module."""

    def __init__(self, text: str, module: Module) -> None:
        self._text = text
        self._module = module
        self._defined: dict[str, int] | None = None
        self._decoded: dict[str, _Location] = {}
        self._metadata: dict[str, OpMetadata | None] = {}
        self._lines: dict[tuple[str, Any], int] = {}
        # Calls that others are called from, each with its frame, by identity.
        self._frames: dict[int, tuple[int, _Call]] = {}

    def metadata(self, text: str, start: int) -> OpMetadata | None:
        """Return the metadata of `loc(text)`, None if empty. Raises TextError at start."""
        if text not in self._metadata:
            try:
                self._metadata[text] = self._describe(self._decode(text))
            except TextError as e:
                raise TextError(f"loc: {e.message}", start, code=e.code) from None
        return self._metadata[text]

    def name(self, text: str, start: int) -> OpMetadata | None:
        """Return only the name in `loc(text)`. Raises TextError at start."""
        if not text:
            return None
        try:
            names, _ = _names(self._decode(text))
        except TextError as e:
            raise TextError(f"loc: {e.message}", start, code=e.code) from None
        return OpMetadata({"op_name": ";".join(names)}) if names else None

    # --- reading --------------------------------------------------------------------------------

    def _decode(self, text: str) -> _Location:
        cursor = Cursor(text)
        found = self._read(cursor)
        cursor.end()
        return found

    def _read(self, c: Cursor) -> _Location:
        with c.nested():
            if c.accept("loc"):
                c.expect("(")
                found = self._read(c)
                c.expect(")")
                return found
            if c.accept("unknown"):
                return None
            if c.peek("#") or c.peek("callsite"):
                return self._calls(c)
            if c.accept("fused"):
                return self._fused(c)
            return self._name(c)

    def _calls(self, c: Cursor) -> _Location:
        """Return an alias, or a call, whose caller may be either, and so on: stacks are deep."""
        opened: list[tuple[_Location | str, Cursor]] = []
        while True:
            if c.accept("callsite"):
                c.expect("(")
                opened.append((self._read(c), c))
                c.expect("at")
            elif not c.peek("#"):
                found = self._read(c)
                break
            else:
                name = c.match(_ALIAS, "an alias")[0]
                if name in self._decoded:
                    found = self._decoded[name]
                    break
                c = self._definition(name, c)
                opened.append((name, c))
        for what, inside in reversed(opened):
            if isinstance(what, str):
                self._decoded[what] = found
            else:
                inside.expect(")")
                found = _Call(what, found)
        return found

    def _fused(self, c: Cursor) -> _Fused:
        if c.peek("<"):
            c.balanced("<")
        c.expect("[")
        parts: list[_Location] = []
        while not c.accept("]"):
            if parts:
                c.expect(",")
            parts.append(self._read(c))
        return _Fused(tuple(parts))

    def _name(self, c: Cursor) -> _Location:
        name = unescape(c.match(STRING, "a location")[1])
        if c.peek(":"):
            m = c.match(_PLACE, "a line and a column")
            line, column = int(m[1]), int(m[2] or 0)
            return _File(name, line, column, int(m[3] or line), int(m[4] or column))
        inside = None
        if c.accept("("):
            inside = self._read(c)
            c.expect(")")
        return _Name(name, inside)

    def _definition(self, name: str, c: Cursor) -> Cursor:
        """Return a cursor at the definition of an alias."""
        if self._defined is None:
            self._defined = {m[1]: m.end() - 1 for m in _DEFINITION.finditer(self._text)}
        if name not in self._defined:  # A recursive one is not any more.
            c.fail(f"there is no location {name}", code="undefined-computation")
        definition = Cursor("")
        definition.text, definition.pos = self._text, self._defined.pop(name)
        inner = Cursor(definition.balanced("("))
        inner.depth = c.depth
        return inner

    # --- meaning --------------------------------------------------------------------------------

    def _describe(self, location: _Location) -> OpMetadata | None:
        names, kinds = _names(location)
        fields: dict[str, Any] = {}
        if kinds:
            fields["op_type"] = ";".join(kinds)
        if names:
            fields["op_name"] = ";".join(names)
        place = _file(location)
        if place is not None:
            numbers = {
                "source_line": place.line, "source_end_line": place.end_line,
                "source_column": place.column, "source_end_column": place.end_column,
            }  # fmt: skip
            fields["source_file"] = place.name
            # No proto tells a 0 from an absent number.
            fields |= {name: number for name, number in numbers.items() if number}
        frame = self._frame(location, "", 0) if isinstance(location, _Name) else 0
        if frame:
            fields["stack_frame_id"] = frame
        return OpMetadata(fields) if fields else None

    def _frame(self, location: _Location, function: str, caller: int) -> int:
        """Return the number of a frame called from frame number `caller`; 0: there is none."""
        if isinstance(location, _Name):
            return self._frame(location.inside, location.name, caller)
        if isinstance(location, _Call):
            return self._innermost(location, function, caller)
        if not isinstance(location, _File):
            return 0
        place = FileLocation(
            self._line("FileNames", location.name), self._line("FunctionNames", function),
            location.line, location.end_line, location.column, location.end_column,
        )  # fmt: skip
        # The text numbers the callers of frames from 2 on; 1 means none.
        return self._line("StackFrames", StackFrame(self._line("FileLocations", place), caller + 1))

    def _innermost(self, location: _Location, function: str, caller: int) -> int:
        """Return the number of the last of the frames of calls."""
        calls: list[_Call] = []
        known = self._frames if caller == 0 else {}
        while isinstance(location, _Call) and id(location) not in known:
            calls.append(location)
            location = location.caller
        if id(location) in known:
            caller = known[id(location)][0]
        else:
            caller = self._frame(location, function, caller) or caller
        for call in reversed(calls):
            caller = self._frame(call.callee, function, caller) or caller
            if call is not calls[0]:
                known[id(call)] = caller, call
        return caller

    def _line(self, table: str, line: Any) -> int:
        """Return the number of an entry in a table of the module, which is added if it is new."""
        key = (table, line)
        if key not in self._lines:
            tables = self._module.tables
            if not tables:
                tables |= {name: [] for name in _TABLES}
            tables[table].append(line)
            self._lines[key] = len(tables[table])
        return self._lines[key]


_TABLES = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")


def _names(location: _Location) -> tuple[list[str], list[str]]:
    """Return the names of operations, and those that end in a colon: their types."""
    if isinstance(location, _Fused):
        found = [_names(part) for part in location.parts]
        return [n for names, _ in found for n in names], [k for _, kinds in found for k in kinds]
    if isinstance(location, _Call):
        return _names(location.callee)
    if not isinstance(location, _Name):
        return [], []
    if not location.name.endswith(":"):
        name = location.name.partition("@")[0]
        return [name] if name else [], []
    names, kinds = _names(location.inside)
    return names, [location.name[:-1], *kinds]


def _file(location: _Location) -> _File | None:
    if isinstance(location, _Fused):
        files = [part for part in location.parts if isinstance(part, _File)]
        return files[-1] if files else None
    return location if isinstance(location, _File) else None
