"""Loops and branches of the entry function.

The state of a loop stays where it is: arrays in buffers that the body updates in place where it
can, scalars in stack slots that LLVM turns into registers. A branch writes its results where the
conditional's are wanted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hlo.codegen import scalar
from hlo.codegen.buffers import Buffer, Path, Place
from hlo.codegen.llvm import Val
from hlo.ir import Computation, Instruction
from hlo.types import ArrayShape

if TYPE_CHECKING:
    from hlo.codegen.entry import EntryEmitter


def emit_while(e: EntryEmitter, inst: Instruction) -> None:
    condition, body = inst.attrs["condition"], inst.attrs["body"]
    b, position = e.b, e.live.position[inst]
    (init,) = inst.operands
    slots: dict[Path, tuple[ArrayShape, Any]] = {}
    state: dict[Path, Buffer] = {}
    for path, leaf in inst.shape.leaves():
        if not isinstance(leaf, ArrayShape):
            continue
        value = e.value(init, path)
        if leaf.dims:
            assert isinstance(value, Place)
            state[path] = _state_buffer(e, inst, init, path, leaf, value.buffer)
        else:
            t = scalar.ssa_type(leaf.element_type)
            count = 2 if leaf.element_type.is_complex else 1
            slots[path] = (leaf, [b.alloca(t) for _ in range(count)])
            e.to_slot(slots[path][1], value)
    head, run, done = (b.new_label(s) for s in ("while", "body", "endwhile"))
    b.jump(head)
    b.place(head)
    with b.scope():
        for path, buffer in state.items():
            e.values[inst, path] = Place(buffer)
        for path, (leaf, slot) in slots.items():
            e.values[inst, path] = e.from_slot(leaf, slot)
        e.computation(condition)
        go_on = e.value(condition.root)
        assert isinstance(go_on, Val)
        b.write(f"br i1 {go_on.name}, label %{run}, label %{done}")
        b.place(run)
        _loop_body(e, inst, body, state, slots)
        b.jump(head)
    b.place(done)
    for path, (leaf, slot) in slots.items():
        e.values[inst, path] = e.from_slot(leaf, slot)
    for path, buffer in state.items():
        buffer.use(e.live.last_use.get((inst, path), position))
        buffer.use(position)


def _state_buffer(
    e: EntryEmitter,
    inst: Instruction,
    init: Instruction,
    path: Path,
    leaf: ArrayShape,
    source: Buffer,
) -> Buffer:
    """Return a buffer for a loop's state: the initial value's where nothing else needs it."""
    stored = e.live.of(init, path)
    start = e.live.position[inst]
    taken = [e.live.of(init, p) for p, s in inst.shape.leaves() if isinstance(s, ArrayShape)]
    wanted = e.targets.get((inst, path))
    if (
        source.is_writable
        and e.live.last_use[stored] <= start
        and taken.count(stored) == 1
        and (wanted is None or wanted is source)
    ):
        return source
    first = min(e.live.position[i] for i in inst.attrs["condition"])
    if wanted is None:
        wanted = e.new_buffer(leaf, first)
    wanted.use(start)
    e.copy(source, wanted, leaf)
    return wanted


def _loop_body(
    e: EntryEmitter,
    inst: Instruction,
    body: Computation,
    state: dict[Path, Buffer],
    slots: dict[Path, tuple[ArrayShape, Any]],
) -> None:
    end = e.live.body_end[body]
    results = {p: e.live.of(body.root, p) for p in state}
    inner_last = e.live.last_reads(body)
    for path, buffer in state.items():
        stored = results[path]
        maker = stored[0]
        old = (inst, path)
        kept = [p for p in state if results[p] == old]
        if (
            maker.parent is body
            and maker is not inst
            and list(results.values()).count(stored) == 1
            and not kept
            and e.live.may_overwrite(maker, old, inner_last.get(old, 0))
        ):
            e.targets[stored] = buffer
    e.computation(body)
    moves = []
    for path, buffer in state.items():
        value = e.values[results[path]]
        leaf = inst.shape.at(path)
        assert isinstance(value, Place) and isinstance(leaf, ArrayShape)
        if value.buffer is not buffer:
            moves.append((value.buffer, buffer, leaf))
    e.assign(moves, end)
    new = {p: e.value(body.root, p) for p in slots}
    for path, (_, slot) in slots.items():
        e.to_slot(slot, new[path])


def emit_conditional(e: EntryEmitter, inst: Instruction) -> None:
    b = e.b
    branches = inst.called_computations
    chosen = e.value(inst.operands[0])
    assert isinstance(chosen, Val)
    position = e.live.position[inst]
    out: dict[Path, Buffer] = {}
    slots: dict[Path, tuple[ArrayShape, Any]] = {}
    start = min(e.live.position[i] for i in branches[0]) - 1
    for path, leaf in inst.shape.leaves():
        if not isinstance(leaf, ArrayShape):
            continue
        if leaf.dims:
            out[path] = e.targets.get((inst, path)) or e.new_buffer(leaf, start)
            out[path].use(e.live.last_use.get((inst, path), position))
        else:
            count = 2 if leaf.element_type.is_complex else 1
            t = scalar.ssa_type(leaf.element_type)
            slots[path] = (leaf, [b.alloca(t) for _ in range(count)])
    labels = [b.new_label("branch") for _ in branches]
    done = b.new_label("endif")
    if chosen.type == "i1":
        b.write(f"br i1 {chosen.name}, label %{labels[0]}, label %{labels[1]}")
    else:
        cases = " ".join(f"i32 {n}, label %{x}" for n, x in enumerate(labels[:-1]))
        b.write(f"switch {chosen}, label %{labels[-1]} [ {cases} ]")
    for label, comp in zip(labels, branches, strict=True):
        b.place(label)
        with b.scope():
            e.set_targets(comp, out)
            e.computation(comp)
            for path, buffer in out.items():
                leaf = inst.shape.at(path)
                assert isinstance(leaf, ArrayShape)
                e.deliver(comp.root, path, leaf, buffer)
            for path, (_, slot) in slots.items():
                e.to_slot(slot, e.value(comp.root, path))
        b.jump(done)
    b.place(done)
    for path, buffer in out.items():
        e.values[inst, path] = Place(buffer)
    for path, (leaf, slot) in slots.items():
        e.values[inst, path] = e.from_slot(leaf, slot)
