"""Loops and branches of the entry function.

The state of a loop stays where it is: arrays in buffers that the body updates in place where it
can, scalars in stack slots that LLVM turns into registers. A branch writes its results where the
conditional's are wanted.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hlo.analysis.trips import counted, never_ends
from hlo.codegen import scalar
from hlo.codegen.buffers import Buffer, Path, Place
from hlo.codegen.llvm import POLLED_COST, Builder, Val
from hlo.codegen.memory import Leaf
from hlo.codegen.scalar import Cplx, Value
from hlo.ir import Computation, Instruction
from hlo.ops.control import endless
from hlo.types import ArrayShape

if TYPE_CHECKING:
    from hlo.codegen.entry import EntryEmitter

# A loop that is known to end after so much work, in rough scalar operations, need not look whether
# to go on, which can be a third of a turn that does next to nothing.
_SHORT_LOOP = POLLED_COST << 8


class Slot:
    """A scalar of any type on the stack."""

    def __init__(self, b: Builder, leaf: ArrayShape) -> None:
        self._b = b
        self._type = scalar.ssa_type(leaf.element_type)
        count = 2 if leaf.element_type.is_complex else 1
        self._parts = [b.alloca(self._type) for _ in range(count)]

    def put(self, value: Leaf) -> None:
        """Store a value, part by part."""
        assert isinstance(value, Val | Cplx)
        parts = [value.re, value.im] if isinstance(value, Cplx) else [value]
        for at, part in zip(self._parts, parts, strict=True):
            self._b.write(f"store {part}, ptr {at.name}")

    def get(self) -> Value:
        """Load the value, part by part."""
        t = self._type
        parts = [self._b.effect(t, f"load {t}, ptr {at.name}") for at in self._parts]
        return Cplx(*parts) if len(parts) == 2 else parts[0]


def _split(inst: Instruction) -> tuple[dict[Path, ArrayShape], dict[Path, ArrayShape]]:
    """Return the leaves of an instruction that are in memory, and those that are scalars."""
    arrays: dict[Path, ArrayShape] = {}
    scalars: dict[Path, ArrayShape] = {}
    for path, leaf in inst.shape.leaves():
        if isinstance(leaf, ArrayShape):
            (arrays if leaf.dims else scalars)[path] = leaf
    return arrays, scalars


# --- loops --------------------------------------------------------------------------------------


def emit_while(e: EntryEmitter, inst: Instruction) -> None:
    """Emit a loop with its condition in front."""
    b, memory = e.b, e.memory
    condition, body = inst.attrs["condition"], inst.attrs["body"]
    arrays, scalars = _split(inst)
    state = _enter(e, inst, arrays)
    slots = {path: Slot(b, leaf) for path, leaf in scalars.items()}
    for path, slot in slots.items():
        slot.put(memory.value(inst.operands[0], path))
    head, run, done = (b.new_label(s) for s in ("while", "body", "endwhile"))
    b.jump(head)
    b.place(head)
    spent_before, e.spent = e.spent, 1.0
    with b.scope():
        (tested,), (changed,) = condition.parameters, body.parameters
        for path, slot in slots.items():
            value = slot.get()
            memory.values[tested, path] = memory.values[changed, path] = value
        # The body reads the state again that the condition has read.
        with memory.locked(state.values()):
            _bind_state(e, condition, state)
            e.computation(condition)
        go_on = memory.value(condition.root)
        assert isinstance(go_on, Val)
        b.write(f"br i1 {go_on.name}, label %{run}, label %{done}")
        b.place(run)
        if not e.linkage and never_ends(inst):
            # Functions that are applied to elements have nobody to tell.
            error = endless(inst)
            b.write(f"ret i32 {e.imports.check(error.code, f'{inst.name}: {error.message}')}")
            b.place(b.new_label("never"))
        _bind_state(e, body, state)
        for path, buffer in state.items():
            memory.wish(e.live.of(body.root, path), buffer)
        e.computation(body)
        _carry_on(e, inst, body, state, slots)
        once, counter = e.spent, counted(inst)
        is_short = counter is not None and counter.count * once <= _SHORT_LOOP
        if not is_short:
            b.poll(math.ceil(once))
        # Its scalars depend on those of the turn before, or are too few: nothing to vectorize.
        b.write(f"br label %{head}, !llvm.loop {b.module.rolled_loop(vectorized=False)}")
    b.place(done)
    e.spent = spent_before
    if counter is not None and is_short:
        e.spend(counter.count * once)
    for path, slot in slots.items():
        memory.values[inst, path] = slot.get()
    for path, buffer in state.items():
        memory.put((inst, path), buffer)


def _enter(
    e: EntryEmitter, inst: Instruction, arrays: dict[Path, ArrayShape]
) -> dict[Path, Buffer]:
    """Choose the buffers of a loop's state and bring the initial values there."""
    memory, start = e.memory, e.live.start[inst]
    (init,) = inst.operands
    (parameter,) = inst.attrs["body"].parameters
    root = inst.attrs["body"].root
    state: dict[Path, Buffer] = {}
    # What the body hands on as it is can stay with the initial value, wherever that is.
    for path in arrays:
        if e.live.of(root, path) == (parameter, path):
            source = memory.buffer_of(init, path)
            assert source is not None
            source.holds.append((parameter, path))
            source.use(e.live.position[inst])
            state[path] = source
    moves = []
    taken: list[Buffer] = []
    for path, leaf in arrays.items():
        if path in state:
            continue
        source = memory.buffer_of(init, path)
        assert source is not None
        wish = memory.wished(inst, path)
        found = next(
            (
                x
                for x in (wish, source)
                if x is not None and x not in taken and memory.can_take(x, start)
            ),
            None,
        )
        buffer = found or memory.new(leaf, start)
        buffer.use(e.live.position[inst])
        taken.append(buffer)
        state[path] = buffer
        moves.append((source, buffer, leaf))
    e.assign(moves, start)
    return {path: state[path] for path in arrays}


def _bind_state(e: EntryEmitter, comp: Computation, state: dict[Path, Buffer]) -> None:
    """Let a condition or a body find the state."""
    (parameter,) = comp.parameters
    for path, buffer in state.items():
        e.memory.put((parameter, path), buffer)


def _carry_on(
    e: EntryEmitter,
    inst: Instruction,
    body: Computation,
    state: dict[Path, Buffer],
    slots: dict[Path, Slot],
) -> None:
    """Make what a body has computed the state."""
    moves = []
    for path, buffer in state.items():
        source, leaf = e.memory.buffer_of(body.root, path), inst.shape.at(path)
        assert source is not None and isinstance(leaf, ArrayShape)
        moves.append((source, buffer, leaf))
    e.assign(moves, e.live.body_end[body])
    new = {path: e.memory.value(body.root, path) for path in slots}
    for path, slot in slots.items():
        slot.put(new[path])


# --- branches -----------------------------------------------------------------------------------


def emit_conditional(e: EntryEmitter, inst: Instruction) -> None:
    """Emit branches of which an index, or a truth value, chooses one."""
    b, memory = e.b, e.memory
    branches = inst.called_computations
    chosen = memory.value(inst.operands[0])
    assert isinstance(chosen, Val)
    arrays, scalars = _split(inst)
    slots = {path: Slot(b, leaf) for path, leaf in scalars.items()}
    results = _result_buffers(e, inst, arrays)
    labels = [b.new_label("branch") for _ in branches]
    done = b.new_label("endif")
    if chosen.type == "i1":
        b.write(f"br i1 {chosen.name}, label %{labels[0]}, label %{labels[1]}")
    else:
        # An index out of range chooses the last branch.
        cases = " ".join(f"i32 {n}, label %{x}" for n, x in enumerate(labels[:-1]))
        b.write(f"switch {chosen}, label %{labels[-1]} [ {cases} ]")
    spent_before, most = e.spent, e.spent
    for label, comp in zip(labels, branches, strict=True):
        e.spent = spent_before
        b.place(label)
        with b.scope(), memory.branch(comp, branches):
            for path, buffer in results.items():
                memory.wish(e.live.of(comp.root, path), buffer)
            e.computation(comp)
            moves = []
            for path, buffer in results.items():
                source = memory.buffer_of(comp.root, path)
                assert source is not None
                moves.append((source, buffer, arrays[path]))
            e.assign(moves, e.live.body_end[comp])
            for path, slot in slots.items():
                slot.put(memory.value(comp.root, path))
        b.jump(done)
        most = max(most, e.spent)
    e.spent = most
    b.place(done)
    for path, buffer in results.items():
        memory.put((inst, path), buffer)
    for path, slot in slots.items():
        memory.values[inst, path] = slot.get()


def _result_buffers(
    e: EntryEmitter, inst: Instruction, arrays: dict[Path, ArrayShape]
) -> dict[Path, Buffer]:
    """Choose where a conditional's results will be, whichever branch makes them.

    Nothing that is there may be needed after the conditional. A buffer that a branch takes from
    and hands on saves that branch a copy.
    """
    memory, end = e.memory, e.live.position[inst]
    found: dict[Path, Buffer] = {}
    for path, leaf in arrays.items():
        choices = [memory.wished(inst, path)]
        for comp in inst.called_computations:
            value = memory.values.get(e.live.of(comp.root, path))
            choices.append(value.buffer if isinstance(value, Place) else None)
        buffer = next(
            (
                x
                for x in choices
                if x is not None and x not in found.values() and memory.can_take(x, end)
            ),
            None,
        )
        found[path] = buffer or memory.new(leaf, e.live.start[inst])
        found[path].use(end)
    return found
