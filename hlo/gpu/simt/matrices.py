"""Matrices between shared memory and the registers of a warp: `ldmatrix` and `stmatrix`."""

from __future__ import annotations

import numpy as np

from hlo.gpu.ptx.records import Instruction
from hlo.gpu.simt.access import check_read, check_write
from hlo.gpu.simt.frame import LANES, Frame, Values
from hlo.gpu.simt.lanes import check_whole_warps
from hlo.gpu.simt.memory import FULL
from hlo.gpu.simt.request import Request
from hlo.gpu.simt.slots import Slots, unsupported
from hlo.gpu.simt.steps import Step, elements, place_of_memory

_ROW_BYTES = 16
_ROWS = 8


def load_matrix(inst: Instruction, slots: Slots) -> Step:
    """`ldmatrix`: 1, 2 or 4 matrices of 8 rows of 16 bytes; lane n has the address of row n."""
    targets = _registers(inst, 0, slots)
    request = Request(inst, _ROW_BYTES, "reads")
    resolve, slot = place_of_memory(inst.operands[1], slots, request)
    is_transposed = "trans" in inst.modifiers

    def run(values: Values, frame: Frame) -> None:
        check_whole_warps(inst, frame)
        some = _rows(frame, len(targets))
        for view, lanes, at in resolve(values, some):
            at = lanes.spread(at)
            bad = check_read(view, lanes, at, request, 8)
            undefined = frame.batch.undefined
            rows = view.memory.views[2].reshape(-1, 8).take(at // _ROW_BYTES, axis=0)
            for n, target in enumerate(targets):
                values[target] = _words_of(rows, n, is_transposed)
                if bad is not None or undefined.slots:
                    lost = None if bad is None else _words_of(bad, n, is_transposed)
                    undefined.define(frame, target, lost, inst)

    return Step(run, (slot,), targets, (slot,), follows=True)


def _words_of(rows: np.ndarray, number: int, is_transposed: bool) -> np.ndarray:
    """Return the words of a matrix, of two elements each, as lanes get them."""
    matrix = rows[:, number * _ROWS : (number + 1) * _ROWS, :]
    if is_transposed:
        matrix = matrix.swapaxes(1, 2)
    return np.ascontiguousarray(matrix).view(np.uint32).reshape(-1, LANES)


def store_matrix(inst: Instruction, slots: Slots) -> Step:
    """`stmatrix`: the reverse of `ldmatrix`."""
    sources = _registers(inst, 1, slots)
    request = Request(inst, _ROW_BYTES, "writes")
    resolve, slot = place_of_memory(inst.operands[0], slots, request)
    is_transposed = "trans" in inst.modifiers

    def run(values: Values, frame: Frame) -> None:
        check_whole_warps(inst, frame)
        some = _rows(frame, len(sources))
        data = np.empty((frame.warps, LANES, 8), np.uint16)
        for n, source in enumerate(sources):
            words = np.ascontiguousarray(frame.spread(values[source]))
            matrix = words.view(np.uint16).reshape(-1, _ROWS, 8)
            if is_transposed:
                matrix = matrix.swapaxes(1, 2)
            data[:, n * _ROWS : (n + 1) * _ROWS] = matrix
        for view, lanes, at in resolve(values, some):
            at = lanes.spread(at)
            check_write(view, lanes, at, request, FULL)
            rows = view.memory.views[2].reshape(-1, 8)
            rows[at[lanes.active] // _ROW_BYTES] = data[lanes.active]

    return Step(run, (slot, *sources), (), (slot, *sources))


def _registers(inst: Instruction, operand: int, slots: Slots) -> tuple[int, ...]:
    if "m8n8" not in inst.modifiers or inst.type != "b16":
        raise unsupported(inst, "only matrices of 8 by 8 elements of 16 bits are supported")
    return tuple(slots.register(x) for x in elements(inst.operands[operand]))  # type: ignore[arg-type]


def _rows(frame: Frame, count: int) -> Frame:
    """Return the lanes of a frame that have the address of a row."""
    if count * _ROWS == LANES:
        return frame
    mask = np.zeros(frame.shape, np.bool_)
    mask[:, : count * _ROWS] = True
    mask &= frame.active
    return frame.narrowed(mask, int(np.count_nonzero(mask)))
