"""Copies of a loop's body: iterations before a loop, and several as one."""

from __future__ import annotations

from collections.abc import Sequence

from hlo.analysis.effects import Effects
from hlo.ir import Computation, Instruction
from hlo.ir.builder import Builder
from hlo.ir.calls import Calls, copy_cone


def unroll_by(loop: Instruction, factor: int, calls: Calls, effects: Effects) -> None:
    """Give a loop a body that does several iterations."""
    old = loop.body
    body = Computation(old.name, execution_thread=old.execution_thread)
    b = Builder(body, old.root)
    state = b.parameter(0, old.parameters[0].shape, old.parameters[0].name)
    values = [b.element(state, i) for i in range(len(old.root.operands))]
    for _ in range(factor):
        values = iteration(old, b, values, None, effects)
    body.set_root(b.tuple(*values))
    loop.attrs["body"] = body
    loop.annotations.pop("backend_config", None)
    calls.added([loop])
    calls.forget([old, loop.condition])


def iteration(
    body: Computation,
    b: Builder,
    values: Sequence[Instruction],
    calls: Calls | None,
    effects: Effects,
) -> list[Instruction]:
    """Append a copy of a body; returns the elements of the state after it."""
    made = {
        user: b.relaid(values[user.tuple_index], user.shape) for user in body.parameters[0].users
    }
    results = body.root.operands
    acting = [i for i in body if effects.has_side_effect(i)]
    copies = copy_cone(body, b.comp, made, [*results, *acting])
    if calls is not None:
        calls.added(copies)
    return [made[o] for o in results]
