"""HLO values in StableHLO, with tuples as their leaves; and attributes of instructions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hlo.frontends.stablehlo.attributes import Dictionary, Location, String
from hlo.frontends.stablehlo.tree import Attributes
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


def strings(values: Mapping[str, Any]) -> Dictionary:
    """Return a dictionary of strings."""
    return Dictionary({key: String(str(value)) for key, value in values.items()})


def with_sharding(inst: Instruction, notes: Attributes) -> None:
    sharding = inst.annotations.get("sharding")
    if sharding is not None:
        notes["mhlo.sharding"] = String(str(sharding))


def notes_of(inst: Instruction) -> Attributes:
    """Return the attributes that any operation may have."""
    notes: Attributes = {}
    with_sharding(inst, notes)
    said = inst.annotations.get("frontend_attributes")
    if said:
        notes["mhlo.frontend_attributes"] = strings(said)
    return notes


def location_of(inst: Instruction) -> Location | None:
    """Return the location of an instruction, None if it has none."""
    metadata = inst.annotations.get("metadata")
    if metadata is None:
        return None
    fields = metadata.fields
    found = Location(fields.get("op_name", ""))
    if fields.get("source_file"):
        line, column = (max(fields.get(f"source_{key}", 0), 0) for key in ("line", "column"))
        found = Location(found.name, fields["source_file"], line, column)
    return found if found.name or found.file else None
