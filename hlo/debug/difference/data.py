"""A difference as JSON data."""

from __future__ import annotations

from typing import Any

from hlo.analysis.cost import Cost
from hlo.analysis.source_location import source_location
from hlo.debug.difference.changes import Change
from hlo.debug.difference.details import Detail
from hlo.debug.difference.record import Record
from hlo.ir import Instruction, Module


def difference_data(difference: Record) -> dict[str, Any]:
    """Return a difference as JSON data, as docs/schemas/hlo-diff.schema.json says."""
    left, right = difference.totals
    return {
        "version": 1,
        "left": _module_json(difference.left, difference.names[0], left),
        "right": _module_json(difference.right, difference.names[1], right),
        "equal": not difference,
        "counts": dict(difference.counts),
        "header": [_detail_json(d) for d in difference.header],
        "cost": _cost_json(difference.more) | {"seconds": difference.seconds},
        "patterns": [
            {
                "words": p.words,
                "cost": _cost_json(p.cost) | {"seconds": p.seconds},
                "places": [[_change_json(c) for c in place] for place in p.places],
            }
            for p in difference.patterns
        ],
        "machine": {
            "flops": difference.machine.flops,
            "memory_bandwidth": difference.machine.memory_bandwidth,
        },
    }


def _module_json(module: Module, shown: str, cost: Cost) -> dict[str, Any]:
    return {
        "file": shown,
        "name": module.name,
        "instructions": sum(len(c) for c in module.computations),
        "computations": len(module.computations),
        "cost": _cost_json(cost),
    }


def _cost_json(cost: Cost) -> dict[str, Any]:
    return {
        "operations": cost.operations,
        "transcendentals": cost.transcendentals,
        "bytes": cost.bytes,
        "exact": cost.exact,
    }


def _detail_json(detail: Detail) -> dict[str, str]:
    return {"what": detail.what, "left": detail.left, "right": detail.right}


def _change_json(change: Change) -> dict[str, Any]:
    return {
        "kind": change.kind,
        "left": _instruction_json(change.left),
        "right": _instruction_json(change.right),
        "details": [_detail_json(d) for d in change.details],
        "cost": _cost_json(change.cost) | {"seconds": change.seconds},
    }


def _instruction_json(inst: Instruction | None) -> dict[str, Any] | None:
    if inst is None:
        return None
    assert inst.parent is not None
    place = source_location(inst)
    return {
        "name": inst.name,
        "computation": inst.parent.name,
        "opcode": inst.opcode,
        "shape": str(inst.shape),
        "file": place.hlo_file,
        "line": place.hlo_line,
        "op_name": place.op_name,
        "source": place.source,
    }
