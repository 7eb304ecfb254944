"""How attributes are read from messages and written to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from hlo.frontends.proto.schema import EnumType, Field, Message, MessageType, schema
from hlo.values.types import Shape

Operands = Sequence[Shape]


@dataclass(frozen=True)
class Encoding:
    """How an attribute is read from an instruction's message, and written to it.

    read: takes the message and the shapes of the operands. write: takes the value and the message.
    """

    read: Callable[[Message, Operands], Any]
    write: Callable[[Any, Message], None]


def _identity(value: Any) -> Any:
    return value


@cache
def _field(path: str) -> Field:
    """Return the field of an instruction at a path such as `precision_config.algorithm`."""
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
) -> Encoding:
    """Return the encoding of an attribute as one field. An absent field is read as its zero."""
    *outer, last = path.split(".")

    def read_it(m: Message, operands: Operands) -> Any:
        for name in outer:
            m = m.sub(name)
        return read(m[last] if last in m else _absent(_field(path)))

    def write_it(value: Any, m: Message) -> None:
        for name in outer:
            m = m.setdefault(name, Message())
        m[last] = write(value)

    return Encoding(read_it, write_it)


def ints(path: str) -> Encoding:
    """Return the encoding of an attribute as a list of integers."""
    return at(path, tuple, list)


def word(path: str, prefix: str = "", *, lower: bool = False) -> Encoding:
    """Return the encoding of an attribute as an enumeration word, without a prefix."""

    def read(value: Any) -> str:
        text = str(value).removeprefix(prefix)
        return text.lower() if lower else text

    return at(path, read, lambda v: prefix + (v.upper() if lower else v))


def known(encoding: Encoding, nothing: Any, instead: Any = None) -> Encoding:
    """Return an encoding in which the value `nothing` means that there is none, read as
    `instead`."""

    def read(m: Message, operands: Operands) -> Any:
        value = encoding.read(m, operands)
        return instead if value == nothing else value

    return Encoding(read, encoding.write)


def listed(path: str, read: Callable[[Message], Any], write: Callable[[Any], Message]) -> Encoding:
    """Return the encoding of an attribute as a list of messages."""
    return at(path, lambda ms: tuple(map(read, ms)), lambda values: list(map(write, values)))


def pairs(read: type, **fields: str) -> tuple[Callable[[Message], Any], Callable[[Any], Message]]:
    """Return how a record of integers is read and written: its fields by those of a message."""
    return (
        lambda m: read(**{mine: m.get(theirs, 0) for mine, theirs in fields.items()}),
        lambda v: Message((theirs, getattr(v, mine)) for mine, theirs in fields.items()),
    )
