"""Stacks of matrices `[batch, m, n]` in f64 or c128, for the expansions of factorizations."""

from __future__ import annotations

import math

from hlo.ir import Instruction
from hlo.ir.builder import Builder, build_computation
from hlo.values.types import ELEMENT_TYPES, S32, ElementType, array, complex_part


def wide_type(et: ElementType) -> ElementType:
    """Return f64 or c128."""
    return ELEMENT_TYPES["c128" if et.is_complex else "f64"]


def widened(b: Builder, value: Instruction) -> Instruction:
    """Append a stack of matrices, or of vectors below them, with one batch dimension."""
    shape = value.array_shape
    wide = b.convert(value, wide_type(shape.element_type))
    return b.reshape(wide, (math.prod(shape.dims[:-2]), *shape.dims[-2:]))


def swapped(b: Builder, value: Instruction) -> Instruction:
    """Append transposed matrices."""
    batch, m, n = value.array_shape.dims
    shape = array(value.array_shape.element_type, (batch, n, m))
    return b.op("transpose", value, shape=shape, dimensions=(0, 2, 1))


def conjugate(b: Builder, value: Instruction) -> Instruction:
    """Append conjugated numbers; real ones are their own."""
    if not value.array_shape.element_type.is_complex:
        return value
    return b.op("complex", b.op("real", value), b.op("negate", b.op("imag", value)))


def real(b: Builder, value: Instruction) -> Instruction:
    """Append the real parts."""
    return b.op("real", value) if value.array_shape.element_type.is_complex else value


def as_type_of(b: Builder, value: Instruction, like: Instruction) -> Instruction:
    """Append real numbers in the type of others, which may be complex."""
    if not like.array_shape.element_type.is_complex:
        return value
    shape = value.array_shape
    return b.op("complex", value, b.filled(shape.element_type, shape.dims, 0))


def product(b: Builder, x: Instruction, y: Instruction) -> Instruction:
    """Append products of matrices."""
    (batch, m, _), (_, _, n) = x.array_shape.dims, y.array_shape.dims
    return b.op(
        "dot", x, y, shape=array(x.array_shape.element_type, (batch, m, n)),
        lhs_batch_dims=(0,), rhs_batch_dims=(0,),
        lhs_contracting_dims=(2,), rhs_contracting_dims=(1,),
    )  # fmt: skip


def _place(b: Builder, value: Instruction, at: Instruction, dim: int) -> list[Instruction]:
    zero = b.constant(at.array_shape.element_type, 0)
    return [at if d == dim else zero for d in range(value.array_shape.rank)]


def taken(b: Builder, value: Instruction, at: Instruction, dim: int) -> Instruction:
    """Append what is at one position of a dimension, which stays as one of size one."""
    sizes = tuple(1 if d == dim else n for d, n in enumerate(value.array_shape.dims))
    place = _place(b, value, at, dim)
    return b.op("dynamic-slice", value, *place, dynamic_slice_sizes=sizes)


def put(
    b: Builder, value: Instruction, piece: Instruction, at: Instruction, dim: int
) -> Instruction:
    """Append an array with a piece put at one position of a dimension."""
    return b.op("dynamic-update-slice", value, piece, *_place(b, value, at, dim))


def positions(
    b: Builder, like: Instruction, dim: int, direction: str, at: Instruction
) -> Instruction:
    """Append where the position along a dimension compares so with a scalar."""
    shape = array(at.array_shape.element_type, like.array_shape.dims)
    place = b.op("iota", shape=shape, iota_dimension=dim)
    return b.compare(place, b.broadcast(at, shape), direction)


def kept(b: Builder, where: Instruction, value: Instruction) -> Instruction:
    """Append numbers, with zeros in all other places."""
    shape = value.array_shape
    return b.op("select", where, value, b.filled(shape.element_type, shape.dims, 0))


def spread(b: Builder, value: Instruction, like: Instruction) -> Instruction:
    """Append an array in which dimensions of size one have the size that another array has."""
    shape, to = value.array_shape, like.array_shape
    dims = tuple(d for d, n in enumerate(shape.dims) if n != 1 or to.dims[d] == 1)
    squeezed = b.reshape(value, tuple(shape.dims[d] for d in dims))
    return b.op("broadcast", squeezed, shape=array(shape.element_type, to.dims), dimensions=dims)


def part_type(value: Instruction) -> ElementType:
    """Return the type of the real parts."""
    return complex_part(value.array_shape.element_type)


def total(b: Builder, value: Instruction, dims: tuple[int, ...]) -> Instruction:
    """Append sums along dimensions, which stay as ones of size one."""
    shape = value.array_shape
    et = shape.element_type
    add = build_computation("sum", [array(et, ())] * 2, lambda b, x, y: b.op("add", x, y), b.like)
    sums = b.op("reduce", value, b.constant(et, 0), dimensions=dims, to_apply=add)
    return b.reshape(sums, [1 if d in dims else n for d, n in enumerate(shape.dims)])


def squares(b: Builder, value: Instruction) -> Instruction:
    """Append the squares of absolute values."""
    if not value.array_shape.element_type.is_complex:
        return b.op("multiply", value, value)
    parts = (b.op("real", value), b.op("imag", value))
    return b.op("add", *(b.op("multiply", p, p) for p in parts))


def identity(b: Builder, like: Instruction) -> Instruction:
    """Append matrices with ones on the diagonal."""
    shape = like.array_shape
    return b.convert(diagonal(b, like), shape.element_type)


def diagonal(b: Builder, like: Instruction, direction: str = "EQ") -> Instruction:
    """Append where the row compares so with the column; by default the diagonal."""
    shape = array(S32, like.array_shape.dims)
    row, column = (b.op("iota", shape=shape, iota_dimension=d) for d in (1, 2))
    return b.compare(row, column, direction)
