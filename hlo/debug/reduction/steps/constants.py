"""Constants become zero, or one in every place, or as in their first place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hlo.debug.reduction.editing import at
from hlo.ir import Instruction, Module
from hlo.values.literal import Literal
from hlo.values.types import ArrayShape

_FORMS = ("0", "1", "first")
# Elements of a constant that are looked at to tell whether all are equal.
_LOOKED_AT = 1 << 16


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
    if _FORMS.index(form) >= _form(values):
        return None
    value = values.reshape(-1)[:1]
    if form != "first":
        try:
            value = np.array([int(form)]).astype(values.dtype)
        except (TypeError, ValueError):
            return None  # a type that has no such number
    return Literal.of(np.full(values.shape, value[0], values.dtype)).with_shape(inst.shape)


def _form(values: np.ndarray) -> int:
    """Return how simple elements are: 0 for zeros, 1 for ones, 2 for equal ones, 3 for others."""
    if (values == 0).all():
        return 0
    if (values == 1).all():
        return 1
    return 2 if len({e.tobytes() for e in values.reshape(-1)[:_LOOKED_AT]}) == 1 else 3
