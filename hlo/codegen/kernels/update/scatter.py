"""Scatter: windows of updates combined into the result, whose buffer already contains the operand.

Updates are applied in row-major order, each in memory order. Threads divide what cannot overlap:
the positions along batching dimensions, and ranges of the operand along a dimension in which a
window has one element. A thread with a range reads all indices and skips the others, so that
updates of the same element are always combined in the same order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from hlo.analysis.fusion.roles import Role
from hlo.codegen.kernels.reduce.combiner import element_type
from hlo.codegen.llvm import TRUE, Index, Val
from hlo.codegen.loops.address import physical_index
from hlo.codegen.loops.inline import inline
from hlo.codegen.loops.kernel import Kernel, loop_nest, planner, split_index
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.scalar.operations import Value
from hlo.codegen.targets.base import Extent, Plan, Target
from hlo.ir import Instruction
from hlo.ops.movement.gather_scatter import index_dims
from hlo.ops.movement.gather_scatter_eval import IndexDims
from hlo.values.layout.plain import loop_order
from hlo.values.types import ArrayShape

# The maximum number of ranges of the operand, and the elements of a window that make reading all
# indices once more worthwhile.
_RANGES, _WINDOW_PER_RANGE = 16, 8


@dataclass(frozen=True)
class Scatter:
    """The dimensions of a scatter."""

    inst: Instruction

    @property
    def count(self) -> int:
        """The number of operands."""
        return len(self.inst.operands) // 2

    @property
    def indices(self) -> Instruction:
        return self.inst.operands[self.count]

    @property
    def updates(self) -> list[Instruction]:
        return self.inst.operands[self.count + 1 :]

    @cached_property
    def results(self) -> list[ArrayShape]:
        return [s for _, s in self.inst.shape.leaves() if isinstance(s, ArrayShape)]

    @property
    def dims(self) -> tuple[int, ...]:
        return self.results[0].dims

    @cached_property
    def update_dims(self) -> tuple[int, ...]:
        return self.updates[0].array_shape.dims

    @cached_property
    def select(self) -> IndexDims:
        """How the indices select windows."""
        return index_dims(self.inst)

    @cached_property
    def window(self) -> dict[int, int]:
        """The dimension of the updates for each operand dimension of a window."""
        kept = self.select.window_dims(len(self.dims))
        return dict(zip(kept, self.inst.update_window_dims, strict=True))

    def size(self, d: int) -> int:
        """Return the size of a window in a dimension of the operand."""
        return self.update_dims[self.window[d]] if d in self.window else 1

    @cached_property
    def batch(self) -> list[int]:
        """The dimensions of the updates that number windows."""
        windows = set(self.inst.update_window_dims)
        return [d for d in range(len(self.update_dims)) if d not in windows]

    @cached_property
    def batching(self) -> dict[int, int]:
        """The dimension of the updates along which each batching dimension of the operand runs."""
        return {d: self.batch[axis] for d, axis in self.select.batching.items()}

    @cached_property
    def ranged(self) -> int | None:
        """The dimension of the operand that may be cut into ranges."""
        single = [d for d in self.select.index_map if self.size(d) == 1 and self.dims[d] > 1]
        return max(single, key=lambda d: self.dims[d], default=None)

    @cached_property
    def ranges(self) -> int:
        if self.ranged is None:
            return 1
        volume = math.prod(self.size(d) for d in range(len(self.dims)))
        return max(1, min(_RANGES, volume // _WINDOW_PER_RANGE, self.dims[self.ranged]))


@planner("scatter")
def plan_scatter(inst: Instruction, _: Mapping[Instruction, Role], __: Target) -> Plan:
    """Plan nothing if there is nothing to combine."""
    s = Scatter(inst)
    return Plan((_scatter,) if math.prod(s.update_dims) and math.prod(s.dims) else ())


def _scatter(k: Kernel) -> Extent:
    """Combine the windows in this chunk's part of the operand."""
    s, b = Scatter(k.inst), k.b
    shared = list(s.batching.values())
    ordered = [d for d in s.batch if d not in shared]
    parts = math.prod(s.update_dims[d] for d in shared)
    with b.loop(k.begin, k.end) as share:
        part, number = split_index(b, share, [parts, s.ranges])
        fixed: dict[int, Index] = {}
        if shared:
            found = split_index(b, part, [s.update_dims[d] for d in shared])
            fixed = dict(zip(shared, found, strict=True))

        def visit(found: tuple[str, ...]) -> None:
            batch = fixed | dict(zip(ordered, found, strict=True))
            starts, inside = window_starts(k, s, batch)
            if s.ranges > 1:
                inside = b.both(inside, _in_range(k, s, starts, number))
            with b.when(inside):
                _combine(k, s, batch, starts)

        loop_nest(b, [(0, s.update_dims[d]) for d in ordered], visit)
    windows = math.prod(s.update_dims[d] for d in ordered)
    volume = math.prod(s.size(d) for d in range(len(s.dims)))
    return Extent(parts * s.ranges, windows * (2.0 + 2.0 * volume / s.ranges))


def window_starts(
    k: Kernel, s: Scatter, batch: Mapping[int, Index]
) -> tuple[dict[int, Index], Val]:
    """Return where a window begins, and whether it is entirely in bounds."""
    b, vector = k.b, s.select.index_vector_dim
    place = [batch[d] for d in s.batch]
    shape = s.indices.array_shape
    starts: dict[int, Index] = {d: batch[at] for d, at in s.batching.items()}
    inside = TRUE
    for component, d in enumerate(s.select.index_map):
        at = [*place[:vector], component, *place[vector:]] if vector < shape.rank else place
        value = k.elements.at(s.indices, tuple(at))
        start = scalar.to_index(b, value, element_type(s.indices))
        inside = b.both(inside, b.compare("sge", start, 0))
        inside = b.both(inside, b.compare("sle", start, s.dims[d] - s.size(d)))
        starts[d] = start
    return starts, inside


def _in_range(k: Kernel, s: Scatter, starts: Mapping[int, Index], number: Index) -> Val:
    """Return whether a window is in a range of the operand, by number."""
    b, d = k.b, s.ranged
    assert d is not None
    size = -(-s.dims[d] // s.ranges)
    low = b.mul(number, size)
    above = b.compare("sge", starts[d], low)
    return b.both(above, b.compare("slt", starts[d], b.add(low, size)))


def _combine(
    k: Kernel, s: Scatter, batch: Mapping[int, Index], starts: Mapping[int, Index]
) -> None:
    """Combine one window into the results."""
    b = k.b
    order = [d for d in loop_order(s.results[0]) if d in s.window]

    def step(found: tuple[str, ...]) -> None:
        inner: dict[int, Index] = dict(zip(order, found, strict=True))
        target = tuple(b.add(starts.get(d, 0), inner.get(d, 0)) for d in range(len(s.dims)))
        source = dict(batch) | {at: inner.get(d, 0) for d, at in s.window.items()}
        place = tuple(source[d] for d in range(len(s.update_dims)))
        old: list[Value] = []
        for n, shape in enumerate(s.results):
            at = physical_index(b, shape, target)
            old.append(scalar.load(b, shape.element_type, k.outputs[n], at))
        new = [k.elements.at(u, place) for u in s.updates]
        for n, value in enumerate(inline(b, k.inst.to_apply, [*old, *new])):
            k.store(value, target, n)

    loop_nest(b, [(0, s.size(d)) for d in order], step)
