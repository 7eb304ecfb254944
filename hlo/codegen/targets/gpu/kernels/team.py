"""Values of several threads combined: by exchange between lanes, or through shared memory.

All threads of a block call these functions together. The order in which values are combined is
fixed; functions that are not commutative get those of lower threads on the left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from hlo.codegen.llvm import Index, Val
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.scalar.operations import Cplx, Value
from hlo.codegen.scalar.representation import select
from hlo.codegen.targets.gpu.block import Block
from hlo.values.types import ElementType

# What follows from earlier values, then later ones: a reducer.
Follow = Callable[[list[Value], list[Value]], list[Value]]


class SharedValues:
    """Rows of values in the block's shared memory, one row for each type."""

    def __init__(self, block: Block, types: Sequence[ElementType], count: int) -> None:
        self.b, self.types = block.b, types
        self._rows = [
            block.shared_array(scalar.memory_type(et), count * (2 if et.is_complex else 1))
            for et in types
        ]

    def get(self, at: Index) -> list[Value]:
        """Return the values at a position."""
        pairs = zip(self.types, self._rows, strict=True)
        return [scalar.load(self.b, et, row, at) for et, row in pairs]

    def put(self, values: Sequence[Value], at: Index) -> None:
        """Set the values at a position."""
        for et, row, value in zip(self.types, self._rows, values, strict=True):
            scalar.store(self.b, et, value, row, at)


def exchanged(values: Sequence[Value], exchange: Callable[[Val], Val]) -> list[Value]:
    """Return what other lanes have for values, complex ones in parts."""
    return [
        Cplx(exchange(v.re), exchange(v.im)) if isinstance(v, Cplx) else exchange(v) for v in values
    ]


def chosen(block: Block, condition: Val, yes: Sequence[Value], no: Sequence[Value]) -> list[Value]:
    """Return one of two sets of values."""
    return [select(block.b, condition, y, n) for y, n in zip(yes, no, strict=True)]


def combine_lanes(
    block: Block, values: list[Value], lanes: int, follow: Follow, *, in_order: bool
) -> list[Value]:
    """Return what the values of adjacent lanes combine to, in each of them.

    lanes: how many, a power of two. in_order: the function is not commutative.
    """
    b = block.b
    for level in range(lanes.bit_length() - 1):
        mask = 1 << level
        other = exchanged(values, partial(block.from_lane_xor, mask=mask))
        if in_order:
            is_lower = b.icmp("eq", b.binary("and", block.lane(), mask), 0)
            low = chosen(block, is_lower, values, other)
            high = chosen(block, is_lower, other, values)
            values = follow(low, high)
        else:
            values = follow(values, other)
    return values


def combine_threads(
    block: Block, values: list[Value], types: Sequence[ElementType], group: int, threads: int,
    follow: Follow, *, in_order: bool, shared: SharedValues | None = None,
) -> list[Value]:  # fmt: skip
    """Return what the values of adjacent threads combine to, in each of them.

    group: how many, a power of two. threads: those of the block, a multiple. shared: memory for
    values of each warp, of its own if it is not given.
    """
    b, lanes = block.b, block.gpu.lanes
    values = combine_lanes(block, values, min(group, lanes), follow, in_order=in_order)
    warps = group // lanes
    if warps <= 1:
        return values
    shared = shared or SharedValues(block, types, threads // lanes)
    warp = block.index(block.warp())
    with b.when(b.icmp("eq", block.lane(), 0)):
        shared.put(values, warp)
    block.barrier()
    first = b.mul(b.udiv(warp, warps), warps)
    at = b.add(first, b.urem(block.index(block.lane()), warps))
    return combine_lanes(block, shared.get(at), warps, follow, in_order=in_order)


def combine_rows(
    block: Block, values: list[Value], shared: SharedValues, place: Index, row: Index, rows: int,
    stride: int, slots: int, follow: Follow,
) -> list[Value]:  # fmt: skip
    """Return, in row 0, what the values of rows of threads combine to, in order.

    place: where the thread's values go in shared memory, of so many slots; threads behind them take
    no part. row: the number of the thread's row; the next one is `stride` slots further on.
    """
    b = block.b
    with b.when(b.compare("slt", place, slots)):
        shared.put(values, place)
    step = 1
    while step < rows:
        block.barrier()
        takes = b.both(
            b.compare("eq", b.urem(row, 2 * step), 0),
            b.both(b.compare("slt", b.add(row, step), rows), b.compare("slt", place, slots)),
        )
        with b.when(takes):
            above = shared.get(b.add(place, step * stride))
            shared.put(follow(shared.get(place), above), place)
        step *= 2
    return shared.get(b.minimum(place, slots - 1))
