"""What an instruction does, as a function of arrays of threads' registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hlo.gpu.simt.instructions.code import Code

# Writes the code of one thread: values of the operands' types to values of the results' types.
Emit = Callable[[Code, Sequence[str]], Sequence[str]]


@dataclass(frozen=True)
class Scalar:
    """What a thread computes by itself.

    operands, results: PTX's types. ufunc: numpy's function that does the same to the bits.
    """

    operands: tuple[str, ...]
    results: tuple[str, ...]
    emit: Emit
    ufunc: Callable[..., Any] | None = None


@dataclass(frozen=True)
class Lanes:
    """What the lanes of a warp compute together.

    apply: from which lanes are active and the operands, all of (warps, 32), to the results.
    """

    operands: tuple[str, ...]
    results: tuple[str, ...]
    apply: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Operation:
    """An instruction on registers of certain widths.

    apply: from arrays of bits of the types `operands` to such of `results`; one array, or a tuple
    of several. They are broadcast; nothing is written in place. lanes: apply takes before them
    which lanes are active, and all arrays are of (warps, 32).
    """

    apply: Callable[..., Any]
    operands: tuple[np.dtype[Any], ...]
    results: tuple[np.dtype[Any], ...]
    lanes: bool = False


# Says what an opcode with modifiers does; counts of operands and results, as vectors are opened.
Semantics = Callable[[tuple[str, ...], int, int], Scalar | Lanes]


class UnknownInstruction(Exception):
    """An instruction, or a modifier, that has no semantics here."""
