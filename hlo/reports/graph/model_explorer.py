"""A module as Model Explorer reads it: a collection of graphs, one for each computation.

The names of the fields are Model Explorer's (its `graph_builder.py` explains each);
`docs/schemas/model-explorer.schema.json` describes what is written here.
"""

from __future__ import annotations

import json
from typing import Any

from hlo.analysis.cost import costs_of_module
from hlo.analysis.source_location import source_location
from hlo.ir import Computation, Instruction, Module
from hlo.reports.graph.groups import Group, groups_of
from hlo.reports.graph.style import colour, line, title

# Longer constants and lines say no more in a side panel.
_MOST_TEXT = 1000


def to_model_explorer(module: Module) -> str:
    """Return the JSON that Model Explorer opens; the graph of the entry is the first."""
    costs = costs_of_module(module)
    order = sorted(module.computations, key=lambda comp: comp is not module.entry)
    graphs = [
        {
            "id": comp.name,
            "nodes": _nodes(comp, {i: costs[i].operations + costs[i].transcendentals for i in comp},
                            {i: costs[i].bytes for i in comp}),
            "groupNodeAttributes": {"": {"computation": comp.name, "signature": comp.signature}},
        }
        for comp in order
    ]  # fmt: skip
    return json.dumps({"label": module.name, "graphs": graphs}) + "\n"


def _nodes(
    comp: Computation, flops: dict[Instruction, int], traffic: dict[Instruction, int]
) -> list[dict[str, Any]]:
    namespaces: dict[Instruction, str] = {}
    paths: dict[Group, str] = {}
    for group in groups_of(comp).groups():
        path = paths.get(group, "")
        for part in group.parts:
            if isinstance(part, Group):
                paths[part] = f"{path}/{part.name}" if path else part.name
            else:
                namespaces[part] = path
    return [_node(i, namespaces[i], flops[i], traffic[i]) for i in comp.in_order()]


def _node(inst: Instruction, namespace: str, flops: int, traffic: int) -> dict[str, Any]:
    place = source_location(inst)
    sharding = inst.annotations.get("sharding")
    attributes = {
        "name": inst.name,
        "opcode": inst.opcode,
        "HLO": line(inst)[:_MOST_TEXT],
        "flops": str(flops),
        "bytes": str(traffic),
        "op_name": place.op_name,
        "source": place.source,
        "HLO line": place.hlo,
        "sharding": "" if sharding is None else str(sharding),
    }
    shape = inst.shape.to_string(False)
    return {
        "id": inst.name,
        "label": title(inst),
        "namespace": namespace,
        "subgraphIds": list(dict.fromkeys(c.name for c in inst.called_computations)),
        "attrs": [{"key": key, "value": value} for key, value in attributes.items() if value],
        "incomingEdges": [
            {"sourceNodeId": o.name, "sourceNodeOutputId": "0", "targetNodeInputId": str(n)}
            for n, o in enumerate(inst.operands)
        ] + [
            {"sourceNodeId": c.name, "sourceNodeOutputId": "control",
             "targetNodeInputId": "control"}
            for c in inst.control_predecessors
        ],
        "outputsMetadata": [
            {"id": "0", "attrs": [{"key": "tensor_shape", "value": shape[:_MOST_TEXT]}]}
        ],
        "style": {"backgroundColor": colour(inst)},
    }  # fmt: skip
