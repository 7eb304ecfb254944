"""A graph of ONNX under construction."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from hlo.ir import Instruction

OPSET = 21

ONNX_TYPES = {
    "pred": TensorProto.BOOL, "s8": TensorProto.INT8, "u8": TensorProto.UINT8,
    "s16": TensorProto.INT16, "u16": TensorProto.UINT16, "s32": TensorProto.INT32,
    "u32": TensorProto.UINT32, "s64": TensorProto.INT64, "u64": TensorProto.UINT64,
    "f16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16, "f32": TensorProto.FLOAT,
    "f64": TensorProto.DOUBLE,
}  # fmt: skip


class Unsupported(Exception):
    """ONNX, or this translation, has no counterpart of an instruction."""


@dataclass(frozen=True)
class Value:
    """A tensor. What broadcasts would repeat has size one in `dims`, as in ONNX."""

    name: str
    dims: tuple[int, ...]


def onnx_type(inst: Instruction) -> int:
    name = inst.array_shape.element_type.name
    if name not in ONNX_TYPES:
        raise Unsupported(f"{inst.opcode} of {name}")
    return ONNX_TYPES[name]


class Graph:
    """Nodes and constants in the order in which they were added."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []
        self._shared: dict[tuple[str, bytes, tuple[int, ...]], Value] = {}
        self._count = 0

    def fresh(self) -> str:
        self._count += 1
        return f"v{self._count}"

    def node(self, op: str, inputs: Sequence[Value], dims: Sequence[int], **attrs: Any) -> Value:
        """Add a node with one result of the given sizes."""
        name = self.fresh()
        self.nodes.append(helper.make_node(op, [v.name for v in inputs], [name], **attrs))
        return Value(name, tuple(dims))

    def constant(self, array: Any, onnx_type: int | None = None) -> Value:
        """Add a constant, once for each value.

        onnx_type: with a type that numpy has not, of which the array holds the bits.
        """
        array = np.asarray(array, order="C")
        key = (f"{array.dtype} {onnx_type}", array.tobytes(), array.shape)
        if key not in self._shared:
            value = Value(self.fresh(), array.shape)
            if onnx_type is None:
                proto = numpy_helper.from_array(array, value.name)
            else:
                data = array.tobytes()
                proto = helper.make_tensor(value.name, onnx_type, array.shape, data, raw=True)
            self.constants.append(proto)
            self._shared[key] = value
        return self._shared[key]

    def integers(self, values: Sequence[int]) -> Value:
        """Add what says sizes, axes and places."""
        return self.constant(np.array(values, np.int64))

    # --- what most operations need ---------------------------------------------------------------

    def expand(self, value: Value, dims: Sequence[int]) -> Value:
        """Return a value with all elements that it stands for."""
        if value.dims == tuple(dims):
            return value
        return self.node("Expand", [value, self.integers(dims)], dims)

    def whole(self, inst: Instruction, operands: list[Value]) -> list[Value]:
        """Return operands of an instruction with all elements that they have in HLO."""
        pairs = zip(operands, inst.operands, strict=True)
        return [self.expand(value, source.array_shape.dims) for value, source in pairs]

    def reshape(self, value: Value, dims: Sequence[int]) -> Value:
        if value.dims == tuple(dims):
            return value
        if 0 in dims:
            # To ONNX zero is the size that the operand has there.
            raise Unsupported("reshape of an empty array")
        return self.node("Reshape", [value, self.integers(dims)], dims)

    def transpose(self, value: Value, order: Sequence[int]) -> Value:
        if list(order) == sorted(order):
            return value
        dims = [value.dims[i] for i in order]
        return self.node("Transpose", [value], dims, perm=list(order))

    def cast(self, value: Value, to: int) -> Value:
        return self.node("Cast", [value], value.dims, to=to)


def elements(dims: Sequence[int]) -> int:
    return math.prod(dims)


Translation = Callable[[Graph, Instruction, list[Value]], Value]
TRANSLATIONS: dict[str, Translation] = {}


def translates(*opcodes: str) -> Callable[[Translation], Translation]:
    """Register how instructions become nodes; operands come as they are, maybe not expanded."""

    def add(function: Translation) -> Translation:
        TRANSLATIONS.update(dict.fromkeys(opcodes, function))
        return function

    return add


def need(condition: object, what: str) -> None:
    if not condition:
        raise Unsupported(what)
