"""Loops and branches of a launch plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hlo.analysis.trips import counted, never_ends
from hlo.codegen.entry.commands import Branches, Loop
from hlo.codegen.launches.element_loop import write_element_loop
from hlo.codegen.launches.one_block import OneBlockEmitter, is_small, loop_kernel, turns_at_once
from hlo.codegen.launches.scalars import Stored, places_of
from hlo.codegen.launches.state import LaunchState, Task, alignment, scalar_leaves
from hlo.codegen.plan.liveness import Path
from hlo.codegen.targets.gpu.base import Grid
from hlo.codegen.targets.gpu.one_block import NotForOneBlock
from hlo.gpu import plan
from hlo.ir import Instruction
from hlo.ops.control.flow import endless
from hlo.values.types import PRED, S32, ArrayShape, Layout

_PRED, _INDEX = (ArrayShape(et, (), layout=Layout.default(0)) for et in (PRED, S32))


def write_loop(w: LaunchState, loop: Loop) -> None:
    """Write a loop: one kernel, if it is small, or launches that the host repeats."""
    inst = loop.inst
    condition, body = inst.condition, inst.body
    if write_element_loop(w, loop):
        return
    w.moves(loop.enter)
    slots = {path: Stored(w.slot_of(inst, path, leaf), leaf) for path, leaf in scalar_leaves(inst)}
    if _in_one_block(w, loop, slots):
        return
    (tested,), (changed,) = condition.parameters, body.parameters
    for path, slot in slots.items():
        w.scalars[tested, path] = w.scalars[changed, path] = slot
    counter, flag = counted(inst), w.slot(_PRED)
    testing: list[plan.Step] = []
    if counter is None:
        with w.inside() as testing:
            w.block(loop.condition)
            w.tasks.append(Task(flag, _PRED, w.scalar(condition.root)))
    with w.inside() as running:
        w.block(loop.body)
        w.moves(loop.carry)
        w.flush()
        slots = _needed(w, inst, slots, [*testing, *running])
        w.assign(slots, body.root)
    w.assign(slots, inst.operands[0])
    message = ""
    if never_ends(inst):
        message = f"{inst.name}: {endless(inst).message}"
    trips = None if counter is None else counter.count
    w.steps.append(plan.While(tuple(testing), flag, tuple(running), trips, message))
    for path, slot in slots.items():
        w.scalars[inst, path] = slot


def _needed(
    w: LaunchState, inst: Instruction, slots: Mapping[Path, Stored], steps: Sequence[plan.Step]
) -> dict[Path, Stored]:
    """Return the scalars of a loop's state that steps read, or what follows the loop.

    Where the host counts the turns, nothing may read the counter.
    """
    read = {place for step in plan.walk(steps) for place in plan.places_of(step)}
    needed: dict[Path, Stored] = {}
    waiting = [p for p, slot in slots.items() if slot.place in read or _is_used(inst, p)]
    while waiting:
        path = waiting.pop()
        if path not in needed:
            needed[path] = slots[path]
            sources = places_of([w.scalar(inst.body.root, path)])
            waiting += [p for p, slot in slots.items() if slot.place in sources]
    return {path: slot for path, slot in slots.items() if path in needed}


def _is_used(inst: Instruction, path: Path) -> bool:
    """True when something uses a leaf of a value."""
    if inst.is_root or not path:
        return inst.is_root or bool(inst.num_users)
    return any(
        user.opcode != "get-tuple-element"
        or (user.tuple_index == path[0] and _is_used(user, path[1:]))
        for user in inst.users
    )


def _in_one_block(w: LaunchState, loop: Loop, slots: Mapping[Path, Stored]) -> bool:
    """Write a small loop as one kernel; returns whether it is one."""
    if not (w.gpu.has_counted_barriers and is_small(loop)):
        return False
    emitter = OneBlockEmitter(
        w.module, "", replace(w.gpu, is_one_block=True), w.live, w.assignment,
        w.block_kernels,
    )  # fmt: skip
    flag, counter = w.slot(_PRED), counted(loop.inst)
    is_once = counter is not None and counter.count <= turns_at_once(loop)
    init = loop.inst.operands[0]
    start = {path: w.scalar(init, path) if is_once else slots[path] for path in slots}
    try:
        kernel = loop_kernel(
            emitter, loop, w.place, w.scalars.__getitem__, start, slots, flag
        )  # fmt: skip
    except NotForOneBlock:
        return False
    named = kernel.parameters
    parameters = [f"ptr align {alignment(p)} {name}" for p, name in named.items()]
    grid = Grid(1, threads=kernel.threads)
    if not is_once:
        w.assign(slots, init)
    with w.inside() as steps:
        w.launch(
            "loop", emitter.b, parameters, tuple(named), grid, loop.inst,
            w.work.of_loop(loop),
        )  # fmt: skip
    if is_once:
        w.steps += steps
    else:
        w.steps.append(plan.While(tuple(steps), flag, ()))
    for path, slot in slots.items():
        w.scalars[loop.inst, path] = slot
    return True


def write_branches(w: LaunchState, branches: Branches) -> None:
    """Write branches, one of which the host chooses by a number that it waits for."""
    inst = branches.inst
    chosen = w.scalar(inst.operands[0])
    is_truth = inst.operands[0].array_shape.element_type is PRED
    index = w.slot(_INDEX)
    w.tasks.append(Task(index, _INDEX, chosen, is_branch=is_truth))
    slots = {path: Stored(w.slot_of(inst, path, leaf), leaf) for path, leaf in scalar_leaves(inst)}
    made: list[tuple[plan.Step, ...]] = []
    for block, moves in branches.branches:
        with w.inside() as steps:
            w.block(block)
            w.moves(moves)
            w.assign(slots, block.comp.root)
        made.append(tuple(steps))
    w.steps.append(plan.Switch(index, tuple(made)))
    for path, slot in slots.items():
        w.scalars[inst, path] = slot
