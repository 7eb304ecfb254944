"""Rules for many elementwise operations, driven by the op table's traits."""

from __future__ import annotations

from hlo.ir import Instruction
from hlo.ir.builder import Builder
from hlo.ops import OPS, Trait
from hlo.passes.algsimp._match import (
    COMMUTATIVE,
    dims_of,
    either_way,
    folded,
    has_negatives,
    is_constant,
    is_single_use,
    splat,
    type_of,
)
from hlo.passes.algsimp._rules import rule
from hlo.values.types import array

_IDEMPOTENT = " ".join(s.name for s in OPS.values() if s.has(Trait.IDEMPOTENT))
_INVOLUTIONS = " ".join(s.name for s in OPS.values() if s.has(Trait.INVOLUTION))
_ELEMENTWISE = " ".join(
    s.name for s in OPS.values() if s.has(Trait.ELEMENTWISE) and not s.computation_attrs
)


@rule(
    COMMUTATIVE,
    "c op x = x op c, for commutative operations",
    dynamic=True,
    on="constant broadcast",
)
def constant_right(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    if not is_constant(x) or is_constant(y):
        return None
    return b.op(inst.opcode, y, x)


@rule(_INVOLUTIONS, "op(op(x)) = x, for operations that undo themselves", dynamic=True, on="same")
def undone_twice(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    undone = inner.opcode == inst.opcode and has_negatives(type_of(inst))
    return inner.operands[0] if undone else None


@rule(_IDEMPOTENT, "x op x = x, for and, or, maximum and minimum", dynamic=True)
def same_operands(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    return x if x is y else None


@rule(_IDEMPOTENT, "(x op y) op y = x op y, for and, or, maximum and minimum", on="same")
def operand_again(inst: Instruction, b: Builder) -> Instruction | None:
    for whole, part in either_way(inst):
        if whole.opcode == inst.opcode and part in whole.operands:
            return whole
    return None


@rule(
    COMMUTATIVE,
    "(x op c) op d = x op (c op d), for integers, maximum and minimum",
    on="constant broadcast",
)
def constants_together(inst: Instruction, b: Builder) -> Instruction | None:
    inner, d = inst.operands
    if inner.opcode != inst.opcode or not inst.spec.is_associative(type_of(inst)):
        return None
    x, c = inner.operands
    both = folded(b, inst.opcode, c, d)
    return None if both is None or splat(x) is not None else b.op(inst.opcode, x, both)


@rule(COMMUTATIVE, "(x op c) op y = (x op y) op c, for integers, maximum and minimum", on="same")
def constant_outwards(inst: Instruction, b: Builder) -> Instruction | None:
    if not inst.spec.is_associative(type_of(inst)):
        return None
    for inner, y in either_way(inst):
        if inner.opcode != inst.opcode or not is_single_use(inner) or is_constant(y):
            continue
        x, c = inner.operands
        if splat(c) is not None and not is_constant(x):
            return b.op(inst.opcode, b.op(inst.opcode, x, y), c)
    return None


@rule(
    _ELEMENTWISE,
    "op(broadcast(x), broadcast(y)) = broadcast(op(x, y)), one way of broadcasting",
    on="broadcast",
)
def before_broadcast(inst: Instruction, b: Builder) -> Instruction | None:
    """Splat constants become scalars. A scalar operand (of select and clamp) stays one."""
    for o in inst.operands:  # most have one that is none of these
        if o.opcode not in ("broadcast", "constant") and dims_of(o):
            return None
    dims = dims_of(inst)
    spread = [o for o in inst.operands if o.opcode == "broadcast" and dims_of(o) == dims]
    sources = [o for o in spread if splat(o) is None]
    if not sources or not dims:
        return None
    first = sources[0]
    small, places = first.operands[0].array_shape, first.dimensions
    if small.num_elements >= inst.array_shape.num_elements:
        return None
    operands = []
    for o in inst.operands:
        value = splat(o)
        if value is not None:
            operands.append(b.filled(type_of(o), small.dims, value))
        elif o in sources and o.dimensions == places and dims_of(o.operands[0]) == (small.dims):
            operands.append(o.operands[0])
        elif not dims_of(o):
            operands.append(o)
        else:
            return None
    result = array(type_of(inst), small.dims)
    narrow = b.op(inst.opcode, *operands, shape=result, **inst.attrs)
    return b.op("broadcast", narrow, shape=array(type_of(inst), dims), dimensions=places)
