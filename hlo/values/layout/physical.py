"""The public interface to shapes and physical buffers: shapes may be text, errors are HloErrors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np

from hlo.errors import HloError, InferError, Source, Span, TextError
from hlo.support.signature import checked
from hlo.values import shape_text
from hlo.values.layout import packing
from hlo.values.types import ArrayShape, Shape


@checked
def parse_shape(text: str) -> Shape:
    """Parse a shape, such as `f32[3,5]{1,0:T(2,2)}`.

    A layout that is not given is row-major.

    Raises:
        HloError: for anything else.

    >>> shape = hlo.parse_shape("(f32[3,5], s32[])")
    >>> shape, shape.elements[0].dims
    (<TupleShape (f32[3,5]{1,0}, s32[])>, (3, 5))
    """
    try:
        return shape_text.parse_shape(text)
    except TextError as e:
        at = Span(Source("<shape>", text), e.offset, e.offset + 1)
        raise HloError.at(e.code, e.message, at, e.hint) from None


def array_shape(shape: Shape | str) -> ArrayShape:
    """Return the shape of an array, which may be given as text. Raises HloError."""
    found = parse_shape(shape) if isinstance(shape, str) else shape
    if not isinstance(found, ArrayShape):
        raise HloError.at("type-mismatch", f"{found} is not the shape of an array")
    return found


@contextlib.contextmanager
def layout_errors() -> Iterator[None]:
    """Turn exceptions about layouts into HloError."""
    try:
        yield
    except InferError as e:
        raise HloError.at(e.code, e.message, hint=e.hint) from None


@checked
def pack(array: np.ndarray, shape: Shape | str, padding: np.ndarray | None = None) -> np.ndarray:
    """Return the physical buffer of an array given in logical order.

    Args:
        array: of the shape's dimensions and dtype.
        shape: an array shape with its layout, also as text.
        padding: value of padding, a scalar of that dtype, or None for zero bits, which a metadata
            prefix always has.

    Returns:
        Bytes (uint8, 1-d), of the layout's physical size.

    Raises:
        HloError: for an array of another shape or type, and an invalid layout.

    >>> hlo.pack(np.uint8([[1, 2, 3], [4, 5, 6]]), "u8[2,3]{0,1}")
    array([1, 4, 2, 5, 3, 6], dtype=uint8)
    >>> hlo.pack(np.uint8([[1, 2, 3], [4, 5, 6]]), "u8[2,3]{1,0:T(2,2)}")
    array([1, 2, 4, 5, 3, 0, 6, 0], dtype=uint8)
    """
    with layout_errors():
        return packing.pack(array, array_shape(shape), padding)


@checked
def unpack(buffer: np.ndarray, shape: Shape | str) -> np.ndarray:
    """Return the array, in logical order, whose physical buffer this is: the inverse of `hlo.pack`.

    Args:
        buffer: bytes, of the layout's physical size.
        shape: an array shape with its layout, also as text.

    Raises:
        HloError: for a buffer of another size, and an invalid layout.

    >>> hlo.unpack(np.uint8([1, 4, 2, 5, 3, 6]), "u8[2,3]{0,1}")
    array([[1, 2, 3],
           [4, 5, 6]], dtype=uint8)
    """
    with layout_errors():
        return packing.unpack(buffer, array_shape(shape))
