"""Literals as text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from hlo.dense import dense_pieces
from hlo.numerals import encode
from hlo.types import ArrayShape, Shape, TokenShape, TupleShape

if TYPE_CHECKING:
    from hlo.literal.value import Literal


def write_literal(literal: Literal, limit: int | None = None) -> str:
    """Return the text of a literal, as XLA prints it on one line.

    limit: arrays of more elements, and all tuples, are elided as `{...}`, as in XLA's short form.
    """
    out: list[str] = []
    todo: list[Literal | str] = [literal]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            out.append(item)
        elif isinstance(item.shape, TokenShape):
            out.append("token")
        elif not _is_scalar(item.shape) and (item.elided or _is_long(item.shape, limit)):
            out.append("{...}")
        elif isinstance(item.shape, TupleShape):
            out.append("( " if item.elements else "(")
            todo.append(" )" if item.elements else ")")
            for i, element in reversed(list(enumerate(item.elements))):
                todo.append(element)
                if i:
                    todo.append(", ")
        else:
            out.extend(_array_pieces(item.array, item.shape))
    return "".join(out)


def _is_scalar(shape: Shape) -> bool:
    return isinstance(shape, ArrayShape) and not shape.dims


def _is_long(shape: Shape, limit: int | None) -> bool:
    return limit is not None and not (isinstance(shape, ArrayShape) and shape.num_elements <= limit)


def _array_pieces(values: np.ndarray, shape: Shape) -> Iterable[str]:
    assert isinstance(shape, ArrayShape)
    if shape.dims:
        return dense_pieces(values, shape)
    et = shape.element_type
    return ("true" if values else "false") if et.is_pred else encode(values, et)
