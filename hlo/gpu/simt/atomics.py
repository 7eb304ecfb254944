"""Atomic instructions: the lanes one after the other, in the order of threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from hlo.gpu.ptx.records import SIZES, Instruction, Reg
from hlo.gpu.simt.access import check_atomic
from hlo.gpu.simt.frame import Frame, Values
from hlo.gpu.simt.memory import Memory
from hlo.gpu.simt.request import Request
from hlo.gpu.simt.slots import UNSIGNED, Slots, unsupported
from hlo.gpu.simt.steps import Step, place_of_memory

# From what memory holds and the operands to what it holds then, all in the type of the instruction.
Combine = Callable[..., np.ndarray]
_FLOATS: dict[str, Any] = {
    "f16": np.float16, "f16x2": np.float16, "bf16": ml_dtypes.bfloat16,
    "bf16x2": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
}  # fmt: skip


def atomic(inst: Instruction, slots: Slots) -> Step:
    """`atom` and `red`: `red` returns nothing."""
    width = SIZES[inst.type]
    narrow = np.dtype(UNSIGNED[width])
    has_result = inst.opcode == "atom"
    operands = inst.operands[1:] if has_result else inst.operands
    sources = [slots.operand(x, narrow) for x in operands[1:]]
    target = None
    if has_result and isinstance(inst.operands[0], Reg) and inst.operands[0].name != "_":
        target = slots.register(inst.operands[0])
    request = Request(inst, width, "updates")
    resolve, slot = place_of_memory(operands[0], slots, request)
    combine = _combination(inst)
    adds_floats = "add" in inst.modifiers and inst.type in _FLOATS

    def run(values: Values, frame: Frame) -> None:
        parts = [frame.spread(values[s].astype(narrow, copy=False)) for s in sources]
        for view, lanes, at in resolve(values, frame):
            at = lanes.spread(at)
            check_atomic(view, lanes, at, request, adds_floats)
            active = lanes.active
            found = _update(view.memory, at[active] // width, [p[active] for p in parts], combine)
            if target is not None:
                result = np.array(frame.spread(values[target]))
                result[active] = found.astype(slots.types[target], copy=False)
                values[target] = result

    writes = () if target is None else (target,)
    return Step(run, (slot, *sources, *writes), writes, (slot, *sources))


def _combination(inst: Instruction) -> Combine:
    """Return what an instruction makes of the old bits and its operands' bits."""
    name = next((m for m in inst.modifiers if m in _OPERATIONS), "")
    if not name:
        raise unsupported(inst, "an unknown atomic operation")
    function = _OPERATIONS[name]
    bits = np.dtype(UNSIGNED[SIZES[inst.type]])
    type_: Any = np.dtype(_FLOATS.get(inst.type, bits))
    if inst.type.startswith("s"):
        type_ = np.dtype(f"i{bits.itemsize}")
    if type_ == bits:
        return function
    # Hardware flushes subnormal numbers of f32 in the device's memory, not in shared memory.
    flushes = inst.type == "f32" and "global" in inst.modifiers and name == "add"

    def typed(old: np.ndarray, *new: np.ndarray) -> np.ndarray:
        operands = [np.ascontiguousarray(x).view(type_) for x in (old, *new)]
        if flushes:
            operands = [_flushed(x) for x in operands]
        result = function(*operands)
        return np.ascontiguousarray(_flushed(result) if flushes else result).view(bits)

    return typed


def _flushed(value: np.ndarray) -> np.ndarray:
    tiny = np.abs(value) < np.finfo(np.float32).tiny
    return np.where(tiny, np.copysign(np.float32(0), value), value)


def _increment(old: np.ndarray, bound: np.ndarray) -> np.ndarray:
    return np.where(old >= bound, 0, old + 1).astype(old.dtype)


def _decrement(old: np.ndarray, bound: np.ndarray) -> np.ndarray:
    return np.where((old == 0) | (old > bound), bound, old - 1).astype(old.dtype)


def _exchanged_if_equal(old: np.ndarray, compared: np.ndarray, new: np.ndarray) -> np.ndarray:
    return np.asarray(np.where(old == compared, new, old))


_OPERATIONS: dict[str, Combine] = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor, "exch": lambda old, new: new,
    "cas": _exchanged_if_equal,
    "inc": _increment, "dec": _decrement,
}  # fmt: skip


def _update(
    memory: Memory, index: np.ndarray, operands: list[np.ndarray], combine: Combine
) -> np.ndarray:
    """Combine operands with elements of memory, lane after lane. Returns what was there."""
    cells = memory.views[operands[0].dtype.itemsize]
    order = np.argsort(index, kind="stable")
    cell = index[order]
    starts = np.flatnonzero(np.r_[True, cell[1:] != cell[:-1]])
    sizes = np.diff(np.r_[starts, len(cell)])
    sorted_operands = [x[order] for x in operands]
    found = np.empty_like(sorted_operands[0])
    # The first lane of each cell, then the second of those that have one, and so on.
    for turn in range(int(sizes.max(initial=0))):
        at = starts[sizes > turn] + turn
        old = cells[cell[at]]
        found[at] = old
        cells[cell[at]] = combine(old, *(x[at] for x in sorted_operands))
    result = np.empty_like(found)
    result[order] = found
    return result
