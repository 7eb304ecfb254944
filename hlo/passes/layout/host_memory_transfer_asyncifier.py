"""Asynchronous copies between memory spaces."""

from __future__ import annotations

from hlo.analysis.congruence import has_control_edges
from hlo.ir import Computation, Instruction, Module
from hlo.ir.builder import Builder
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import unfused
from hlo.values.types import U32, TupleShape, array


@module_pass
def host_memory_transfer_asyncifier(module: Module, rewrites: Rewrites) -> None:
    """Make copies between memory spaces asynchronous: started early, awaited at their uses.

    Instructions that do not need the copy run between `copy-start`, right after the operand's
    definition, and `copy-done`, right before the first use.
    """
    # Computations that already run asynchronously have nothing to overlap with.
    wrapped = {i.calls for i in module.instructions() if i.opcode == "async-start"}
    for comp in unfused(module):
        if comp in wrapped:
            continue
        pairs = []
        for inst in comp.in_order():
            if _crosses(inst) and rewrites.allow("host_memory_transfer_asyncifier.start", inst):
                pairs.append(_split(comp, inst))
        if pairs:
            _spread(comp, pairs)


def _crosses(inst: Instruction) -> bool:
    if inst.opcode != "copy" or has_control_edges(inst):
        return False
    return _space(inst) != _space(inst.operands[0])


def _space(inst: Instruction) -> int:
    shape = inst.array_shape
    return shape.layout.memory_space if shape.layout is not None else 0


def _split(comp: Computation, inst: Instruction) -> tuple[Instruction, Instruction]:
    """Replace a copy by a start and a done; returns them."""
    b = Builder(comp, inst)
    source = inst.operands[0]
    shape = TupleShape((inst.shape, source.shape, array(U32, ())))
    start = b.op("copy-start", source, shape=shape)
    done = b.op("copy-done", start)
    if "sharding" in inst.annotations:
        done.annotations["sharding"] = inst.annotations["sharding"]
    inst.replace_all_uses_with(done)
    comp.remove(inst)
    return start, done


def _spread(comp: Computation, pairs: list[tuple[Instruction, Instruction]]) -> None:
    """Move starts right after their operands, and dones right before their first users."""
    starts: dict[Instruction, list[Instruction]] = {}
    for start, _ in pairs:
        starts.setdefault(start.operands[0], []).append(start)
    moved = {inst for pair in pairs for inst in pair}
    dones = {done for _, done in pairs}
    order: list[Instruction] = []
    placed: set[Instruction] = set()

    def place(inst: Instruction) -> None:
        todo = [inst]
        while todo:
            top = todo.pop()
            if top in placed:
                continue
            waits = [o for o in top.operands if o in dones and o not in placed]
            if waits:
                todo.extend((top, *waits))
                continue
            placed.add(top)
            order.append(top)
            todo.extend(reversed(starts.get(top, ())))

    for inst in comp:
        if inst not in moved:
            place(inst)
    for inst in comp:
        place(inst)
    comp.reorder(order)
