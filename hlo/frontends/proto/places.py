"""Where messages keep attributes, and how they are read and written there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from hlo.frontends.proto.schema import EnumType, Field, Message, MessageType, schema
from hlo.values.types import Shape

Operands = Sequence[Shape]


@dataclass(frozen=True)
class Place:
    """How an attribute is read from an instruction's message, and written into it.

    read: gets the message and the shapes of the operands. write: gets the value and the message.
    """

    read: Callable[[Message, Operands], Any]
    write: Callable[[Any, Message], None]


def _identity(value: Any) -> Any:
    return value


@cache
def _field(path: str) -> Field:
    """Return the field of an instruction that a path such as `precision_config.algorithm` names."""
    kind: Any = schema()["HloInstructionProto"]
    for name in path.split("."):
        assert isinstance(kind, MessageType)
        entry = kind.by_name[name]
        kind = entry.kind
    return entry


def _absent(entry: Field) -> Any:
    if entry.repeated:
        return []
    if isinstance(entry.kind, EnumType):
        return entry.kind.words[0]
    return {"string": "", "bytes": b"", "bool": False, "float": 0.0}.get(str(entry.kind), 0)


def at(
    path: str, read: Callable[[Any], Any] = _identity, write: Callable[[Any], Any] = _identity
) -> Place:
    """Return the place of an attribute that is one field. An absent field is read as its zero."""
    *outer, last = path.split(".")

    def read_it(m: Message, operands: Operands) -> Any:
        for name in outer:
            m = m.sub(name)
        return read(m[last] if last in m else _absent(_field(path)))

    def write_it(value: Any, m: Message) -> None:
        for name in outer:
            m = m.setdefault(name, Message())
        m[last] = write(value)

    return Place(read_it, write_it)


def ints(path: str) -> Place:
    """Return the place of an attribute that is a list of integers."""
    return at(path, tuple, list)


def word(path: str, prefix: str = "", *, lower: bool = False) -> Place:
    """Return the place of an attribute that is a word: the message's without a prefix."""

    def read(value: Any) -> str:
        text = str(value).removeprefix(prefix)
        return text.lower() if lower else text

    return at(path, read, lambda v: prefix + (v.upper() if lower else v))


def known(place: Place, nothing: Any, instead: Any = None) -> Place:
    """Return a place where one value says that there is none, and another one is meant."""

    def read(m: Message, operands: Operands) -> Any:
        value = place.read(m, operands)
        return instead if value == nothing else value

    return Place(read, place.write)


def listed(path: str, read: Callable[[Message], Any], write: Callable[[Any], Message]) -> Place:
    """Return the place of an attribute that is a list of messages."""
    return at(path, lambda ms: tuple(map(read, ms)), lambda values: list(map(write, values)))


def pairs(read: type, **fields: str) -> tuple[Callable[[Message], Any], Callable[[Any], Message]]:
    """Return how a value of integers is read and written: its fields by those of a message."""
    return (
        lambda m: read(**{mine: m.get(theirs, 0) for mine, theirs in fields.items()}),
        lambda v: Message((theirs, getattr(v, mine)) for mine, theirs in fields.items()),
    )
