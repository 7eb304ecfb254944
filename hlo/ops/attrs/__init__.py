"""Attribute values and their codecs: text -> value and back.

A codec reads one whole attribute value, as the grammar cut it out, and prints it the way XLA does.
Values are immutable, so that instructions can share them. Codecs of computations are markers: only
the parser and the printer know names, so they resolve those values themselves. `accessors` gives
each attribute its type, as a property of instructions.
"""

from hlo.ops.attrs.accessors import AttributeAccessors, ComputationView
from hlo.ops.attrs.accuracy import ACCURACY, ResultAccuracy
from hlo.ops.attrs.codec import (
    BOOL,
    BOOLS,
    FLOAT,
    FLOAT32,
    INT,
    INT32,
    INT_GROUPS,
    INTS,
    MAX_INT32,
    NATURAL,
    STRING,
    Attr,
    Codec,
    enum,
    listed,
    need,
    shortest,
)
from hlo.ops.attrs.dims import (
    CONV_DIMS,
    PACKED_NIBBLE,
    PADDING,
    PRECISIONS,
    SLICES,
    WINDOW,
    ConvDims,
    PadDim,
    SliceDim,
    Window,
    WindowDim,
)
from hlo.ops.attrs.program import (
    COMPUTATION,
    COMPUTATIONS,
    DOMAIN,
    LITERAL,
    OUTPUT_ALIASES,
    SHAPE,
    SHAPES,
    Domain,
    OutputAlias,
    write_index,
)

__all__ = [
    "ACCURACY",
    "BOOL",
    "BOOLS",
    "COMPUTATION",
    "COMPUTATIONS",
    "CONV_DIMS",
    "DOMAIN",
    "FLOAT",
    "FLOAT32",
    "INT",
    "INT32",
    "INTS",
    "INT_GROUPS",
    "LITERAL",
    "MAX_INT32",
    "NATURAL",
    "OUTPUT_ALIASES",
    "PACKED_NIBBLE",
    "PADDING",
    "PRECISIONS",
    "SHAPE",
    "SHAPES",
    "SLICES",
    "STRING",
    "WINDOW",
    "Attr",
    "AttributeAccessors",
    "Codec",
    "ComputationView",
    "ConvDims",
    "Domain",
    "OutputAlias",
    "PadDim",
    "ResultAccuracy",
    "SliceDim",
    "Window",
    "WindowDim",
    "enum",
    "listed",
    "need",
    "shortest",
    "write_index",
]


def __dir__() -> list[str]:
    return sorted(__all__)
