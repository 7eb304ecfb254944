"""Propagation of memory spaces into fusions."""

from __future__ import annotations

from dataclasses import replace

from hlo.ir import Instruction, Module
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.values.types import ArrayShape, Layout, Shape, TupleShape

# Operations that share their operand's buffer.
_SHARES = frozenset({"bitcast", "get-tuple-element", "tuple", "opt-barrier"})


@module_pass
def memory_space_propagation(module: Module, rewrites: Rewrites) -> None:
    """Propagate memory spaces to the parameters and results of fused computations.

    These are the memory spaces of the fusion's operands and result, and of values that alias them.
    """
    # Callers first: a fusion inside another one sees its updated operands.
    for comp in reversed(module.callees_first()):
        for inst in comp:
            if inst.opcode == "fusion":
                _visit(inst, rewrites)


def _visit(fusion: Instruction, rewrites: Rewrites) -> None:
    comp = fusion.calls
    pairs = list(zip(comp.parameters, fusion.operands, strict=True))
    wanted = [(p, _in_spaces_of(p.shape, o.shape)) for p, o in pairs]
    if not _hands_on_an_argument(comp.root):
        wanted.append((comp.root, _in_spaces_of(comp.root.shape, fusion.shape)))
    if all(inst.shape == shape for inst, shape in wanted):
        return
    if not rewrites.allow("memory_space_propagation.spread", fusion):
        return
    for inst, shape in wanted:
        _spread(inst, shape)


def _hands_on_an_argument(root: Instruction) -> bool:
    """True for a result that aliases an argument, or itself twice."""
    todo = [root]
    seen: set[Instruction] = set()
    while todo:
        inst = todo.pop()
        if inst.opcode == "parameter" or inst in seen:
            return True
        seen.add(inst)
        if inst.opcode in _SHARES:
            todo.extend(inst.operands)
    return False


def _spread(inst: Instruction, shape: Shape) -> None:
    """Set an instruction's shape, and the memory spaces of all values that share its buffers."""
    todo = [(inst, shape)]
    while todo:
        value, new = todo.pop()
        if value.shape == new:
            continue
        value.shape = new
        # Up to its operands, and down to its users.
        for operand in value.operands if value.opcode in _SHARES else ():
            if value.opcode == "tuple" and isinstance(new, TupleShape):
                at = value.operands.index(operand)
                todo.append((operand, _in_spaces_of(operand.shape, new.elements[at])))
            elif value.opcode in ("bitcast", "opt-barrier"):
                todo.append((operand, _in_spaces_of(operand.shape, new)))
        for user in value.users:
            if user.opcode in ("bitcast", "opt-barrier"):
                todo.append((user, _in_spaces_of(user.shape, new)))
            elif user.opcode == "get-tuple-element" and isinstance(new, TupleShape):
                todo.append((user, _in_spaces_of(user.shape, new.elements[user.tuple_index])))
            elif user.opcode == "tuple":
                elements = (o.shape for o in user.operands)
                todo.append((user, TupleShape(tuple(elements))))


def _in_spaces_of(shape: Shape, other: Shape) -> Shape:
    """Return a shape with the memory spaces of another one of the same structure."""
    if isinstance(shape, TupleShape) and isinstance(other, TupleShape):
        pairs = zip(shape.elements, other.elements, strict=True)
        return TupleShape(tuple(_in_spaces_of(a, b) for a, b in pairs))
    if not isinstance(shape, ArrayShape) or not isinstance(other, ArrayShape):
        return shape
    layout = shape.layout or Layout.default(shape.rank)
    space = other.layout.memory_space if other.layout is not None else 0
    if layout.memory_space == space:
        return shape
    return shape.with_layout(replace(layout, memory_space=space))
