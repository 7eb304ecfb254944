"""Factor rules: which dimensions of operands and results of an operation are the same index.

As in an einsum, each factor is one index of the operation's iteration space; a dimension is the
product of its factors, major to minor. Sharding propagation and the partitioner both read an
operation from its rule: what is cut along a factor is cut alike wherever the factor is. Source:
Shardy's sharding rules (`op_sharding_rule_registry.cc`), document 002.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from hlo.values.types import ArrayShape, Shape


class FactorKind(Enum):
    """What cutting an operation along a factor takes. The names are Shardy's."""

    PASS_THROUGH = "pass_through"  # each part is the operation on parts of the operands
    REDUCTION = "reduction"  # in operands only: each part gives a partial result of all elements
    PERMUTATION = "permutation"  # elements move along it: parts need those of their neighbours
    NEED_REPLICATION = "need_replication"  # each device needs all of it


@dataclass(frozen=True, slots=True)
class Factor:
    """One index of an operation's iteration space, from 0 to `size` - 1."""

    size: int
    kind: FactorKind = FactorKind.PASS_THROUGH


DimFactors = tuple[tuple[int, ...], ...]
"""For each dimension of an array, the numbers of its factors, major to minor; a dimension of size 1
that is broadcast, or that no other array has, may have none."""


@dataclass(frozen=True, slots=True)
class FactorRule:
    """The factors of an operation, and which of them each array has.

    Attributes:
        operands: for each operand; for one that is not an array, no dimensions.
        results: for each leaf of the result.
        reason: why factors of kind NEED_REPLICATION are; empty without such.
    """

    factors: tuple[Factor, ...]
    operands: tuple[DimFactors, ...]
    results: tuple[DimFactors, ...]
    reason: str = ""


Factors = Callable[..., FactorRule]
"""The rule of an operation, from an `OpView`: its shapes and attributes."""


class Shaped(Protocol):
    """What has operands and a result."""

    shape: Shape

    @property
    def operand_shapes(self) -> Sequence[Shape]: ...


class Rule:
    """Collects the factors of one operation.

    Dimensions that are not given to any factor become factors of their own at `done`, of the kind
    NEED_REPLICATION.
    """

    def __init__(self, op: Shaped) -> None:
        self._factors: list[Factor] = []
        self._operands = [_unknown(s) for s in op.operand_shapes]
        self._results = [_unknown(s) for _, s in op.shape.leaves()]
        self._operand_shapes = list(op.operand_shapes)
        self._result_shapes = [s for _, s in op.shape.leaves()]

    def add(
        self,
        size: int,
        operands: Sequence[tuple[int, int]] = (),
        results: Sequence[tuple[int, int]] = (),
        kind: FactorKind = FactorKind.PASS_THROUGH,
    ) -> int:
        """Add a factor as the next minor one of dimensions; returns its number.

        operands, results: pairs of an array's number and a dimension.
        """
        self._factors.append(Factor(size, kind))
        number = len(self._factors) - 1
        for arrays, places in ((self._operands, operands), (self._results, results)):
            for n, dim in places:
                arrays[n][dim] = (*(arrays[n][dim] or ()), number)
        return number

    def none(
        self, operands: Sequence[tuple[int, int]] = (), results: Sequence[tuple[int, int]] = ()
    ) -> None:
        """State that dimensions, of size 1, have no factor."""
        for arrays, places in ((self._operands, operands), (self._results, results)):
            for n, dim in places:
                arrays[n][dim] = ()

    def done(self, reason: str = "") -> FactorRule:
        """Return the rule. reason: why dimensions without a factor must be whole."""
        rest = False
        for arrays, shapes in (
            (self._operands, self._operand_shapes),
            (self._results, self._result_shapes),
        ):
            for dims, shape in zip(arrays, shapes, strict=True):
                for dim, factors in enumerate(dims):
                    if factors is None:
                        assert isinstance(shape, ArrayShape)
                        self._factors.append(Factor(shape.dims[dim], FactorKind.NEED_REPLICATION))
                        dims[dim] = (len(self._factors) - 1,)
                        rest = True
        whole = rest or any(f.kind is FactorKind.NEED_REPLICATION for f in self._factors)
        return FactorRule(
            tuple(self._factors),
            tuple(tuple(f or () for f in dims) for dims in self._operands),
            tuple(tuple(f or () for f in dims) for dims in self._results),
            reason if whole else "",
        )


def _unknown(shape: Shape) -> list[tuple[int, ...] | None]:
    return [None] * (shape.rank if isinstance(shape, ArrayShape) else 0)


def whole(reason: str) -> Factors:
    """Return the rule of operations that need all of their operands on each device."""

    def rule(op: Shaped) -> FactorRule:
        return Rule(op).done(reason)

    return rule
