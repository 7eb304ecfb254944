"""Loops and branches of the entry function.

The state of a loop stays in place: arrays in buffers that the body updates in place if it can,
scalars in stack slots that LLVM promotes to registers. A branch writes its results to the buffers
of the conditional's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

from hlo.analysis.trips import counted, never_ends
from hlo.codegen.entry.commands import Branches, Loop
from hlo.codegen.entry.state import EntryState
from hlo.codegen.llvm import POLLED_COST, Builder, Val, i32
from hlo.codegen.loops.kernel import LIGHT_COST
from hlo.codegen.plan.liveness import Path, array_leaves
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.scalar.operations import Cplx, Value
from hlo.ir import Instruction
from hlo.ops.control.flow import endless
from hlo.values.types import ArrayShape

# A loop that is known to end after so much work, in approximate scalar operations, need not poll,
# which can be a third of a very short iteration.
_SHORT_LOOP = POLLED_COST << 8


class Slot:
    """A scalar of any type on the stack."""

    def __init__(self, b: Builder, leaf: ArrayShape) -> None:
        self._b = b
        self._type = scalar.ssa_type(leaf.element_type)
        count = 2 if leaf.element_type.is_complex else 1
        self._parts = [b.alloca(self._type) for _ in range(count)]

    def put(self, value: Value) -> None:
        """Store a value, part by part."""
        parts = [value.re, value.im] if isinstance(value, Cplx) else [value]
        for at, part in zip(self._parts, parts, strict=True):
            self._b.store(part, at.name)

    def get(self) -> Value:
        """Load the value, part by part."""
        t = self._type
        parts = [self._b.load(t, at.name) for at in self._parts]
        return Cplx(*parts) if len(parts) == 2 else parts[0]


def slots_of(e: EntryState, inst: Instruction) -> dict[Path, Slot]:
    """Reserve a slot for each scalar of a result."""
    return {path: Slot(e.b, leaf) for path, leaf in array_leaves(inst) if not leaf.dims}


def emit_while(e: EntryState, loop: Loop) -> None:
    """Write a loop that tests its condition first."""
    b, inst = e.b, loop.inst
    condition, body = inst.condition, inst.body
    e.moves(loop.enter)
    slots = slots_of(e, inst)
    for path, slot in slots.items():
        slot.put(e.scalar(inst.operands[0], path))
    head, run, done = (b.new_label(s) for s in ("while", "body", "endwhile"))
    b.jump(head)
    b.place(head)
    spent_before, e.spent, work_before = e.spent, 1.0, e.work
    with b.scope():
        (tested,), (changed,) = condition.parameters, body.parameters
        for path, slot in slots.items():
            value = slot.get()
            e.scalars[tested, path] = e.scalars[changed, path] = value
        e.block(loop.condition)
        go_on = e.scalar(condition.root)
        assert isinstance(go_on, Val)
        b.branch(go_on, run, done)
        b.place(run)
        if not e.linkage and never_ends(inst):
            # Functions that are applied to elements cannot report errors.
            error = endless(inst)
            b.ret(i32(e.imports.check(error.code, f"{inst.name}: {error.message}")))
            b.place(b.new_label("never"))
        e.iteration(loop, partial(emit_body, e, loop, slots))
        e.is_light |= e.work - work_before < LIGHT_COST * (1 + len(loop.body.commands))
        once, counter = e.spent, counted(inst)
        is_short = counter is not None and counter.count * once <= _SHORT_LOOP
        if not is_short:
            b.poll(math.ceil(once))
        # Its scalars depend on the previous iteration, or are too few: nothing to vectorize.
        b.jump(head, b.module.rolled_loop(vectorized=False))
    b.place(done)
    e.spent = spent_before
    if counter is not None and is_short:
        e.spend(counter.count * once)
    for path, slot in slots.items():
        e.scalars[inst, path] = slot.get()


def emit_body(e: EntryState, loop: Loop, slots: Mapping[Path, Slot]) -> None:
    """Write an iteration: the body, and the state that it leaves."""
    e.block(loop.body)
    e.moves(loop.carry)
    new = {path: e.scalar(loop.inst.body.root, path) for path in slots}
    for path, slot in slots.items():
        slot.put(new[path])


def emit_conditional(e: EntryState, branches: Branches) -> None:
    """Write branches, one of which is selected by an index, or a truth value."""
    b, inst = e.b, branches.inst
    chosen = e.scalar(inst.operands[0])
    assert isinstance(chosen, Val)
    slots = slots_of(e, inst)
    labels = [b.new_label("branch") for _ in branches.branches]
    done = b.new_label("endif")
    if chosen.type == "i1":
        b.branch(chosen, labels[0], labels[1])
    else:
        # An index out of range selects the last branch.
        b.switch(chosen, labels[:-1], labels[-1])
    spent_before, most = e.spent, e.spent
    for label, (block, moves) in zip(labels, branches.branches, strict=True):
        e.spent = spent_before
        b.place(label)
        with b.scope():
            e.block(block)
            e.moves(moves)
            for path, slot in slots.items():
                slot.put(e.scalar(block.comp.root, path))
        b.jump(done)
        most = max(most, e.spent)
    e.spent = most
    b.place(done)
    for path, slot in slots.items():
        e.scalars[inst, path] = slot.get()
