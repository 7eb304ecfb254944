"""The sections of MLIR's bytecode: strings, dialects, tables of attributes and types, operations.

Attributes and types are decoded at their first use, by the `Decoder` of their dialect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hlo.frontends.stablehlo.bytecode import layout
from hlo.frontends.stablehlo.bytecode.stream import Stream, fail
from hlo.values.scan import from_bytes
from hlo.values.types import MAX_NESTING


class Value(NamedTuple):
    """A decoded attribute or type: as MLIR text, and what it says where other code needs that.

    value: a Python value; NONE for the type `none` of VHLO, which stands for an absent attribute.
    """

    text: str
    value: Any = None


@dataclass
class Operation:
    """An operation. name: with its dialect; offset: of its first byte."""

    name: str
    offset: int
    attrs: dict[str, Value] = field(default_factory=dict)
    location: Value | None = None
    operands: list[Argument] = field(default_factory=list)
    results: list[Argument] = field(default_factory=list)
    regions: list[Region] = field(default_factory=list)


class Argument(NamedTuple):
    """A value: its name in MLIR text and its type. location: of a block's argument."""

    name: str
    type: Value
    location: Value | None = None


@dataclass
class Region:
    """A region of one block: its arguments and operations."""

    arguments: list[Argument] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)


# Decodes one attribute, or one type, of a dialect.
Decoder = Callable[["Reader", Stream], Value]


class _Entry(NamedTuple):
    """An attribute or a type in its table."""

    dialect: str
    start: int
    end: int
    is_text: bool


class Reader:
    """Reads a whole file; `attributes` and `types` are the decoders of dialects."""

    def __init__(
        self, data: bytes, attributes: Mapping[str, Decoder], types: Mapping[str, Decoder],
        properties: Mapping[str, tuple[str, ...]],
    ) -> None:  # fmt: skip
        """properties: for each operation that has some, their names in order, those that may be
        absent with a `?` behind."""
        self._decoders = {"attribute": attributes, "type": types}
        self._property_names = properties
        self._depth = 0
        # Locations that have aliases, by these.
        self.locations: dict[str, str] = {}
        stream = Stream(data, len(layout.MAGIC), len(data))
        self.version = stream.varint()
        if self.version > layout.NEWEST:
            fail(
                f"version {self.version} of MLIR's bytecode is newer than {layout.NEWEST}",
                len(layout.MAGIC),
            )
        self.producer = from_bytes(stream.until_null())
        sections: dict[int, Stream] = {}
        while not stream.at_end:
            start = stream.pos
            number, content = stream.section()
            if number in sections:
                fail(f"section {number} occurs twice", start)
            sections[number] = content
        for number in (layout.STRINGS, layout.DIALECTS, layout.TABLE, layout.OFFSETS, layout.IR):
            if number not in sections:
                fail(f"section {number} is missing", stream.pos)
        self._strings = _read_strings(sections[layout.STRINGS])
        self.dialects: list[str] = []
        self._op_names: list[str] = []
        self._read_dialects(sections[layout.DIALECTS])
        self._entries: dict[str, list[_Entry]] = {"attribute": [], "type": []}
        self._known: dict[tuple[str, int], Value] = {}
        self._table = sections[layout.TABLE]
        self._read_entries(sections[layout.OFFSETS])
        self._properties = _read_properties(sections.get(layout.PROPERTIES_SECTION))
        self._ir = sections[layout.IR]

    # --- tables ---------------------------------------------------------------------------------

    def _read_dialects(self, s: Stream) -> None:
        for _ in range(s.count()):
            if self.version >= layout.DIALECT_VERSIONS:
                number, is_versioned = s.flagged()
                self.dialects.append(self._string(number, s))
                if is_versioned:
                    s.section()
            else:
                self.dialects.append(self.string(s))
        if self.version >= layout.BRIEF_ARGUMENTS:
            s.varint()  # the number of operation names
        while not s.at_end:
            dialect = self._dialect(s)
            for _ in range(s.count()):
                if self.version >= layout.PROPERTIES:
                    name = self._string(s.flagged()[0], s)
                else:
                    name = self.string(s)
                self._op_names.append(f"{dialect}.{name}")

    @property
    def dialects_of_operations(self) -> set[str]:
        """The dialects that have operations here."""
        return {name.partition(".")[0] for name in self._op_names}

    def _dialect(self, s: Stream) -> str:
        return self.dialects[self._index(s, len(self.dialects), "dialect")]

    def _read_entries(self, s: Stream) -> None:
        counts = {"attribute": s.varint(), "type": s.varint()}
        pos = self._table.pos
        for kind, entries in self._entries.items():
            while len(entries) < counts[kind]:
                dialect = self._dialect(s)
                for _ in range(s.count()):
                    size, is_custom = s.flagged()
                    if size > self._table.end - pos:
                        fail("the table of attributes and types is too short", s.pos)
                    entries.append(_Entry(dialect, pos, pos + size, not is_custom))
                    pos += size

    def _index(self, s: Stream, count: int, what: str) -> int:
        start, number = s.pos, s.varint()
        if number >= count:
            fail(f"there is no {what} {number}, there are {count}", start)
        return number

    def _string(self, number: int, s: Stream) -> str:
        if number >= len(self._strings):
            fail(f"there is no string {number}, there are {len(self._strings)}", s.pos)
        return self._strings[number]

    # --- what decoders read ---------------------------------------------------------------------

    def string(self, s: Stream) -> str:
        """Return the string whose number is next."""
        return self._strings[self._index(s, len(self._strings), "string")]

    def attribute(self, s: Stream) -> Value:
        """Return the attribute whose number is next."""
        start = s.pos
        return self.entry("attribute", s.varint(), start)

    def type(self, s: Stream) -> Value:
        """Return the type whose number is next."""
        start = s.pos
        return self.entry("type", s.varint(), start)

    def behind(self, s: Stream, dialect: str, code: int) -> tuple[Stream, int] | None:
        """Return the content behind the code of the attribute whose number is next, and the number.

        None if it is another dialect's, has another code, or is known: then nothing has been read.
        """
        start, entries = s.pos, self._entries["attribute"]
        number = s.varint()
        if number < len(entries) and ("attribute", number) not in self._known:
            entry = entries[number]
            if entry.dialect == dialect and not entry.is_text:
                inside = Stream(self._table.data, entry.start, entry.end)
                if inside.varint() == code:
                    return inside, number
        s.pos = start
        return None

    def define_location(self, number: int, text: str) -> str:
        """Return the alias that stands for an attribute with a number, a location, from now on."""
        alias = f"#at{number}"
        self.locations[alias] = text
        self._known["attribute", number] = Value(alias)
        return alias

    def optional_attribute(self, s: Stream) -> Value | None:
        """Return the attribute whose number is next, None if it is absent."""
        number, is_present = s.flagged()
        return self.entry("attribute", number, s.pos) if is_present else None

    def attributes(self, s: Stream) -> list[Value]:
        """Return a list of attributes."""
        return [self.attribute(s) for _ in range(s.count())]

    def types(self, s: Stream) -> list[Value]:
        """Return a list of types."""
        return [self.type(s) for _ in range(s.count())]

    def entry(self, kind: str, number: int, offset: int) -> Value:
        """Return the attribute or type with a number, which is at an offset."""
        known = self._known.get((kind, number))
        if known is not None:
            return known
        entries = self._entries[kind]
        if number >= len(entries):
            fail(f"there is no {kind} {number}, there are {len(entries)}", offset)
        entry = entries[number]
        s = Stream(self._table.data, entry.start, entry.end)
        if entry.is_text:
            value = Value(from_bytes(s.until_null()))
        else:
            decode = self._decoders[kind].get(entry.dialect)
            if decode is None:
                fail(f"{kind}s of the dialect {entry.dialect} are not read", entry.start)
            with self.nested(entry.start):
                value = decode(self, s)
        if not s.at_end:
            fail(f"the {kind} is followed by {s.end - s.pos} bytes that are not part of it", s.pos)
        self._known[kind, number] = value
        return value

    @contextmanager
    def nested(self, offset: int) -> Iterator[None]:
        """Count the nesting depth. Raises TextError if it is too deep."""
        self._depth += 1
        if self._depth > MAX_NESTING:
            fail(f"nested more than {MAX_NESTING} deep", offset, "nesting-too-deep")
        yield
        self._depth -= 1

    # --- operations -----------------------------------------------------------------------------

    def operations(self) -> list[Operation]:
        """Return the operations of the whole file, usually one module."""
        region = Region()
        _Body(self, _Scope()).block(self._ir, region)
        if not self._ir.at_end:
            fail("the last operation is followed by other bytes", self._ir.pos)
        return region.operations

    def op_name(self, s: Stream) -> str:
        return self._op_names[self._index(s, len(self._op_names), "operation name")]

    def properties(self, name: str, s: Stream) -> dict[str, Value]:
        """Return the properties of an operation, whose number is next."""
        start = s.pos
        content = self._properties[self._index(s, len(self._properties), "record of properties")]
        s = Stream(content.data, content.pos, content.end)
        found: dict[str, Value] = {}
        names = self._property_names.get(name)
        if names is None:
            fail(f"properties of {name} are not read", start)
        for key in names:
            value = self.optional_attribute(s) if key.endswith("?") else self.attribute(s)
            if value is not None:
                found[key.rstrip("?")] = value
        return found


@dataclass
class _Names:
    """How many arguments and results of operations a function has named."""

    arguments: int = 0
    results: int = 0


@dataclass
class _Scope:
    """The values of an isolated region and of the regions inside it, by their index there."""

    names: _Names = field(default_factory=_Names)
    values: list[Argument | None] = field(default_factory=list)


class _Body:
    """Reads the block of a region, whose values begin at an index of the scope."""

    def __init__(self, reader: Reader, scope: _Scope, start: int = 0) -> None:
        self._reader = reader
        self._scope = scope
        self._next = start

    def block(self, s: Stream, region: Region) -> None:
        """Read a block: its arguments and operations."""
        count, has_arguments = s.flagged()
        if has_arguments:
            self._arguments(s, region)
        if count > s.end - s.pos:
            fail(f"{count} operations cannot fit in the {s.end - s.pos} bytes left", s.pos)
        for _ in range(count):
            region.operations.append(self._operation(s))

    def _arguments(self, s: Stream, region: Region) -> None:
        reader, names = self._reader, self._scope.names
        for _ in range(s.count()):
            if reader.version >= layout.BRIEF_ARGUMENTS:
                start = s.pos
                number, has_location = s.flagged()
                kind = reader.entry("type", number, start)
                location = reader.attribute(s) if has_location else None
            else:
                kind, location = reader.type(s), reader.attribute(s)
            argument = Argument(f"%arg{names.arguments}", kind, location)
            names.arguments += 1
            self._define(argument, s)
            region.arguments.append(argument)
        if reader.version >= layout.USE_LISTS and s.byte():
            _skip_use_lists(s, len(region.arguments))

    def _define(self, value: Argument, s: Stream) -> None:
        if self._next >= len(self._scope.values):
            fail("a region defines more values than it says", s.pos)
        self._scope.values[self._next] = value
        self._next += 1

    def _operand(self, s: Stream) -> Argument:
        start, index = s.pos, s.varint()
        values = self._scope.values
        known = values[index] if index < len(values) else None
        if known is None:
            fail(f"value {index} is used before it is defined", start)
        return known

    def _operation(self, s: Stream) -> Operation:
        reader, offset = self._reader, s.pos
        op = Operation(reader.op_name(s), offset)
        mask = s.byte()
        op.location = reader.attribute(s)
        if mask & layout.HAS_ATTRIBUTES:
            found = reader.attribute(s)
            if not isinstance(found.value, dict):
                fail("the attributes of an operation are not a dictionary", s.pos)
            op.attrs |= found.value
        if mask & layout.HAS_PROPERTIES:
            op.attrs |= reader.properties(op.name, s)
        types = reader.types(s) if mask & layout.HAS_RESULTS else []
        if mask & layout.HAS_OPERANDS:
            op.operands = [self._operand(s) for _ in range(s.count())]
        if mask & layout.HAS_SUCCESSORS:
            fail(f"{op.name} has successors, which have no counterpart in HLO", offset)
        if mask & layout.HAS_USE_LISTS:
            _skip_use_lists(s, len(types))
        count, is_isolated = s.flagged() if mask & layout.HAS_REGIONS else (0, False)
        if count > s.end - s.pos:
            fail(f"{count} regions cannot fit in the {s.end - s.pos} bytes left", s.pos)
        self._results(op, types, s)
        scope = self._scope
        if is_isolated:
            scope = _Scope(_Names() if op.name in _FUNCTIONS else scope.names)
            if reader.version >= layout.ISOLATED_SECTIONS:
                s = self._section(s)
        with reader.nested(offset):
            for _ in range(count):
                op.regions.append(self._region(s, scope))
        return op

    def _section(self, s: Stream) -> Stream:
        """Return the section that has the regions of an isolated operation."""
        start = s.pos
        number, content = s.section()
        if number != layout.IR:
            fail(f"regions are in section {number}, not {layout.IR}", start)
        return content

    def _results(self, op: Operation, types: list[Value], s: Stream) -> None:
        """Define the results of an operation, which precede the values of its regions."""
        if not types:
            return
        names = self._scope.names
        name = f"%{names.results}"
        names.results += 1
        for i, kind in enumerate(types):
            result = Argument(f"{name}#{i}" if len(types) > 1 else name, kind)
            self._define(result, s)
            op.results.append(result)

    def _region(self, s: Stream, scope: _Scope) -> Region:
        region = Region()
        blocks = s.varint()
        if not blocks:
            return region
        if blocks != 1:
            fail("a region of several blocks has no counterpart in HLO", s.pos, "bad-computation")
        start, count = len(scope.values), s.count()
        scope.values += [None] * count
        _Body(self._reader, scope, start).block(s, region)
        del scope.values[start:]
        return region


_FUNCTIONS = ("vhlo.func_v1", "func.func")


def _skip_use_lists(s: Stream, values: int) -> None:
    """Skip the orders in which values are used, which are of no consequence here."""
    for _ in range(s.count() if values > 1 else 1):
        if values > 1:
            s.varint()
        for _ in range(min(s.flagged()[0], s.end - s.pos + 1)):
            s.varint()


def _read_strings(s: Stream) -> list[str]:
    lengths = [s.varint() for _ in range(s.count())]
    end, strings = s.end, []
    for length in lengths:
        # Lengths are in reverse order, and include a null.
        if not length or end - length < s.pos:
            fail("the section of strings is too short", s.pos)
        strings.append(from_bytes(s.data[end - length : end - 1]))
        end -= length
    if end != s.pos:
        fail("the section of strings is too long", s.pos)
    return strings[::-1]


def _read_properties(s: Stream | None) -> list[Stream]:
    if s is None:
        return []
    found = []
    for _ in range(s.count()):
        size = s.varint()
        start = s.pos
        s.take(size)
        found.append(Stream(s.data, start, s.pos))
    return found
