"""Messages as JSON, by the names of their fields.

Source: https://protobuf.dev/programming-guides/json: integers of 64 bits are strings, bytes are
base64, and infinities and NaNs are strings.
"""

from __future__ import annotations

import json
import math
import re
from base64 import b64encode
from typing import Any

import numpy as np

from hlo.frontends.proto.schema import EnumType, Field, Message, MessageType
from hlo.values.scan import to_bytes

_WIDE = ("int64", "uint64", "sint64", "fixed64", "sfixed64")


# The replacement of a byte that is not valid UTF-8.
_NO_CHARACTER = re.compile("[\ud800-\udfff]")


def write(message: Message, kind: MessageType) -> str:
    """Return the JSON of a message, fields in the order of their numbers."""
    text = json.dumps(_value(message, kind), indent=1, ensure_ascii=False) + "\n"
    return _NO_CHARACTER.sub(lambda m: f"\\u{ord(m[0]):04x}", text)


def _value(message: Message, kind: MessageType) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for entry, value in kind.fields_of(message):
        if entry.repeated:
            if len(value):
                found[entry.name] = [_field(entry, one) for one in value]
        elif isinstance(entry.kind, MessageType) or entry.explicit or value:
            found[entry.name] = _field(entry, value)
    return found


def _field(entry: Field, value: Any) -> Any:
    if isinstance(entry.kind, MessageType):
        return _value(value, entry.kind)
    if isinstance(entry.kind, EnumType):
        return str(value)
    if entry.kind == "bytes":
        return b64encode(to_bytes(value) if isinstance(value, str) else value).decode()
    if entry.kind == "string":
        return value if isinstance(value, str) else value.decode(errors="replace")
    if entry.kind == "bool":
        return bool(value)
    if entry.kind in ("float", "double"):
        return _number(float(value), is_single=entry.kind == "float")
    return str(int(value)) if entry.kind in _WIDE else int(value)


def _number(value: float, *, is_single: bool) -> float | str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    # As many digits as distinguish it from other numbers of its type.
    return float(str(np.float32(value))) if is_single else value
