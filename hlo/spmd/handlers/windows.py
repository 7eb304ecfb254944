"""Dimensions under windows: what each device needs of an operand for its windows.

Positions are those of the operand with holes between its elements (base dilation), padding not
counted: element i is at i * hole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hlo.ir import Instruction
from hlo.ops.attrs import WindowDim
from hlo.ops.factors import FactorKind, FactorRule
from hlo.spmd.builder import SpmdBuilder
from hlo.spmd.halo.exchange import Reach, exchange
from hlo.spmd.halo.slots import Fill, by_device, cut_out, index_along, padded
from hlo.spmd.handlers.by_factors import Partial, Share, by_factors
from hlo.spmd.handlers.registry import Wanted
from hlo.spmd.mesh import Axes
from hlo.spmd.value import Sharded, Unsharded, Value
from hlo.values.types import PRED, S32, ArrayShape


@dataclass(frozen=True)
class Positions:
    """The positions of a dimension that each device needs.

    Attributes:
        axes: the mesh axes that devices differ along; what follows is by the coordinate along them.
        starts: the first position: int64[devices].
        counts: how many are needed: int64[devices].
        length: how many each device gets.
        hole: the distance of elements.
    """

    axes: Axes
    starts: np.ndarray
    counts: np.ndarray
    length: int
    hole: int = 1

    def first(self) -> np.ndarray:
        """Return the first element at or behind where positions start."""
        return -(-self.starts // self.hole)

    def reach(self) -> Reach:
        """Return the elements at the positions."""
        first = self.first()
        end = (self.starts + self.counts - 1) // self.hole + 1
        size = (self.starts + self.length - 1) // self.hole + 1 - first
        return Reach(
            self.axes, first, np.where(self.counts > 0, end - first, 0), max(0, int(size.max()))
        )

    def is_inside(self, size: int) -> bool:
        """True when there is an element of a dimension at each needed position."""
        need = self.counts > 0
        last = (self.starts + self.counts)[need]
        return self.hole == 1 and bool(np.all(self.starts[need] >= 0) and np.all(last <= size))


@dataclass(frozen=True)
class Elements:
    """What a device has for its positions: elements, to be padded and spread out.

    padding: of the elements to make them the positions.
    """

    local: Instruction
    padding: WindowDim


def positions_of(b: SpmdBuilder, window: WindowDim, count: int, axes: Axes) -> Positions:
    """Return the positions under the windows of each device, which are `count` cut along axes."""
    share = b.mesh.shard_size(count, axes)
    first = np.arange(b.mesh.count(axes)) * share
    windows = np.clip(count - first, 0, share)
    reach = window.dilated_size()
    return Positions(
        axes,
        first * window.stride - window.pad_low,
        np.where(windows > 0, (windows - 1) * window.stride + reach, 0),
        max(0, (share - 1) * window.stride + reach) if share else 0,
        window.lhs_dilate,
    )


def elements_at(
    b: SpmdBuilder, value: Sharded, dim: int, positions: Positions, fill: Fill | None
) -> Elements:
    """Append the exchange of what devices need of a dimension for their positions.

    fill: what elements outside of the dimension, and holes, are; by default unspecified.
    """
    reach, hole, length = positions.reach(), positions.hole, positions.length
    local = exchange(b, value, dim, reach, fill)
    phases = positions.first() * hole - positions.starts
    need = positions.counts > 0
    phases = np.where(need, phases, phases[np.argmax(need)])
    phase = by_device(b, positions.axes, phases)
    extent = max(0, (reach.size - 1) * hole + 1)
    if isinstance(phase, int):
        # Of the last hole and what follows it nothing is there.
        return Elements(
            local, WindowDim(pad_low=phase, pad_high=length - phase - extent, lhs_dilate=hole)
        )
    most = int(phases.max())
    high = most + length - most - extent + most
    spread = padded(b, local, dim, most, max(0, high), 0 if fill is None else fill, hole - 1)
    return Elements(
        cut_out(b, spread, dim, by_device(b, positions.axes, most - phases), length), WindowDim()
    )


def presence(
    b: SpmdBuilder, local: Instruction, dim: int, positions: Positions, at: Elements, size: int
) -> Instruction:
    """Append which of the elements of a device are elements of the dimension: pred.

    at: how they were made. size: of the dimension.
    """
    spread = at.padding.lhs_dilate == 1 and positions.hole > 1
    starts = positions.starts if spread else positions.first()
    index = index_along(b, local, dim, by_device(b, positions.axes, starts))
    shape = index.array_shape

    def compare(x: Instruction, limit: int, direction: str) -> Instruction:
        bound = b.filled(S32, shape.dims, limit)
        return b.op("compare", x, bound, shape=shape.with_type(PRED), direction=direction)

    end = (size - 1) * positions.hole + 1 if spread else size
    tests = [compare(index, 0, "GE"), compare(index, end, "LT")]
    if spread:
        hole = b.filled(S32, shape.dims, positions.hole)
        tests.append(compare(b.op("remainder", index, hole, shape=shape), 0, "EQ"))
    found = tests[0]
    for test in tests[1:]:
        found = b.op("and", found, test, shape=found.shape)
    return found


def by_windows(
    b: SpmdBuilder, inst: Instruction, operands: Sequence[Value], wanted: Wanted, share: Share,
    partial: Partial | None = None, rule: FactorRule | None = None,
) -> Value:  # fmt: skip
    """Partition an operation whose elements move along PERMUTATION factors. See `by_factors`.

    share: makes the exchange. What varies in size is not cut where its elements move. Operands are
    not cut where they are whole and elements would move: a device has all it needs there.
    """
    if varies_in_size(inst):
        return by_factors(b, inst, operands, wanted)
    rule = rule or inst.spec.factors(inst)
    dims = []
    for value, old in zip(operands, rule.operands, strict=True):
        if isinstance(value, Sharded):
            old = tuple(
                ()
                if not axes and any(rule.factors[f].kind is FactorKind.PERMUTATION for f in factors)
                else factors
                for factors, axes in zip(old, value.spec.dims, strict=True)
            )
        dims.append(old)
    rule = replace(rule, operands=tuple(dims))
    return by_factors(b, inst, operands, wanted, partial, rule, share)


def varies_in_size(inst: Instruction) -> bool:
    """True when an operand or a result is dynamic."""
    shapes = (s for shape in (inst.shape, *inst.operand_shapes) for _, s in shape.leaves())
    return any(isinstance(s, ArrayShape) and s.is_dynamic for s in shapes)


def array_of(part: Sharded | Unsharded) -> Sharded:
    """Return an operand that is an array."""
    assert isinstance(part, Sharded)
    return part
