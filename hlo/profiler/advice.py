"""What would lower the memory of a program: each change is planned, and its effect computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hlo.codegen.entry.assignment import assign_buffers
from hlo.codegen.entry.buffers import Buffer, Origin, assign_offsets
from hlo.codegen.entry.commands import Branches, Copy, KernelCall, Loop
from hlo.profiler.timeline import Advice
from hlo.values.layout import physical_bytes
from hlo.values.types import ArrayShape

if TYPE_CHECKING:
    from hlo.codegen.entry.assignment import BufferAssignment
    from hlo.codegen.entry.commands import Block, Move
    from hlo.codegen.pipeline import PlannedProgram
    from hlo.codegen.plan.liveness import Storage
    from hlo.codegen.targets.base import Target
    from hlo.ir import Module

# Of buffers, the largest so many are looked at; less than this part of the whole is not worth a
# line.
_LOOKED_AT = 12
_WORTH = 0.01


def suggestions(
    module: Module, target: Target, planned: PlannedProgram, peak: int
) -> Iterator[Advice]:
    """Return what would lower the memory of a planned program, the largest effect first.

    module: what was planned, optimized. peak: the step at which the most is live. Each effect is
    that of this change alone, on arguments, results, constants and the block of temporaries.
    """
    whole = _planned_bytes(planned.assignment)
    arena = _Arena(planned, target.buffer_alignment)
    found = [
        *_donations(module, planned, target.buffer_alignment, whole),
        *_rematerializations(planned, arena, peak),
        *_copies(planned, arena, peak),
        *_padding(planned),
    ]
    found.sort(key=lambda a: -a.bytes)
    yield from (a for a in found if a.bytes >= max(1, _WORTH * whole))


def _planned_bytes(assignment: BufferAssignment) -> int:
    fixed = sum(b.size_bytes for b in assignment.buffers if b.origin is not Origin.TEMP)
    return fixed + assignment.arena_bytes


class _Arena:
    """The temporaries of a program, to be placed again after a change."""

    def __init__(self, planned: PlannedProgram, alignment: int) -> None:
        self.temps = [b for b in planned.assignment.buffers if b.origin is Origin.TEMP]
        self._alignment = alignment
        self._size = self._placed(lambda b: [(b.first, b.last)])

    def saved(self, ranges: Callable[[Buffer], list[tuple[int, int]]]) -> int:
        """Return how many bytes fewer there are if buffers have these live ranges, or none."""
        return self._size - self._placed(ranges)

    def _placed(self, ranges: Callable[[Buffer], list[tuple[int, int]]]) -> int:
        copies = [
            replace(b, first=first, last=last, holds=[])
            for b in self.temps
            for first, last in ranges(b)
        ]
        return max((end for _, end in assign_offsets(copies, self._alignment).values()), default=0)


def _donations(
    module: Module, planned: PlannedProgram, alignment: int, whole: int
) -> Iterator[Advice]:
    """Yield what `input_output_alias` would save, with buffers assigned anew.

    Where values lie is all that aliases change: not what is computed, nor when.
    """
    assignment = planned.assignment
    # Of results and arguments, both by number.
    pairs = dict(assignment.aliases)
    taken = set(pairs.values())
    free: dict[ArrayShape, list[int]] = {}
    for number, (_, leaf) in reversed([*enumerate(assignment.arguments)]):
        if leaf.dims and number not in taken:
            free.setdefault(leaf, []).append(number)
    fresh = {n: free[leaf].pop() for n, leaf in enumerate(assignment.results)
             if n not in pairs and free.get(leaf)}  # fmt: skip
    if not fresh:
        return
    outputs = list(assignment.outputs)
    places = [(p.parameter_number, path) for (p, path), _ in assignment.arguments]
    aliases = {outputs[result]: places[number] for result, number in (pairs | fresh).items()}
    changed = assign_buffers(planned.entry, planned.live, planned.plans, aliases, alignment)
    names = [module.entry.parameters[places[n][0]].name for n in fresh.values()]
    few = ", ".join(dict.fromkeys(names[:4])) + (", ..." if len(names) > 4 else "")
    yield Advice(
        "donation", f"donate the arguments {few} by input_output_alias, if callers allow it",
        whole - _planned_bytes(changed),
    )  # fmt: skip


def _rematerializations(planned: PlannedProgram, arena: _Arena, peak: int) -> Iterator[Advice]:
    """Yield values that wait at the peak for a later use, and can be computed again for it.

    What they are computed from has to be live at that use anyway.
    """
    live, assignment = planned.live, planned.assignment
    holders: dict[Buffer, list[Storage]] = {}
    for stored, buffer in assignment.values.items():
        if buffer is not None:
            holders.setdefault(buffer, []).append(stored)
    names = {position: inst.name for inst, position in live.position.items()}
    waiting = [b for b in arena.temps if b.first < peak < b.last and len(holders.get(b, ())) == 1]
    for buffer in sorted(waiting, key=lambda b: -b.size_bytes)[:_LOOKED_AT]:
        (stored,) = holders[buffer]
        uses = live.uses.get(stored, [])
        before = max([buffer.first, *(u for u in uses if u < peak)])
        after = [u for u in uses if u > peak]
        if peak in uses or not after or not _is_available(planned, stored, after[0]):
            continue
        name = stored[0].name
        yield Advice(
            "rematerialization",
            f"{name} is live from {names.get(buffer.first, name)} for "
            f"{names.get(after[0], 'a later use')}, beyond the peak: compute it again there",
            arena.saved(partial(_ranges_split, buffer, before, after[0])),
        )


def _is_available(planned: PlannedProgram, stored: Storage, position: int) -> bool:
    """True where what a kernel reads is live at a later position, or always."""
    live, values = planned.live, planned.assignment.values
    inst = stored[0]
    if inst not in live.reads or planned.plans.get(inst) is None:
        return False
    for read in live.reads[inst]:
        buffer = values.get(read)
        if buffer is None or (buffer.origin is Origin.TEMP and live.last_use(read) < position):
            return False
        if buffer.origin in (Origin.OUTPUT, Origin.SHARED):
            return False
    return True


def _copies(planned: PlannedProgram, arena: _Arena, peak: int) -> Iterator[Advice]:
    """Yield copies to buffers that are live at the peak."""
    for why, move in _moves(planned.assignment.entry):
        if not isinstance(move, Copy) or move.target.origin is not Origin.TEMP:
            continue
        target = move.target
        if target.first <= peak <= target.last:
            yield Advice(
                "copy",
                f"{why} copies {move.shape.to_string(False)}, because the old value is used later",
                arena.saved(partial(_ranges_without, target)),
            )


def _ranges_without(gone: Buffer, buffer: Buffer) -> list[tuple[int, int]]:
    return [] if buffer is gone else [(buffer.first, buffer.last)]


def _ranges_split(at: Buffer, end: int, begin: int, buffer: Buffer) -> list[tuple[int, int]]:
    """Return live ranges where one buffer is not needed between two positions."""
    if buffer is not at:
        return [(buffer.first, buffer.last)]
    return [(buffer.first, end), (begin, buffer.last)]


def _moves(block: Block) -> Iterator[tuple[str, Move]]:
    """Yield the copies of a block with the instruction that each is for."""
    for command in block.commands:
        if isinstance(command, KernelCall):
            yield from ((command.inst.name, m) for m in command.moves)
        elif isinstance(command, Loop):
            yield from ((command.inst.name, m) for m in (*command.enter, *command.carry))
            yield from _moves(command.condition)
            yield from _moves(command.body)
        elif isinstance(command, Branches):
            for branch, after in command.branches:
                yield from _moves(branch)
                yield from ((command.inst.name, m) for m in after)


def _padding(planned: PlannedProgram) -> Iterator[Advice]:
    """Yield what the layouts of arguments and results add."""
    named = [(inst.name, leaf) for (inst, _), leaf in planned.assignment.arguments]
    named += [("the result", leaf) for leaf in planned.results]
    for name, leaf in named:
        padding = physical_bytes(leaf) - leaf.byte_size
        if padding > 0:
            yield Advice("padding", f"{name} is padded by its layout, {leaf}", padding)
