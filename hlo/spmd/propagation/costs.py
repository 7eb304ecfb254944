"""What the shardings of an operation cost: bytes that move, and work that is done several times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hlo.ops.factors import FactorKind, FactorRule
from hlo.spmd.assignment import Choices
from hlo.spmd.mesh import Axes, DeviceMesh, PartitionSpec
from hlo.spmd.propagation.state import Edge
from hlo.spmd.redistribution.reshard import moved_bytes

# Cut along a dimension that elements move along, these exchange what is near the ends of shards.
_HALOS = frozenset(
    {
        "convolution", "reduce-window", "select-and-scatter", "pad", "slice", "concatenate",
        "reverse", "dynamic-slice", "dynamic-update-slice",
    }
)  # fmt: skip
# The part of an array that is near the ends of its shards, as a guess.
_HALO = 1 / 8

Dims = tuple[Axes, ...]


@dataclass(frozen=True, slots=True)
class EdgeCost:
    """The cost of an edge, for one run of its instruction.

    Attributes:
        moved: the bytes that a device receives.
        work: what it computes, in the bytes that it could receive in that time.
        operands: the changes of distribution of operands that are part of `moved`: the number of
            the array, the axes that it is cut along then, and the bytes. Other instructions may
            need the same.
    """

    moved: float
    work: float
    operands: tuple[tuple[int, Dims, float], ...] = ()


class EdgeCosts:
    """The costs of edges, by the axes that cut their arrays; equal ones are found once."""

    def __init__(self, mesh: DeviceMesh) -> None:
        self.mesh = mesh
        self._kinds: dict[object, int] = {}
        self._known: dict[tuple[int, tuple[Dims, ...]], EdgeCost] = {}

    def kind(self, edge: Edge) -> int:
        """Return a number that edges have in common whose costs are the same."""
        shapes = tuple((v.shape.element_type, v.shape.dims) for v in edge.arrays)
        key = (edge.is_flow, edge.inst.opcode, edge.table, edge.factors, edge.num_operands,
               edge.prefix, shapes)  # fmt: skip
        return self._kinds.setdefault(key, len(self._kinds))

    def cost(self, edge: Edge, kind: int, cut: tuple[Dims, ...]) -> EdgeCost:
        """Return the cost of an edge.

        kind: of the edge. cut: the axes of each of its arrays.
        """
        key = kind, cut
        if key not in self._known:
            self._known[key] = self._cost(edge, cut)
        return self._known[key]

    def _cost(self, edge: Edge, cut: tuple[Dims, ...]) -> EdgeCost:
        # In a manual region or outside, the other axes are cut alike.
        specs = [PartitionSpec(dims) for dims in cut]
        if edge.is_flow:
            return EdgeCost(self._flow(edge, specs), 0.0)
        known = [(v.shape, spec) for v, spec in zip(edge.arrays, specs, strict=True)]
        n = edge.num_operands
        kinds = {FactorKind.PASS_THROUGH, FactorKind.REDUCTION}
        if edge.inst.opcode in _HALOS:
            kinds.add(FactorKind.PERMUTATION)
        rule = FactorRule(edge.table, edge.factors[:n], edge.factors[n:])
        choices = Choices(self.mesh, rule, known[:n], known[n:], kinds)
        best = choices.best()
        work = choices.work(best)
        moved = choices.cost(best) - work
        if any(edge.table[f].kind is FactorKind.PERMUTATION for f in best) and n:
            shape, _ = known[0]
            spec = choices.spec(edge.factors[0], best)
            moved += _HALO * self.mesh.local_shape(shape, spec).byte_size
        operands = []
        for i, (shape, spec) in enumerate(known[:n]):
            target = choices.spec(edge.factors[i], best)
            bytes_ = moved_bytes(self.mesh, shape, spec, target)
            if bytes_:
                operands.append((i, target.dims, float(bytes_)))
        return EdgeCost(moved, work, tuple(operands))

    def _flow(self, edge: Edge, specs: Sequence[PartitionSpec]) -> float:
        source, target = edge.arrays
        if edge.prefix is None:
            return moved_bytes(self.mesh, source.shape, specs[0], specs[1])
        # Into a manual region or out of it: what is cut along other axes than those of the region.
        before, after = (
            PartitionSpec(tuple(a[len(p) :] for a, p in zip(spec.dims, lead, strict=True)))
            for spec, lead in zip(specs, edge.prefix, strict=True)
        )
        inner = min(source, target, key=lambda v: v.bytes)
        return moved_bytes(self.mesh, inner.shape, before, after)
