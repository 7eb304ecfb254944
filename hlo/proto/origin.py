"""Where values come from in the program before optimization: HLO's text for it, as messages.

`{({"a"}, {"b" {1}})}` is a tuple of what were the result of `a` and element 1 of that of `b`. A
module's table says how values that are gone come from others, by a module for each in a string.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from textwrap import indent
from typing import Any

from hlo.errors import TextError
from hlo.ops.attrs import INTS
from hlo.proto.schema import Message
from hlo.scan import Scanner, escape

_SYNTHETIC = "[synthetic_call]"
# What stands behind a backslash in a string. A string of a module has its lines.
_QUOTED = re.compile(r'["\\]')


def read_origin(m: Message) -> str:
    """Return the text of an OriginalValueProto."""
    if m.get("is_synthetic_call"):
        return "{" + _SYNTHETIC + "}"
    elements = [(e.get("shape_index", []), e.get("original_array")) for e in m.get("elements", ())]
    return "{" + _tree(elements, 0) + "}"


def _tree(elements: list[tuple[list[int], Any]], depth: int) -> str:
    """Return the text of what has one index up to `depth`."""
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
    if text == "{" + _SYNTHETIC + "}":
        return Message(is_synthetic_call=True)
    s = Scanner(text)
    s.expect("{")
    elements: list[Message] = []
    index: list[int] = []
    while True:
        if s.accept("("):
            index.append(0)
            if not s.accept(")"):
                continue
            index.pop()
        else:
            elements.append(_leaf(s, index))
        # Close every tuple that ends here.
        while index:
            if s.accept(","):
                index[-1] += 1
                break
            s.expect(")")
            index.pop()
        else:
            s.expect("}")
            s.end()
            return Message(elements=elements)


def _leaf(s: Scanner, index: list[int]) -> Message:
    m = Message(shape_index=list(index))
    array = _read_array(s)
    if array is not None:
        m["original_array"] = array
    return m


def _read_array(s: Scanner) -> Message | None:
    s.expect("{")
    array = None
    if s.peek('"'):
        array = Message(instruction_name=s.string())
        if s.peek("{"):
            array["shape_index"] = list(s.integers())
    s.expect("}")
    return array


# --- tables of a module ---------------------------------------------------------------------------

_ARRAYS = ("old_original_array", "new_original_array")


def read_recovery(m: Message, text_of: Callable[[Message], str]) -> str:
    """Return the text of an OriginalValueRecoveryTableProto, nothing where it has no entries.

    XLA does not escape quotes in it, and so does not read all that it writes. Raises TextError.
    text_of: gets the message of a module.
    """
    entries = []
    for e in m.get("entries", ()):
        entry = "  " + " : ".join(_array(e.sub(name)) for name in _ARRAYS)
        if "recovery_module" in e:
            if e["recovery_module"].sub("original_value_recovery_table").get("entries"):
                # Strings in strings take twice the room at each level.
                raise TextError("a recovery module with a recovery table", e.offset,
                                code="nesting-too-deep")  # fmt: skip
            text = _QUOTED.sub(r"\\\g<0>", text_of(e["recovery_module"]))
            entry += ',\n  "\n' + indent(text, "    ") + '\n  "'
        entries.append(entry + "\n")
    return "{\n" + "".join(entries) + "}" if entries else ""


def write_recovery(text: str, message_of: Callable[[str], Message]) -> Message:
    """Return the OriginalValueRecoveryTableProto of a text. Raises TextError.

    message_of: gets the text of a module.
    """
    s = Scanner(text)
    s.expect("{")
    entries = []
    while not s.accept("}"):
        entry = Message()
        for name in _ARRAYS:
            entry[name] = _read_array(s) or Message()
            if name == _ARRAYS[0]:
                s.expect(":")
        s.accept(",")
        if s.peek('"'):
            entry["recovery_module"] = message_of(s.string())
        entries.append(entry)
    s.end()
    return Message(entries=entries)
