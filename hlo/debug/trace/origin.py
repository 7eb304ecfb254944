"""Which instruction of a module one of its optimized or flattened copy comes from."""

from __future__ import annotations

from collections import defaultdict

from hlo.ir import Instruction, Module


class Origins:
    """The instructions of a module by what their copies keep of them."""

    def __init__(self, source: Module) -> None:
        self._spans: dict[int, list[Instruction]] = defaultdict(list)
        self._names: dict[str, list[Instruction]] = defaultdict(list)
        self._metadata: dict[str, list[Instruction]] = defaultdict(list)
        for inst in source.instructions():
            if inst.span is not None:
                self._spans[id(inst.span.original)].append(inst)
            self._names[inst.name].append(inst)
            metadata = inst.annotations.get("metadata")
            if metadata is not None and metadata.op_name:
                self._metadata[metadata.op_name].append(inst)

    def of(self, inst: Instruction) -> Instruction | None:
        """Return the instruction of a copy, None if there is no sign of one.

        That is the one of its place in the text, of its name and opcode, or of the framework's name
        for it; among several the most similar.
        """
        found = [] if inst.span is None else self._spans.get(id(inst.span.original), [])
        if not found:
            found = [i for i in self._names.get(inst.name, ()) if i.opcode == inst.opcode]
        metadata = inst.annotations.get("metadata")
        if not found and metadata is not None:
            found = self._metadata.get(metadata.op_name, [])
        return _most_similar(found, inst) if found else None


def origin(inst: Instruction, source: Module) -> Instruction:
    """Return the instruction of a module that one of its copy comes from; itself without a sign."""
    return Origins(source).of(inst) or inst


def _most_similar(found: list[Instruction], inst: Instruction) -> Instruction:
    """Return that of its opcode, in a computation of the same name."""
    comp = inst.parent.name if inst.parent is not None else ""
    return max(
        found,
        key=lambda i: (i.opcode == inst.opcode, i.parent is not None and i.parent.name == comp),
    )
