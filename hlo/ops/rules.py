"""Checks that many operations share. Each returns what it checked or raises `InferError`."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes

from hlo.errors import InferError
from hlo.ops.attrs import ComputationView, OutputAlias, write_index
from hlo.ops.spec import OpView
from hlo.support.memory import check_memory, fits
from hlo.values.types import (
    UNBOUNDED,
    ArrayShape,
    BufferShape,
    ElementType,
    Shape,
    TupleShape,
    compatible,
    complex_part,
)

TypeTest = Callable[[ElementType], bool]


def array_operand(op: OpView, index: int) -> ArrayShape:
    """Return an operand's shape, which has to be an array."""
    shape = op.operand_shape(index)
    if not isinstance(shape, ArrayShape):
        raise InferError(
            f"{op.opcode}: operand {index} has shape {shape}, an array is needed",
            operand=index, code="type-mismatch",
        )  # fmt: skip
    return shape


def array_operands(op: OpView) -> list[ArrayShape]:
    """Return all operand shapes, which have to be arrays."""
    return [array_operand(op, i) for i in range(len(op.operand_shapes))]


def array_result(op: OpView) -> ArrayShape:
    """Return the declared result shape, which has to be an array."""
    if not isinstance(op.shape, ArrayShape):
        raise InferError(
            f"{op.opcode}: the result has shape {op.shape.to_string(False)}, an array is needed",
            code="type-mismatch",
        )
    return op.shape


def need_type(op: OpView, index: int, test: TypeTest, what: str) -> ArrayShape:
    """Return an array operand whose element type passes `test`; `what` names the allowed types."""
    shape = array_operand(op, index)
    if not test(shape.element_type):
        raise InferError(
            f"{op.opcode}: operand {index} has element type {shape.element_type}, "
            f"{what} is needed",
            operand=index, code="type-mismatch",
        )  # fmt: skip
    return shape


def need_same_type(op: OpView, a: int, b: int) -> ElementType:
    """Return the element type that two array operands have to share."""
    x, y = array_operand(op, a).element_type, array_operand(op, b).element_type
    if x is not y:
        raise InferError(
            f"{op.opcode}: operands {a} and {b} differ in element type: {x}, {y}",
            operand=b, code="type-mismatch",
        )  # fmt: skip
    return x


def need_rank(op: OpView, index: int, rank: int) -> ArrayShape:
    """Return an array operand of exactly `rank` dimensions."""
    shape = array_operand(op, index)
    if shape.rank != rank:
        raise InferError(
            f"{op.opcode}: operand {index} has shape {shape.to_string(False)}, "
            f"rank {rank} is needed",
            operand=index,
        )  # fmt: skip
    return shape


def need_one_dim(op: OpView, *ranks: int, attr: str = "dimensions") -> int:
    """Return the one dimension that an attribute names, which arrays of all these ranks have."""
    dims = op.attrs[attr]
    if len(dims) != 1:
        raise InferError(
            f"{op.opcode}: {attr} names {len(dims)} dimensions, one is needed",
            attr=attr, code="bad-dimension",
        )  # fmt: skip
    for rank in ranks:
        need_dims(op, dims, rank, attr)
    return int(dims[0])


def need_dims(
    op: OpView, dims: Sequence[int], rank: int, attr: str, *, is_sorted: bool = False
) -> None:
    """Check that dimension numbers lie in `[0, rank)` and are distinct (and ascending)."""
    for d in dims:
        if not 0 <= d < rank:
            raise InferError(
                f"{op.opcode}: {attr} names dimension {d}, outside [0, {rank})",
                attr=attr, code="bad-dimension",
            )  # fmt: skip
    if len(set(dims)) != len(dims):
        raise InferError(
            f"{op.opcode}: {attr} names a dimension twice: {{{','.join(map(str, dims))}}}",
            attr=attr, code="bad-dimension",
        )  # fmt: skip
    if is_sorted and list(dims) != sorted(dims):
        raise InferError(
            f"{op.opcode}: {attr} is not ascending: {{{','.join(map(str, dims))}}}",
            attr=attr, code="bad-dimension",
        )  # fmt: skip


def need_compatible(op: OpView, got: Shape, want: Shape, what: str, **where: Any) -> None:
    """Check that two shapes agree but for layout; both sides are in the message."""
    if not compatible(got, want):
        raise InferError(
            f"{op.opcode}: {what}: {got.to_string(False)} and {want.to_string(False)} differ",
            **where,
        )


def need_signature(
    op: OpView,
    attr: str,
    computation: ComputationView,
    parameters: Sequence[Shape],
    result: Shape | None,
) -> None:
    """Check the parameter shapes and the result shape of a computation that `attr` names.

    A `result` of None leaves the result to the caller.
    """
    got = computation.parameter_shapes
    if len(got) != len(parameters):
        raise InferError(
            f"{op.opcode}: {attr} {computation.name} takes {len(got)} parameters, "
            f"{len(parameters)} are passed",
            attr=attr, code="bad-computation",
        )  # fmt: skip
    for i, (have, want) in enumerate(zip(got, parameters, strict=True)):
        if not compatible(have, want):
            raise InferError(
                f"{op.opcode}: {attr} {computation.name}: parameter {i} has shape "
                f"{have.to_string(False)}, {want.to_string(False)} is passed",
                attr=attr, code="bad-computation",
            )  # fmt: skip
    if result is not None and not compatible(computation.result_shape, result):
        raise InferError(
            f"{op.opcode}: {attr} {computation.name} returns "
            f"{computation.result_shape.to_string(False)}, {result.to_string(False)} is needed",
            attr=attr, code="bad-computation",
        )  # fmt: skip


def merge_dims(
    op: OpView, shapes: Sequence[ArrayShape], numbers: Sequence[int] | None = None
) -> ArrayShape:
    """Return the shape that equal-dimension operands share; static sizes win over unbounded ones.

    The element type and layout are those of the first. `numbers` are the operands' own numbers
    where `shapes` are not all of them.
    """
    first = shapes[0]
    if all(s.dims == first.dims and s.dynamic == first.dynamic for s in shapes):
        return first
    dims, dynamic = list(first.dims), list(first.dynamic or (False,) * first.rank)
    for i, s in enumerate(shapes[1:], 1):
        if s.rank != first.rank or any(
            x != y and UNBOUNDED not in (x, y) for x, y in zip(s.dims, first.dims, strict=True)
        ):
            a, b = (numbers[0], numbers[i]) if numbers else (0, i)
            raise InferError(
                f"{op.opcode}: operands {a} and {b} differ in dimensions: "
                f"{first.to_string(False)}, {s.to_string(False)}",
                operand=b,
            )  # fmt: skip
        for d in range(first.rank):
            if dims[d] == UNBOUNDED and s.dims[d] != UNBOUNDED:
                dims[d], dynamic[d] = s.dims[d], s.is_dynamic_dim(d)
            elif dims[d] == s.dims[d] and s.is_dynamic_dim(d):
                dynamic[d] = True
    return ArrayShape(
        first.element_type, tuple(dims), first.layout, tuple(dynamic) if any(dynamic) else ()
    )


def higher_precision(a: ElementType, b: ElementType) -> ElementType:
    """Return the type that mixed operands meet in: complex first, then float range, then width.

    Of two types that differ in none of these (`f8e5m2` and `f8e5m2fnuz`) the first is taken.
    """
    return b if _precision(b) > _precision(a) else a


@functools.cache
def _precision(et: ElementType) -> tuple[bool, bool, int, int, int, bool]:
    part = complex_part(et)
    exponent = digits = 0
    if part.is_float:
        info = ml_dtypes.finfo(part.dtype)
        exponent, digits = math.frexp(float(info.max))[1], int(info.nmant)
    bits = 1 if et.is_pred else part.bits
    return et.is_complex, part.is_float, exponent, digits, bits, et.is_signed


def tuple_or_single(shapes: Sequence[Shape]) -> Shape:
    """Return the one shape, or the tuple of several: how variadic operations return."""
    return shapes[0] if len(shapes) == 1 else TupleShape(tuple(shapes))


def need_tuple(op: OpView, shape: Shape, least: int, what: str, **where: Any) -> TupleShape:
    """Return a shape that has to be a tuple of at least `least` elements; `what` says which."""
    if not isinstance(shape, TupleShape) or len(shape.elements) < least:
        raise InferError(
            f"{op.opcode}: {what} has shape {shape.to_string(False)}, "
            f"a tuple of at least {least} elements is needed",
            **where,
        )
    return shape


def need_token(op: OpView, index: int) -> None:
    """Check that an operand is a token."""
    if not op.operand_shape(index).is_token:
        raise InferError(
            f"{op.opcode}: operand {index} has shape "
            f"{op.operand_shape(index).to_string(False)}, token[] is needed",
            operand=index, code="type-mismatch",
        )  # fmt: skip


def need_aliases(
    op: OpView, aliases: Sequence[OutputAlias], *, shapes: bool = True, buffers: bool = False
) -> None:
    """Check that each output aliases at most one operand, and (`shapes`) one of its own shape.

    With `buffers`, an array and a buffer of it are of one shape.
    """
    attr, seen = "output_to_operand_aliasing", set()
    for alias in aliases:
        text = f"{write_index(alias.output)}: ({alias.operand}, {write_index(alias.operand_index)})"
        if alias.output in seen:
            raise InferError(f"{op.opcode}: {attr} {text}: the output has an alias already",
                             attr=attr, code="bad-value")  # fmt: skip
        seen.add(alias.output)
        if not 0 <= alias.operand < len(op.operand_shapes):
            # Some programs say with -1 that the output is of no operand.
            ignored = "keeps such an entry and never reads it" if alias.operand == -1 else None
            raise InferError(
                f"{op.opcode}: {attr} {text}: there are {len(op.operand_shapes)} operands",
                attr=attr, code="index-out-of-range", xla=ignored,
            )  # fmt: skip
        try:
            output = op.shape.at(alias.output)
            operand = op.operand_shape(alias.operand).at(alias.operand_index)
        except IndexError as e:
            raise InferError(
                f"{op.opcode}: {attr} {text}: {e}", attr=attr, code="index-out-of-range"
            ) from None
        if buffers:
            output, operand = unbuffered(output), unbuffered(operand)
        if shapes:
            need_compatible(op, output, operand, f"{attr} {text}", attr=attr)


def need_one_size(op: OpView, alias: OutputAlias) -> None:
    """Check that a result and the operand whose memory it uses are arrays of one shape.

    A module may leave that open (`xla_skip_custom_call_alias_shape_check`); a run cannot.
    """
    operand = op.operand_shape(alias.operand).at(alias.operand_index)
    need_compatible(
        op, unbuffered(op.shape.at(alias.output)), unbuffered(operand),
        "a result in the memory of an operand", attr="output_to_operand_aliasing",
        code="unsupported",
    )  # fmt: skip


def unbuffered(shape: Shape) -> Shape:
    """Return the array that a buffer holds; any other shape as it is."""
    return shape.element if isinstance(shape, BufferShape) else shape


def need_memory(op: OpView, *shapes: Shape, scratch_bytes: int = 0) -> None:
    """Check, before anything is allocated, that arrays of these shapes fit in memory.

    `scratch_bytes` is what the evaluation needs besides. Raises InferError, code `out-of-memory`.
    """
    arrays = [leaf for s in shapes for _, leaf in s.leaves() if isinstance(leaf, ArrayShape)]
    size = scratch_bytes + sum(s.byte_size for s in arrays)
    if not fits(size):
        what = ", ".join(s.to_string(False) for s in shapes) or "scratch memory"
        check_memory(size, f"{op.opcode}: {what}")
