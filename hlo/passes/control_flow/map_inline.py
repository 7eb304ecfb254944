"""Maps of elementwise functions, as elementwise operations."""

from __future__ import annotations

from hlo.ir import Instruction, Module
from hlo.ir.builder import Builder
from hlo.ops import Trait
from hlo.passes.control_flow._growth import grows_too_large
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import RuleSet
from hlo.values.types import ArrayShape, Shape, array

_RULES = RuleSet("map_inline")


@module_pass
def map_inline(module: Module, rewrites: Rewrites) -> None:
    """Inline maps as operations on whole arrays, where possible.

    None is inlined if a computation would grow to a million instructions.
    """
    if not grows_too_large(module):
        _RULES.apply(module, rewrites)


@_RULES.rule("map", "map(x, y, ...; f) = f(x, y, ...), when f is of elementwise operations")
def inlined_map(inst: Instruction, b: Builder) -> Instruction | None:
    f, shape = inst.to_apply, inst.array_shape
    wanted = [_of_element(o.shape) for o in inst.operands]
    if shape.is_dynamic or not all(map(_works_on_arrays, f)) or wanted != f.parameter_shapes:
        return None
    made: dict[Instruction, Instruction] = {}
    for each in f.in_order():
        if each.opcode == "parameter":
            made[each] = inst.operands[each.parameter_number]
            continue
        whole = array(each.array_shape.element_type, shape.dims)
        if each.opcode == "constant":
            made[each] = b.broadcast(b.literal(each.literal), whole)
        else:
            operands = [made[o] for o in each.operands]
            made[each] = b.op(each.opcode, *operands, shape=whole, **each.attrs)
    return made[f.root]


def _works_on_arrays(inst: Instruction) -> bool:
    """True for what does to arrays, element by element, what it does to scalars."""
    if inst.control_predecessors or inst.called_computations:
        return False
    if not isinstance(inst.shape, ArrayShape) or inst.shape.dims:
        return False
    return inst.opcode in ("parameter", "constant") or (
        inst.spec.has(Trait.ELEMENTWISE) and not inst.spec.has(Trait.SIDE_EFFECT | Trait.NO_FOLD)
    )


def _of_element(shape: Shape) -> Shape | None:
    """Return the shape of one element of an array of fixed dimensions."""
    if not isinstance(shape, ArrayShape) or shape.is_dynamic:
        return None
    return array(shape.element_type, ())
