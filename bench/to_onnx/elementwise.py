"""Element by element. ONNX broadcasts sizes of one by itself: what HLO repeats stays small."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from hlo.ir import Instruction
from to_onnx.graph import Graph, Unsupported, Value, need, onnx_type, translates

_SAME = {
    "abs": "Abs", "add": "Add", "ceil": "Ceil", "cosine": "Cos", "divide": "Div", "erf": "Erf",
    "exponential": "Exp", "floor": "Floor", "log": "Log", "logistic": "Sigmoid", "maximum": "Max",
    "minimum": "Min", "multiply": "Mul", "negate": "Neg", "power": "Pow",
    "round-nearest-even": "Round", "sign": "Sign", "sine": "Sin", "sqrt": "Sqrt",
    "subtract": "Sub", "tan": "Tan", "tanh": "Tanh",
}  # fmt: skip
_LOGICAL = {"and": "And", "or": "Or", "xor": "Xor", "not": "Not"}
_BITWISE = {"and": "BitwiseAnd", "or": "BitwiseOr", "xor": "BitwiseXor", "not": "BitwiseNot"}
_COMPARISONS = {"EQ": "Equal", "LT": "Less", "LE": "LessOrEqual", "GT": "Greater",
                "GE": "GreaterOrEqual"}  # fmt: skip


def _joint(values: list[Value]) -> tuple[int, ...]:
    """Return the sizes of the result of an operation on values that broadcast."""
    rank = max(len(v.dims) for v in values)
    need(all(len(v.dims) in (0, rank) for v in values), "operands of several ranks")
    full = [v.dims for v in values if len(v.dims) == rank]
    return tuple(next((d for d in dims if d != 1), 1) for dims in zip(*full, strict=True))


@translates(*_SAME)
def _same(graph: Graph, inst: Instruction, operands: list[Value]) -> Value:
    kind = inst.array_shape.element_type
    need(inst.opcode != "divide" or kind.is_float, "division of integers")
    return graph.node(_SAME[inst.opcode], operands, _joint(operands))


@translates(*_LOGICAL)
def _bits(graph: Graph, inst: Instruction, operands: list[Value]) -> Value:
    is_logical = inst.array_shape.element_type.name == "pred"
    name = (_LOGICAL if is_logical else _BITWISE)[inst.opcode]
    return graph.node(name, operands, _joint(operands))


@translates("rsqrt")
def _rsqrt(graph: Graph, inst: Instruction, operands: list[Value]) -> Value:
    root = graph.node("Sqrt", operands, operands[0].dims)
    return graph.node("Reciprocal", [root], root.dims)


@translates("exponential-minus-one", "log-plus-one")
def _near_zero(graph: Graph, inst: Instruction, operands: list[Value]) -> Value:
    (x,) = operands
    one = graph.constant(np.ones((), _numpy(inst)))
    if inst.opcode == "log-plus-one":
        return graph.node("Log", [graph.node("Add", [x, one], x.dims)], x.dims)
    return graph.node("Sub", [graph.node("Exp", [x], x.dims), one], x.dims)


@translates("remainder")
def _remainder(graph: Graph, inst: Instruction, operands: list[Value]) -> Value:
    # With `fmod` the result has the dividend's sign, as in HLO.
    return graph.node("Mod", operands, _joint(operands), fmod=1)


@translates("compare")
def _compare(graph: Graph, inst: Instruction, operands: list[Value]) -> Value:
    need(inst.comparison_type != "TOTALORDER", "a total order")
    dims = _joint(operands)
    if inst.direction == "NE":
        return graph.node("Not", [graph.node("Equal", operands, dims)], dims)
    return graph.node(_COMPARISONS[inst.direction], operands, dims)


@translates("select")
def _select(graph: Graph, inst: Instruction, operands: list[Value]) -> Value:
    return graph.node("Where", operands, _joint(operands))


@translates("clamp")
def _clamp(graph: Graph, inst: Instruction, operands: list[Value]) -> Value:
    low, x, high = operands
    above = graph.node("Max", [low, x], _joint([low, x]))
    return graph.node("Min", [above, high], _joint([above, high]))


@translates("is-finite")
def _is_finite(graph: Graph, inst: Instruction, operands: list[Value]) -> Value:
    (x,) = operands
    difference = graph.node("Sub", [x, x], x.dims)  # NaN unless x is finite
    return graph.node("Equal", [difference, difference], x.dims)


@translates("convert")
def _convert(graph: Graph, inst: Instruction, operands: list[Value]) -> Value:
    source = inst.operands[0].array_shape.element_type
    target = inst.array_shape.element_type
    # Out of range, ONNX leaves open what HLO says.
    need(not (source.is_float and target.is_integer), "a float to an integer")
    return graph.cast(operands[0], onnx_type(inst))


@translates("copy", "opt-barrier")
def _as_it_is(graph: Graph, inst: Instruction, operands: list[Value]) -> Value:
    return operands[0]


@translates("constant")
def _constant(graph: Graph, inst: Instruction, operands: list[Value]) -> Value:
    kind = onnx_type(inst)
    array = inst.literal.array
    if kind == TensorProto.BFLOAT16:
        return graph.constant(array.view(np.uint16), kind)
    return graph.constant(array)


@translates("iota")
def _iota(graph: Graph, inst: Instruction, operands: list[Value]) -> Value:
    dims, along = inst.array_shape.dims, inst.iota_dimension
    sizes = [d if i == along else 1 for i, d in enumerate(dims)]
    return graph.constant(np.arange(dims[along]).astype(_numpy(inst)).reshape(sizes))


def _numpy(inst: Instruction) -> np.dtype:
    name = inst.array_shape.element_type.name
    if name == "bf16":
        raise Unsupported("a constant in bf16")
    return inst.array_shape.element_type.dtype
