"""Constants that share memory."""

from __future__ import annotations

from hlo.ir import Module
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.values.literal import Literal
from hlo.values.types import ArrayShape


@module_pass
def literal_canonicalizer(
    module: Module, rewrites: Rewrites, *, min_size_bytes: int = 1024
) -> None:
    """Share the memory of equal constants in a module, without changing its text."""
    first: dict[Literal, Literal] = {}
    for inst in module.instructions():
        if inst.opcode != "constant":
            continue
        literal, shape = inst.literal, inst.shape
        if not isinstance(shape, ArrayShape) or shape.byte_size < min_size_bytes:
            continue
        same = first.setdefault(literal, literal)
        if same is not literal and rewrites.allow("literal_canonicalizer", inst):
            inst.attrs["literal"] = same
