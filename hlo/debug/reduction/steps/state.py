"""Elements of the state of loops stay as they are, so that simplification takes them out."""

from __future__ import annotations

from collections.abc import Sequence

from hlo.debug.reduction.editing import at, place_of
from hlo.ir import Instruction, Module


def targets(module: Module) -> list[str]:
    return [
        " ".join((*place_of(inst), str(index)))
        for inst in module.instructions()
        if inst.opcode == "while" and inst.body.root.opcode == "tuple"
        for index, element in enumerate(inst.body.root.operands)
        if not _stays(element, index)
    ]


def _stays(element: Instruction, index: int) -> bool:
    return (
        element.opcode == "get-tuple-element"
        and element.operands[0].opcode == "parameter"
        and element.tuple_index == index
    )


def apply(module: Module, targets: Sequence[str]) -> bool:
    done = False
    for target in targets:
        comp, name, number = target.split()
        loop, index = at(module, (comp, name)), int(number)
        if loop is None or loop.opcode != "while":
            continue
        root, (state,) = loop.body.root, loop.body.parameters
        if root.opcode != "tuple" or _stays(root.operands[index], index):
            continue
        shape = root.operands[index].shape
        old = loop.body.create("get-tuple-element", shape, [state], {"index": index}, like=root)
        root.replace_operand(index, old)
        done = True
    return done
