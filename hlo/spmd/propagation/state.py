"""What propagation works on: the arrays of a module, and what ties their shardings together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Flag, auto

from hlo.ir import Instruction
from hlo.ops.factors import DimFactors, Factor
from hlo.spmd.mesh import Axes, DeviceMesh, PartitionSpec
from hlo.values.sharding import Sharding
from hlo.values.types import ArrayShape


class Direction(Flag):
    """Where shardings may go across an operation."""

    NONE = 0
    FORWARD = auto()  # from operands to results
    BACKWARD = auto()  # from results to operands
    BOTH = FORWARD | BACKWARD


@dataclass(eq=False, slots=True)
class Value:
    """An array, wherever the module holds it: one sharding for all of these places.

    The state of a loop, for example, is one value: result, parameters, and the result of its body.

    Attributes:
        inst: the instruction that it is named after, with the number of its leaf.
        dims: the axes that cut each dimension so far.
        open: the dimensions that propagation may cut further.
        taken: the axes that cannot cut it any more, as a bit mask: those of `dims`, manual axes,
            and those that an annotation keeps it replicated along.
        off: the axes that never cut it, as a bit mask.
        edges: the numbers of the edges that it is in.
        origins: for each dimension, where its axes came from; empty for none.
        is_fixed: an annotation says all of it: nothing may change it.
        is_bound: only propagation may change it, costs may not: it is annotated, or outside.
        said: the sharding that the annotation has, where it says all.
    """

    index: int
    inst: Instruction
    leaf: int
    shape: ArrayShape
    dims: list[Axes]
    open: list[bool]
    origins: list[str]
    manual: Axes = ()
    taken: int = 0
    off: int = 0
    is_fixed: bool = False
    is_bound: bool = False
    said: Sharding | None = None
    edges: list[int] = field(default_factory=list)
    bytes: int = field(init=False)

    def __post_init__(self) -> None:
        self.bytes = self.shape.byte_size

    @property
    def spec(self) -> PartitionSpec:
        """The sharding so far."""
        return PartitionSpec(tuple(self.dims), self.manual)

    def cut(self, dim: int, axes: Axes, origin: str) -> None:
        """Set the axes of a dimension."""
        self.dims[dim] = axes
        for axis in axes:
            self.taken |= 1 << axis
        self.origins[dim] = origin

    def keep_off(self, axes: Sequence[int]) -> None:
        """Never cut the value along axes."""
        for axis in axes:
            self.taken |= 1 << axis
            self.off |= 1 << axis


@dataclass(eq=False, slots=True)
class Edge:
    """An operation, or a flow of data, between values: their common factors.

    Attributes:
        arrays: the values, operands first.
        factors: for each of the values, those of each dimension.
        numbers: the number of each value among the operands, or the leaves of the result.
        num_operands: how many of the values are operands.
        allowed: the directions that a barrier leaves open.
        is_uniform: all of the values have the same factors in the same dimensions.
        prefix: for each value and dimension, manual axes that come before those of the factors: of
            the array outside of a manual region; None without such.
    """

    index: int
    inst: Instruction
    arrays: tuple[Value, ...]
    factors: tuple[DimFactors, ...]
    table: tuple[Factor, ...]
    numbers: tuple[int, ...]
    num_operands: int
    is_flow: bool = False
    allowed: Direction = Direction.BOTH
    prefix: tuple[tuple[Axes, ...], ...] | None = None
    is_uniform: bool = field(init=False)

    def __post_init__(self) -> None:
        self.is_uniform = self.prefix is None and len(set(self.factors)) == 1

    @property
    def is_settled(self) -> bool:
        """True when nothing can propagate, as all values are cut alike, or none is."""
        if not self.is_uniform:
            return not any(any(v.dims) for v in self.arrays)
        first = self.arrays[0].dims
        return all(v.dims == first for v in self.arrays)


@dataclass(eq=False)
class Graph:
    """The values of a module by the leaves of its instructions, and their edges.

    Attributes:
        later: axes of annotations that propagate from a later round on: priority, value, dimension,
            axes, and whether the dimension is open.
    """

    mesh: DeviceMesh
    values: list[Value] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    leaves: dict[Instruction, list[Value | None]] = field(default_factory=dict)
    later: list[tuple[int, Value, int, Axes, bool]] = field(default_factory=list)

    def connect(
        self,
        inst: Instruction,
        arrays: Sequence[Value],
        factors: Sequence[DimFactors],
        table: tuple[Factor, ...],
        numbers: Sequence[int],
        num_operands: int,
        *,
        is_flow: bool = False,
        allowed: Direction = Direction.BOTH,
        prefix: tuple[tuple[Axes, ...], ...] | None = None,
    ) -> None:
        """Add an edge."""
        edge = Edge(len(self.edges), inst, tuple(arrays), tuple(factors), table, tuple(numbers),
                    num_operands, is_flow, allowed, prefix)  # fmt: skip
        self.edges.append(edge)
        for value in {id(v): v for v in arrays}.values():
            value.edges.append(edge.index)

    def flow(
        self,
        inst: Instruction,
        source: Value,
        target: Value,
        allowed: Direction = Direction.BOTH,
        prefix: tuple[tuple[Axes, ...], ...] | None = None,
    ) -> None:
        """Add an edge from one value to another of as many dimensions, each its own factor."""
        if source is target:
            return
        # Of a pair of sizes, inside and outside of a manual region, the smaller is cut.
        sizes = map(min, source.shape.dims, target.shape.dims)
        dims = tuple((d,) for d in range(len(target.dims)))
        self.connect(inst, (source, target), (dims, dims), tuple(map(Factor, sizes)), (0, 0),
                     1, is_flow=True, allowed=allowed, prefix=prefix)  # fmt: skip
