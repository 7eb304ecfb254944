"""Layouts become the default ones, those of all shapes of one rank at a time."""

from __future__ import annotations

from collections.abc import Sequence

from hlo.ir import Module
from hlo.values.types import ArrayShape, Shape, TupleShape, without_layout


def targets(module: Module) -> list[str]:
    found: dict[str, None] = {}
    for inst in module.instructions():
        for _, shape in inst.shape.leaves():
            if shape != without_layout(shape):
                found[str(shape.layout) if isinstance(shape, ArrayShape) else ""] = None
    return list(found)


def apply(module: Module, targets: Sequence[str]) -> bool:
    wanted, done = set(targets), False
    for inst in module.instructions():
        plain = _plain(inst.shape, wanted)
        if plain != inst.shape:
            inst.shape, done = plain, True
            if inst.opcode == "constant":
                inst.attrs["literal"] = inst.literal.with_shape(plain)
    return done


def _plain(shape: Shape, wanted: set[str]) -> Shape:
    if isinstance(shape, TupleShape):
        return TupleShape(tuple(_plain(s, wanted) for s in shape.elements))
    if isinstance(shape, ArrayShape) and str(shape.layout) in wanted:
        return without_layout(shape)
    return shape
