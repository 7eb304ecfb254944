"""Element sizes in memory of sub-byte types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hlo.ir import Instruction, Module
from hlo.passes.rewrites import Rewrites
from hlo.values.types import ArrayShape, ElementType, Shape, TupleShape


def set_element_sizes(
    module: Module, rewrites: Rewrites, rule: str, bits: Callable[[ElementType], int]
) -> None:
    """Change the element size in memory of all arrays of a module, including its signature.

    bits: the number for an element type, 0 for whole bytes. Modules with a bitcast from such a type
    to another, or with a custom call that requires its layouts, are not changed.
    """

    def of(shape: Shape) -> Shape:
        if isinstance(shape, TupleShape):
            return TupleShape(tuple(map(of, shape.elements)))
        if not isinstance(shape, ArrayShape):
            return shape
        layout, wanted = shape.layout, bits(shape.element_type)
        if layout is None or layout.element_bits == wanted:
            return shape
        return shape.with_layout(replace(layout, element_bits=wanted))

    instructions = list(module.instructions())
    changed = [i for i in instructions if of(i.shape) != i.shape]
    if not changed or any(_reinterprets(i, of) or _is_fixed(i, of) for i in instructions):
        return
    # Shapes have to be consistent: all of them are changed, or none.
    if not rewrites.allow(rule, changed[0]):
        return
    for inst in changed:
        inst.shape = of(inst.shape)
    said = module.attrs.get("entry_computation_layout")
    if said is not None:
        module.attrs["entry_computation_layout"] = replace(
            said, parameters=tuple(map(of, said.parameters)), result=of(said.result)
        )


def _is_fixed(inst: Instruction, of: Callable[[Shape], Shape]) -> bool:
    """True for a custom call that states its layouts, including one with such elements."""
    stated = inst.operand_layout_constraints
    return stated is not None and any(of(s) != s for s in (*stated, inst.shape))


def _reinterprets(inst: Instruction, of: Callable[[Shape], Shape]) -> bool:
    """True for a bitcast that would read bits at other offsets."""
    if inst.opcode != "bitcast":
        return False
    x, new = inst.operands[0].array_shape, inst.array_shape
    changes = of(x) != x or of(new) != new
    return changes and x.element_type is not new.element_type
