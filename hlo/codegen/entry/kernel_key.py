"""What a kernel is made from, as text: equal for kernels of equal code, in whatever module.

With it the object code of a kernel is found before the kernel is written. It has all that the
kernel's emitter sees: the step of the plan with its values, and the structure of the instruction
with what is fused into it. What there is no text for has no key.
"""

from __future__ import annotations

import enum
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

import numpy as np

from hlo.codegen.loops.kernel import KernelEmitter
from hlo.ir import Instruction
from hlo.values.types import ElementType

# Only code of this package is known to change with its version.
_PACKAGE = __name__.partition(".")[0]


class _NoKey(Exception):
    """A value that has no text."""


def step_key(step: KernelEmitter, numbers: Mapping[Instruction, str]) -> str | None:
    """Return a step of a plan as text, or None if it has values that have none.

    numbers: what the instructions of the kernel are called.
    """
    try:
        return _text(step, numbers)
    except _NoKey:
        return None


def _text(value: Any, numbers: Mapping[Instruction, str]) -> str:
    if value is None or isinstance(value, bool | int | float | str | range):
        return repr(value)
    if isinstance(value, ElementType):
        return value.name
    if isinstance(value, Instruction):
        if value not in numbers:
            raise _NoKey
        return numbers[value]
    if isinstance(value, enum.Enum):
        return f"{_name(type(value))}.{value.name}"
    if isinstance(value, types.FunctionType | type):
        return _name(value)
    if isinstance(value, tuple | list):
        return f"({','.join([_text(v, numbers) for v in value])})"
    if isinstance(value, set | frozenset):
        return f"{{{','.join(sorted([_text(v, numbers) for v in value]))}}}"
    if isinstance(value, Mapping):
        pairs = [f"{_text(k, numbers)}:{_text(v, numbers)}" for k, v in value.items()]
        return f"{{{','.join(pairs)}}}"
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}{value.tobytes().hex()}"
    if is_dataclass(value):
        kind: type = type(value)
        parts = [_text(getattr(value, name), numbers) for name in _fields(kind)]
        return f"{_name(kind)}({','.join(parts)})"
    raise _NoKey


@cache
def _fields(kind: type) -> tuple[str, ...]:
    """Return the fields that tell values apart: what the others hold follows from them."""
    return tuple(f.name for f in fields(kind) if f.compare)


@cache
def _name(value: Any) -> str:
    """Return the name of a class or function of this package that all modules can see."""
    name = f"{value.__module__}.{value.__qualname__}"
    if value.__module__.partition(".")[0] != _PACKAGE or "<" in name:
        raise _NoKey
    return name
