"""HloModuleProto, binary and as text: `to_proto`, `from_proto`, and the same for `.pbtxt`.

Dumps wrap a module in an HloProto or an HloSnapshot; both are read too.
"""

from __future__ import annotations

from hlo.errors import Diagnostic, HloError, InferError, Source, Span, TextError
from hlo.forms import PROTO_FIELD
from hlo.ir import Module
from hlo.memory import collector_paused
from hlo.proto import pbtxt, wire
from hlo.proto.reader import read_module
from hlo.proto.schema import Message, schema
from hlo.proto.writer import write_module

__all__ = ["from_pbtxt", "from_proto", "to_pbtxt", "to_proto"]

_MODULE = "HloModuleProto"
# How deep dumps wrap a module: in an HloProto, which is in an HloSnapshot.
_WRAPPED = 2
# The tags of the fields that the message of a module or of a wrapper begins with.
_MESSAGE_STARTS = (b"\n", b"\x12")
# The same as text: the first field, which message it is in, and the path to the module.
_WRAPPERS = {
    "hlo_module": ("HloProto", ("hlo_module",)),
    "hlo": ("HloSnapshot", ("hlo", "hlo_module")),
}


def from_proto(data: bytes, name: str = "<bytes>") -> Module:
    """Return the module in the bytes of a HloModuleProto, or of what dumps wrap around one.

    name: stands for the bytes in errors. Raises HloError at the offset of a byte.
    """
    try:
        with collector_paused():
            return read_module(_unwrapped(data))
    except TextError as e:
        raise HloError.at(e.code, f"{name}: byte {e.offset}: {e.message}", None, e.hint) from None


def _unwrapped(data: bytes) -> Message:
    """Return the module's message. Its first field is a name; in a wrapper it is a message."""
    start, end = 0, len(data)
    for _ in range(_WRAPPED):
        inside = wire.first_field(data, start, end)
        if inside is None or data[inside[0] : inside[0] + 1] not in _MESSAGE_STARTS:
            break
        start, end = inside
    return wire.decode(data, schema()[_MODULE], start, end)


def from_pbtxt(text: str, name: str = "<string>") -> Module:
    """Return the module that the text form of a message says. Raises HloError."""
    try:
        with collector_paused():
            return read_module(_parsed(text))
    except TextError as e:
        source = Source(name, text)
        span = Span(source, e.offset, e.offset + 1)
        raise HloError([Diagnostic(e.code, e.message, span, e.hint)]) from None


def _parsed(text: str) -> Message:
    m = PROTO_FIELD.match(text)
    kind, path = _WRAPPERS.get(m["name"] if m else "", (_MODULE, ()))
    message = pbtxt.parse(text, schema()[kind])
    for field in path:
        message = message.sub(field)
    return message


def to_proto(module: Module) -> bytes:
    """Return the bytes of a valid module's HloModuleProto.

    Raises HloError for what messages cannot say: `docs/protos.md` lists it.
    """
    return wire.encode(_written(module), schema()[_MODULE])


def to_pbtxt(module: Module) -> str:
    """Return the text form of a valid module's HloModuleProto. Raises HloError."""
    return pbtxt.write(_written(module), schema()[_MODULE])


def _written(module: Module) -> Message:
    try:
        return write_module(module)
    except (InferError, TextError) as e:
        raise HloError.at(e.code, f"module {module.name}: {e.message}", None, e.hint) from None
