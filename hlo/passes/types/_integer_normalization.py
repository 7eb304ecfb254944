"""Arithmetic on sub-byte integers in bytes."""

from __future__ import annotations

from hlo.analysis.patterns import applies
from hlo.ir import Computation, Instruction, Module
from hlo.ops import Trait
from hlo.passes.rewrites import Rewrites
from hlo.passes.types._float_normalization import computes
from hlo.passes.types._retype import Retyper, has_type
from hlo.values.types import ElementType

# Operations that depend on the high bits. For all others the low bits are the same.
_BY_WIDTH = frozenset({"count-leading-zeros", "popcnt", "shift-right-logical"})


def normalize_integers(
    module: Module, rewrites: Rewrites, name: str, narrow: ElementType, wide: ElementType
) -> None:
    """Compute in a wider integer of the same signedness where the module computes in a narrow one.

    Values keep their types; arithmetic is put between conversions. Results are the same:
    arithmetic wraps around at the narrow width when they are converted back.
    """
    retyper = Retyper(module, {narrow: wide})
    todo = list(module.callees_first())
    wrapped = {i.calls for i in module.instructions() if i.opcode == "async-start"}
    while todo or retyper.made:
        comp = todo.pop() if todo else retyper.made.pop()
        if comp.module is not module or comp in wrapped:
            continue
        for inst in comp.in_order():
            if _is_to_change(inst, retyper) and rewrites.allow(f"{name}.{inst.opcode}", inst):
                retyper.change(inst, _wraps)


def _is_to_change(inst: Instruction, retyper: Retyper) -> bool:
    if not computes(inst) or (inst.opcode in _BY_WIDTH and not _is_unsigned_shift(inst)):
        return False
    if not any(has_type(s, retyper.types) for s in (inst.shape, *inst.operand_shapes)):
        return False
    return retyper.can(inst)


def _is_unsigned_shift(inst: Instruction) -> bool:
    et = inst.array_shape.element_type
    return inst.opcode == "shift-right-logical" and not et.is_signed


def _wraps(comp: Computation) -> bool:
    return applies(comp, Trait.ASSOCIATIVE | Trait.ASSOCIATIVE_INT)
