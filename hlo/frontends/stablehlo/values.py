"""HLO values in StableHLO, with tuples as their leaves; and attributes of instructions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hlo.frontends.stablehlo.spelling import dictionary, string
from hlo.ir import Instruction
from hlo.values.types import Shape, TupleShape

# The name of a value, or those of the elements of a tuple.
Tree = str | tuple["Tree", ...]


def leaves(shape: Shape) -> list[Shape]:
    """Return the arrays and tokens in a shape, in order."""
    return [leaf for _, leaf in shape.leaves()]


def flat(tree: Tree) -> list[str]:
    """Return the names of a value's leaves."""
    if isinstance(tree, str):
        return [tree]
    return [name for part in tree for name in flat(part)]


def shaped(names: Sequence[str], shape: Shape) -> Tree:
    """Return the names of leaves as the value of a shape."""
    rest = iter(names)

    def build(shape: Shape) -> Tree:
        if isinstance(shape, TupleShape):
            return tuple(build(s) for s in shape.elements)
        return next(rest)

    return build(shape)


def strings(values: Mapping[str, Any]) -> str:
    """Return a dictionary of strings."""
    return dictionary({key: string(str(value)) for key, value in values.items()})


def with_sharding(inst: Instruction, notes: dict[str, str]) -> None:
    sharding = inst.annotations.get("sharding")
    if sharding is not None:
        notes["mhlo.sharding"] = string(str(sharding))


def notes_of(inst: Instruction) -> dict[str, str]:
    """Return the attributes that any operation may have."""
    notes: dict[str, str] = {}
    with_sharding(inst, notes)
    said = inst.annotations.get("frontend_attributes")
    if said:
        notes["mhlo.frontend_attributes"] = strings(said)
    return notes


def location_of(inst: Instruction) -> str:
    """Return the location of an instruction, which ends its line."""
    metadata = inst.annotations.get("metadata")
    if metadata is None:
        return ""
    fields = metadata.fields
    place = ""
    if fields.get("source_file"):
        line, column = fields.get("source_line", 0), fields.get("source_column", 0)
        place = f"{string(fields['source_file'])}:{max(line, 0)}:{max(column, 0)}"
    name = fields.get("op_name", "")
    if name and place:
        return f" loc({string(name)}({place}))"
    inside = place or (string(name) if name else "")
    return f" loc({inside})" if inside else ""
