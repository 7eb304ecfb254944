"""Original values, the values of the unoptimized program, as messages."""

from __future__ import annotations

import re
from collections.abc import Callable
from textwrap import indent
from typing import Any

from hlo.errors import TextError
from hlo.frontends.proto.schema import Message
from hlo.frontends.text.origins import SYNTHETIC, Origin, read_origins, recoveries
from hlo.ops.attrs import INTS
from hlo.values.scan import Scanner, escape

# Escapes after a backslash in a string. The string of a module contains its line breaks.
_QUOTED = re.compile(r'["\\]')


def read_origin(m: Message) -> str:
    """Return the text of an OriginalValueProto."""
    if m.get("is_synthetic_call"):
        return "{" + SYNTHETIC + "}"
    elements = [(e.get("shape_index", []), e.get("original_array")) for e in m.get("elements", ())]
    call = f',["{escape(m["call_hierarchy"])}"]' if "call_hierarchy" in m else ""
    return "{" + _tree(elements, 0) + call + "}"


def _tree(elements: list[tuple[list[int], Any]], depth: int) -> str:
    """Return the text of the leaves with equal indices up to `depth`."""
    if len(elements) == 1 and len(elements[0][0]) <= depth:
        return _array(elements[0][1])
    parts: dict[int, list[tuple[list[int], Any]]] = {}
    for element in elements:
        parts.setdefault(element[0][depth] if len(element[0]) > depth else 0, []).append(element)
    if any(len(e[0]) <= depth for e in elements):
        return "{}"
    return "(" + ", ".join(_tree(parts[i], depth + 1) for i in sorted(parts)) + ")"


def _array(m: Message | None) -> str:
    if m is None:
        return "{}"
    index = m.get("shape_index", [])
    name = f'"{escape(m.get("instruction_name", ""))}"'
    return "{" + name + (" " + INTS.write(index) if index else "") + "}"


def write_origin(text: str) -> Message:
    """Return the OriginalValueProto of a text. Raises TextError."""
    s = Scanner(text)
    leaves, call = read_origins(s)
    s.end()
    if call == "":
        return Message(is_synthetic_call=True)
    elements = []
    for path, origin in leaves:
        element = Message(shape_index=list(path))
        if origin is not None:
            element["original_array"] = _original_array(origin)
        elements.append(element)
    return Message(elements=elements) if call is None else Message(
        elements=elements, call_hierarchy=call
    )  # fmt: skip


def _original_array(origin: Origin | None) -> Message:
    if origin is None:
        return Message()
    m = Message(instruction_name=origin.instruction)
    if origin.place:
        m["shape_index"] = list(origin.place)
    return m


# --- tables of a module ---------------------------------------------------------------------------

_ARRAYS = ("old_original_array", "new_original_array")


def read_recovery(m: Message, text_of: Callable[[Message], str]) -> str:
    """Return the text of an OriginalValueRecoveryTableProto, empty without entries.

    XLA does not escape quotes in it, and so cannot read everything that it writes. Raises
    TextError. text_of: returns the text for the message of a module.
    """
    entries = []
    for e in m.get("entries", ()):
        entry = "  " + " : ".join(_array(e.sub(name)) for name in _ARRAYS)
        if "recovery_module" in e:
            if e["recovery_module"].sub("original_value_recovery_table").get("entries"):
                # Nested strings double in size at each level.
                raise TextError("a recovery module with a recovery table", e.offset,
                                code="nesting-too-deep")  # fmt: skip
            text = _QUOTED.sub(r"\\\g<0>", text_of(e["recovery_module"]))
            entry += ',\n  "\n' + indent(text, "    ") + '\n  "'
        entries.append(entry + "\n")
    return "{\n" + "".join(entries) + "}" if entries else ""


def write_recovery(text: str, message_of: Callable[[str], Message]) -> Message:
    """Return the OriginalValueRecoveryTableProto of a text. Raises TextError.

    message_of: returns the message for the text of a module.
    """
    s = Scanner(text)
    entries = []
    for line in recoveries(s):
        entry = Message(zip(_ARRAYS, map(_original_array, line[:2]), strict=True))
        if line.module is not None:
            entry["recovery_module"] = message_of(line.module)
        entries.append(entry)
    s.end()
    return Message(entries=entries)
