"""Implicit broadcasting of two operands: scalar, in-dim, degenerate, and their composition.

Source: "Broadcasting semantics" (004); what 000, 002 and 003 call the broadcasting page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hlo.errors import InferError
from hlo.frontends.builder.core import BuilderCore, XlaOp, emit, value_of
from hlo.frontends.builder.handle import Handle
from hlo.values.types import UNBOUNDED, ArrayShape, array


@dataclass(frozen=True, slots=True)
class Broadcast:
    """The dimensions that two operands meet in.

    lhs, rhs: the dimension of the result for each dimension of that operand. An operand's dimension
    has the size of its place in the result, or it has size 1 and is repeated.
    """

    dims: tuple[int, ...]
    lhs: tuple[int, ...]
    rhs: tuple[int, ...]


def broadcast(
    opcode: str, lhs: ArrayShape, rhs: ArrayShape, broadcast_dimensions: Sequence[int] = ()
) -> Broadcast:
    """Return how two arrays broadcast together.

    broadcast_dimensions: for each dimension of the operand of lower rank the dimension of the other
    that it is matched to. Raises InferError naming the rule that is broken.
    """
    lower, higher = (lhs, rhs) if lhs.rank <= rhs.rank else (rhs, lhs)
    places = _places(opcode, lower, higher, tuple(broadcast_dimensions))
    same_rank = lhs.rank == rhs.rank
    dims = list(higher.dims)
    for i, at in enumerate(places):
        a, b = lower.dims[i], higher.dims[at]
        if a == b or (UNBOUNDED in (a, b) and 1 not in (a, b)):
            dims[at] = max(a, b)  # a stated size wins over an unbounded one, which is negative
        elif a == 1 or b == 1:
            dims[at] = b if a == 1 else a
        elif same_rank:
            raise InferError(
                f"{opcode}: dimension {at} has sizes {lhs.dims[at]} and {rhs.dims[at]} in "
                f"{_text(lhs, rhs)}: degenerate-dimension broadcasting needs equal sizes or a 1",
                operand=1,
            )
        else:
            raise InferError(
                f"{opcode}: dimension {i} of {lower.to_string(False)}, {a}, is matched to "
                f"dimension {at} of {higher.to_string(False)}, {b}: in-dim broadcasting needs "
                "equal sizes or a 1",
                operand=1,
            )
    whole = tuple(range(higher.rank))
    if lower is lhs:
        return Broadcast(tuple(dims), places, whole)
    return Broadcast(tuple(dims), whole, places)


def _places(
    opcode: str, lower: ArrayShape, higher: ArrayShape, given: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the dimension of the array of higher rank for each dimension of the other."""
    listed = "{" + ",".join(map(str, given)) + "}"
    if lower.rank == higher.rank:
        same = tuple(range(lower.rank))
        if given not in ((), same):
            raise InferError(
                f"{opcode}: broadcast_dimensions {listed} for operands of equal rank, "
                f"{_text(lower, higher)}: it has to be left out or name every dimension in order",
                code="bad-dimension",
            )
        return same
    if not given and lower.rank:
        raise InferError(
            f"{opcode}: {_text(lower, higher)} differ in rank: broadcast_dimensions is needed "
            "unless one operand is a scalar",
            operand=1,
            hint="say which dimensions of the larger array those of the smaller one match",
        )
    if len(given) != lower.rank:
        raise InferError(
            f"{opcode}: broadcast_dimensions {listed} names {len(given)} dimensions, the operand "
            f"of lower rank, {lower.to_string(False)}, has {lower.rank}",
            code="bad-dimension",
        )
    for i, d in enumerate(given):
        if not 0 <= d < higher.rank:
            raise InferError(
                f"{opcode}: broadcast_dimensions names dimension {d}, outside [0, {higher.rank})",
                code="bad-dimension",
            )
        if i and d <= given[i - 1]:
            raise InferError(
                f"{opcode}: broadcast_dimensions {listed} does not increase strictly",
                code="bad-dimension",
            )
    return given


def _text(a: ArrayShape, b: ArrayShape) -> str:
    return f"{a.to_string(False)} and {b.to_string(False)}"


def broadcast_together(
    builder: BuilderCore[XlaOp], opcode: str, lhs: Any, rhs: Any,
    broadcast_dimensions: Sequence[int],
) -> tuple[XlaOp, XlaOp]:  # fmt: skip
    """Return two operands in the dimensions in which they meet."""
    if not isinstance(lhs, Handle):
        lhs = value_of(builder, lhs, rhs)
    rhs = value_of(builder, rhs, lhs)
    found = broadcast(opcode, lhs.array_shape, rhs.array_shape, broadcast_dimensions)
    return (
        spread(builder, opcode, lhs, found.dims, found.lhs),
        spread(builder, opcode, rhs, found.dims, found.rhs),
    )


def spread(
    builder: BuilderCore[XlaOp], opcode: str, operand: XlaOp, dims: Sequence[int],
    places: Sequence[int],
) -> XlaOp:  # fmt: skip
    """Return an array repeated along the dimensions that `places` does not name, and along
    those in which it has size 1."""
    shape = operand.array_shape
    repeated = [i for i, at in enumerate(places) if shape.dims[i] == 1 != dims[at]]
    if tuple(places) == tuple(range(len(dims))) and not repeated:
        return operand
    missing = set(range(len(dims))) - set(places)
    if any(dims[d] == UNBOUNDED for d in (*missing, *(places[i] for i in repeated))):
        raise InferError(
            f"{opcode}: {shape.to_string(False)} cannot be repeated to a size without a bound",
            code="unsupported",
        )
    kept = [i for i in range(shape.rank) if i not in repeated]
    flags = [shape.is_dynamic_dim(i) for i in kept]
    if repeated:
        part = array(shape.element_type, [shape.dims[i] for i in kept], flags)
        operand = emit(builder, "reshape", operand, shape=part)
    at = [places[i] for i in kept]
    dynamic = [d in at and flags[at.index(d)] for d in range(len(dims))]
    result = array(shape.element_type, dims, dynamic)
    return emit(builder, "broadcast", operand, shape=result, dimensions=tuple(at))
