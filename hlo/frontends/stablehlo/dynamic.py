"""Operations whose sizes are operands: static ones if these are constant.

Others have a counterpart in HLO if the result is static or bounded, as in XLA's conversion. Source:
StableHLO's specification and its pass `stablehlo-canonicalize-dynamism`.
"""

from __future__ import annotations

from collections.abc import Sequence

from hlo.errors import InferError
from hlo.frontends.stablehlo.context import Context, unbounded
from hlo.frontends.stablehlo.fold import constant_value
from hlo.frontends.stablehlo.movement import broadcast_to, gather_with
from hlo.ir import Instruction
from hlo.ops.attrs import PadDim, SliceDim
from hlo.values.types import S32, ArrayShape, array


def _sized(c: Context, index: int) -> ArrayShape:
    """Return the shape of the result: from the operand with the sizes, or as declared."""
    shape = c.shape
    if not isinstance(shape, ArrayShape):
        raise InferError("its result is an array", code="type-mismatch")
    sizes = c.constant(index)
    if sizes is None and (unbounded(shape) or shape.is_dynamic):
        c.constants(index)  # raises the error
    if sizes is None:
        return shape
    dims = c.constants(index)
    if any(not 0 <= n < 1 << 48 for n in dims):
        raise InferError(f"sizes {list(dims)}", code="bad-shape")
    return array(shape.element_type, dims)


def dynamic_reshape(c: Context) -> Instruction:
    """Append a reshape, or a dynamic reshape if the result is bounded."""
    shape = c.shape
    sizes = c.operand(1)
    if sizes.array_shape.is_dynamic:
        raise InferError(f"the list of sizes is {sizes.shape.to_string(False)}, not of a static "
                         "size", code="unbounded-dimension")  # fmt: skip
    bounded = isinstance(shape, ArrayShape) and shape.is_dynamic and not unbounded(shape)
    if not bounded:
        return c.b.op("reshape", c.operand(0), shape=_sized(c, 1))
    count = sizes.array_shape.num_elements
    if sizes.array_shape.rank != 1:
        raise InferError("sizes are a list", code="type-mismatch")
    parts = [
        c.b.reshape(c.b.op("slice", sizes, slice=(SliceDim(i, i + 1, 1),)), ())
        for i in range(count)
    ]
    return c.b.op("dynamic-reshape", c.operand(0), *parts, shape=shape)


def dynamic_iota(c: Context) -> Instruction:
    """Append an iota."""
    return c.b.op("iota", shape=_sized(c, 0), iota_dimension=c.integer("iota_dimension"))


def dynamic_broadcast_in_dim(c: Context) -> Instruction:
    """Append a broadcast."""
    _check_known(c)
    return broadcast_to(c, c.ints("broadcast_dimensions"), _sized(c, 1))


def _check_known(c: Context) -> None:
    """Raise InferError for dimensions that are said to expand, or not, and are others."""
    none: tuple[int, ...] = ()
    known = [d for which in ("expanding", "nonexpanding")
             for d in c.ints(f"known_{which}_dimensions", none)]  # fmt: skip
    rank = c.operand(0).array_shape.rank
    if len(set(known)) != len(known) or any(not 0 <= d < rank for d in known):
        raise InferError(f"known dimensions {known} are not different ones below {rank}",
                         code="bad-dimension")  # fmt: skip


def dynamic_pad(c: Context) -> Instruction:
    """Append a pad."""
    low, high, interior = (c.constants(i) for i in (2, 3, 4))
    padding = tuple(PadDim(*d) for d in _together(low, high, interior))
    return c.b.op("pad", c.operand(0), c.operand(1), padding=padding)


def real_dynamic_slice(c: Context) -> Instruction:
    """Append a slice; one of fixed size with a variable start is a dynamic slice."""
    x = c.operand(0)
    if c.constant(1) is not None and c.constant(2) is not None:
        parts = _together(*(c.constants(i) for i in (1, 2, 3)))
        return c.b.op("slice", x, slice=tuple(SliceDim(*d) for d in parts))
    shape = c.shape
    strides = c.constants(3)
    if not isinstance(shape, ArrayShape) or unbounded(shape) or set(strides) - {1}:
        c.constants(1)
        c.constants(2)
    assert isinstance(shape, ArrayShape)
    start, end = c.operand(1), c.operand(2)
    if not _is_sum(end, start, shape.dims):
        raise InferError("the size of its result is not known", code="not-constant")
    starts = [
        c.b.reshape(c.b.op("slice", start, slice=(SliceDim(i, i + 1, 1),)), ())
        for i in range(shape.rank)
    ]
    return c.b.op("dynamic-slice", x, *starts, dynamic_slice_sizes=shape.dims)


def _is_sum(end: Instruction, start: Instruction, sizes: Sequence[int]) -> bool:
    """True where `end` is `start` plus constant sizes."""
    if end.opcode != "add" or start not in end.operands:
        return False
    other = end.operands[1 if end.operands[0] is start else 0]
    value = constant_value(other)
    return value is not None and value.reshape(-1).tolist() == list(sizes)


def dynamic_gather(c: Context) -> Instruction:
    """Append a gather."""
    return gather_with(c, c.constants(2))


def _together(*parts: tuple[int, ...]) -> list[tuple[int, ...]]:
    if len({len(p) for p in parts}) != 1:
        raise InferError("its lists of sizes differ in length", code="bad-value")
    return list(zip(*parts, strict=True))


def get_dimension_size(c: Context) -> Instruction:
    """Append the size of a dimension: a constant if it is static."""
    shape = c.operand(0).array_shape
    dim = c.integer("dimension")
    if not 0 <= dim < shape.rank:
        raise InferError(f"dimension {dim} of {shape}", code="bad-dimension")
    if not shape.is_dynamic_dim(dim):
        return c.b.constant(S32, shape.dims[dim])
    return c.make("get-dimension-size", dimensions=(dim,))


def set_dimension_size(c: Context) -> Instruction:
    """Append a set-dimension-size."""
    dim = c.integer("dimension")
    return c.b.op("set-dimension-size", c.operand(0), c.operand(1), dimensions=(dim,))
