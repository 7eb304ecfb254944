"""The messages around a module in dumps: HloProto, HloSnapshot, HloUnoptimizedSnapshot.

Snapshots contain arguments too, as messages. A binary HloUnoptimizedSnapshot is preceded by its
length and followed by the arguments, which may exceed the maximum size of a message.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np

from hlo.errors import InferError, TextError
from hlo.frontends.proto import pbtxt, wire
from hlo.frontends.proto.schema import Field, Message, MessageType, schema
from hlo.frontends.proto.shapes import read_literal, read_shape
from hlo.io.formats import PROTO_FIELD
from hlo.values.layout import physical_bytes
from hlo.values.layout.packing import unpack
from hlo.values.literal import Literal
from hlo.values.types import ArrayShape, Layout, Shape, TupleShape

_MODULE = "HloModuleProto"
# The tags of the first fields of a module and of its wrappers.
_MESSAGE_STARTS = (b"\n", b"\x12")
# The size in bytes of the length before an argument's shape.
_SIZE_BYTES = 8


@cache
def _kind(depth: int) -> MessageType:
    """Return the type of message that contains a module at `depth`."""
    messages = schema()
    if depth != 1:
        return messages["HloSnapshot" if depth else _MODULE]
    # Two types do. Their fields differ in name, and all but one in number.
    one, other = messages["HloProto"].by_name, messages["HloUnoptimizedSnapshot"].by_name
    fields: Mapping[str, Field] = {**one, **other}
    numbered = [one["hlo_module"], other["partitions"]]
    return MessageType(
        "HloProto or HloUnoptimizedSnapshot", {f.number: f for f in numbered}, dict(fields)
    )


_PATHS = ((), ("hlo_module",), ("hlo", "hlo_module"))
# The first field of the text form, keyed by the depth of the module.
_FIRST_FIELDS = {"hlo_module": 1, "hlo": 2}


def _extent(data: bytes) -> tuple[int, int]:
    """Return where the message begins and ends: after its length, if that precedes it."""
    if data[:1] not in _MESSAGE_STARTS:
        inside = wire.with_length(data)
        if inside is not None and data[inside[0] : inside[0] + 1] == b"\n":
            return inside
    return 0, len(data)


def _layers(data: bytes) -> list[tuple[int, int]]:
    """Return the extents of the enclosing messages and of the module's.

    The first field of a module is a name, that of a wrapper a message.
    """
    found = [_extent(data)]
    while len(found) < len(_PATHS):
        inside = wire.first_field(data, *found[-1])
        if inside is None or data[inside[0] : inside[0] + 1] not in _MESSAGE_STARTS:
            break
        found.append(inside)
    return found


def read_dump(data: bytes) -> Message:
    """Return the message of the module in a binary dump. Raises TextError."""
    return wire.decode(data, schema()[_MODULE], *_layers(data)[-1])


def read_text_dump(text: str) -> Message:
    """Return the message of the module in the text form of a dump. Raises TextError."""
    message, depth = _parsed(text)
    for field in _PATHS[depth]:
        message = message.sub(field)
    return message


def _parsed(text: str) -> tuple[Message, int]:
    m = PROTO_FIELD.match(text)
    depth = _FIRST_FIELDS.get(m["name"], 0) if m else 0
    return pbtxt.parse(text, _kind(depth)), depth


# --- arguments ----------------------------------------------------------------------------------


def read_arguments(data: bytes | str) -> list[list[Literal]]:
    """Return the arguments in a snapshot, for each partition. Raises TextError.

    data: the bytes of the binary form, or the text form.
    """
    if isinstance(data, str):
        message, end = _parsed(data)[0], 0
    else:
        layers = _layers(data)
        start, end = layers[0]
        message = wire.decode(data, _kind(len(layers) - 1), start, end)
    if "hlo" in message:
        # An HloSnapshot has one partition.
        return [[read_literal(m) for m in message.get("arguments", ())]]
    found = []
    for partition in message.get("partitions", ()):
        arguments = [read_literal(m) for m in partition.get("arguments", ())]
        for descriptor in partition.get("arguments_descriptors", ()):
            size = descriptor.get("argument_size_bytes", 0)
            assert isinstance(data, bytes)
            if size > len(data) - end:
                raise TextError(f"an argument of {size} bytes where {len(data) - end} are left",
                                end, code="bad-proto")  # fmt: skip
            arguments.append(_read_serialized(data, end, end + size))
            end += size
        found.append(arguments)
    return found


def _read_serialized(data: bytes, start: int, end: int) -> Literal:
    """Return the value in `data[start:end]`: the length of its shape, the shape, the elements."""
    size = int.from_bytes(data[start : start + _SIZE_BYTES], "little")
    pos = start + _SIZE_BYTES + size
    if pos > end:
        raise TextError(f"a shape of {size} bytes in {end - start}", start, code="bad-proto")
    shape = read_shape(wire.decode(data, schema()["ShapeProto"], start + _SIZE_BYTES, pos))
    literal, pos = _read_elements(data, pos, end, shape)
    if pos != end:
        raise TextError(f"{end - pos} bytes behind {shape}", pos, code="bad-proto")
    return literal


def _read_elements(data: bytes, pos: int, end: int, shape: Shape) -> tuple[Literal, int]:
    """Return the value whose elements begin at `pos`, and the offset of their end."""
    if isinstance(shape, TupleShape):
        parts = []
        for element in shape.elements:
            part, pos = _read_elements(data, pos, end, element)
            parts.append(part)
        return Literal(shape, parts), pos
    if not isinstance(shape, ArrayShape) or shape.is_dynamic:
        raise TextError(f"an argument {shape} has elements that cannot be counted", pos,
                        code="unsupported")  # fmt: skip
    packed = _packed(shape)
    try:
        size = physical_bytes(packed)
        if size > end - pos:
            raise TextError(f"{end - pos} bytes of elements for {shape}", pos, code="bad-proto")
        array = unpack(np.frombuffer(data, np.uint8, size, pos), packed)
    except InferError as e:
        raise TextError(e.message, pos, code=e.code) from None
    return Literal(shape, array), pos + size


def _packed(shape: ArrayShape) -> ArrayShape:
    """Return the shape of an argument in a file, where elements are packed."""
    order = (shape.layout or Layout.default(shape.rank)).minor_to_major
    et = shape.element_type
    bits = 1 if et.is_pred else et.bits
    return shape.with_layout(Layout(order, element_bits=bits if 8 % bits == 0 else 0))
