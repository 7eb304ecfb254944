"""Tuples, and their elements."""

from __future__ import annotations

from collections.abc import Sequence

from hlo.frontends.builder.core import BuilderCore, XlaOp, emit, operation


@operation
def tuple_(builder: BuilderCore[XlaOp], elements: Sequence[XlaOp]) -> XlaOp:
    """Append a tuple of values.

    elements: any number of values of any shapes, tuples too.

    Source: "Tuple" (004, 000, 002, 003).

    >>> b = hlo.XlaBuilder("m")
    >>> print(b.tuple_([b.constant(1), b.constant(2.5)]).shape)
    (s32[], f32[])
    """
    return emit(builder, "tuple", *elements)


@operation
def get_tuple_element(builder: BuilderCore[XlaOp], tuple_data: XlaOp, index: int) -> XlaOp:
    """Append an element of a tuple.

    index: counts from 0 in `tuple_data`.

    Raises HloError for an index that is not there, and for what is no tuple. Source:
    "GetTupleElement" (004, 000, 002, 003).

    >>> b = hlo.XlaBuilder("m")
    >>> print(b.get_tuple_element(b.tuple_([b.constant(1), b.constant(2.5)]), 1).shape)
    f32[]
    """
    return emit(builder, "get-tuple-element", tuple_data, index=index)


def elements(operand: XlaOp) -> list[XlaOp]:
    """Append all elements of a tuple. Raises HloError for anything else."""
    return [get_tuple_element(operand.builder, operand, i) for i in range(len(operand))]
