"""How often loops run, where that can be read off the text."""

from __future__ import annotations

import json
from typing import Any

from hlo.ir import Instruction
from hlo.types import ArrayShape

# Instructions that give on their operand's value.
_SAME = frozenset({"copy", "bitcast", "opt-barrier", "convert"})
_MAX_TRIPS = 2**62


def trip_count(loop: Instruction) -> int | None:
    """Return how often the body of a `while` runs, or None when that is not known.

    Known are what `backend_config` says, and loops that count: an integer of the state starts from
    a constant, the body adds a constant to it, and the condition compares it with a constant.
    """
    return _stated(loop) or _counted(loop)


def _stated(loop: Instruction) -> int | None:
    text = loop.annotations.get("backend_config")
    try:
        count = json.loads(str(text))["known_trip_count"]["n"]
        return int(count)
    except (ValueError, KeyError, TypeError):  # other backends write other things here
        return None


def _counted(loop: Instruction) -> int | None:
    test, body = loop.attrs["condition"].root, loop.attrs["body"]
    if test.opcode != "compare":
        return None
    index, bound = _element(test.operands[0]), _constant(test.operands[1])
    direction = test.attrs["direction"]
    if index is None:
        index, bound = _element(test.operands[1]), _constant(test.operands[0])
        direction = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE"}.get(direction, direction)
    if index is None or bound is None or body.root.opcode != "tuple":
        return None
    start = _start(loop.operands[0], index)
    step = _step(body.root.operands[index], index)
    if start is None or not step:
        return None
    distance = bound - start if step > 0 else start - bound
    grows = "LT" if step > 0 else "GT"
    count: int
    if direction == grows:
        count = -(-distance // abs(step))
    elif direction == {"LT": "LE", "GT": "GE"}[grows]:
        count = distance // abs(step) + 1
    elif direction == "NE" and distance % abs(step) == 0 and distance >= 0:
        count = distance // abs(step)
    else:
        return None
    return max(0, count) if count <= _MAX_TRIPS else None


def _through(inst: Instruction) -> Instruction:
    while inst.opcode in _SAME:
        inst = inst.operands[0]
    return inst


def _element(inst: Instruction) -> int | None:
    """Return the number of the state element that an instruction is, in a body or condition."""
    inst = _through(inst)
    if inst.opcode != "get-tuple-element" or inst.operands[0].opcode != "parameter":
        return None
    return int(inst.attrs["index"])


def _constant(inst: Instruction) -> int | None:
    inst = _through(inst)
    shape = inst.shape
    if inst.opcode != "constant" or not isinstance(shape, ArrayShape) or shape.dims:
        return None
    if not shape.element_type.is_integer:
        return None
    value: Any = inst.attrs["literal"].value
    return int(value)


def _start(init: Instruction, index: int) -> int | None:
    init = _through(init)
    return _constant(init.operands[index]) if init.opcode == "tuple" else None


def _step(inst: Instruction, index: int) -> int | None:
    """Return what an instruction adds to the state element `index`, None if it is anything else."""
    inst = _through(inst)
    if inst.opcode == "add":
        a, b = inst.operands
        if _element(a) == index:
            return _constant(b)
        return _constant(a) if _element(b) == index else None
    if inst.opcode == "subtract" and _element(inst.operands[0]) == index:
        step = _constant(inst.operands[1])
        return None if step is None else -step
    return None
