"""Comparison of shapes, layouts copied from one to another, signatures."""

from __future__ import annotations

from collections.abc import Iterable

from hlo.values.types.shape import UNBOUNDED, ArrayShape, BufferShape, Layout, Shape, TupleShape

# Limits of a signature: number of parameters, and characters per shape.
_SHOWN, _MAX_SHOWN = 6, 80


def compatible(a: Shape, b: Shape, *, ignore_element_type: bool = False) -> bool:
    """True when two shapes are equal but for layout and for which dimensions are dynamic.

    A dynamic dimension matches a static one of the same bound (XLA's `Shape::Equal` with
    `IgnoreDynamicDimension`); an unbounded one matches anything.
    """
    if a is b:
        return True
    if isinstance(a, ArrayShape) and isinstance(b, ArrayShape):
        if a.element_type is not b.element_type and not ignore_element_type:
            return False
        if a.dims == b.dims:
            return True
        return len(a.dims) == len(b.dims) and all(
            x == y or UNBOUNDED in (x, y) for x, y in zip(a.dims, b.dims, strict=True)
        )
    if isinstance(a, TupleShape) and isinstance(b, TupleShape):
        return len(a.elements) == len(b.elements) and all(
            compatible(x, y, ignore_element_type=ignore_element_type)
            for x, y in zip(a.elements, b.elements, strict=True)
        )
    if isinstance(a, BufferShape) and isinstance(b, BufferShape):
        return compatible(a.element, b.element, ignore_element_type=ignore_element_type)
    return a == b


def with_layouts_of(shape: Shape, other: Shape) -> Shape:
    """Return a shape with the layouts of a compatible one."""
    if isinstance(shape, ArrayShape) and isinstance(other, ArrayShape):
        return shape.with_layout(other.layout)
    if isinstance(shape, TupleShape) and isinstance(other, TupleShape):
        pairs = zip(shape.elements, other.elements, strict=True)
        return TupleShape(tuple(with_layouts_of(s, o) for s, o in pairs))
    return shape


def without_layout(shape: Shape) -> Shape:
    """Return the shape with every layout set to the default of its rank."""
    if isinstance(shape, ArrayShape):
        return shape.with_layout(Layout.default(shape.rank))
    if isinstance(shape, TupleShape):
        return TupleShape(tuple(without_layout(s) for s in shape.elements))
    if isinstance(shape, BufferShape):
        element = without_layout(shape.element)
        assert isinstance(element, ArrayShape)
        return BufferShape(element)
    return shape


def signature_text(named: Iterable[tuple[str, Shape]], result: Shape) -> str:
    """Return `(x: f32[2], ...) -> f32[2]` of a program, truncated where it is long."""
    parameters = list(named)
    shown = [f"{name}: {_short(shape)}" for name, shape in parameters[:_SHOWN]]
    if len(parameters) > _SHOWN:
        shown.append(f"... {len(parameters) - _SHOWN} more")
    return f"({', '.join(shown)}) -> {_short(result)}"


def _short(shape: Shape) -> str:
    text = shape.to_string(False)
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 3]}..."
