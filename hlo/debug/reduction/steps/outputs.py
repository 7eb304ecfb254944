"""Outputs of the entry go, one of several at a time."""

from __future__ import annotations

from collections.abc import Sequence

from hlo.debug.reduction.editing import outputs_of, set_outputs
from hlo.ir import Module


def targets(module: Module) -> list[str]:
    outputs = dict.fromkeys(o.name for o in outputs_of(module.entry))
    return list(outputs) if len(outputs) > 1 else []


def apply(module: Module, targets: Sequence[str]) -> bool:
    entry, gone = module.entry, set(targets)
    outputs = outputs_of(entry)
    kept = [o for o in outputs if o.name not in gone]
    if not kept or len(kept) == len(outputs):
        return False
    set_outputs(entry, kept)
    return True
