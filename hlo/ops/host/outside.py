"""Values that no operation computes: what comes from the host, and what stands for a handle."""

from __future__ import annotations

from typing import Any

import numpy as np

from hlo.errors import InferError
from hlo.ops.spec import OpView
from hlo.values.arrays import TOKEN_VALUE, DynamicArray, at_bounds
from hlo.values.types import UNBOUNDED, ArrayShape, BufferShape, OpaqueShape, Shape, TupleShape


def zeros(shape: Shape) -> Any:
    """Return a value of a shape with every element zero; an opaque value is None."""
    if isinstance(shape, BufferShape):
        shape = shape.element
    if isinstance(shape, ArrayShape):
        return np.zeros([max(d, 0) for d in shape.dims], shape.element_type.dtype)
    if isinstance(shape, TupleShape):
        return tuple(zeros(s) for s in shape.elements)
    return TOKEN_VALUE if shape.is_token else None


def conforming(op: OpView, value: Any, shape: Shape, what: str) -> Any:
    """Return a value from outside as one of `shape`; `what` says where it comes from.

    Raises InferError, code `bad-value`, when structure, element type or dimensions differ. A token
    may be given as anything.
    """
    if isinstance(shape, BufferShape):
        shape = shape.element
    if isinstance(shape, TupleShape):
        if not isinstance(value, tuple | list) or len(value) != len(shape.elements):
            got = f"{len(value)} values" if isinstance(value, tuple | list) else "one value"
            raise InferError(
                f"{op.opcode}: {what} is {got}, {shape.to_string(False)} is needed",
                code="bad-value",
            )
        return tuple(conforming(op, v, s, what) for v, s in zip(value, shape.elements, strict=True))
    if isinstance(shape, ArrayShape):
        array = value if isinstance(value, DynamicArray) else np.asarray(value)
        if isinstance(array, np.ndarray) and array.dtype == f"V{shape.element_type.byte_width}":
            # Bytes without a type: how numpy's files hold types that it does not know.
            array = np.array(array, order="C").view(shape.element_type.dtype)
        _need_array(op, at_bounds(array), shape, what)
        if isinstance(array, DynamicArray):
            _need_sizes(op, array, shape, what)
        return array
    return value if isinstance(shape, OpaqueShape) else TOKEN_VALUE


def _need_sizes(op: OpView, array: DynamicArray, shape: ArrayShape, what: str) -> None:
    fits = len(array.sizes) == shape.rank and all(
        0 <= n <= d if shape.is_dynamic_dim(i) else n == d
        for i, (n, d) in enumerate(zip(array.sizes, array.data.shape, strict=False))
    )
    if not fits:
        raise InferError(
            f"{op.opcode}: {what} is of sizes {list(array.sizes)}, {shape.to_string(False)} is "
            "needed",
            code="bad-value",
        )


def _need_array(op: OpView, array: np.ndarray, shape: ArrayShape, what: str) -> None:
    fits = len(array.shape) == shape.rank and all(
        n == d or d == UNBOUNDED for n, d in zip(array.shape, shape.dims, strict=True)
    )
    if array.dtype != shape.element_type.dtype or not fits:
        raise InferError(
            f"{op.opcode}: {what} is {array.dtype}{list(array.shape)}, "
            f"{shape.to_string(False)} is needed",
            code="bad-value",
        )
