"""`rng-bit-generator` that declares its bits alone, or its state as another type."""

from __future__ import annotations

from hlo.ir import Instruction, Module
from hlo.ir.builder import Builder
from hlo.lenient.record import Note, inferred
from hlo.values.types import ArrayShape, Shape, TupleShape


def repair_random_bits(module: Module, note: Note) -> None:
    """Give generators the result that the rules ask for, and their users what is declared."""
    for comp in module.computations:
        for inst in comp.in_order():
            if inst.opcode == "rng-bit-generator":
                _repair(inst, note)


def _repair(inst: Instruction, note: Note) -> None:
    declared, state = inst.shape, inst.operands[0].shape
    assert inst.parent is not None
    b = Builder(inst.parent, inst)
    if isinstance(declared, ArrayShape):
        made = TupleShape((state, declared))
        if inferred(inst, made) is None:
            return
        note(inst.name, "takes it for the bits, without the state")
        inst.shape = made
        element = b.element(inst, 1)
    else:
        wanted = _other_state(declared, state)
        if wanted is None or inferred(inst) is None:
            return
        assert isinstance(declared, TupleShape)
        note(inst.name, "makes a state of the operand's type")
        inst.shape = TupleShape((state, declared.elements[1]))
        after = b.convert(b.element(inst, 0), wanted.element_type)
        element = b.tuple(after, b.element(inst, 1))
    _use_instead(inst, element, b)


def _other_state(declared: Shape, state: Shape) -> ArrayShape | None:
    """Return the declared state if it differs from the operand in type alone."""
    if not (isinstance(declared, TupleShape) and isinstance(state, ArrayShape)):
        return None
    first = declared.elements[0]
    if not isinstance(first, ArrayShape) or first.dims != state.dims:
        return None
    et = first.element_type
    return None if et is state.element_type or et.is_complex or et.is_pred else first


def _use_instead(inst: Instruction, new: Instruction, b: Builder) -> None:
    """Make the users of `inst` that `b` has not built use `new`."""
    root = inst.is_root
    for user in inst.users:
        if user not in b.built:
            for n, operand in enumerate(user.operands):
                if operand is inst:
                    user.replace_operand(n, new)
    if root:
        b.comp.set_root(new)
