"""Constants become zero, or one in every place, or as in their first place; or parameters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hlo.debug.reduction.editing import at
from hlo.ir import Instruction, Module
from hlo.values.literal import Literal
from hlo.values.types import ArrayShape

_FORMS = ("0", "1", "first")


def targets(module: Module) -> list[str]:
    return [
        f"{comp.name} {inst.name} {form}"
        for form in _FORMS
        for comp in module
        for inst in comp
        if _simpler(inst, form) is not None
    ]


def apply(module: Module, targets: Sequence[str]) -> bool:
    done = False
    for target in targets:
        comp, name, form = target.split()
        inst = at(module, (comp, name))
        literal = _simpler(inst, form) if inst is not None else None
        if inst is not None and literal is not None:
            inst.attrs["literal"] = literal
            done = True
    return done


def _simpler(inst: Instruction, form: str) -> Literal | None:
    """Return the literal of a constant in a simpler form; None where that is no simpler."""
    if inst.opcode != "constant" or not isinstance(inst.shape, ArrayShape):
        return None
    literal: Literal = inst.literal
    if literal.is_elided_in_part or not inst.shape.num_elements:
        return None
    values = literal.array
    et, first = inst.shape.element_type, values.reshape(-1)[:1]
    if form != "first":
        if inst.shape.num_elements == 1 and _is_simple(first[0]):
            return None
        try:
            first = np.array([int(form)]).astype(et.dtype)
        except (TypeError, ValueError):
            return None  # a type that has no such number
    new = np.full(values.shape, first[0], values.dtype)
    if new.tobytes() == values.tobytes():
        return None
    return Literal.of(new).with_shape(inst.shape)


def _is_simple(value: np.generic) -> bool:
    return bool(value == 0 or value == 1)
