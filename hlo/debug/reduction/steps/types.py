"""Element types become simpler ones in the whole module: the 32 bits wide ones of their kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from hlo.ir import Module
from hlo.values.literal import Literal
from hlo.values.types import ELEMENT_TYPES, ArrayShape, ElementType, Shape, TupleShape


def _simpler(et: ElementType) -> str:
    if et.is_pred:
        return et.name
    if et.is_complex:
        return "c64"
    if et.is_integer:
        return "s32" if et.is_signed else "u32"
    return "f32" if et.is_float else et.name


def targets(module: Module) -> list[str]:
    found: dict[str, None] = {}
    for inst in module.instructions():
        for _, shape in inst.shape.leaves():
            if isinstance(shape, ArrayShape):
                et = shape.element_type
                if _simpler(et) != et.name:
                    found[et.name] = None
    return list(found)


def apply(module: Module, targets: Sequence[str]) -> bool:
    new = {ELEMENT_TYPES[t]: ELEMENT_TYPES[_simpler(ELEMENT_TYPES[t])] for t in targets}
    done = False
    for inst in module.instructions():
        shape = _retyped(inst.shape, new)
        if shape == inst.shape:
            continue
        if inst.opcode == "constant":
            literal = _converted(inst.literal, shape)
            if literal is None:
                return False
            inst.attrs["literal"] = literal
        inst.shape, done = shape, True
    return done


def _retyped(shape: Shape, new: Mapping[ElementType, ElementType]) -> Shape:
    if isinstance(shape, TupleShape):
        return TupleShape(tuple(_retyped(s, new) for s in shape.elements))
    if isinstance(shape, ArrayShape) and shape.element_type in new:
        return shape.with_type(new[shape.element_type])
    return shape


def _converted(literal: Literal, shape: Shape) -> Literal | None:
    """Return the values in other types, as near as these hold them; None for tuples."""
    if not isinstance(shape, ArrayShape):
        return None
    if literal.is_elided_in_part:
        return Literal(shape)
    with np.errstate(all="ignore"):
        values = literal.array.astype(shape.element_type.dtype)
    return Literal.of(values).with_shape(shape)
