"""Where values come from in the program before optimization: HLO's text for it, as messages.

`{({"a"}, {"b" {1}})}` is a tuple of what were the result of `a` and element 1 of that of `b`.
"""

from __future__ import annotations

from typing import Any

from hlo.ops.attrs import INTS
from hlo.proto.schema import Message
from hlo.scan import Scanner, escape

_SYNTHETIC = "[synthetic_call]"


def read_origin(m: Message) -> str:
    """Return the text of an OriginalValueProto."""
    if m.get("is_synthetic_call"):
        return "{" + _SYNTHETIC + "}"
    elements = [(e.get("shape_index", []), e.get("original_array")) for e in m.get("elements", ())]
    return "{" + _tree(elements, 0) + "}"


def _tree(elements: list[tuple[list[int], Any]], depth: int) -> str:
    """Return the text of what has one index up to `depth`."""
    if len(elements) == 1 and len(elements[0][0]) <= depth:
        array = elements[0][1]
        if array is None:
            return "{}"
        index = array.get("shape_index", [])
        name = f'"{escape(array.get("instruction_name", ""))}"'
        return "{" + name + (" " + INTS.write(index) if index else "") + "}"
    parts: dict[int, list[tuple[list[int], Any]]] = {}
    for element in elements:
        parts.setdefault(element[0][depth] if len(element[0]) > depth else 0, []).append(element)
    if any(len(e[0]) <= depth for e in elements):
        return "{}"
    return "(" + ", ".join(_tree(parts[i], depth + 1) for i in sorted(parts)) + ")"


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
    s.expect("{")
    if s.peek('"'):
        array = Message(instruction_name=s.string())
        if s.peek("{"):
            array["shape_index"] = list(s.integers())
        m["original_array"] = array
    s.expect("}")
    return m
