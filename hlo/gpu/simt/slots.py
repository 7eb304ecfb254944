"""Where the values of a kernel are: registers, constants, parameters and special registers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hlo.errors import HloError
from hlo.gpu.ptx.records import Function, Immediate, Instruction, Operand, Reg, Special, Symbol

# What a register holds, by its declared type.
REGISTER_TYPES = {
    "pred": np.dtype(np.bool_),
    **dict.fromkeys(("b16", "u16", "s16", "f16", "bf16"), np.dtype(np.uint16)),
    **dict.fromkeys(("b32", "u32", "s32", "f32", "f16x2", "bf16x2"), np.dtype(np.uint32)),
    **dict.fromkeys(("b64", "u64", "s64", "f64"), np.dtype(np.uint64)),
}
UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
ADDRESS = np.dtype(np.uint64)


def unsupported(inst: Instruction, why: str) -> HloError:
    """Return the error of an instruction that the machine does not have."""
    return HloError.at("unsupported-ptx", f"PTX line {inst.line} ({inst.name}): {why}")


class Slots:
    """Numbers all values of a kernel.

    addresses: of the module's variables. offsets: of those in shared and local memory.
    """

    def __init__(
        self, function: Function, addresses: Mapping[str, int], offsets: Mapping[str, int]
    ) -> None:
        self._names: dict[Any, int] = {}
        self.types: list[np.dtype[Any]] = []
        self.constants: dict[int, np.ndarray] = {}
        self.specials: dict[int, str] = {}
        self.parameters: dict[int, int] = {}
        self._symbols = {**addresses, **offsets}
        self.function = function
        self._parameters = {p.name: n for n, p in enumerate(function.parameters)}
        for name in function.registers:
            self.register(Reg(name))
        self.registers = len(self.types)

    def register(self, reg: Reg) -> int:
        """Return the slot of a register."""
        type_ = REGISTER_TYPES.get(self.function.registers.get(reg.name, ""))
        if type_ is None:
            raise HloError.at("unsupported-ptx", f"{reg.name} has a type that is not supported")
        return self._slot(reg, type_)

    def operand(self, operand: Operand, type_: np.dtype[Any]) -> int:
        """Return the slot of a value; `type_` is what a constant becomes."""
        match operand:
            case Reg():
                return self.register(operand)
            case Special():
                slot = self._slot(operand, type_ if type_.kind in "iu" else np.dtype(np.uint32))
                self.specials[slot] = operand.name
                return slot
            case Immediate():
                return self.constant(_number(operand, type_))
            case Symbol() if operand.name in self._symbols:
                return self.constant(np.array(self._symbols[operand.name]).astype(type_))
        raise HloError.at("unsupported-ptx", f"{operand} is not a value that the machine knows")

    def constant(self, value: np.ndarray) -> int:
        """Return the slot of a constant."""
        slot = self._slot((value.dtype.str, value.tobytes()), value.dtype)
        self.constants[slot] = value.reshape(1, 1)
        return slot

    def address(self, value: int) -> int:
        """Return the slot of a constant address."""
        return self.constant(np.array(value % (1 << 64), np.uint64))

    def symbol(self, name: str) -> int | None:
        """Return the address of a variable, or None for what is none."""
        return self._symbols.get(name)

    def parameter(self, name: str) -> int | None:
        """Return the slot of a parameter, words of 64 bits, or None for what is none."""
        number = self._parameters.get(name)
        if number is None:
            return None
        slot = self._slot(("parameter", number), ADDRESS)
        self.parameters[slot] = number
        return slot

    def parameter_bytes(self, name: str) -> int:
        """Return the size of a parameter."""
        return self.function.parameters[self._parameters[name]].size

    def temporary(self, type_: np.dtype[Any]) -> int:
        """Return a new slot."""
        return self._slot(("temporary", len(self.types)), type_)

    def initial(
        self, parameters: list[np.ndarray], special: Callable[[str], np.ndarray]
    ) -> list[np.ndarray]:
        """Return the values that threads begin with; registers are 0."""
        zeros = {t: np.zeros((1, 1), t) for t in {*self.types}}
        values = [zeros[t] for t in self.types]
        for slot, value in self.constants.items():
            values[slot] = value
        for slot, number in self.parameters.items():
            values[slot] = parameters[number]
        for slot, name in self.specials.items():
            values[slot] = special(name).astype(self.types[slot])
        return values

    def _slot(self, key: object, type_: np.dtype[Any]) -> int:
        slot = self._names.get(key)
        if slot is None:
            slot = self._names[key] = len(self.types)
            self.types.append(type_)
        return slot


def _number(immediate: Immediate, type_: np.dtype[Any]) -> np.ndarray:
    """Return a constant as a type, of the bits that the text gives."""
    size = type_.itemsize
    if type_ == np.bool_:
        return np.array(bool(immediate.bits))
    if immediate.type == "f64" and type_ == np.float32:
        wide = np.array(immediate.bits, np.uint64).view(np.float64)
        return wide.astype(np.float32)
    bits = np.array(immediate.bits % (1 << (8 * size)), UNSIGNED[size])
    return bits.view(type_)
