"""Scalar semantics as functions of arrays of register bits."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hlo.gpu.simt.instructions.code import BITS, LLVM_TYPES, Code
from hlo.gpu.simt.instructions.operation import Scalar, UnknownInstruction
from hlo.gpu.simt.instructions.ufuncs import loop_text, make_ufunc, native_functions

_DTYPES = {1: np.bool_, 16: np.uint16, 32: np.uint32, 64: np.uint64}
_numbers = itertools.count()


def width_of(type_: str) -> int:
    """Return the bits of the register that holds a value of a PTX type."""
    if type_ not in LLVM_TYPES:
        raise UnknownInstruction(f"type {type_} is not supported")
    bits = BITS[LLVM_TYPES[type_]]
    return 16 if bits == 8 else bits


def write_scalar(
    code: Code, scalar: Scalar, values: Sequence[str], inputs: Sequence[int],
    outputs: Sequence[int], negated: Sequence[bool] = (),
) -> list[str]:  # fmt: skip
    """Write the code of one thread, from bits of registers to bits of registers.

    inputs, outputs: widths of the registers, `i1` for predicates. negated: which are.
    """
    operands = []
    for n, (type_, value, width) in enumerate(zip(scalar.operands, values, inputs, strict=True)):
        t = LLVM_TYPES[type_]
        value = code.resize(f"i{width}", value, f"i{BITS[t]}")
        if n < len(negated) and negated[n]:
            value = code.let(f"xor i1 {value}, true")
        operands.append(code.bitcast(f"i{BITS[t]}", value, t))
    found = []
    for type_, value, width in zip(
        scalar.results, scalar.emit(code, operands), outputs, strict=True
    ):
        t = LLVM_TYPES[type_]
        value = code.bitcast(t, value, f"i{BITS[t]}")
        found.append(code.resize(f"i{BITS[t]}", value, f"i{width}", signed=type_[0] == "s"))
    return found


@dataclass(frozen=True)
class Form:
    """Scalar semantics on registers of certain widths. negated: which operands are."""

    name: str
    scalar: Scalar
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    negated: tuple[bool, ...] = ()


def native_ufuncs(forms: Sequence[Form]) -> list[Callable[..., Any]]:
    """Return a ufunc of register bits for each form; to compile many takes little more than one."""
    texts, declarations, names = [], set(), []
    for form in forms:
        code = Code()
        names.append(f"loop{next(_numbers)}")
        texts.append(_loop(names[-1], form, code))
        declarations |= code.declarations
    addresses = native_functions("\n".join([*sorted(declarations), *texts]), names)
    return [_ufunc(form, loop) for form, loop in zip(forms, addresses, strict=True)]


def _loop(name: str, form: Form, code: Code) -> str:
    """Return the loop of a ufunc, in LLVM IR."""
    values = []
    for n, width in enumerate(form.inputs):
        values.append(code.let(f"trunc i8 %i{n} to i1") if width == 1 else f"%i{n}")
    results = write_scalar(code, form.scalar, values, form.inputs, form.outputs, form.negated)
    kept = [
        code.let(f"zext i1 {value} to i8") if width == 1 else value
        for value, width in zip(results, form.outputs, strict=True)
    ]
    read, written = (
        tuple(f"i{max(8, w)}" for w in widths) for widths in (form.inputs, form.outputs)
    )
    return loop_text(name, read, written, code.lines, kept)


def _ufunc(form: Form, loop: int) -> Callable[..., Any]:
    inputs, outputs = (
        [np.dtype(_DTYPES[w]) for w in widths] for widths in (form.inputs, form.outputs)
    )
    return make_ufunc(form.name, loop, inputs, outputs)
