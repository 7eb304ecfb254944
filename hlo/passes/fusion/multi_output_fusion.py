"""Loops that read the same, as one loop."""

from __future__ import annotations

from hlo.analysis.effects import Effects
from hlo.ir import Computation, Instruction, Module
from hlo.ops import Trait
from hlo.passes.fusion._siblings import Pair, loop_key, merge_all, neighbours
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.values.types import ArrayShape

_MAX_OUTPUTS = 8
_MAX_OPERANDS = 20


@module_pass
def multi_output_fusion(module: Module, rewrites: Rewrites) -> None:
    """Fuse loops over the same array, and a loop with one over its result.

    The pairs that share most memory come first. Loops of which one needs the other's result through
    something else stay apart, and so do fusions that have several results already.
    """
    merge_all(
        module, rewrites, "multi_output_fusion", _pairs,
        max_outputs=_MAX_OUTPUTS, max_operands=_MAX_OPERANDS,
    )  # fmt: skip


def _pairs(comp: Computation, effects: Effects) -> list[Pair]:
    """Return the loops that share an operand, and those that read another's result."""
    found: list[tuple[int, Pair]] = []
    for shared in comp.in_order():
        shape = shared.shape
        if shared.num_users < 2 or not isinstance(shape, ArrayShape) or shape.num_elements < 2:
            continue
        key = loop_key(shared, effects)
        pairs = neighbours(shared.users, effects)
        if key is not None:
            pairs += [
                (shared, user)
                for user in shared.users
                if loop_key(user, effects) == key and _reads_in_place(user, shared)
            ]
        found.extend((shape.byte_size, pair) for pair in pairs)
    return [pair for _, pair in sorted(found, key=lambda f: -f[0])]


def _reads_in_place(user: Instruction, value: Instruction) -> bool:
    """True when each element of a value is needed for the element at the same place only."""
    if user.opcode != "fusion":
        return user.spec.has(Trait.ELEMENTWISE)
    body: Computation = user.calls
    same = {p for p, o in zip(body.parameters, user.operands, strict=True) if o is value}
    for inst in body.in_order():
        if any(o in same for o in inst.operands):
            if not inst.spec.has(Trait.ELEMENTWISE):
                return False
            same.add(inst)
    return True
