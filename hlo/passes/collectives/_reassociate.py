"""Reassociation: one reduction over devices instead of two whose results are combined."""

from __future__ import annotations

from dataclasses import dataclass

from hlo.analysis.congruence import Congruence, has_control_edges
from hlo.analysis.patterns import single_binary_op
from hlo.ir import Instruction, Module
from hlo.ir.builder import Builder, build_reducer
from hlo.ops import Trait
from hlo.ops.elementwise.casts import widens
from hlo.passes.collectives._collective import is_movable, meeting, rounds
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import has_opcode, replace_instruction, unfused

_OPS = frozenset({"add", "multiply", "maximum", "minimum", "and", "or"})
# What moves elements of a whole array, and does not change them.
_MOVES = frozenset({"reshape", "slice"})


def reassociate(
    module: Module, rewrites: Rewrites, opcode: str, *, converted: bool = False
) -> None:
    """Express op(reduced(x), reduced(y)) by reduced(op(x, y)), where they reduce by that op.

    opcode: of the reductions over devices. converted: also through conversions of results to a
    wider type; the reduction is then in that type. Sums and products of floats may overflow
    where they did not, and the other way round.
    """
    if not has_opcode(module, (opcode,)):
        return
    congruence = Congruence()
    rule = f"{opcode.replace('-', '_')}_reassociate.reassociate"
    for comp in unfused(module):
        for inst in comp.in_order():
            if inst.opcode not in _OPS or has_control_edges(inst) or inst.shape.is_dynamic:
                continue
            x, y = (_reduced(o, opcode, inst.opcode, converted) for o in inst.operands)
            if x is None or y is None or not _fit(x, y, inst, congruence):
                continue
            approximate = not inst.spec.has(Trait.ASSOCIATIVE) and rounds([inst])
            if not rewrites.allow(rule, inst, approximate=approximate):
                continue
            b = Builder(comp, inst)
            combined = b.op(inst.opcode, x.before(b), y.before(b))
            new = x.again(b, combined, inst)
            replace_instruction(inst, new, [new])
            for dead in (inst, *x.dead(), *y.dead()):
                if dead.parent is comp:
                    comp.remove(dead)


@dataclass
class _Reduced:
    """A value that is reduced over devices, and then moved or converted, by `chain` in order."""

    reduction: Instruction
    chain: list[Instruction]

    def before(self, b: Builder) -> Instruction:
        """Append the value that every device would have without the reduction."""
        value = self.reduction.operands[0]
        for step in self.chain:
            if step.opcode == "convert":
                value = b.convert(value, step.array_shape.element_type)
            else:
                value = b.copy(step, [value])
        return value

    def again(self, b: Builder, value: Instruction, inst: Instruction) -> Instruction:
        """Append the reduction of another value, in its type, whose result is like `inst`."""
        old, et = self.reduction, value.array_shape.element_type
        attrs = dict(old.attrs)
        if et is not old.array_shape.element_type:
            name = f"{old.to_apply.name}.{et}"
            attrs["to_apply"] = build_reducer(inst.opcode, et, inst, name)
        new = b.op(old.opcode, value, shape=inst.shape, **attrs)
        new.annotations.update({k: v for k, v in old.annotations.items() if k != "metadata"})
        assert b.comp.module is not None
        b.comp.module.adopt([new])
        return new

    def dead(self) -> list[Instruction]:
        return [*reversed(self.chain), self.reduction]


def _reduced(value: Instruction, opcode: str, op: str, converted: bool) -> _Reduced | None:
    chain: list[Instruction] = []
    while value.opcode != opcode:
        moves = value.opcode in _MOVES and opcode == "all-reduce"
        if not moves and not (converted and _is_wider(value)):
            return None
        if value.num_users > 1 or value.is_root or has_control_edges(value):
            return None
        chain.append(value)
        value = value.operands[0]
    if value.num_users > 1 or value.is_root or not is_movable(value):
        return None
    return _Reduced(value, chain[::-1]) if single_binary_op(value.to_apply) == op else None


def _is_wider(value: Instruction) -> bool:
    if value.opcode != "convert":
        return False
    source, to = value.operands[0].array_shape.element_type, value.array_shape.element_type
    # Integers wrap around at their own width.
    return source.is_float and to.is_float and widens(source, to)


def _fit(x: _Reduced, y: _Reduced, inst: Instruction, congruence: Congruence) -> bool:
    """True for reductions among the same devices that are no smaller than the one to be."""
    first, second = (meeting(r.reduction, congruence, without=("to_apply",)) for r in (x, y))
    sizes = {r.reduction: r.reduction.array_shape.num_elements for r in (x, y)}
    return first == second and inst.array_shape.num_elements <= sum(sizes.values())
