"""Values of memory that nothing was written to: which registers hold them, and where that matters.

To load and to copy such values is no defect: kernels load more than they need, and select. It is
one to use them: for an address, to branch, in an atomic update, or to hand them to the host.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hlo.gpu.ptx.records import Instruction
from hlo.gpu.simt.frame import Frame, Values
from hlo.gpu.simt.instructions.warp import shuffle_lanes
from hlo.gpu.simt.problems import Kind


class Undefined:
    """Which lanes of a batch have undefined values, by slot; no slot is the rule."""

    def __init__(self) -> None:
        self.slots: dict[int, np.ndarray] = {}
        # The load that an undefined value comes from.
        self._origins: dict[int, Instruction] = {}

    def of(self, frame: Frame, slot: int) -> np.ndarray | None:
        """Return which lanes of a frame have an undefined value, or None for none of the batch."""
        found = self.slots.get(slot)
        return None if found is None else frame.of_warps(found)

    def define(
        self, frame: Frame, slot: int, bad: np.ndarray | None, origin: Instruction | None = None
    ) -> None:
        """Say of a slot in which active lanes it has an undefined value now, None for none."""
        old = self.slots.get(slot)
        if old is None:
            if bad is None or not (bad & frame.active).any():
                return
            old = np.zeros((frame.batch.warps, frame.shape[1]), np.bool_)
        new = old.copy()
        rows = slice(None) if frame.rows is None else frame.rows
        new[rows] = np.where(frame.active, False if bad is None else bad, new[rows])
        if not new.any():
            self.slots.pop(slot, None)
            return
        self.slots[slot] = new
        if origin is not None:
            self._origins[slot] = origin

    def origin(self, slot: int) -> Instruction | None:
        return self._origins.get(slot)

    def require(
        self, frame: Frame, slots: tuple[int, ...], inst: Instruction | None, use: str
    ) -> None:
        """Report undefined values of slots, that are used for something."""
        for slot in slots:
            bad = self.of(frame, slot)
            if bad is None or not (bad & frame.active).any():
                continue
            origin = self._origins.get(slot)
            loaded = f" (loaded in PTX line {origin.line})" if origin is not None else ""
            frame.batch.problem(
                Kind.UNINITIALIZED,
                f"{use} a value of memory that nothing was written to{loaded}",
                inst, frame, bad & frame.active,
            )  # fmt: skip


@dataclass(frozen=True)
class Flow:
    """How undefined values go through an instruction: from the slots it reads to those it writes.

    guard: the slot of its predicate, or None.
    """

    inst: Instruction
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    guard: int | None = None

    def run(self, values: Values, frame: Frame) -> None:
        """Follow the instruction, which is run next."""
        undefined: Undefined = frame.batch.undefined
        found = self._result(undefined, values, frame)
        origin = next((o for s in self.reads if (o := undefined.origin(s)) is not None), None)
        for slot in self.writes:
            bad = found
            if self.guard is not None:
                bad = self._guarded(undefined, values, frame, slot, found)
            undefined.define(frame, slot, bad, origin)

    def _result(self, undefined: Undefined, values: Values, frame: Frame) -> np.ndarray | None:
        bad = [undefined.of(frame, slot) for slot in self.reads]
        if all(x is None for x in bad):
            return None
        masks = [np.zeros(frame.shape, np.bool_) if x is None else x for x in bad]
        inst, operands = self.inst, [values[slot] for slot in self.reads]
        match inst.opcode:
            case "selp":
                chosen = np.where(operands[2], masks[0], masks[1])
                return np.asarray(chosen | masks[2])
            case "and" | "or":
                zero = inst.opcode == "and"
                # The other operand may decide the result alone.
                decides = [_decides(x, zero) for x in operands]
                one = masks[0] & ~(decides[1] & ~masks[1])
                return np.asarray(one | (masks[1] & ~(decides[0] & ~masks[0])))
            case "shfl":
                lane, bound = (frame.spread(x) for x in operands[1:3])
                source, _ = shuffle_lanes(inst.modifiers[-2], lane, bound)
                source = np.broadcast_to(source, frame.shape).astype(np.intp)
                moved = np.take_along_axis(masks[0], source, axis=1)
                return np.asarray(moved | masks[1] | masks[2])
        found = np.logical_or.reduce([m & frame.active for m in masks])
        if inst.opcode in _WHOLE_WARPS:
            found = np.broadcast_to(found.any(axis=1, keepdims=True), frame.shape)
        return np.asarray(found)

    def _guarded(
        self, undefined: Undefined, values: Values, frame: Frame, slot: int,
        found: np.ndarray | None,
    ) -> np.ndarray | None:  # fmt: skip
        """Return what is undefined after an instruction that only some lanes do."""
        assert self.guard is not None
        unsure, old = undefined.of(frame, self.guard), undefined.of(frame, slot)
        if found is None and unsure is None and old is None:
            return None
        none = np.zeros((1, 1), np.bool_)
        done = values[self.guard] ^ self.inst.guard_negated
        after = np.where(done, none if found is None else found, none if old is None else old)
        return np.asarray(after | (none if unsure is None else unsure))


# Whose results depend on the values of all lanes.
_WHOLE_WARPS = frozenset(("mma", "vote", "match", "redux", "wmma"))


def _decides(value: np.ndarray, zero: bool) -> np.ndarray:
    """Return where an operand of `and` is 0, or one of `or` has all bits."""
    if zero:
        return value == 0
    return value if value.dtype == np.bool_ else value == ~value.dtype.type(0)
