"""Validity of shapes, and comparison of two shapes."""

from __future__ import annotations

import math
from dataclasses import replace

from hlo.errors import InferError
from hlo.values.layout import layout_problem, physical_elements
from hlo.values.layout.bitcasts import layout_of
from hlo.values.types import (
    HOST_MEMORY_SPACE,
    MAX_ELEMENTS,
    MAX_RANK,
    UNBOUNDED,
    ArrayShape,
    BufferShape,
    Layout,
    Shape,
    TupleShape,
    compatible,
    size_problem,
)

# Two tuples that take more characters than this are compared by eye only with help.
_LONG = 200

Problem = tuple[str, str]
"""A diagnostic code and a message."""


def shape_problem(shape: Shape) -> Problem | None:
    """Return what is wrong with a shape, or None."""
    problem = size_problem(shape)
    if problem is not None:
        return problem
    for _, leaf in shape.leaves():
        array = leaf.element if isinstance(leaf, BufferShape) else leaf
        if isinstance(array, ArrayShape):
            problem = _array_problem(array) or _layout_problem(array)
            if problem is not None:
                return problem
    return None


def _array_problem(shape: ArrayShape) -> Problem | None:
    if shape.dynamic and len(shape.dynamic) != shape.rank:
        return "bad-shape", f"{len(shape.dynamic)} dynamic flags for {shape.rank} dimensions"
    if shape.rank > MAX_RANK:
        return "bad-shape", f"{shape.rank} dimensions, {MAX_RANK} are the most there may be"
    for d, size in enumerate(shape.dims):
        if size < 0 and not (size == UNBOUNDED and shape.is_dynamic_dim(d)):
            return "bad-shape", f"dimension {d} has size {size}"
    # Empty arrays count too: indices of the other dimensions would overflow.
    size_bytes = shape.element_type.byte_width * math.prod(max(d, 1) for d in shape.dims)
    if size_bytes > MAX_ELEMENTS:
        return "bad-shape", f"{shape.to_string(False)} has more bytes than 64 bits can count"
    return None


def _layout_problem(shape: ArrayShape) -> Problem | None:
    layout = shape.layout
    if layout is None or layout is Layout.default(shape.rank):
        return None
    message = layout_problem(shape)
    if message is None and layout.tiles and UNBOUNDED not in shape.dims:
        try:
            physical_elements(shape)
        except InferError as e:
            return e.code, e.message
    return None if message is None else ("bad-layout", f"layout {layout}: {message}")


def is_unbounded(shape: Shape) -> bool:
    """True when some dimension is written `?`."""
    return any(isinstance(s, ArrayShape) and UNBOUNDED in s.dims for _, s in shape.leaves())


def in_host_memory(shape: Shape) -> bool:
    """True when some array lies in the host's memory space."""
    return any(
        isinstance(s, ArrayShape)
        and s.layout is not None
        and s.layout.memory_space == HOST_MEMORY_SPACE
        for _, s in shape.leaves()
    )


def order_only(layout: Layout) -> Layout:
    """Return the layout with nothing but the order of its dimensions."""
    return Layout(layout.minor_to_major)


def without_space(layout: Layout) -> Layout:
    """Return the layout without tiles and memory space, which analyses fill in late."""
    return replace(layout, tiles=(), memory_space=0)


def same(a: Shape, b: Shape, *, layouts: bool, orders_only: bool = False) -> bool:
    """True when two shapes agree; with `layouts` in the layout of each array too."""
    if not layouts:
        return compatible(a, b)
    if a == b:
        return True
    if not compatible(a, b):
        return False
    for (_, x), (_, y) in zip(a.leaves(), b.leaves(), strict=True):
        if isinstance(x, ArrayShape) and isinstance(y, ArrayShape):
            p, q = layout_of(x), layout_of(y)
            if orders_only:
                p, q = order_only(p), order_only(q)
            if p != q:
                return False
    return True


def mismatch(what: str, a: Shape, b: Shape, *, layouts: bool) -> tuple[str, str, str]:
    """Return `(what, a, b)` as text for an error message about two shapes that differ.

    Of two long tuples it shows the first elements that differ, and `what` says where: `{3}`.
    """
    path: list[int] = []
    while len(str(a)) + len(str(b)) > _LONG:
        if not (isinstance(a, TupleShape) and isinstance(b, TupleShape)):
            break
        pairs = enumerate(zip(a.elements, b.elements, strict=False))
        i = next((i for i, (x, y) in pairs if not same(x, y, layouts=layouts)), None)
        if i is None or len(a.elements) != len(b.elements):
            break
        path.append(i)
        a, b = a.elements[i], b.elements[i]
    if path:
        what += f" at {{{','.join(map(str, path))}}}"
    return what, shown(a, layouts=layouts), shown(b, layouts=layouts)


def shown(shape: Shape, *, layouts: bool = False) -> str:
    """Return a shape for an error message, shortened when it is long."""
    text = shape.to_string(layouts)
    if len(text) <= _LONG or not isinstance(shape, TupleShape):
        return text
    return f"{text[:_LONG]}... ({len(shape.elements)} elements)"
