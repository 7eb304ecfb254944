"""Values of memory that nothing was written to: which registers hold them, and where that matters.

Registers that were not written to hold such values, too.

To load and to copy such values is no defect: kernels load more than they need, and select. It is
one to use them: for an address, to branch, in an atomic update, or to hand them to the host. Each
bit is followed: what is packed with an undefined value is not undefined itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from hlo.gpu.ptx.records import Instruction
from hlo.gpu.simt.frame import Frame, Values
from hlo.gpu.simt.problems import Kind


class Undefined:
    """Which bits of the registers of a batch are undefined, by slot; no slot is the rule.

    The masks have the types of the slots, and an element for each thread.
    """

    def __init__(self) -> None:
        self.slots: dict[int, np.ndarray] = {}
        # The load that an undefined value comes from.
        self._origins: dict[int, Instruction] = {}

    def of(self, frame: Frame, slot: int) -> np.ndarray | None:
        """Return which bits are undefined in the lanes of a frame, or None for none at all."""
        found = self.slots.get(slot)
        return None if found is None else frame.of_warps(found)

    def define(
        self, frame: Frame, slot: int, bits: np.ndarray | None, origin: Instruction | None = None
    ) -> None:
        """Say of a slot which bits are undefined now, in the active lanes; None for none."""
        old = self.slots.get(slot)
        if old is None:
            if bits is None or not (bits.astype(np.bool_) & frame.active).any():
                return
            old = np.zeros((frame.batch.warps, frame.shape[1]), bits.dtype)
        new = old.copy()
        rows = slice(None) if frame.rows is None else frame.rows
        none = np.zeros((1, 1), old.dtype)
        new[rows] = np.where(frame.active, none if bits is None else bits, new[rows])
        if not new.any():
            self.slots.pop(slot, None)
            return
        self.slots[slot] = new
        if origin is not None:
            self._origins[slot] = origin

    def origin(self, slot: int) -> Instruction | None:
        """Return the load that a slot's undefined value comes from."""
        return self._origins.get(slot)

    def require(
        self, frame: Frame, slots: tuple[int, ...], inst: Instruction | None, use: str
    ) -> None:
        """Report undefined values of slots, that are used for something."""
        for slot in slots:
            bits = self.of(frame, slot)
            bad = None if bits is None else bits.astype(np.bool_) & frame.active
            if bad is None or not bad.any():
                continue
            origin = self._origins.get(slot)
            of, loaded = "a register", ""
            if origin is not None:
                of, loaded = "a value of memory", f" (loaded in PTX line {origin.line})"
            frame.batch.problem(
                Kind.UNINITIALIZED,
                f"{use} {of} that nothing was written to{loaded}",
                inst, frame, bad,
            )  # fmt: skip


# Instructions that only move bits: done to masks, they say where undefined bits go. Their other
# operands, from the number that is given, say where to.
_MOVES = {
    "mov": 9, "cvt": 9, "shl": 1, "shr": 1, "prmt": 2, "shfl": 1, "bfe": 1, "shf": 2,
}  # fmt: skip
_INTEGER = re.compile(r"[usb]\d+").fullmatch
# Whose results depend on the values of all lanes.
_WHOLE_WARPS = frozenset(("mma", "vote", "match", "redux", "wmma"))


@dataclass(frozen=True)
class Flow:
    """How undefined bits go through an instruction: from the slots it reads to those it writes.

    writes: None for results that are not kept. types: of all results. apply: what the operation
    does, to the active lanes first if it is one of `lanes`. guard: the slot of its predicate.
    """

    inst: Instruction
    reads: tuple[int, ...]
    writes: tuple[int | None, ...]
    types: tuple[np.dtype[Any], ...]
    apply: Callable[..., Any] | None = None
    lanes: bool = False
    guard: int | None = None

    def run(self, values: Values, frame: Frame) -> None:
        """Follow the instruction, which is run next."""
        undefined: Undefined = frame.batch.undefined
        found = self._results(undefined, values, frame)
        origin = next((o for s in self.reads if (o := undefined.origin(s)) is not None), None)
        for slot, bits, type_ in zip(self.writes, found, self.types, strict=True):
            if slot is None:
                continue
            if self.guard is not None:
                bits = self._guarded(undefined, values, frame, slot, bits, type_)
            undefined.define(frame, slot, bits, origin)

    def _results(
        self, undefined: Undefined, values: Values, frame: Frame
    ) -> list[np.ndarray] | list[None]:
        """Return which bits of the results are undefined."""
        known = [undefined.of(frame, slot) for slot in self.reads]
        if all(x is None for x in known):
            return [None] * len(self.writes)
        operands = [values[slot] for slot in self.reads]
        masks = [np.zeros_like(v) if x is None else x for v, x in zip(operands, known, strict=True)]
        opcode = self.inst.opcode
        match opcode:
            case "selp":
                chosen = np.where(operands[2], masks[0], masks[1])
                return [chosen | all_bits(masks[2], self.types[0])]
            case "and" | "or":
                # A bit of the other operand may decide the result alone.
                one, other = (v if opcode == "and" else ~v for v in operands)
                return [(masks[0] & masks[1]) | (masks[0] & other) | (masks[1] & one)]
            case "xor" | "not":
                return [reduce(np.bitwise_or, masks)]
            case "add" | "sub" | "mul" | "mad" | "neg" if _carries_up(self.inst):
                # Carries go to higher bits only.
                lost = reduce(np.bitwise_or, [m.astype(self.types[0]) for m in masks])
                return [lost | (~lost + lost.dtype.type(1))]
        first = _MOVES.get(opcode, 0)
        if first and not any(x is not None for x in known[first:]) and _is_move(self.inst):
            return self._moved([*masks[:first], *operands[first:]], frame)
        bad = np.logical_or.reduce([m.astype(np.bool_) & frame.active for m in masks])
        if opcode in _WHOLE_WARPS:
            bad = np.broadcast_to(bad.any(axis=1, keepdims=True), frame.shape)
        return [all_bits(bad, type_) for type_ in self.types]

    def _moved(self, operands: list[np.ndarray], frame: Frame) -> list[np.ndarray]:
        assert self.apply is not None
        if self.lanes:
            operands = [frame.active, *map(frame.spread, operands)]
        found = self.apply(*operands)
        results = list(found) if isinstance(found, tuple) else [found]
        if self.inst.opcode == "shfl" and len(results) > 1:
            # Whether there is such a lane is known.
            results[1] = np.zeros_like(results[1])
        return results

    def _guarded(
        self, undefined: Undefined, values: Values, frame: Frame, slot: int,
        found: np.ndarray | None, type_: np.dtype[Any],
    ) -> np.ndarray | None:  # fmt: skip
        """Return what is undefined after an instruction that only some lanes do."""
        assert self.guard is not None
        unsure, old = undefined.of(frame, self.guard), undefined.of(frame, slot)
        if found is None and unsure is None and old is None:
            return None
        none = np.zeros((1, 1), type_)
        done = values[self.guard] ^ self.inst.guard_negated
        after = np.where(done, none if found is None else found, none if old is None else old)
        return after if unsure is None else after | all_bits(unsure, type_)


def _is_move(inst: Instruction) -> bool:
    """Return whether an instruction of `_MOVES` keeps integers as they are."""
    if inst.opcode != "cvt":
        return True
    return "sat" not in inst.modifiers and all(_INTEGER(m) for m in inst.modifiers[-2:])


def _carries_up(inst: Instruction) -> bool:
    """Return whether a sum or a product is of integers, and the low bits of the whole."""
    names = inst.modifiers
    return _INTEGER(inst.type) is not None and not {"hi", "sat", "cc"} & {*names}


def all_bits(bad: np.ndarray, type_: np.dtype[Any]) -> np.ndarray:
    """Return a mask of all bits of a type where something is undefined."""
    if type_ == np.bool_:
        return bad.astype(np.bool_)
    return np.where(bad, ~np.zeros((1, 1), type_), np.zeros((1, 1), type_))
