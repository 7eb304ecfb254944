"""Merging of asynchronous collectives into synchronous ones."""

from __future__ import annotations

from hlo.analysis.congruence import has_control_edges
from hlo.analysis.memory import computes
from hlo.ir import Computation, Instruction, Module
from hlo.ir.builder import Builder
from hlo.ir.calls import Calls
from hlo.ops import OPS, Trait
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import unfused

# The start of each collective's done.
_START_OF = {
    end: spec
    for spec in OPS.values()
    if spec.starts and spec.has(Trait.COLLECTIVE)
    for end in spec.continued_by
} | {"async-done": OPS["async-start"]}


@module_pass
def convert_async_collectives_to_sync(
    module: Module, rewrites: Rewrites, *, only_adjacent: bool = False
) -> None:
    """Merge start and done of a collective into one synchronous operation.

    only_adjacent: where the order of the text has nothing between them that computes or
    communicates.
    """
    calls = Calls(module)
    for comp in unfused(module):
        work = _work_before(comp) if only_adjacent else {}
        for done in comp:
            chain = _chain(done)
            if chain is None or (work and work[chain[-1]] + 1 < work[done]):
                continue
            if not rewrites.allow("convert_async_collectives_to_sync", done):
                continue
            start, b = chain[-1], Builder(comp, done)
            if start.opcode == "async-start":
                inner = start.calls.root
                new = b.copy(inner, [start.operands[p.parameter_number] for p in inner.operands])
            else:
                assert start.spec.starts is not None
                new = b.op(start.spec.starts, *start.operands, shape=done.shape, **start.attrs)
                notes = start.annotations | done.annotations
                new.annotations.update({k: v for k, v in notes.items() if k != "metadata"})
            calls.added([new])
            done.replace_all_uses_with(b.relaid(new, done.shape))
            for inst in chain:
                calls.remove(inst)


def _work_before(comp: Computation) -> dict[Instruction, int]:
    """Return how many instructions that compute or communicate stand before each."""
    count, found = 0, {}
    for inst in comp.in_order():
        found[inst] = count
        count += computes(inst)
    return found


def _chain(done: Instruction) -> list[Instruction] | None:
    """Return the chain of an asynchronous collective, the last step first, if it has no other
    users."""
    first = _START_OF.get(done.opcode)
    if first is None:
        return None
    chain = [done]
    while chain[-1].spec is not first:
        step = chain[-1].operands[0]
        if (step.spec is not first and step.opcode != "async-update") or step.num_users > 1:
            return None
        chain.append(step)
    if any(map(has_control_edges, chain)) or any(i.is_root for i in chain[1:]):
        return None
    return chain if done.opcode != "async-done" or _is_one_collective(chain[-1]) else None


def _is_one_collective(start: Instruction) -> bool:
    wrapped = start.calls
    alone = len(wrapped) == len(wrapped.parameters) + 1
    return alone and wrapped.root.spec.has(Trait.COLLECTIVE)
