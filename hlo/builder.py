"""Programs built by calls: `hlo.frontends.builder` under its public name."""

from hlo.frontends.builder import (
    ConvDims,
    DotDimensionNumbers,
    GatherDimensionNumbers,
    PadDim,
    RaggedDotDimensionNumbers,
    ResultAccuracy,
    ScatterDimensionNumbers,
    XlaBuilder,
    XlaComputation,
    XlaOp,
    literal_of,
)

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
