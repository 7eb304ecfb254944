"""Which microkernels there are for a target and element types."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

from hlo.codegen.kernels.matmul.microkernels.record import Microkernel
from hlo.codegen.targets.base import LlvmTarget
from hlo.values.types import ElementType

# Yields the microkernels of one kind for a target and the types of A, B and the sums.
Family = Callable[[LlvmTarget, ElementType, ElementType, ElementType], Iterable[Microkernel]]

_FAMILIES: list[Family] = []


def family(yields: Family) -> Family:
    """Register a family of microkernels."""
    _FAMILIES.append(yields)
    return yields


def fits(et: ElementType, panel: ElementType) -> bool:
    """True when an integer type has every value of a type."""
    if et.is_pred or not et.is_integer:
        return et.is_pred
    if not panel.is_signed:
        return not et.is_signed and et.bits <= panel.bits
    return et.bits <= panel.bits - (not et.is_signed)


def suits(
    panels: tuple[ElementType, ElementType], lhs: ElementType, rhs: ElementType, total: ElementType
) -> bool:
    """True when a unit for panels of two types multiplies operands of some types, summed in total.

    Integers go to panels that have all of their values; floats are summed in f32 as they are.
    """
    left, right = panels
    if left.is_float:
        return lhs is left and rhs is right and total.name == "f32"
    return total.is_integer and fits(lhs, left) and fits(rhs, right)


def microkernels(
    target: LlvmTarget, lhs: ElementType, rhs: ElementType, total: ElementType
) -> tuple[Microkernel, ...]:
    """Return the microkernels that a target can run for products of some element types.

    lhs, rhs: the types of the operands as they lie in memory; total: that of the sums. For any
    types that products are computed in there is at least one. Which is best for a product is a
    matter of its sizes and strides, see `scheduler.best_schedule`.
    """
    return _enumerated(tuple(_FAMILIES), target, lhs, rhs, total)


@lru_cache(maxsize=256)
def _enumerated(
    families: tuple[Family, ...],
    target: LlvmTarget,
    lhs: ElementType,
    rhs: ElementType,
    total: ElementType,
) -> tuple[Microkernel, ...]:
    found = (kernel for f in families for kernel in f(target, lhs, rhs, total))
    return tuple(kernel for kernel in found if kernel.features <= target.features)
