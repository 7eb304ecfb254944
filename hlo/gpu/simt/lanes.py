"""Which lanes take part in what a warp does together."""

from __future__ import annotations

import numpy as np

from hlo.gpu.ptx.records import Instruction
from hlo.gpu.simt.frame import LANES, Frame, Values
from hlo.gpu.simt.problems import Kind
from hlo.gpu.simt.slots import Slots, unsupported
from hlo.gpu.simt.steps import Step

_LANE = np.arange(LANES, dtype=np.uint32)[None, :]


def check_members(inst: Instruction, frame: Frame, members: np.ndarray) -> None:
    """Check that the lanes which a mask of 32 bits names are there. Raises HloError."""
    if frame.mask is None and members.size == 1 and int(members.item()) == 0xFFFFFFFF:
        return
    batch = frame.batch
    members = frame.spread(members)
    unnamed = frame.active & ((members >> _LANE) & np.uint32(1) == 0)
    if unnamed.any():
        batch.problem(Kind.INACTIVE_LANE, "is not in its own mask of lanes", inst, frame, unnamed)
    # What any lane of the warp that is here names.
    named = np.bitwise_or.reduce(np.where(frame.active, members, 0), axis=1, keepdims=True)
    there = frame.active | ~frame.of_warps(batch.exists)
    missing = ((named >> _LANE) & np.uint32(1) != 0) & ~there
    if missing.any():
        batch.problem(
            Kind.INACTIVE_LANE,
            "is named by other lanes of its warp, which exchange values, and is not there",
            inst, frame, missing,
        )  # fmt: skip


def check_whole_warps(inst: Instruction, frame: Frame) -> None:
    """Check that all lanes of each warp which is here are active. Raises HloError."""
    if frame.mask is None:
        return
    # Frames have rows of warps that have ended, too.
    missing = frame.active.any(axis=1, keepdims=True) & ~frame.active
    if missing.any():
        frame.batch.problem(
            Kind.INACTIVE_LANE, "is not there where all lanes of its warp have to be",
            inst, frame, missing,
        )  # fmt: skip


def warp_barrier(inst: Instruction, slots: Slots) -> Step:
    """`bar.warp.sync`: the lanes of a mask are here. Barriers of blocks are ends of pieces."""
    if "warp" not in inst.modifiers:
        raise unsupported(inst, "only barriers at which threads wait are supported")
    (operand,) = inst.operands
    slot = slots.operand(operand, np.dtype(np.uint32))

    def run(values: Values, frame: Frame) -> None:
        check_members(inst, frame, values[slot])

    return Step(run, (slot,))
