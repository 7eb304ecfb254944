"""HLO as an ONNX graph, so that onnxruntime can be measured on the programs that ONNX has."""

from to_onnx.graph import Unsupported
from to_onnx.module import model_of

__all__ = ["Unsupported", "model_of"]
