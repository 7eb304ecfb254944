"""What may be given for a shape, a type or a sharding, and what it stands for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hlo.errors import InferError, TextError
from hlo.frontends.builder.call_site import Unnamed, call_site, error_here
from hlo.frontends.text.annotations import ANNOTATIONS
from hlo.support.signature import fitted, shown
from hlo.values.shape_text import parse_shape
from hlo.values.sharding import Sharding
from hlo.values.types import ELEMENT_TYPES, ArrayShape, ElementType, Shape, element_type_of

ShapeLike = Shape | str
TypeLike = ElementType | str | np.dtype | type


def shape_of(shape: ShapeLike) -> Shape:
    """Return a shape, which may be given as HLO text: `f32[2,<=3]{0,1}`. Raises TextError."""
    found = parse_shape(shape) if isinstance(shape, str) else shape
    if not isinstance(found, Shape):
        raise InferError(
            f"{shown(shape)} is not a shape",
            code="type-mismatch",
            hint="a text such as 'f32[2,3]' is one",
        )
    return found


def array_shape_of(shape: ShapeLike, opcode: str) -> ArrayShape:
    """Return a shape that has to be an array."""
    found = shape_of(shape)
    if not isinstance(found, ArrayShape):
        raise InferError(
            f"{opcode}: the result has shape {found.to_string(False)}, an array is needed",
            code="type-mismatch",
        )
    return found


def type_of(element_type: TypeLike) -> ElementType:
    """Return an element type, which may be given by name or as a numpy dtype."""
    if isinstance(element_type, ElementType):
        return element_type
    if isinstance(element_type, str) and element_type in ELEMENT_TYPES:
        return ELEMENT_TYPES[element_type]
    try:
        return element_type_of(np.dtype(element_type))
    except (TypeError, KeyError, ValueError, SyntaxError):  # numpy reads some text as Python
        message = f"{shown(element_type)} is not an element type"
        raise Unnamed.at("unknown-type", message, call_site()) from None


def sharding_of(sharding: Sharding | str) -> Sharding:
    """Return a sharding, which may be given as HLO text. Raises HloError."""
    return sharding if isinstance(sharding, Sharding) else annotation_of("sharding", sharding)


def annotation_of(name: str, text: str) -> Any:
    """Return the value of an annotation that HLO text spells. Raises HloError."""
    try:
        return ANNOTATIONS[name].parse(text)
    except (TextError, InferError) as e:
        raise error_here(e) from None


def sizes_of(opcode: str, sizes: Sequence[int]) -> tuple[int, ...]:
    """Return sizes of dimensions, which have to be whole numbers from 0 on."""
    found: tuple[int, ...] = fitted(sizes, Sequence[int], f"{opcode}: sizes")
    if any(n < 0 for n in found):
        raise InferError(f"{opcode}: {min(found)} is not a dimension size", code="bad-value")
    return found
