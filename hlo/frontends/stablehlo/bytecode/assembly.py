"""The tables of bytecode that is written: strings, attributes, types and properties by number."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, NoReturn

from hlo.errors import InferError
from hlo.frontends.stablehlo.attributes import Attribute, String
from hlo.frontends.stablehlo.bytecode import layout
from hlo.frontends.stablehlo.bytecode.stream import Output
from hlo.frontends.stablehlo.bytecode.versions import TooOldError, Version
from hlo.values.scan import to_bytes

# Writes an attribute or a type of a dialect, with its code.
Write = Callable[["Encoder", Output, Any], None]


class _Numbers(dict[Any, int]):
    """Numbers of things in the order of their first use."""

    def of(self, key: Hashable) -> int:
        return self.setdefault(key, len(self))


class Tables:
    """What operations refer to by number."""

    def __init__(self) -> None:
        self._strings = _Numbers()
        self._dialects = _Numbers()
        # Names of operations, attributes and types: each with its dialect.
        self._op_names = _Numbers()
        self._attributes = _Numbers()
        self._types = _Numbers()
        self._properties = _Numbers()

    def string(self, text: str) -> int:
        return self._strings.of(to_bytes(text))

    def op_name(self, name: str) -> int:
        """Return the number of an operation's name, which has its dialect."""
        dialect, _, name = name.partition(".")
        return self._op_names.of((dialect, self.string(name)))

    def attribute(self, dialect: str, out: Output) -> int:
        return self._attributes.of((dialect, tuple(out.pieces())))

    def type(self, dialect: str, out: Output) -> int:
        return self._types.of((dialect, tuple(out.pieces())))

    def properties(self, out: Output) -> int:
        return self._properties.of(tuple(out.pieces()))

    def file(self, version: int, producer: str, ir: Output) -> bytes:
        """Return a file with operations that refer to these tables."""
        table, offsets = Output(), Output()
        offsets.varint(len(self._attributes))
        offsets.varint(len(self._types))
        for entries in (self._attributes, self._types):
            for pieces in self._by_dialect(entries, offsets):
                # The flag says that the dialect encodes it.
                offsets.flagged(sum(map(len, pieces)), True)
                for piece in pieces:
                    table.raw(piece)
        operations = Output()
        for name in self._by_dialect(self._op_names, operations):
            operations.flagged(name, True)
        properties = Output()
        properties.varint(len(self._properties))
        for pieces in self._properties:
            properties.varint(sum(map(len, pieces)))
            for piece in pieces:
                properties.raw(piece)
        file = Output()
        file.raw(layout.MAGIC)
        file.varint(version)
        file.raw(to_bytes(producer) + b"\0")
        # Names of dialects are strings too.
        file.section(layout.DIALECTS, self._dialects_section(operations))
        file.section(layout.STRINGS, self._strings_section())
        file.section(layout.TABLE, table)
        file.section(layout.OFFSETS, offsets)
        file.section(layout.IR, ir)
        file.section(layout.PROPERTIES_SECTION, properties)
        return b"".join(file.pieces())

    def _by_dialect(self, entries: Iterable[tuple[str, Any]], out: Output) -> Iterator[Any]:
        """Yield entries; write the dialect and the length of each run of one dialect before it."""
        for dialect, run in groupby(entries, lambda entry: entry[0]):
            group = [entry for _, entry in run]
            out.varint(self._dialects.of(dialect))
            out.varint(len(group))
            yield from group

    def _dialects_section(self, operations: Output) -> Output:
        out = Output()
        out.varint(len(self._dialects))
        for name in self._dialects:
            # Without the flag it has no version.
            out.flagged(self.string(name), False)
        out.varint(len(self._op_names))
        for piece in operations.pieces():
            out.raw(piece)
        return out

    def _strings_section(self) -> Output:
        out = Output()
        out.varint(len(self._strings))
        # Lengths are in reverse order, and include a null.
        for data in reversed(self._strings):
            out.varint(len(data) + 1)
        for data in self._strings:
            out.raw(data + b"\0")
        return out


class Encoder:
    """Encodes the attributes and types of a dialect, for a version of StableHLO."""

    def __init__(
        self, tables: Tables, dialect: str, attribute: Write, type_: Write, target: Version,
        values: Encoder | None = None,
    ) -> None:  # fmt: skip
        """values: the encoder of what dictionaries have, where it is of another dialect."""
        self._tables = tables
        self._values = values or self
        self._dialect = dialect
        self._write_attribute = attribute
        self._write_type = type_
        self._types: dict[Hashable, int] = {}
        self.target = target

    def string(self, text: str) -> int:
        return self._tables.string(text)

    def attribute(self, value: object) -> int:
        """Return the number of an attribute. Raises InferError if the dialect has no such."""
        out = Output()
        self._write_attribute(self, out, value)
        return self._tables.attribute(self._dialect, out)

    def type(self, value: Hashable) -> int:
        """Return the number of a type. Raises InferError if the dialect has no such."""
        number = self._types.get(value)
        if number is None:
            out = Output()
            self._write_type(self, out, value)
            number = self._types[value] = self._tables.type(self._dialect, out)
        return number

    def attributes(self, out: Output, values: Iterable[object]) -> None:
        """Write a list of attributes."""
        numbers = [self.attribute(value) for value in values]
        out.varint(len(numbers))
        for number in numbers:
            out.varint(number)

    def types(self, out: Output, values: Iterable[Hashable]) -> None:
        """Write a list of types."""
        numbers = [self.type(value) for value in values]
        out.varint(len(numbers))
        for number in numbers:
            out.varint(number)

    def pairs(self, out: Output, fields: Mapping[str, Attribute]) -> None:
        """Write a dictionary."""
        out.varint(len(fields))
        for key, value in fields.items():
            out.varint(self.attribute(String(key)))
            out.varint(self._values.attribute(value))

    def need(self, since: Version, what: object) -> None:
        """Raise TooOldError if only newer versions than the target have something."""
        if self.target < since:
            raise TooOldError(since, self.target, str(what))

    def refuse(self, message: str) -> NoReturn:
        """Raise InferError for what has no counterpart."""
        raise InferError(message, code="no-counterpart")
