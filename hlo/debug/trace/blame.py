"""Whether an instruction made a NaN or an infinity, or passed on what its operands had."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hlo.analysis.cost import cost_of_instruction
from hlo.debug.trace.leaves import leaves
from hlo.errors import HloError, InferError
from hlo.eval import Interpreter
from hlo.ir import Instruction
from hlo.ops import Category, Trait
from hlo.values.types import ArrayShape, element_type_of

# What moves elements, or picks one of several: a NaN in the result was in an operand.
_MOVES = frozenset({Category.MOVEMENT, Category.STRUCTURE, Category.ASYNC, Category.SORT})
_PICKS = frozenset(
    """parameter constant while conditional call fusion select clamp maximum minimum negate
    real imag complex sign ceil floor round-nearest-afz round-nearest-even dynamic-slice
    dynamic-update-slice gather all-gather all-gather-start all-gather-done all-to-all
    collective-permute collective-permute-start collective-permute-done collective-broadcast
    all-reduce-start ragged-all-to-all send send-done recv-done outfeed infeed recv copy-start
    copy-done rng-bit-generator partition-id replica-id""".split()
)
# Operations of more work are not run again to find out which elements are to blame.
_MOST_WORK = 1 << 32


def may_make(inst: Instruction) -> bool:
    """True for an instruction whose result can have a NaN or infinity that no operand has."""
    if inst.spec.category in _MOVES or inst.opcode in _PICKS:
        return False
    if inst.opcode == "abs":
        # Of a complex number it may overflow.
        return any(
            s.element_type.is_complex for s in inst.operand_shapes if isinstance(s, ArrayShape)
        )
    return any(is_inexact(leaf) for _, leaf in inst.shape.leaves())


def is_inexact(leaf: Any) -> bool:
    """True for the shape of an array of floats or complex numbers."""
    et = getattr(leaf, "element_type", None)
    return et is not None and (et.is_float or et.is_complex)


@dataclass(frozen=True)
class Blame:
    """What an instruction made of operands without it.

    kind: `nan` or `inf`. leaf: the result's index path. index: of the first such element. count:
    how many there are.
    """

    kind: str
    leaf: tuple[int, ...]
    index: tuple[int, ...]
    count: int


def has_nonfinite(value: Any) -> bool:
    """True for a value with a NaN or an infinity."""
    return any(_is_inexact(a) and not _finite(a).all() for _, a in leaves(value))


def blame(inst: Instruction, operands: Sequence[Any], value: Any) -> Blame | None:
    """Return what an instruction made, None if all NaN and infinities are its operands'.

    A NaN is made where no operand has a NaN, of infinities too; an infinity where all operands are
    finite. Of an elementwise operation that is known of each element. Another one is run again
    without what its operands have: what is still there, it made.
    """
    for path, array in leaves(value):
        if not _is_inexact(array):
            continue
        nan = np.isnan(array)
        infinite = ~_finite(array) & ~nan
        for kind, bad in (("nan", nan), ("inf", infinite)):
            if bad.any():
                made = bad & np.logical_not(_passed_on(inst, operands, path, array, kind))
                if made.any():
                    index = np.unravel_index(int(np.argmax(made)), made.shape)
                    return Blame(kind, path, tuple(map(int, index)), int(np.count_nonzero(made)))
    return None


def _passed_on(
    inst: Instruction, operands: Sequence[Any], path: tuple[int, ...], value: np.ndarray, kind: str
) -> Any:
    """Return at which elements the operands may have had it; True and False for all of them."""
    given = [a for o in operands for _, a in leaves(o) if _is_inexact(a)]
    had = [np.isnan(a) if kind == "nan" else ~_finite(a) for a in given]
    if not any(h.any() for h in had):
        return False
    if inst.spec.has(Trait.ELEMENTWISE) and all(a.shape in ((), value.shape) for a in given):
        found = np.zeros(value.shape, bool)
        for h in had:
            found |= h
        return found
    again = _without(inst, operands, kind)
    if again is None:
        return True
    new = dict(leaves(again))[path]
    if new.shape != value.shape:
        return True
    return ~np.isnan(new) if kind == "nan" else _finite(new) | np.isnan(new)


def _without(inst: Instruction, operands: Sequence[Any], kind: str) -> Any:
    """Return the result for operands with ones in place of what they have; None if unknown."""
    if inst.spec.has(Trait.SIDE_EFFECT | Trait.NO_FOLD | Trait.COLLECTIVE):
        return None
    if inst.shape.is_dynamic or any(s.is_dynamic for s in inst.operand_shapes):
        return None
    cost = cost_of_instruction(inst)
    if cost.operations + cost.transcendentals > _MOST_WORK:
        return None
    try:
        with np.errstate(all="ignore"):
            return inst.spec.evaluate(inst, [_clean(o, kind) for o in operands], Interpreter())
    except (HloError, InferError):
        return None


def _clean(value: Any, kind: str) -> Any:
    if isinstance(value, tuple):
        return tuple(_clean(v, kind) for v in value)
    if not isinstance(value, np.ndarray) or not _is_inexact(value):
        return value
    bad = np.isnan(value) if kind == "nan" else ~_finite(value)
    return np.where(bad, np.ones((), value.dtype), value)


def _is_inexact(array: np.ndarray) -> bool:
    et = element_type_of(array.dtype)
    return et.is_float or et.is_complex


def _finite(array: np.ndarray) -> np.ndarray:
    # Narrow types are converted for it, which says of some NaN that they are invalid.
    with np.errstate(invalid="ignore"):
        found: np.ndarray = np.isfinite(array)
    return found
