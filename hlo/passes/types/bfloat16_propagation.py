"""Rounding to bf16 at definitions instead of uses."""

from __future__ import annotations

from hlo.analysis.congruence import has_control_edges
from hlo.ir import Computation, Instruction, Module
from hlo.ir.builder import Builder
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import unfused
from hlo.passes.types._contractions import CONTRACTIONS
from hlo.passes.types._narrow_state import narrow_states
from hlo.passes.types._retype import converted, retyped
from hlo.values.types import ELEMENT_TYPES, F32, ArrayShape

_BF16 = ELEMENT_TYPES["bf16"]
_TYPES = {F32: _BF16}
_COMMUTES = frozenset({"abs", "clamp", "maximum", "minimum", "negate", "select"})


@module_pass
def bfloat16_propagation(module: Module, rewrites: Rewrites) -> None:
    """Round values to bf16 at their definition, if all users would round them.

    Operations that move or select values then move half the bytes; arithmetic stays in f32, and
    contractions return bf16 themselves. Loop state becomes bf16 where it is computed from bf16, or
    only used as such.
    """
    narrow_states(
        module, rewrites, "bfloat16_propagation.while", _TYPES, _is_rounding, _is_widening
    )
    for comp in unfused(module):
        for inst in reversed(comp.in_order()):
            _visit(comp, inst, rewrites)


def _commutes(inst: Instruction) -> bool:
    """True for operations that commute with rounding of all their f32 operands.

    Rounding is monotone and symmetric.
    """
    return inst.spec.moved is not None or inst.opcode in _COMMUTES


def _visit(comp: Computation, inst: Instruction, rewrites: Rewrites) -> None:
    shape = inst.shape
    if not isinstance(shape, ArrayShape) or shape.element_type is not F32:
        return
    if has_control_edges(inst) or inst.is_root or not inst.num_users:
        return
    if not all(_is_rounding(u) for u in inst.users):
        return
    contracts = inst.opcode in CONTRACTIONS
    if not contracts and (not _commutes(inst) or not _is_worth_it(inst)):
        return
    if not rewrites.allow(f"bfloat16_propagation.{inst.opcode}", inst, approximate=contracts):
        return
    b = Builder(comp, inst)
    operands = inst.operands
    if not contracts:
        operands = [converted(b, o, retyped(o.shape, _TYPES)) for o in operands]
    new = b.copy(inst, operands)
    new.shape = retyped(shape, _TYPES)
    for rounding in inst.users:
        rounding.replace_all_uses_with(b.relaid(new, rounding.shape))
        comp.remove(rounding)
    comp.remove(inst)


def _is_rounding(user: Instruction) -> bool:
    return (
        user.opcode == "convert"
        and isinstance(user.shape, ArrayShape)
        and user.shape.element_type is _BF16
        and not has_control_edges(user)
    )


def _is_widening(inst: Instruction) -> bool:
    return inst.opcode == "convert" and inst.operands[0].array_shape.element_type is _BF16


def _is_worth_it(inst: Instruction) -> bool:
    """True unless more elements would be rounded than now, as for a slice of something large."""
    sources = {o for o in inst.operands if isinstance(o.shape, ArrayShape)}
    floats = [o for o in sources if o.array_shape.element_type is F32]
    rounded = sum(o.array_shape.num_elements for o in floats)
    # Each element that is selected from several is computed somewhere, where rounding is cheap.
    return rounded <= inst.array_shape.num_elements * max(1, len(floats))
