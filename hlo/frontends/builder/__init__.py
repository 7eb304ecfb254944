"""Programs built by calls, as the documents describe operations: `XlaBuilder`."""

from hlo.frontends.builder.builder import XlaBuilder, XlaOp
from hlo.frontends.builder.computation import XlaComputation
from hlo.frontends.builder.data import literal_of
from hlo.frontends.builder.dimension_numbers import (
    DotDimensionNumbers,
    GatherDimensionNumbers,
    RaggedDotDimensionNumbers,
    ScatterDimensionNumbers,
)
from hlo.ops.attrs import ConvDims, PadDim, ResultAccuracy

__all__ = [
    "ConvDims",
    "DotDimensionNumbers",
    "GatherDimensionNumbers",
    "PadDim",
    "RaggedDotDimensionNumbers",
    "ResultAccuracy",
    "ScatterDimensionNumbers",
    "XlaBuilder",
    "XlaComputation",
    "XlaOp",
    "literal_of",
]


def __dir__() -> list[str]:
    return sorted(__all__)
