"""Narrower values between devices."""

from __future__ import annotations

from hlo.analysis.congruence import has_control_edges
from hlo.ir import Instruction, Module
from hlo.ir.builder import Builder
from hlo.passes.collectives._collective import is_movable
from hlo.passes.collectives._replicated import is_constant
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import RuleSet
from hlo.values.types import ArrayShape

_RULES = RuleSet("collective_quantizer")
_COLLECTIVES = "all-gather all-to-all collective-broadcast collective-permute"
# Devices that nobody sends to get zeros.
_MAKE_ZEROS = frozenset({"collective-broadcast", "collective-permute"})
_MOVES = frozenset({"copy", "reshape", "slice"})
# A type without a zero: all bits zero is another number.
_WITHOUT_ZERO = "f8e8m0fnu"


@module_pass
def collective_quantizer(module: Module, rewrites: Rewrites) -> None:
    """Move conversions across collectives, so that the narrower type is communicated.

    Widening goes behind all-gathers, all-to-alls, broadcasts and permutations, narrowing in front
    of them; where a constant scales around a conversion, and limits clamp, these go with it.
    """
    _RULES.apply(module, rewrites)


@_RULES.rule(_COLLECTIVES, "gathered(scale * wide(x)) = scale * wide(gathered(x))", static=True)
def widened_later(inst: Instruction, b: Builder) -> Instruction | None:
    if not is_movable(inst):
        return None
    moves, value = [], inst.operands[0]
    while value.opcode in _MOVES:
        moves.append(value)
        value = value.operands[0]
    scaling = None
    if value.opcode in ("divide", "multiply") and _is_scale(value.operands[1]):
        scaling, value = value, value.operands[0]
    if value.opcode != "convert" or not _narrows(value.operands[0], value):
        return None
    if inst.opcode in _MAKE_ZEROS and (scaling is not None or _has_no_zero(value)):
        return None
    new, convert = value.operands[0], value
    for move in reversed(moves):
        new = b.op(move.opcode, new, shape=_retyped(move, new), **move.attrs)
    new = _again(b, inst, new)
    new = b.convert(new, convert.array_shape.element_type)
    return new if scaling is None else _scaled(b, scaling, new)


@_RULES.rule("convert", "narrow(clamped(gathered(x))) = gathered(narrow(clamped(x)))", static=True)
def narrowed_earlier(inst: Instruction, b: Builder) -> Instruction | None:
    value, steps, moves = inst.operands[0], [], []
    if not _narrows(inst, value):
        return None
    if value.opcode == "clamp" and _is_scale(value.operands[0]) and _is_scale(value.operands[2]):
        steps.append(value)
        value = value.operands[1]
        if value.opcode in ("divide", "multiply") and _is_scale(value.operands[1]):
            steps.append(value)
            value = value.operands[0]
    while value.opcode in _MOVES:
        moves.append(value)
        value = value.operands[0]
    if value.opcode not in _COLLECTIVES.split() or not is_movable(value):
        return None
    if any(_is_kept(step) for step in (*steps, *moves, value)):
        return None
    if value.opcode in _MAKE_ZEROS and (steps or _has_no_zero(inst) or _has_no_zero(value)):
        return None
    new = value.operands[0]
    for step in reversed(steps):
        new = _clamped(b, step, new) if step.opcode == "clamp" else _scaled(b, step, new)
    new = _again(b, value, b.convert(new, inst.array_shape.element_type))
    for move in reversed(moves):
        new = b.op(move.opcode, new, shape=_retyped(move, new), **move.attrs)
    return new


def _is_kept(value: Instruction) -> bool:
    """True for what something else needs as it is, so that nothing would be gained."""
    return value.num_users > 1 or value.is_root or has_control_edges(value)


def _narrows(narrow: Instruction, wide: Instruction) -> bool:
    a, b = narrow.array_shape.element_type, wide.array_shape.element_type
    return a.bits < b.bits


def _has_no_zero(value: Instruction) -> bool:
    shapes = (value.array_shape, *(o.array_shape for o in value.operands))
    return any(s.element_type.name == _WITHOUT_ZERO for s in shapes)


def _is_scale(value: Instruction) -> bool:
    """True for one number, the same in every place and on every device."""
    scalar = value.operands[0] if value.opcode == "broadcast" else value
    is_one = isinstance(scalar.shape, ArrayShape) and scalar.shape.is_scalar
    return is_one and is_constant(scalar)


def _spread(b: Builder, value: Instruction, like: Instruction) -> Instruction:
    """Append a splat."""
    scalar = value.operands[0] if value.opcode == "broadcast" else value
    return b.broadcast(scalar, like.array_shape)


def _scaled(b: Builder, scaling: Instruction, value: Instruction) -> Instruction:
    return b.op(scaling.opcode, value, _spread(b, scaling.operands[1], value))


def _clamped(b: Builder, clamp: Instruction, value: Instruction) -> Instruction:
    low, _, high = clamp.operands
    return b.op("clamp", _spread(b, low, value), value, _spread(b, high, value))


def _retyped(old: Instruction, value: Instruction) -> ArrayShape:
    """Return the shape of an instruction in the type of a value."""
    return old.array_shape.with_type(value.array_shape.element_type)


def _again(b: Builder, collective: Instruction, value: Instruction) -> Instruction:
    """Append a collective of a value of another type."""
    attrs = collective.attrs
    new = b.op(collective.opcode, value, shape=_retyped(collective, value), **attrs)
    new.annotations.update({k: v for k, v in collective.annotations.items() if k != "metadata"})
    return new
