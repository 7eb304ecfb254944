"""Quantized types: an array of integers with how they stand for numbers.

Source: the sections on quantized types of StableHLO's specification.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hlo.values.types import ArrayShape, ElementType, Shape, TupleShape


@dataclass(frozen=True)
class Quantization:
    """How integers stand for numbers: (integer - zero point) * scale.

    low, high: the range of the integers. axis: the dimension along which scales and zero points
    differ; None for one of each.
    """

    storage: ElementType
    low: int
    high: int
    expressed: ElementType
    axis: int | None
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]


@dataclass(frozen=True, repr=False)
class QuantizedShape(ArrayShape):
    """The type of an array of integers that stand for numbers; its element type is theirs."""

    quantization: Quantization = None  # type: ignore[assignment]

    __hash__ = ArrayShape.__hash__


def storage(shape: Shape) -> Shape:
    """Return the shape of what is stored for values of a type."""
    return _mapped(shape, lambda q: q.quantization.storage)


def expressed(shape: Shape) -> Shape:
    """Return the shape of the numbers that values of a type stand for."""
    return _mapped(shape, lambda q: q.quantization.expressed)


def _mapped(shape: Shape, element: Callable[[QuantizedShape], ElementType]) -> Shape:
    if isinstance(shape, TupleShape):
        return TupleShape(tuple(_mapped(s, element) for s in shape.elements))
    if not isinstance(shape, QuantizedShape):
        return shape
    return ArrayShape(element(shape), shape.dims, shape.layout, shape.dynamic)


def quantization_of(shape: Shape) -> Quantization | None:
    """Return how an array is quantized; None for any other type."""
    return shape.quantization if isinstance(shape, QuantizedShape) else None


def is_quantized(shapes: Sequence[Shape]) -> bool:
    """True if one of some types is quantized, or an element of a tuple."""
    return any(isinstance(leaf, QuantizedShape) for s in shapes for _, leaf in s.leaves())
