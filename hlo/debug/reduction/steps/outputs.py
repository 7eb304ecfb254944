"""Outputs of the entry go, those of a tuple that one instruction computes as well."""

from __future__ import annotations

from collections.abc import Sequence

from hlo.debug.reduction.editing import outputs_of, set_outputs
from hlo.ir import Module
from hlo.ir.builder import Builder
from hlo.values.types import TupleShape

# In front of the number of an element.
_ELEMENT = "#"


def targets(module: Module) -> list[str]:
    outputs = dict.fromkeys(o.name for o in outputs_of(module.entry))
    if len(outputs) > 1:
        return list(outputs)
    [output] = outputs_of(module.entry)[:1] or [module.entry.root]
    if isinstance(output.shape, TupleShape):
        return [f"{_ELEMENT}{n}" for n, _ in enumerate(output.shape.elements)]
    return []


def apply(module: Module, targets: Sequence[str]) -> bool:
    entry, gone = module.entry, set(targets)
    outputs = outputs_of(entry)
    if targets[0].startswith(_ELEMENT):
        root = entry.root
        if not isinstance(root.shape, TupleShape) or root.opcode == "tuple":
            return False
        numbers = [n for n, _ in enumerate(root.shape.elements) if f"{_ELEMENT}{n}" not in gone]
        kept = [Builder(entry, root).element(root, n) for n in numbers]
    else:
        kept = [o for o in outputs if o.name not in gone]
    if not kept or len(kept) == len(outputs) > 1:
        return False
    set_outputs(entry, kept)
    return True
