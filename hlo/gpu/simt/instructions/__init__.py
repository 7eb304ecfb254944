"""What PTX's instructions do to the registers of many threads at a time.

`operation_of` returns a function of arrays for an instruction. Access to memory, branches, barriers
and calls are not here: those are the machine's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from hlo.errors import HloError
from hlo.gpu.ptx.records import CARRY, Instruction, Negated, Operand, Reg, Vector
from hlo.gpu.simt.instructions import (
    bits,
    comparison,
    conversion,
    floating,
    integer,
    matrix,
    warp,
)
from hlo.gpu.simt.instructions.code import LLVM_TYPES, is_float
from hlo.gpu.simt.instructions.native import Form, native_ufuncs, width_of
from hlo.gpu.simt.instructions.operation import (
    Lanes,
    Operation,
    Scalar,
    Semantics,
    UnknownInstruction,
)

__all__ = ["Operation", "destinations", "operation_of", "prepare", "sources"]

_OTHERS: dict[str, Semantics] = {
    **bits.SEMANTICS, **comparison.SEMANTICS, **conversion.SEMANTICS, **warp.SEMANTICS,
    **matrix.SEMANTICS,
}  # fmt: skip
_DTYPES = {
    1: np.dtype(np.bool_), 16: np.dtype(np.uint16), 32: np.dtype(np.uint32),
    64: np.dtype(np.uint64),
}  # fmt: skip
# Bits of a register by its type.
_REGISTER_BITS = {t: width_of(t) for t in LLVM_TYPES}

# Opcode, modifiers, widths of operands and results, which operands are negated.
_Key = tuple[str, tuple[str, ...], tuple[int, ...], tuple[int, ...], tuple[bool, ...]]
_KNOWN: dict[_Key, Operation] = {}


def _flat(operands: Sequence[Operand]) -> list[Operand]:
    found: list[Operand] = []
    for operand in operands:
        found += operand.elements if isinstance(operand, Vector) else (operand,)
    return found


def destinations(inst: Instruction) -> tuple[Operand, ...]:
    """Return the registers that an instruction writes, `_` for none, and the carry."""
    writes = integer.carries(inst.opcode, inst.modifiers)[1]
    return (*_flat(inst.operands[:1]), *((CARRY,) if writes else ()))


def sources(inst: Instruction) -> tuple[Operand, ...]:
    """Return the operands that an instruction reads, and the carry.

    Of a negated predicate it is the register: the operation negates it.
    """
    reads = integer.carries(inst.opcode, inst.modifiers)[0]
    found = [o.reg if isinstance(o, Negated) else o for o in _flat(inst.operands[1:])]
    return (*found, *((CARRY,) if reads else ()))


def operation_of(inst: Instruction, registers: Mapping[str, str]) -> Operation:
    """Return what an instruction does. registers: types by name.

    Raises HloError, code `unsupported-ptx`, for an instruction that is not known.
    """
    key = _key(inst, registers)
    if key not in _KNOWN:
        prepare([inst], registers)
    return _KNOWN[key]


def prepare(instructions: Iterable[Instruction], registers: Mapping[str, str]) -> None:
    """Compile what several instructions need at once; raises HloError as `operation_of` does."""
    forms: dict[_Key, Form] = {}
    for inst in instructions:
        key = _key(inst, registers)
        if key in _KNOWN or key in forms:
            continue
        try:
            found = _operation(*key)
        except (UnknownInstruction, LookupError, ValueError) as e:
            # Modifiers that are missing, or are no types that tables have.
            why = e if isinstance(e, UnknownInstruction) else "is not supported"
            message = f"line {inst.line}: {inst.name}: {why}"
            raise HloError.at("unsupported-ptx", message) from e
        if isinstance(found, Form):
            forms[key] = found
        else:
            _KNOWN[key] = found
    if forms:
        ufuncs = native_ufuncs(list(forms.values()))
        for (key, form), ufunc in zip(forms.items(), ufuncs, strict=True):
            _KNOWN[key] = Operation(ufunc, _dtypes(form.inputs), _dtypes(form.outputs))


def _key(inst: Instruction, registers: Mapping[str, str]) -> _Key:
    negated = tuple([isinstance(o, Negated) for o in _flat(inst.operands[1:])])
    inputs = _widths(sources(inst), registers)
    return inst.opcode, inst.modifiers, inputs, _widths(destinations(inst), registers), negated


def _widths(operands: Iterable[Operand], registers: Mapping[str, str]) -> tuple[int, ...]:
    """Return the bits of registers, 0 for what is none and -1 for those of unknown types."""
    return tuple([
        _REGISTER_BITS.get(registers.get(o.name, ""), -1)
        if isinstance(o, Reg) and o.name != "_"
        else 0
        for o in operands
    ])  # fmt: skip


def semantics_of(
    opcode: str, modifiers: tuple[str, ...], count: int, results: int
) -> Scalar | Lanes:  # fmt: skip
    """Return what an opcode does. Raises UnknownInstruction, or KeyError for unknown types."""
    found = _OTHERS.get(opcode) or integer.integer_semantics(opcode, modifiers)
    if found is None and modifiers and is_float(modifiers[-1]):
        found = floating.SEMANTICS.get(opcode)
    if found is None:
        raise UnknownInstruction("is not supported")
    return found(modifiers, count, results)


def _operation(
    opcode: str,
    modifiers: tuple[str, ...],
    inputs: tuple[int, ...],
    outputs: tuple[int, ...],
    negated: tuple[bool, ...],
) -> Operation | Form:
    """Return an operation, or what is to be compiled to one."""
    if -1 in inputs + outputs:
        raise UnknownInstruction("has registers of types that are not supported")
    found = semantics_of(opcode, modifiers, len(inputs), len(outputs))
    if len(found.operands) != len(inputs) or len(found.results) != len(outputs):
        raise UnknownInstruction(f"has {len(inputs)} operands and {len(outputs)} results")
    own_inputs = tuple(width_of(t) for t in found.operands)
    own_outputs = tuple(width_of(t) for t in found.results)
    inputs = tuple(w or own for w, own in zip(inputs, own_inputs, strict=True))
    outputs = tuple(w or own for w, own in zip(outputs, own_outputs, strict=True))
    widths = [*zip((*inputs, *outputs), (*own_inputs, *own_outputs), strict=True)]
    if any((width == 1) != (own == 1) for width, own in widths):
        raise UnknownInstruction("a predicate, or none, is expected")
    if any(is_not and width != 1 for is_not, width in zip(negated, inputs, strict=False)):
        raise UnknownInstruction("only predicates are negated")
    fits = inputs == own_inputs and outputs == own_outputs and not any(negated)
    operands, results = _dtypes(inputs), _dtypes(outputs)
    if isinstance(found, Lanes):
        if not fits:
            raise UnknownInstruction("registers of another width")
        return Operation(found.apply, operands, results, lanes=True)
    if fits and found.ufunc is not None:
        return Operation(found.ufunc, operands, results)
    return Form(".".join((opcode, *modifiers)), found, inputs, outputs, negated)


def _dtypes(widths: Sequence[int]) -> tuple[np.dtype[Any], ...]:
    return tuple(_DTYPES[w] for w in widths)


def __dir__() -> list[str]:
    return sorted(__all__)
