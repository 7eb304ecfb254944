"""Literals, constants of a shape, and their text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from hlo.errors import HloError
from hlo.support.interop import array_of
from hlo.support.signature import need, shown
from hlo.values.arrays import TOKEN_VALUE
from hlo.values.dense import dense_pieces
from hlo.values.numerals import bits_of, encode
from hlo.values.types import (
    TOKEN,
    ArrayShape,
    Shape,
    TokenShape,
    TupleShape,
    array,
    compatible,
    element_type_of,
)


class Literal:
    """A constant of a shape: an array, a tuple of literals, or a token. Immutable.

    An elided literal has no value in its text and evaluates to `elision_fill`; its array is created
    on first use, since the shapes of elided constants can be huge. Two literals are equal when
    shape and bits are, so a NaN equals itself and -0 differs from 0.

    >>> literal = hlo.Literal.of([[1.0, 2.0], [3.0, np.nan]])
    >>> literal, literal == hlo.Literal.of(literal.array)
    (Literal(f64[2,2] { { 1, 2 }, { 3, nan } }), True)
    """

    __slots__ = ("_fill_start", "_value", "elided", "shape")

    def __init__(self, shape: Shape, value: np.ndarray | Sequence[Literal] | None = None) -> None:
        """Take ownership of an array of the shape's dimensions and dtype, or of the elements of a
        tuple. A value of None elides an array or a tuple. Raises HloError for a value that does not
        match the shape, and for shapes without literals."""
        _need_fit(shape, value)
        self.shape = shape
        self.elided = value is None and not isinstance(shape, TokenShape)
        self._fill_start = 0
        self._value: Any = value
        if isinstance(value, np.ndarray):
            self._value = value.view()
            self._value.flags.writeable = False
        elif value is not None:
            self._value = tuple(value)

    @classmethod
    def of(cls, value: Any) -> Literal:
        """Return the literal of an array of any library, of a token, or of a tuple of such.

        Numbers and lists are converted by numpy. Raises HloError, code `type-mismatch`, for
        anything that is not an array of an element type.
        """
        if value is TOKEN_VALUE:
            return cls(TOKEN)
        if isinstance(value, tuple):
            parts = [cls.of(v) for v in value]
            return cls(TupleShape(tuple(p.shape for p in parts)), parts)
        found = array_of(value, "a literal")
        try:
            copy = np.array(value if found is None else found, order="C")
        except ValueError as e:
            raise HloError.at("type-mismatch", f"a literal of lists: {e}") from None
        copy = copy.astype(copy.dtype.newbyteorder("="), copy=False)
        try:
            et = element_type_of(copy.dtype)
        except KeyError:
            what = f"no element type holds the dtype {copy.dtype} of {repr(value)[:40]}"
            raise HloError.at("type-mismatch", f"there is no such literal: {what}") from None
        return cls(array(et, copy.shape), copy)

    @property
    def array(self) -> np.ndarray:
        """The elements in logical order, read-only. Raises HloError if it is no array."""
        if not isinstance(self.shape, ArrayShape):
            raise self._is_not("an array")
        if self._value is None:
            self._value = elision_fill(self.shape, self._fill_start)
            self._value.flags.writeable = False
        return self._value

    @property
    def elements(self) -> tuple[Literal, ...]:
        """The elements of a tuple literal. Raises HloError for another."""
        if not isinstance(self.shape, TupleShape):
            raise self._is_not("a tuple")
        if self._value is None:
            parts, start = [], self._fill_start
            for shape in self.shape.elements:
                part, start = Literal(shape).filled_from(start)
                parts.append(part)
            self._value = tuple(parts)
        return self._value

    @property
    def is_elided_in_part(self) -> bool:
        """True if the literal, or an element of the tuple that it is, is elided."""
        if self.elided or not isinstance(self.shape, TupleShape):
            return self.elided
        return any(e.is_elided_in_part for e in self.elements)

    @property
    def value(self) -> Any:
        """The run-time value: a numpy array, a tuple of values, or the token."""
        if isinstance(self.shape, TupleShape):
            return tuple(e.value for e in self.elements)
        return TOKEN_VALUE if isinstance(self.shape, TokenShape) else self.array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Return the elements for numpy's functions: a read-only view."""
        if not isinstance(self.shape, ArrayShape):
            raise TypeError(f"a literal of {self.shape} is not an array")
        return np.array(self.array, dtype, copy=copy)

    def with_shape(self, shape: Shape) -> Literal:
        """Return the same value under a shape that differs in layout only. Raises HloError."""
        need(shape, Shape, "with_shape: shape")
        if not compatible(shape, self.shape):
            message = f"with_shape: a literal of {self.shape} cannot be one of {shape}"
            raise HloError.at("shape-mismatch", message)
        copy = Literal(shape)
        copy._value, copy.elided = self._value, self.elided
        copy._fill_start = self._fill_start
        return copy

    def filled_from(self, start: int) -> tuple[Literal, int]:
        """Return this literal with elided parts filled from word `start` on, and the next word.

        A module's elided constants are filled one after the other, so that no two are alike.
        """
        if not self.elided and not isinstance(self.shape, TupleShape):
            return self, start
        if self.elided:
            copy = Literal(self.shape)
            copy._fill_start = start
            for _, leaf in self.shape.leaves():
                if isinstance(leaf, ArrayShape):
                    start += leaf.byte_size // 4
            return copy, start
        parts = []
        for element in self.elements:
            part, start = element.filled_from(start)
            parts.append(part)
        return Literal(self.shape, parts), start

    def _is_not(self, what: str) -> HloError:
        return HloError.at("type-mismatch", f"a literal of {self.shape} is not {what}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Literal):
            return NotImplemented
        if self is other:
            return True
        if self.shape != other.shape or self.elided != other.elided:
            return False
        if self.elided or isinstance(self.shape, TokenShape):
            return self._fill_start == other._fill_start
        if isinstance(self.shape, TupleShape):
            return self.elements == other.elements
        return np.array_equal(bits_of(self.array), bits_of(other.array))

    def __hash__(self) -> int:
        if self.elided or not isinstance(self.shape, ArrayShape):
            return hash((self.shape, self.elided, self._fill_start))
        return hash((self.shape, bits_of(self.array.reshape(-1)[:16]).tobytes()))

    def __repr__(self) -> str:
        return f"Literal({self.shape.to_string(False)} {write_literal(self, 10)})"


def _need_fit(shape: Shape, value: Any) -> None:
    """Raise HloError unless a value fits the shape, TypeError if that is no shape."""
    if isinstance(shape, ArrayShape):
        is_array = isinstance(value, np.ndarray) and value.shape == shape.dims
        fits = value is None or (is_array and value.dtype == shape.element_type.dtype)
    elif isinstance(shape, TupleShape):
        fits = value is None or (
            isinstance(value, list | tuple)
            and len(value) == len(shape.elements)
            and all(
                isinstance(v, Literal) and compatible(v.shape, s)
                for v, s in zip(value, shape.elements, strict=True)
            )
        )
    else:
        need(shape, Shape, "Literal: shape")
        fits = value is None and isinstance(shape, TokenShape)
    if not fits:
        raise HloError.at(
            "type-mismatch", f"a literal of {shape.to_string(False)} cannot hold {shown(value)}"
        )


def elision_fill(shape: ArrayShape, start: int = 0) -> np.ndarray:
    """Return the value of an elided constant: 32-bit words that count up from `start`.

    The words fill the array's memory in its layout, whatever its element type; of pred, only the
    lowest bit of each byte is used. XLA's parser does the same, so a dump with elided constants
    gives the same results in both.
    """
    words = np.arange(start, start + shape.byte_size // 4, dtype=np.uint64).astype(np.uint32)
    if shape.element_type.is_pred:
        words &= np.uint32(0x01010101)
    # The remainder after the last word is bytes that count up from 0.
    rest = np.arange(shape.byte_size % 4, dtype=np.uint8)
    raw = np.concatenate([words.view(np.uint8), rest])
    if shape.element_type.bits < 8:
        raw &= np.uint8((1 << shape.element_type.bits) - 1)
    order = shape.layout.minor_to_major[::-1] if shape.layout else range(shape.rank)
    physical = raw.view(shape.element_type.dtype).reshape([shape.dims[d] for d in order])
    return np.ascontiguousarray(physical.transpose(np.argsort(order))).reshape(shape.dims)


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
