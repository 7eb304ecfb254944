"""What all kinds of picture show of an instruction."""

from __future__ import annotations

from hlo.frontends.text.printer import PrintOptions, print_instruction
from hlo.ir import Computation, Instruction
from hlo.ops import Category, Trait
from hlo.values.literal import write_literal
from hlo.values.types import ArrayShape, Shape

_MAX_SHAPE = 60
# Longer lines are cut, with a mark: those of tuples of a thousand elements.
_MAX_LINE = 2000
_MAX_NUMBER = 24
_LINE = PrintOptions(percent=False, constant_limit=16, metadata=False, index_comments=False)

# Fill colours by category: dear operations are warm, free ones grey.
COLOURS = {
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
_ON_VALUES = Trait.CALL | Trait.CONTROL_FLOW | Trait.ASYNC_CHAIN
_KEEPS_VALUE = frozenset({"broadcast", "convert", "reshape", "copy", "bitcast"})


def colour(inst: Instruction) -> str:
    """Return the fill colour of an instruction's category."""
    return COLOURS.get(inst.spec.category, _OTHER)


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


def line(inst: Instruction) -> str:
    """Return an instruction as HLO text without metadata, cut where it is very long."""
    text = print_instruction(inst, _LINE).strip()
    return text if len(text) <= _MAX_LINE else f"{text[:_MAX_LINE]} …"


def op_name_of(inst: Instruction) -> str:
    """Return the framework's name of an instruction, "" for none."""
    metadata = inst.annotations.get("metadata")
    return "" if metadata is None else metadata.op_name


def runs_inside(inst: Instruction) -> list[tuple[str, Computation]]:
    """Return the computations that run on whole values where an instruction stands.

    Each has its role, as the attribute calls it: `body` and `condition` of a loop.
    """
    if not inst.spec.has(_ON_VALUES):
        return []
    found: list[tuple[str, Computation]] = []
    for name in inst.spec.computation_attrs:
        value = inst.attrs.get(name)
        if isinstance(value, Computation):
            found.append((name, value))
        elif value is not None:
            found += [(f"branch {n}", comp) for n, comp in enumerate(value)]
    return found


def value_text(inst: Instruction) -> str | None:
    """Return the number that all elements of an instruction are, if a short text says it.

    So are scalar constants, and what only broadcasts or converts one: pictures show the number at
    the users in place of the instruction.
    """
    if inst.is_root:
        return None
    while inst.opcode in _KEEPS_VALUE:
        inst = inst.operands[0]
    if inst.opcode != "constant" or not isinstance(inst.shape, ArrayShape):
        return None
    text = write_literal(inst.literal) if inst.shape.num_elements == 1 else "{"
    return text if "{" not in text and len(text) <= _MAX_NUMBER else None
