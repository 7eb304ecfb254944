"""The schema: the fields of messages, with their numbers and types.

`*.schema` lists messages and enumerations, a field per line: number, name, type. A type is a
numeric type, `string`, `bytes`, or the name of a message or an enumeration.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

SCHEMAS = ("xla_data.schema", "hlo.schema", "compile_options.schema")

# Fields of a HloModuleProto that the text does not have. They are preserved as they are.
UNPRINTED = (
    "id", "cross_program_prefetches", "is_dynamic", "spmd_output_sharding", "profile_info",
    "spmd_parameters_shardings", "device_assignment", "use_auto_spmd_partitioning", "device_type",
    "pjrt_id",
)  # fmt: skip

# Types encoded as a varint, as four and as eight bytes; all others are preceded by a length.
VARINTS = frozenset({"int32", "int64", "uint32", "uint64", "bool"})
FIXED = {"float": 4, "double": 8}


class Message(dict[str, Any]):
    """Field values by name; absent fields have no entry.

    Repeated fields are lists, those of many numbers arrays; enumerations are words, or numbers that
    are not in the schema. offset: where the message begins in its source. unknown: the bytes of
    fields that are not in the schema.
    """

    __slots__ = ("offset", "unknown")

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **fields)
        self.offset = 0
        self.unknown = b""

    def sub(self, name: str) -> Message:
        """Return the message in a field, an empty one if it is absent."""
        found = self.get(name)
        if found is None:
            found = Message()
            found.offset = self.offset
        return found  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True, eq=False)
class EnumType:
    """The words of an enumeration by number, and the numbers by word."""

    name: str
    words: dict[int, str] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Field:
    """A field. `kind` is a numeric type, `string`, `bytes`, or the type of a message or an
    enumeration.

    bulk: many numbers, stored as an array. explicit: a zero is written too, since it differs from
    absence.
    wire_type: 0 for a varint, 1 and 5 for eight and four bytes, 2 for content preceded by its
    length.
    """

    number: int
    name: str
    kind: str | EnumType | MessageType
    repeated: bool
    bulk: bool
    explicit: bool
    wire_type: int = 2


@dataclass(frozen=True, slots=True, eq=False)
class MessageType:
    """The fields of a message."""

    name: str
    by_number: dict[int, Field] = field(default_factory=dict)
    by_name: dict[str, Field] = field(default_factory=dict)

    def fields_of(self, message: Message) -> Iterator[tuple[Field, Any]]:
        """Return the fields of a message that are set, with values, in the order of their
        numbers."""
        found = [(self.by_name[name], value) for name, value in message.items()]
        found.sort(key=lambda pair: pair[0].number)
        return (pair for pair in found if pair[1] is not None)


@cache
def schema() -> dict[str, MessageType]:
    """Return all messages by name."""
    messages: dict[str, MessageType] = {}
    enums: dict[str, EnumType] = {}
    pending: list[Field] = []
    for file in SCHEMAS:
        current: MessageType | EnumType | None = None
        for line in (files("hlo.frontends.proto") / file).read_text().splitlines():
            match line.split():
                case ["message", name]:
                    current = messages[name] = MessageType(name)
                case ["enum", name]:
                    current = enums[name] = EnumType(name)
                case [number, word] if isinstance(current, EnumType):
                    current.words[int(number)] = word
                    current.numbers[word] = int(number)
                case [number, name, kind] if isinstance(current, MessageType):
                    entry = Field(
                        int(number), name, kind.rstrip("*[]?"), kind.endswith(("*", "[]")),
                        kind.endswith("[]"), kind.endswith("?"),
                    )  # fmt: skip
                    current.by_number[entry.number] = current.by_name[name] = entry
                    pending.append(entry)
    for entry in pending:
        assert isinstance(entry.kind, str)
        if entry.kind in VARINTS or entry.kind in enums:
            entry.wire_type = 0
        elif entry.kind in FIXED:
            entry.wire_type = 5 if FIXED[entry.kind] == 4 else 1
        entry.kind = messages.get(entry.kind) or enums.get(entry.kind) or entry.kind
    return messages
