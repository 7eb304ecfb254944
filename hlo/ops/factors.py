"""Factor rules: which dimensions of operands and results of an operation are the same index.

As in an einsum, each factor is one index of the operation's iteration space; a dimension is the
product of its factors, major to minor. Sharding propagation and the partitioner both read an
operation from its rule: what is cut along a factor is cut alike wherever the factor is. Source:
Shardy's sharding rules (`op_sharding_rule_registry.cc`), document 002.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol

from hlo.values.types import ArrayShape, Shape


class FactorKind(Enum):
    """What cutting an operation along a factor takes. The names are Shardy's.

    PASS_THROUGH: each part of the result is the operation on parts of the operands; a factor of
        operands alone is one that the result does not depend on.
    REDUCTION: of operands alone; parts of them give partial results, which are combined.
    PERMUTATION: a part of the result needs elements of other parts, or where in the whole it is;
        arrays may be of different sizes along it. Of operands alone (the dimensions that a gather
        looks up, the kernel of a convolution) partial results are combined as well.
    NEED_REPLICATION: every part needs all elements along it.
    """

    PASS_THROUGH = "pass_through"
    REDUCTION = "reduction"
    PERMUTATION = "permutation"
    NEED_REPLICATION = "need_replication"


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
        structural: the operation computes nothing itself: it groups values, or runs computations,
            for which `reason` says what stands instead of factors. There are none.
    """

    factors: tuple[Factor, ...]
    operands: tuple[DimFactors, ...]
    results: tuple[DimFactors, ...]
    reason: str = ""
    structural: bool = False

    def with_kinds(self, kinds: Mapping[int, FactorKind]) -> FactorRule:
        """Return the rule with other kinds of some factors, by their numbers."""
        factors = tuple(replace(f, kind=kinds.get(n, f.kind)) for n, f in enumerate(self.factors))
        return replace(self, factors=factors)


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

    Attributes:
        operands, results: the numbers of all of them.
    """

    def __init__(self, op: Shaped) -> None:
        self._factors: list[Factor] = []
        self._operands = [_unknown(s) for s in op.operand_shapes]
        self._results = [_unknown(s) for _, s in op.shape.leaves()]
        self._operand_shapes = list(op.operand_shapes)
        self._result_shapes = [s for _, s in op.shape.leaves()]
        self.operands = range(len(self._operand_shapes))
        self.results = range(len(self._result_shapes))

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

    def pointwise(
        self,
        dims: Iterable[int],
        operands: Sequence[int] = (0,),
        results: Sequence[int] = (0,),
        kind: FactorKind = FactorKind.PASS_THROUGH,
    ) -> None:
        """Add a factor for each of some dimensions, which arrays have in common.

        Its size is the first result's, or else the first operand's.
        """
        shapes = [self._result_shapes[n] for n in results]
        shapes += [self._operand_shapes[n] for n in operands]
        first = shapes[0]
        assert isinstance(first, ArrayShape)
        for dim in dims:
            places = [(n, dim) for n in operands], [(n, dim) for n in results]
            self.add(first.dims[dim], *places, kind)

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


# --- rules that many operations share -------------------------------------------------------------


def whole(reason: str) -> Factors:
    """Return the rule of operations that need all of their operands on each device."""

    def rule(op: Shaped) -> FactorRule:
        return Rule(op).done(reason)

    return rule


def structural(reason: str) -> Factors:
    """Return the rule of operations that only group values or run computations."""

    def rule(op: Shaped) -> FactorRule:
        return FactorRule((), (), (), reason, structural=True)

    return rule


def pointwise(op: Shaped) -> FactorRule:
    """Return the rule of operations whose elements are computed from those at the same index.

    Scalars among the operands go with all elements.
    """
    rule = Rule(op)
    rank = max((s.rank for _, s in op.shape.leaves() if isinstance(s, ArrayShape)), default=0)
    operands = [
        n for n, s in enumerate(op.operand_shapes) if isinstance(s, ArrayShape) and s.rank == rank
    ]
    if rank:
        rule.pointwise(range(rank), operands, rule.results)
    return rule.done()


def forwarded(reason: str) -> Factors:
    """Return the rule of operations that hand on operand 0; of a tuple, that is structural."""
    tuples = structural(reason)

    def rule(op: Shaped) -> FactorRule:
        if not isinstance(op.shape, ArrayShape):
            return tuples(op)
        found = Rule(op)
        found.pointwise(range(op.shape.rank))
        return found.done()

    return rule


def batched(inner: int, reason: str) -> Factors:
    """Return the rule of operations on each slice of the last `inner` dimensions of one operand.

    What stays in shape in there is one factor of operand and result, so that results are cut as
    operands are.
    """

    def rule(op: Shaped) -> FactorRule:
        (operand,) = op.operand_shapes
        (result,) = (s for _, s in op.shape.leaves())
        assert isinstance(operand, ArrayShape) and isinstance(result, ArrayShape)
        found = Rule(op)
        outer = operand.rank - inner
        found.pointwise(range(outer))
        kept = [d for d in range(outer, operand.rank) if operand.dims[d] == result.dims[d]]
        found.pointwise(kept, kind=FactorKind.NEED_REPLICATION)
        return found.done(reason)

    return rule
