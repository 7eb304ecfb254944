"""Which mesh axes the factors of an operation are cut along."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hlo.ops.factors import DimFactors, FactorKind, FactorRule
from hlo.spmd.mesh import Axes, DeviceMesh, PartitionSpec
from hlo.spmd.redistribution.reshard import moved_bytes
from hlo.values.types import ArrayShape

Assignment = Mapping[int, Axes]
"""The axes of each factor that is cut."""

# A device computes so many operations in the time in which it receives a byte: of two ways that
# move almost as much, that is better which computes nothing twice.
_OPERATIONS_PER_BYTE = 64


@dataclass(frozen=True)
class Choices:
    """What an operation has to choose an assignment for.

    Attributes:
        rule: of the operation on the whole arrays.
        operands: shape and present spec of each operand; None for one that is no array.
        results: shape and wanted spec of each leaf of the result.
        kinds: the kinds of factors that may be cut.
    """

    mesh: DeviceMesh
    rule: FactorRule
    operands: Sequence[tuple[ArrayShape, PartitionSpec] | None]
    results: Sequence[tuple[ArrayShape, PartitionSpec] | None]
    kinds: Collection[FactorKind]

    def best(self) -> dict[int, Axes]:
        """Return the assignment of least cost; the first of several in a fixed order."""
        best: dict[int, Axes] | None = None
        least = 0.0
        for candidate in self.candidates():
            cost = self.cost(candidate)
            if best is None or cost < least:
                best, least = candidate, cost
        assert best is not None
        return best

    def spec(self, dims: DimFactors, assignment: Assignment, manual: Axes = ()) -> PartitionSpec:
        """Return the spec of an array whose dimensions have factors."""
        return PartitionSpec(tuple(self._axes(d, assignment) for d in dims), manual)

    # --- candidates -------------------------------------------------------------------------------

    def candidates(self) -> Iterator[dict[int, Axes]]:
        """Yield the assignments that operands and results suggest, and that of nothing cut."""
        rule = self.rule
        sources = []
        for dims, known in (*zip(rule.results, self.results, strict=True),
                            *zip(rule.operands, self.operands, strict=True)):  # fmt: skip
            if known is not None:
                found = self._project(dims, known[1])
                if found and found not in sources:
                    sources.append(found)
        tried: list[dict[int, Axes]] = []
        reductions = {n for n, f in enumerate(rule.factors) if f.kind is FactorKind.REDUCTION}
        for first in sources:
            merged = dict(first)
            for other in sources:
                self._merge(merged, other)
            for candidate in (merged, first):
                # Without the reductions, operands are gathered instead of partial results reduced.
                for dropped in ((), reductions):
                    kept = {f: a for f, a in candidate.items() if f not in dropped}
                    kept = self._expressible(kept)
                    if kept not in tried:
                        tried.append(kept)
                        yield kept
        if {} not in tried:
            yield {}

    def _project(self, dims: DimFactors, spec: PartitionSpec) -> dict[int, Axes]:
        """Return the axes that a spec of an array gives to its factors."""
        found: dict[int, Axes] = {}
        for factors, axes in zip(dims, spec.dims, strict=True):
            for factor, along in self._spread(factors, axes).items():
                if self.rule.factors[factor].kind in self.kinds and factor not in found:
                    found[factor] = along
        return found

    def _spread(self, factors: tuple[int, ...], axes: Axes) -> dict[int, Axes]:
        """Distribute the axes of a dimension over its factors, major to minor."""
        sizes = self.rule.factors
        real = [f for f in factors if sizes[f].size != 1]
        if len(real) == 1:
            return {real[0]: axes} if axes else {}
        found: dict[int, Axes] = {}
        rest = list(axes)
        for factor in real:
            taken: list[int] = []
            while rest and sizes[factor].size % self.mesh.count([*taken, rest[0]]) == 0:
                taken.append(rest.pop(0))
            if taken:
                found[factor] = tuple(taken)
            if self.mesh.count(taken) != sizes[factor].size:
                break
        return found

    def _merge(self, into: dict[int, Axes], other: Assignment) -> None:
        """Add the axes of another assignment as far as they contradict nothing."""
        for factor, axes in other.items():
            have = into.get(factor, ())
            if axes[: len(have)] != have:
                continue
            used = {a for f, along in into.items() if f != factor for a in along}
            taken = list(have)
            for axis in axes[len(have) :]:
                if axis in used:
                    break
                taken.append(axis)
            if taken:
                into[factor] = tuple(taken)

    def _expressible(self, assignment: dict[int, Axes]) -> dict[int, Axes]:
        """Return the part of an assignment that specs of all arrays can express."""
        kept = dict(assignment)
        while True:
            dropped = False
            for dims in (*self.rule.operands, *self.rule.results):
                for factors in dims:
                    for factor in self._not_expressible(factors, kept):
                        del kept[factor]
                        dropped = True
            if not dropped:
                return kept

    def _not_expressible(self, factors: tuple[int, ...], assignment: Assignment) -> list[int]:
        """Return the factors of a dimension whose cut leaves parts that are no shards of it."""
        sizes = self.rule.factors
        real = [f for f in factors if sizes[f].size != 1]
        if len(real) < 2:
            return [f for f in factors if f in assignment and f not in real]
        wrong = [f for f in factors if f in assignment and f not in real]
        is_cut_up = True  # all major factors are cut into single elements
        for factor in real:
            count = self.mesh.count(assignment.get(factor, ()))
            if count > 1 and (not is_cut_up or sizes[factor].size % count):
                wrong.append(factor)
                count = 1
            is_cut_up = is_cut_up and count == sizes[factor].size
        return wrong

    def _axes(self, factors: tuple[int, ...], assignment: Assignment) -> Axes:
        return tuple(a for f in factors for a in assignment.get(f, ()))

    # --- cost -------------------------------------------------------------------------------------

    def cost(self, assignment: Assignment) -> float:
        """Return the bytes that a device receives, and what it computes in their measure."""
        rule, mesh = self.rule, self.mesh
        cost = 0.0
        for dims, known in zip(rule.operands, self.operands, strict=True):
            if known is not None:
                shape, spec = known
                cost += moved_bytes(mesh, shape, spec, self.spec(dims, assignment, spec.manual))
        reduced = self.reduced_axes(assignment)
        for dims, known in zip(rule.results, self.results, strict=True):
            if known is not None:
                shape, wanted = known
                spec = self.spec(dims, assignment, wanted.manual)
                scattered = scatter_target(mesh, shape, spec, wanted, reduced)
                if reduced:
                    whole = mesh.local_shape(shape, spec).byte_size
                    cost += whole if scattered is None else whole / mesh.count(reduced)
                cost += moved_bytes(mesh, shape, scattered or spec, wanted)
        return cost + self.work(assignment)

    def work(self, assignment: Assignment) -> float:
        """Return what a device computes, in bytes that it could receive in that time."""
        rule = self.rule
        work = 2.0 if any(f.kind is FactorKind.REDUCTION for f in rule.factors) else 1.0
        for number, factor in enumerate(rule.factors):
            work *= self.mesh.shard_size(factor.size, assignment.get(number, ()))
        return work / _OPERATIONS_PER_BYTE

    def reduced_axes(self, assignment: Assignment) -> Axes:
        """Return the axes over which partial results have to be reduced."""
        return tuple(
            a for f, axes in sorted(assignment.items())
            if self.rule.factors[f].kind is FactorKind.REDUCTION for a in axes
        )  # fmt: skip


def scatter_target(
    mesh: DeviceMesh, shape: ArrayShape, spec: PartitionSpec, wanted: PartitionSpec, reduced: Axes
) -> PartitionSpec | None:
    """Return the spec after a reduce-scatter of partial results over axes, if that is on the way.

    spec: of the partial results. wanted: what the result is to become.
    """
    if not reduced:
        return None
    for dim, axes in enumerate(wanted.dims):
        have = spec.dims[dim]
        more = axes[len(have) :]
        if axes[: len(have)] == have and set(more[: len(reduced)]) == set(reduced):
            along = axes[: len(have) + len(reduced)]
            if shape.dims[dim] % mesh.count(along) == 0:
                return spec.with_dim(dim, along)
    return None
