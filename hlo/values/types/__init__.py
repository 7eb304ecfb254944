"""Element types, layouts and shapes: immutable values, compared by content.

A `Shape` is one of `ArrayShape`, `TupleShape`, `TokenShape`, `OpaqueShape`, `BufferShape`. Nothing
here knows about operations, or about text syntax beyond printing a shape as HLO does.
"""

from hlo.values.types.comparison import compatible, signature_text, with_layouts_of, without_layout
from hlo.values.types.element import (
    ELEMENT_TYPES,
    F32,
    FINITE_TYPES,
    PRED,
    S32,
    S64,
    TYPE_NAMES,
    U32,
    U64,
    ElementType,
    Kind,
    complex_of,
    complex_part,
    element_type,
    element_type_of,
    integer_range,
)
from hlo.values.types.layout import HOST_MEMORY_SPACE, DimLevel, SplitConfig, Tile
from hlo.values.types.shape import (
    MAX_ELEMENTS,
    MAX_NESTING,
    MAX_PARTS,
    MAX_RANK,
    OPAQUE,
    TOKEN,
    UNBOUNDED,
    ArrayShape,
    BufferShape,
    Layout,
    OpaqueShape,
    Shape,
    TokenShape,
    TupleShape,
    array,
    arrays_of,
    size_problem,
)

__all__ = [
    "ELEMENT_TYPES",
    "F32",
    "FINITE_TYPES",
    "HOST_MEMORY_SPACE",
    "MAX_ELEMENTS",
    "MAX_NESTING",
    "MAX_PARTS",
    "MAX_RANK",
    "OPAQUE",
    "PRED",
    "S32",
    "S64",
    "TOKEN",
    "TYPE_NAMES",
    "U32",
    "U64",
    "UNBOUNDED",
    "ArrayShape",
    "BufferShape",
    "DimLevel",
    "ElementType",
    "Kind",
    "Layout",
    "OpaqueShape",
    "Shape",
    "SplitConfig",
    "Tile",
    "TokenShape",
    "TupleShape",
    "array",
    "arrays_of",
    "compatible",
    "complex_of",
    "complex_part",
    "element_type",
    "element_type_of",
    "integer_range",
    "signature_text",
    "size_problem",
    "with_layouts_of",
    "without_layout",
]


def __dir__() -> list[str]:
    return sorted(__all__)
