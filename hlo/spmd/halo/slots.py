"""Ranges of one dimension, at places that may differ by device."""

from __future__ import annotations

import numpy as np

from hlo.ir import Instruction
from hlo.ops.attrs import PadDim, SliceDim
from hlo.spmd.builder import SpmdBuilder, resized
from hlo.spmd.mesh import Axes
from hlo.values.types import PRED, S32, ElementType, array

Fill = Instruction | float
"""A scalar of a value's type, or a number for one."""

Place = int | np.ndarray
"""One number for all devices, or one for each, by device."""


def by_device(b: SpmdBuilder, axes: Axes, table: np.ndarray) -> Place:
    """Return numbers by the coordinate along axes as numbers by device, one if all are equal."""
    if len(table) == 0 or np.all(table == table[0]):
        return int(table[0]) if len(table) else 0
    return np.asarray(table)[b.mesh.coordinates(axes)]


def scalar_of(b: SpmdBuilder, et: ElementType, fill: Fill) -> Instruction:
    """Return a scalar of an element type."""
    return fill if isinstance(fill, Instruction) else b.constant(et, fill)


def is_zero(fill: Fill) -> bool:
    """True for a constant that is zero, and not a negative one."""
    if isinstance(fill, Instruction):
        if fill.opcode != "constant":
            return False
        fill = fill.literal.value
    return not any(np.asarray(fill).tobytes())


def place_of(b: SpmdBuilder, place: Place) -> Instruction:
    """Return a place on this device: s32[]."""
    return b.constant(S32, place) if isinstance(place, int) else b.table(place)


def cut_out(b: SpmdBuilder, x: Instruction, dim: int, start: Place, size: int) -> Instruction:
    """Append a slice of one dimension, which is inside of it on each device."""
    shape = x.array_shape
    result = resized(shape, dim, size)
    if isinstance(start, int):
        if start == 0 and size == shape.dims[dim]:
            return x
        ranges = [SliceDim(0, n) for n in shape.dims]
        ranges[dim] = SliceDim(start, start + size)
        return b.op("slice", x, shape=result, slice=tuple(ranges))
    assert start.min() >= 0 and start.max() + size <= shape.dims[dim], (start, size, shape)
    zero, at = b.constant(S32, 0), b.table(start)
    return b.op(
        "dynamic-slice", x, *(at if d == dim else zero for d in range(shape.rank)), shape=result,
        dynamic_slice_sizes=result.dims,
    )  # fmt: skip


def padded(
    b: SpmdBuilder, x: Instruction, dim: int, low: int, high: int, fill: Fill, interior: int = 0
) -> Instruction:
    """Append padding of one dimension; negative padding cuts off."""
    if low == high == interior == 0:
        return x
    shape = x.array_shape
    size = shape.dims[dim]
    size += low + high + max(size - 1, 0) * interior
    padding = [PadDim(0, 0)] * shape.rank
    padding[dim] = PadDim(low, high, interior)
    value = scalar_of(b, shape.element_type, fill)
    return b.op("pad", x, value, shape=resized(shape, dim, size), padding=tuple(padding))


def index_along(b: SpmdBuilder, x: Instruction, dim: int, start: Place = 0) -> Instruction:
    """Append the index of each element along a dimension, counted from `start`: s32."""
    shape = array(S32, x.array_shape.dims)
    index = b.op("iota", shape=shape, iota_dimension=dim)
    if isinstance(start, int) and start == 0:
        return index
    return b.op("add", index, b.broadcast(place_of(b, start), shape), shape=shape)


def within(
    b: SpmdBuilder, index: Instruction, low: Place | None, high: Place | None
) -> Instruction:
    """Append which numbers are at least `low` and less than `high`: pred.

    A bound that is None is not checked; one at least is not.
    """
    shape = index.array_shape
    tests = []
    for bound, direction in ((low, "GE"), (high, "LT")):
        if bound is not None:
            limit = b.broadcast(place_of(b, bound), shape)
            tests.append(b.op("compare", index, limit, shape=shape.with_type(PRED),
                              direction=direction))  # fmt: skip
    if len(tests) == 2:
        return b.op("and", *tests, shape=tests[0].shape)
    return tests[0]
