"""Programs built by calls, as the documents describe operations: `XlaBuilder`."""

from hlo.builder.builder import XlaBuilder
from hlo.builder.computation import XlaComputation
from hlo.builder.data import literal_of
from hlo.builder.dimension_numbers import (
    DotDimensionNumbers,
    GatherDimensionNumbers,
    RaggedDotDimensionNumbers,
    ScatterDimensionNumbers,
)
from hlo.builder.op import XlaOp
from hlo.ops.attrs import ConvDims, PadDim
from hlo.ops.elementwise import ResultAccuracy

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
