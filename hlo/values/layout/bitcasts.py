"""Which reshapes are bitcasts: they leave every element at its offset in memory."""

from __future__ import annotations

from hlo.values.types import ArrayShape, Layout


def layout_of(shape: ArrayShape) -> Layout:
    """Return the layout of an array; an unspecified one is row-major."""
    return shape.layout if shape.layout is not None else Layout.default(shape.rank)


def is_order(shape: ArrayShape) -> bool:
    """True for a layout that is only an order of dimensions, in the default memory space."""
    return layout_of(shape) == Layout(layout_of(shape).minor_to_major)


def reshape_is_bitcast(a: ArrayShape, b: ArrayShape) -> bool:
    """True when a reshape from `a` to `b` leaves every element at its offset in memory.

    The dimensions fall into groups, in row-major order, that a reshape keeps apart. The dimensions
    of a group have to be adjacent and in row-major order, unless it has one dimension on both
    sides. The order of groups in memory has to be the same on both sides.
    """
    if not a.num_elements:
        return True
    groups_a, groups_b = _reshape_groups(a.dims, b.dims)
    order = _group_order(a, groups_a)
    return order is not None and order == _group_order(b, groups_b)


def _reshape_groups(
    a: tuple[int, ...], b: tuple[int, ...]
) -> tuple[list[list[int]], list[list[int]]]:
    """Return the smallest runs of dimensions with equal products, without those of size 1."""
    left = [d for d in range(len(a)) if a[d] != 1]
    right = [d for d in range(len(b)) if b[d] != 1]
    groups_a: list[list[int]] = []
    groups_b: list[list[int]] = []
    while left or right:
        group_a, group_b = [left.pop(0)], [right.pop(0)]
        size_a, size_b = a[group_a[0]], b[group_b[0]]
        while size_a != size_b:
            if size_a < size_b:
                group_a.append(left.pop(0))
                size_a *= a[group_a[-1]]
            else:
                group_b.append(right.pop(0))
                size_b *= b[group_b[-1]]
        groups_a.append(group_a)
        groups_b.append(group_b)
    return groups_a, groups_b


def _group_order(shape: ArrayShape, groups: list[list[int]]) -> list[int] | None:
    """Return the groups from major to minor, or None when one is not contiguous and row-major."""
    order = [d for d in reversed(layout_of(shape).minor_to_major) if shape.dims[d] != 1]
    group_of = {group[0]: i for i, group in enumerate(groups)}
    found: list[int] = []
    at = 0
    while at < len(order):
        group = group_of.get(order[at])
        if group is None or order[at : at + len(groups[group])] != groups[group]:
            return None
        found.append(group)
        at += len(groups[group])
    return found


def layout_after_reshape(a: ArrayShape, b: ArrayShape) -> Layout | None:
    """Return the layout with which a reshape from `a` is a bitcast.

    b: the dimensions after it. None where there is no such layout.
    """
    if not a.num_elements:
        return layout_of(b)
    groups_a, groups_b = _reshape_groups(a.dims, b.dims)
    order = _group_order(a, groups_a)
    if order is None:
        return None
    ones = [d for d in range(b.rank) if b.dims[d] == 1]
    major_to_minor = ones + [d for group in order for d in groups_b[group]]
    return Layout(tuple(reversed(major_to_minor)))
