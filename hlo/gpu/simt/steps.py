"""Instructions that are the machine's own: memory, addresses of spaces, what has no effect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np

from hlo.gpu.ptx.records import SIZES, Address, Instruction, Operand, Reg, Symbol, Vector
from hlo.gpu.simt.access import (
    UNSIGNED,
    Resolver,
    check_read,
    check_write,
    empty,
    fetch,
    fetch_several,
    put,
    resolver,
)
from hlo.gpu.simt.frame import Frame, Values
from hlo.gpu.simt.layout import LOCAL_WINDOW, SHARED_WINDOW
from hlo.gpu.simt.memory import FULL
from hlo.gpu.simt.request import Request
from hlo.gpu.simt.slots import ADDRESS, Slots, unsupported

_SPACES = {
    "global": "global", "shared": "shared", "shared::cta": "shared", "local": "local",
    "const": "const",
}  # fmt: skip
_SIGNED = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}
_WINDOWS = {"shared": SHARED_WINDOW, "shared::cta": SHARED_WINDOW, "local": LOCAL_WINDOW}


@dataclass(frozen=True)
class Step:
    """What an instruction does to the values of a frame; slots that it reads and writes.

    needs: slots whose values may not be undefined. follows: whether it says itself which results
    are undefined.
    """

    run: Callable[[Values, Frame], None]
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    needs: tuple[int, ...] = ()
    follows: bool = False


def elements(operand: Operand) -> tuple[Operand, ...]:
    """Return the elements of a vector, or the operand."""
    return operand.elements if isinstance(operand, Vector) else (operand,)


def is_kept(operand: Operand) -> TypeGuard[Reg]:
    """Return whether an operand is a register, and not where nothing is kept."""
    return isinstance(operand, Reg) and operand.name != "_"


def space_of(inst: Instruction) -> str:
    """Return the space of memory that an instruction says, or an empty text."""
    return next((_SPACES[m] for m in inst.modifiers if m in _SPACES), "")


def address_of(operand: Operand, slots: Slots, inst: Instruction) -> tuple[int, int]:
    """Return the slot of the base of an address, and the offset from it."""
    if not isinstance(operand, Address) or operand.coordinates:
        raise unsupported(inst, "an address is expected")
    if isinstance(operand.base, Symbol):
        found = slots.symbol(operand.base.name)
        if found is None:
            raise unsupported(inst, f"unknown variable {operand.base.name}")
        return slots.address(found), operand.offset
    return slots.operand(operand.base, ADDRESS), operand.offset


def place_of_memory(operand: Operand, slots: Slots, request: Request) -> tuple[Resolver, int]:
    """Return what resolves an operand to memory, and the slot that it reads."""
    slot, offset = address_of(operand, slots, request.inst)
    return resolver(space_of(request.inst), slot, offset, request), slot


# --- loads and stores -----------------------------------------------------------------------------


def load(inst: Instruction, slots: Slots) -> Step:
    """`ld`, of one element or a vector."""
    targets = [slots.register(x) if is_kept(x) else None for x in elements(inst.operands[0])]
    if any(m.startswith("param") for m in inst.modifiers):
        return _load_parameter(inst, slots, targets)
    width = SIZES[inst.type]
    request = Request(inst, width * len(targets), "reads")
    resolve, slot = place_of_memory(inst.operands[1], slots, request)
    widen = _widening(inst, [slots.types[t] for t in targets if t is not None])
    written = tuple(t for t in targets if t is not None)

    def run(values: Values, frame: Frame) -> None:
        found = resolve(values, frame)
        for view, lanes, at in found:
            bad = check_read(view, lanes, at, request, len(targets))
            if len(targets) == 1:
                parts = [fetch(view.memory, at, width)]
            else:
                several = fetch_several(view.memory, at, width, len(targets))
                parts = [several[..., n] for n in range(len(targets))]
            undefined = frame.batch.undefined
            for n, (target, part) in enumerate(zip(targets, parts, strict=True)):
                if target is not None:
                    if bad is not None or undefined.slots:
                        lost = None if bad is None else widen(bad[..., n])
                        undefined.define(lanes, target, lost, inst)
                    part = widen(part)
                    if len(found) > 1:
                        part = np.where(lanes.active, part, values[target])
                    values[target] = part

    return Step(run, (slot,), written, (slot,), follows=True)


def _load_parameter(inst: Instruction, slots: Slots, targets: list[int | None]) -> Step:
    """Read parameters of the kernel, which are rows of 64-bit words."""
    address = inst.operands[1]
    if not isinstance(address, Address):
        raise unsupported(inst, "an address is expected")
    name = address.base.name if isinstance(address.base, Symbol) else ""
    slot = slots.parameter(name)
    width = SIZES[inst.type]
    if slot is None:
        raise unsupported(inst, "no parameter of the kernel")
    size = slots.parameter_bytes(name)
    if address.offset % width or not 0 <= address.offset <= size - width * len(targets):
        raise unsupported(inst, f"not in the {size} bytes of parameter {name}")
    number = slot

    def run(values: Values, frame: Frame) -> None:
        parts = values[number].view(UNSIGNED[width])
        for n, target in enumerate(targets):
            if target is not None:
                at = address.offset // width + n
                values[target] = parts[:, at : at + 1].astype(slots.types[target])

    return Step(run, (number,), tuple(t for t in targets if t is not None))


def _widening(inst: Instruction, types: list[np.dtype[Any]]) -> Callable[[np.ndarray], np.ndarray]:
    """Return what makes an element in memory the content of a register."""
    width = SIZES[inst.type]
    if not types or types[0].itemsize == width:
        return lambda part: part
    wide = types[0]
    if inst.type.startswith("s"):
        signed = np.dtype(_SIGNED[wide.itemsize])
        return lambda part: part.view(_SIGNED[width]).astype(signed).view(wide)
    return lambda part: part.astype(wide)


def store(inst: Instruction, slots: Slots) -> Step:
    """`st`, of one element or a vector."""
    width = SIZES[inst.type]
    narrow = UNSIGNED[width]
    sources = [slots.operand(x, np.dtype(narrow)) for x in elements(inst.operands[1])]
    request = Request(inst, width * len(sources), "writes")
    resolve, slot = place_of_memory(inst.operands[0], slots, request)

    def run(values: Values, frame: Frame) -> None:
        parts = [values[s].astype(narrow, copy=False) for s in sources]
        for view, lanes, at in resolve(values, frame):
            check_write(view, lanes, at, request, FULL)
            put(view.memory, lanes, at, parts, width)
            if frame.batch.undefined.slots and view.memory.map is not None:
                for n, source in enumerate(sources):
                    empty(view.memory, lanes, at + n * width, source, width)

    return Step(run, (slot, *sources), (), (slot,))


# --- addresses ------------------------------------------------------------------------------------


def convert_address(inst: Instruction, slots: Slots) -> Step:
    """`cvta`: addresses of a space to generic ones, and back."""
    target, source = inst.operands[0], slots.operand(inst.operands[1], ADDRESS)
    if not isinstance(target, Reg):
        raise unsupported(inst, "a register is expected")
    to = slots.register(target)
    window = next((_WINDOWS[m] for m in inst.modifiers if m in _WINDOWS), 0)
    if "to" in inst.modifiers:
        window = -window % (1 << 64)
    type_ = slots.types[to]

    def run(values: Values, frame: Frame) -> None:
        found = values[source].astype(np.uint64, copy=False)
        values[to] = (found + np.uint64(window)).astype(type_, copy=False)

    return Step(run, (source,), (to,))


def fence(inst: Instruction, slots: Slots) -> Step:
    """What orders memory: here, every access is done when the next one begins; but races see it."""

    def run(values: Values, frame: Frame) -> None:
        races = frame.batch.spaces["global"].races
        if races is not None:
            races.fence(frame, inst)

    return Step(run)


def nothing(inst: Instruction, slots: Slots) -> Step:
    """What is a hint, or only takes time."""
    return Step(lambda values, frame: None)


STEPS: dict[str, Callable[[Instruction, Slots], Step]] = {
    "ld": load,
    "ldu": load,
    "st": store,
    "cvta": convert_address,
    "membar": fence,
    "fence": fence,
    **dict.fromkeys(
        ("prefetch", "prefetchu", "applypriority", "discard", "nanosleep", "griddepcontrol",
         "setmaxnreg", "pmevent"), nothing,
    ),
}  # fmt: skip
