"""Results declared as a tuple of one where the operation gives the bare array, and the reverse.

XLA runs them for the operations with `Trait.TUPLE_OF_ONE`, whose results it keeps as lists.
"""

from __future__ import annotations

from hlo.ir import Computation, Instruction, Module
from hlo.ir.builder import Builder
from hlo.ir.calls import clone_computation
from hlo.lenient.record import Note, inferred
from hlo.ops import Trait
from hlo.values.types import Shape, TupleShape, compatible

_XLA = "takes a tuple of one for the array in it, and the reverse"


def repair_results(module: Module, note: Note) -> None:
    """Give operations the results that the rules ask for, and their users what is declared."""
    for comp in module.callees_first():
        for inst in comp.in_order():
            if inst.spec.has(Trait.TUPLE_OF_ONE):
                _repair(module, inst, note)


def _repair(module: Module, inst: Instruction, note: Note) -> None:
    declared = inst.shape
    found = _result(inst)
    if found is None and _unwrap_function(module, inst):
        note(inst.name, _XLA)
        found = _result(inst)
    if found is None or compatible(found, declared):
        return
    assert inst.parent is not None
    b = Builder(inst.parent, inst)
    if inst.spec.continued_by:
        inst.shape = found  # what completes it is the only user, and is repaired next
    elif _is_one_of(declared, found):
        inst.shape = found
        inst.replace_all_uses_with(b.tuple(inst))
    elif _is_one_of(found, declared):
        inst.shape = found
        inst.replace_all_uses_with(b.op("get-tuple-element", inst, index=0))
    else:
        return
    note(inst.name, _XLA)


def _result(inst: Instruction) -> Shape | None:
    """Return what an operation gives, if that is what it declares but for tuples of one."""
    declared = inst.shape
    for hint in (declared, _unwrapped(declared), _of_start(inst)):
        if hint is None:
            continue
        found = inferred(inst, hint)
        if found is not None and compatible(_unwrapped(found), _unwrapped(hint)):
            return found
    return None


def _of_start(inst: Instruction) -> Shape | None:
    """Return the result in the tuple of operand and result that an all-reduce-start declares."""
    shape = inst.shape
    if inst.opcode != "all-reduce-start" or not isinstance(shape, TupleShape):
        return None
    operands = [o.shape for o in inst.operands]
    if len(operands) != 1 or len(shape.elements) < 2:
        return None
    source, result = map(_unwrapped, shape.elements[:2])
    return result if compatible(source, operands[0]) else None


def _unwrap_function(module: Module, inst: Instruction) -> bool:
    """Make the function of an operation return an array, not a tuple of one; False if it does."""
    function: Computation | None = inst.attrs.get("to_apply")
    if function is None or inst.spec.has(Trait.CALL) or not _is_one(function.root.shape):
        return False
    bare = module.add(clone_computation(function))
    module.adopt(bare.call_sites)
    bare.set_root(Builder(bare, bare.root).element(bare.root, 0))
    inst.attrs["to_apply"] = bare
    if not module.callers()[function] and function is not module.entry:
        module.remove(function)
    return True


def _is_one(shape: Shape) -> bool:
    return isinstance(shape, TupleShape) and len(shape.elements) == 1


def _is_one_of(shape: Shape, element: Shape) -> bool:
    """True for the tuple of one that contains an element."""
    return compatible(shape, TupleShape((element,)))


def _unwrapped(shape: Shape) -> Shape:
    """Return a shape in which each tuple of one is its element."""
    if not isinstance(shape, TupleShape):
        return shape
    elements = tuple(map(_unwrapped, shape.elements))
    return elements[0] if len(elements) == 1 else TupleShape(elements)
