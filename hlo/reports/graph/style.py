"""What both kinds of picture show of an instruction."""

from __future__ import annotations

from hlo.ir import Instruction
from hlo.ops import Category
from hlo.values.types import Shape

_MAX_SHAPE = 60

# Fill colours by category: dear operations are warm, free ones grey.
_COLOURS = {
    Category.DATA: "#fff3c4",
    Category.ELEMENTWISE: "#e3f0d8",
    Category.MOVEMENT: "#d8ecf3",
    Category.INDEXING: "#cfe0f7",
    Category.REDUCTION: "#e6d8f3",
    Category.CONTRACTION: "#f7c8b8",
    Category.WINDOW: "#f7d6b8",
    Category.SORT: "#f7d6b8",
    Category.LINALG: "#f7c8b8",
    Category.RANDOM: "#fbe1ea",
    Category.CONTROL: "#f3d0dc",
    Category.COLLECTIVE: "#d9c9f0",
    Category.CUSTOM: "#f3d0dc",
}
_OTHER = "#eeeeee"


def colour(inst: Instruction) -> str:
    """Return the fill colour of an instruction's category."""
    return _COLOURS.get(inst.spec.category, _OTHER)


def shape_text(shape: Shape) -> str:
    """Return a shape without layouts, cut to a readable length."""
    text = shape.to_string(False)
    return text if len(text) <= _MAX_SHAPE else f"{text[: _MAX_SHAPE - 3]}..."


def title(inst: Instruction) -> str:
    """Return the opcode, with what says most about it."""
    if inst.opcode == "parameter":
        return f"parameter {inst.parameter_number}"
    if inst.opcode == "get-tuple-element":
        return f"element {inst.tuple_index}"
    if inst.opcode == "custom-call":
        return f"custom-call {inst.custom_call_target}"
    return inst.opcode
