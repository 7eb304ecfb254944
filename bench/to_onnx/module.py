"""A module as a model."""

from __future__ import annotations

from onnx import ModelProto, helper

import hlo
import to_onnx.contractions
import to_onnx.elementwise
import to_onnx.movement  # noqa: F401  each registers translations
from hlo.ir import Instruction, Module
from hlo.values.types import ArrayShape
from to_onnx.graph import ONNX_TYPES, OPSET, TRANSLATIONS, Graph, Unsupported, Value, onnx_type

# What frontends write besides what is computed.
CLEANUP = "call-inliner,fix(tuple-simplifier,dce,cse)"


def model_of(module: Module) -> ModelProto:
    """Return the model that computes what a module does; inputs are called `arg0`, `arg1`, ...

    Raises Unsupported.
    """
    module = hlo.optimize(module, CLEANUP)
    graph = Graph()
    values: dict[Instruction, Value] = {}
    inputs = []
    for inst in module.entry:
        if inst.opcode == "parameter":
            if not isinstance(inst.shape, ArrayShape):
                raise Unsupported("a parameter that is no array")
            name, dims = f"arg{inst.parameter_number}", inst.array_shape.dims
            values[inst] = Value(name, dims)
            inputs.append((inst.parameter_number, name, onnx_type(inst), dims))
        elif inst.opcode == "tuple" and inst.is_root:
            continue
        elif inst.opcode not in TRANSLATIONS or not isinstance(inst.shape, ArrayShape):
            raise Unsupported(inst.opcode)
        elif inst.array_shape.element_type.name not in ONNX_TYPES:
            raise Unsupported(f"{inst.opcode} of {inst.array_shape.element_type.name}")
        else:
            operands = [values[o] for o in inst.operands]
            values[inst] = TRANSLATIONS[inst.opcode](graph, inst, operands)
    root = module.entry.root
    results = root.operands if root.opcode == "tuple" else [root]
    outputs = []
    for n, result in enumerate(results):
        whole = graph.expand(values[result], result.array_shape.dims)
        graph.nodes.append(helper.make_node("Identity", [whole.name], [f"result{n}"]))
        outputs.append(helper.make_tensor_value_info(
            f"result{n}", onnx_type(result), result.array_shape.dims))  # fmt: skip
    proto = helper.make_graph(
        graph.nodes, "module",
        [helper.make_tensor_value_info(*rest) for _, *rest in sorted(inputs)], outputs,
        graph.constants,
    )  # fmt: skip
    opset = helper.make_opsetid("", OPSET)
    return helper.make_model(proto, opset_imports=[opset], ir_version=10)
