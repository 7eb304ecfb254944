"""A kernel as the machine runs it: its pieces, as Python functions of numpy calls.

Each piece becomes one function, when it first runs. Arithmetic is calls of `Operation.apply` on the
values of slots; what is the machine's own (memory, barriers) is steps that it calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any

import numpy as np

from hlo.gpu.ptx.records import Function, Immediate, Instruction, Negated, Operand
from hlo.gpu.simt.atomics import atomic
from hlo.gpu.simt.copies import copy
from hlo.gpu.simt.flow import Piece, is_barrier, pieces_of
from hlo.gpu.simt.frame import LANES, Frame, Values
from hlo.gpu.simt.instructions import destinations, operation_of, prepare, sources
from hlo.gpu.simt.lanes import check_members, check_whole_warps, warp_barrier
from hlo.gpu.simt.layout import Layout, layout_of
from hlo.gpu.simt.matrices import load_matrix, store_matrix
from hlo.gpu.simt.slots import Slots, unsupported
from hlo.gpu.simt.steps import STEPS, Step, is_kept
from hlo.gpu.simt.undefined import Flow, Undefined
from hlo.gpu.simt.units import access_units

# Instructions that are the machine's own.
_OWN: dict[str, Callable[[Instruction, Slots], Step]] = {
    **STEPS, "atom": atomic, "red": atomic, "cp": copy, "ldmatrix": load_matrix,
    "stmatrix": store_matrix, "bar": warp_barrier, "barrier": warp_barrier,
}  # fmt: skip
# Their last operand names the lanes that take part.
_BY_MASK = frozenset(("shfl", "vote", "match", "redux"))
# How many barriers a block has.
_BARRIERS = 16
_NUMBERS = count()
Run = Callable[[Values, Frame], None]


class Kernel:
    """A kernel that was loaded. addresses: of the module's variables."""

    def __init__(self, function: Function, addresses: Mapping[str, int]) -> None:
        self.function, self.name = function, function.name
        self.shared = layout_of(function.shared)
        self.local = layout_of(v for v in function.variables.values() if v.space == "local")
        self.number = next(_NUMBERS)
        # Registers that some way through the kernel reads before it writes them.
        self.unset: tuple[int, ...] = ()
        self._addresses = addresses

    @cached_property
    def slots(self) -> Slots:
        offsets = {**self.local.offsets, **self.shared.offsets}
        return Slots(self.function, self._addresses, offsets)

    @cached_property
    def pieces(self) -> list[CompiledPiece]:
        """The pieces, in the order in which they run."""
        parts = pieces_of(self.function)
        arithmetic = (i for part in parts for i in part.body if i.opcode not in _OWN)
        prepare(arithmetic, self.function.registers)
        pieces = [_compile(part, self.slots) for part in parts]
        live = _set_live_values(pieces)
        self.unset = tuple(slot for slot in sorted(live) if slot < self.slots.registers)
        return pieces

    @cached_property
    def units(self) -> dict[str, int]:
        """For global and shared memory, what all accesses are multiples of, in bytes."""
        return access_units(self.function)

    def launched(self, shared_bytes: int) -> Layout:
        """Return the layout of shared memory of a launch."""
        return self.shared.with_dynamic(shared_bytes)


@dataclass
class CompiledPiece:
    """A piece with its function.

    guard: the slot of the predicate of its end, and whether it is negated. chosen: of a branch by
    a table, the slot of the index. reads: slots that are read before they are written. writes: the
    others; `leaves` are those of them that other pieces read.
    """

    piece: Piece
    run: Run
    guard: int | None
    negated: bool
    chosen: int | None
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    leaves: tuple[int, ...] = ()

    @property
    def end(self) -> Instruction | None:
        return self.piece.end

    @property
    def targets(self) -> tuple[int, ...]:
        return self.piece.targets


def _compile(piece: Piece, slots: Slots) -> CompiledPiece:
    writer = _Writer(slots)
    for inst in piece.body:
        writer.instruction(inst)
    guard = chosen = None
    end = piece.end
    if end is not None and end.guard is not None:
        guard = slots.register(end.guard)
        writer.note((guard,), ())
    if end is not None and end.opcode == "brx":
        chosen = slots.operand(end.operands[0], np.dtype(np.uint32))
        writer.note((chosen,), ())
    if end is not None and is_barrier(end):
        _check_barrier(end)
    negated = end is not None and end.guard_negated
    return CompiledPiece(
        piece, writer.function(), guard, negated, chosen, (*writer.reads,), (*writer.writes,)
    )


def _check_barrier(inst: Instruction) -> None:
    """Raise HloError for a barrier of a number, or for a count of threads, that is not known."""
    numbers = [x.bits if isinstance(x, Immediate) else -1 for x in inst.operands]
    if not 1 <= len(numbers) <= 2 or not 0 <= numbers[0] < _BARRIERS:
        raise unsupported(inst, f"a barrier has a number from 0 to {_BARRIERS - 1}")
    if numbers[1:] and (numbers[1] < 1 or numbers[1] % LANES):
        raise unsupported(inst, "a barrier is for a number of threads, a multiple of 32")


class _Writer:
    """Writes the function of a piece."""

    def __init__(self, slots: Slots) -> None:
        self._slots, self._registers = slots, slots.function.registers
        self._lines: list[str] = []
        self._names: dict[str, Any] = {"where": np.where}
        self.reads: dict[int, None] = {}
        self.writes: dict[int, None] = {}

    def note(self, reads: Iterable[int], writes: Iterable[int]) -> None:
        """Remember what is read and written next."""
        for slot in reads:
            if slot not in self.writes:
                self.reads[slot] = None
        for slot in writes:
            self.writes[slot] = None

    def function(self) -> Run:
        """Return the function, as Python compiles it."""
        lines = self._lines or ["pass"]
        text = "def run(v, f):\n    u = f.batch.undefined.slots\n    " + "\n    ".join(lines)
        exec(compile(text, "<kernel>", "exec"), self._names)
        run: Run = self._names["run"]
        return run

    def instruction(self, inst: Instruction) -> None:
        own = _OWN.get(inst.opcode)
        if own is not None:
            try:
                step = own(inst, self._slots)
            except (LookupError, ValueError) as e:
                # Operands or modifiers that are missing, or are no types.
                raise unsupported(inst, "is not supported") from e
            self._own(step, inst)
        else:
            self._arithmetic(inst)

    def _own(self, step: Step, inst: Instruction) -> None:
        name = self._name(step.run)
        follow = self._following(step, inst)
        if inst.guard is None:
            self.note(step.reads, step.writes)
            if follow:
                self._lines.append(f"if u: {follow}(v, f)")
            self._lines.append(f"{name}(v, f)")
            return
        guard = self._slots.register(inst.guard)
        if step.needs:
            self._lines.append(f"if u: {self._name(_needs(inst, (guard,)))}(v, f)")
        self.note((guard, *step.reads, *step.writes), step.writes)
        kept = "".join(f"o{w} = v[{w}]; " for w in step.writes)
        self._lines.append(f"g = f.guarded(v[{guard}], {inst.guard_negated})")
        self._lines.append("if g is not None:")
        if follow:
            self._lines.append(f"    if u: {follow}(v, g)")
        self._lines.append(f"    {kept}{name}(v, g)")
        for slot in step.writes:
            merged = f"where(g.active, v[{slot}], o{slot})"
            self._lines.append(f"    if g is not f: v[{slot}] = {merged}")

    def _following(self, step: Step, inst: Instruction) -> str:
        """Return the name of what follows undefined values through a step, if any does."""
        if step.needs:
            return self._name(_needs(inst, step.needs, () if step.follows else step.writes))
        if step.writes and not step.follows:
            types = tuple(self._slots.types[slot] for slot in step.writes)
            return self._name(Flow(inst, step.reads, step.writes, types).run)
        return ""

    def _arithmetic(self, inst: Instruction) -> None:
        operation = operation_of(inst, self._registers)
        taken = [
            self._source(operand, type_)
            for operand, type_ in zip(sources(inst), operation.operands, strict=True)
        ]
        texts = [text for _, text in taken]
        if operation.lanes:
            self._check_lanes(inst, texts)
            texts = ["f.active", *(f"f.spread({text})" for text in texts)]
        call = f"{self._name(operation.apply)}({', '.join(texts)})"
        slots = [self._slots.register(x) if is_kept(x) else None for x in destinations(inst)]
        written = [slot for slot in slots if slot is not None]
        guarded = None if inst.guard is None else self._slots.register(inst.guard)
        flow = Flow(
            inst, tuple(slot for slot, _ in taken), tuple(slots), operation.results,
            operation.apply, operation.lanes, guarded,
        )  # fmt: skip
        self._lines.append(f"if u: {self._name(flow.run)}(v, f)")
        names = ", ".join("_" if slot is None else f"v[{slot}]" for slot in slots)
        if inst.guard is None:
            self.note((), written)
            self._lines.append(f"{names} = {call}")
            return
        guard = self._slots.register(inst.guard)
        self.note((guard, *written), written)
        kept = "; ".join(f"o{slot} = v[{slot}]" for slot in written)
        self._lines.append(f"g = v[{guard}]; {kept}")
        self._lines.append(f"{names} = {call}")
        for slot in written:
            new, old = f"v[{slot}]", f"o{slot}"
            if inst.guard_negated:
                new, old = old, new
            self._lines.append(f"v[{slot}] = where(g, {new}, {old})")

    def _check_lanes(self, inst: Instruction, texts: list[str]) -> None:
        """Check that the lanes which exchange values are there. texts: of the operands."""
        said = self._name(inst)
        if inst.opcode in _BY_MASK and "sync" in inst.modifiers:
            self._lines.append(f"{self._name(check_members)}({said}, f, {texts[-1]})")
        elif "aligned" in inst.modifiers:
            self._lines.append(f"{self._name(check_whole_warps)}({said}, f)")

    def _source(self, operand: Operand, type_: np.dtype[Any]) -> tuple[int, str]:
        """Return the slot of a source operand, and the expression."""
        inverted = isinstance(operand, Negated)
        slot = self._slots.operand(operand.reg if isinstance(operand, Negated) else operand, type_)
        self.note((slot,), ())
        return slot, f"~v[{slot}]" if inverted else f"v[{slot}]"

    def _name(self, value: Any) -> str:
        name = f"c{len(self._names)}"
        self._names[name] = value
        return name


def _needs(inst: Instruction, slots: tuple[int, ...], defines: tuple[int, ...] = ()) -> Run:
    """Return what reports undefined values of slots, and takes those of others as defined."""

    def run(values: Values, frame: Frame) -> None:
        undefined: Undefined = frame.batch.undefined
        undefined.require(frame, slots, inst, "accesses memory by")
        for slot in defines:
            undefined.define(frame, slot, None)

    return run


def _set_live_values(pieces: list[CompiledPiece]) -> set[int]:
    """Find which values of each piece others read. Returns those that are read from outside."""
    live = [set(piece.reads) for piece in pieces]
    writes = [set(piece.writes) for piece in pieces]
    changed = True
    after: list[set[int]] = [set() for _ in pieces]
    while changed:
        changed = False
        for n in range(len(pieces) - 1, -1, -1):
            after[n] = set().union(*(live[t] for t in pieces[n].targets))
            before = live[n] | (after[n] - writes[n])
            if len(before) != len(live[n]):
                live[n], changed = before, True
    for piece, found in zip(pieces, after, strict=True):
        piece.leaves = tuple(slot for slot in piece.writes if slot in found)
    return live[0]
