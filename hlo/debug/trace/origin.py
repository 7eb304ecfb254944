"""Which instruction of a module one of its optimized copy comes from."""

from __future__ import annotations

from hlo.ir import Instruction, Module


def origin(inst: Instruction, source: Module) -> Instruction:
    """Return the instruction of a module that one of its optimized copy comes from.

    That is the one of its place in the text, of its name, or of the framework's name for it; itself
    if there is none.
    """
    if inst.span is not None:
        same = [i for i in source.instructions() if i.span is inst.span]
        if same:
            return _best(same, inst)
    named = [i for i in source.instructions() if i.name == inst.name and i.opcode == inst.opcode]
    if named:
        return _best(named, inst)
    metadata = inst.annotations.get("metadata")
    if metadata is not None and metadata.op_name:
        said = [i for i in source.instructions() if i.annotations.get("metadata") == metadata]
        if said:
            return _best(said, inst)
    return inst


def _best(found: list[Instruction], inst: Instruction) -> Instruction:
    """Return the most similar of several: that of its opcode, in a computation of the same name."""
    comp = inst.parent.name if inst.parent is not None else ""
    return max(
        found,
        key=lambda i: (i.opcode == inst.opcode, i.parent is not None and i.parent.name == comp),
    )
