"""Outer products: vectors run along n, and each element of A is broadcast to one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from hlo.codegen.kernels.matmul.arithmetic import Arithmetic
from hlo.codegen.kernels.matmul.microkernels.record import (
    ANY_SIZE,
    Microkernel,
    PanelFormat,
    PanelOrder,
    Writes,
)
from hlo.codegen.kernels.matmul.microkernels.registry import family
from hlo.codegen.llvm import Builder, Val
from hlo.codegen.loops.vectors import (
    lanes_below,
    lanes_of,
    masked_load,
    masked_store,
    prefetch,
    vector_at,
)
from hlo.codegen.targets.base import LlvmTarget, Target
from hlo.llvm import vector_type
from hlo.values.types import ElementType

# Adds the products of two vectors of groups to a vector of sums.
MultiplyAdd = Callable[[Builder, Val, Val, Val], Val]


@dataclass(frozen=True)
class Groups:
    """How groups of elements along k are multiplied by one instruction.

    kind: names it. size: of a group. lhs, rhs: the types of elements. multiply_add: gets a group of
    A in every lane. shift: bits of a group of A to flip, which adds as much to each element as the
    bits are worth, for an instruction whose A is unsigned; that times B is taken from the sums at
    the end, which for wrapping integers is exact. exact: False where denormals count as zero.
    """

    kind: str
    size: int
    lhs: ElementType
    rhs: ElementType
    multiply_add: MultiplyAdd
    shift: int = 0
    exact: bool = True
    features: frozenset[str] = frozenset()


@family
def outer_products(
    target: LlvmTarget, lhs: ElementType, rhs: ElementType, total: ElementType
) -> Iterator[Microkernel]:
    """Yield microkernels for any types: operands are converted to the type of sums."""
    for (rows, vectors), m in register_tiles(target):
        yield outer_product(target, total, rows, vectors, m=m)


def register_tiles(target: LlvmTarget) -> list[tuple[tuple[int, int], range]]:
    """Return tiles that fill a target's registers: rows, vectors, and the m that they are for."""
    shapes = [(4, 4), (8, 2), (8, 1)] if target.vector_registers >= 32 else [(6, 2), (6, 1)]
    one = range(1, 2)
    several = range(2, ANY_SIZE.stop)
    return [*((s, several) for s in shapes), ((1, 4), one), ((1, 1), one)]


def outer_product(
    target: Target,
    total: ElementType,
    rows: int,
    vectors: int,
    *,
    m: range = ANY_SIZE,
    groups: Groups | None = None,
) -> Microkernel:
    """Return the microkernel of a tile of so many rows and vectors of columns."""
    lanes = lanes_of(target, total)
    if groups is None:
        groups = Groups("", 1, total, total, Arithmetic(total).multiply_add)
    # The products of what is added to A, and adding it.
    extra = vectors + 0.5 * rows if groups.shift else 0

    def emit(b: Builder, kernel: Microkernel) -> None:
        _emit_tile(b, kernel, groups)

    return Microkernel(
        name=f"outer.{total}{groups.kind}.{rows}x{vectors}x{lanes}",
        mr=rows,
        nr=vectors * lanes,
        kr=groups.size,
        lhs=PanelFormat(groups.lhs, PanelOrder.ANY, groups.size),
        rhs=PanelFormat(groups.rhs, PanelOrder.K_OUTERMOST, groups.size, is_padded=True),
        total=total,
        cycles=_cycles(rows, vectors, extra, lanes * total.bits),
        tile_cycles=15 + rows * vectors,
        emit=emit,
        writes=Writes.PART if target.has_masked_memory else Writes.ROWS,
        lanes=lanes,
        m=m,
        exact=groups.exact,
        features=groups.features,
    )


def _cycles(rows: int, vectors: int, extra: float, vector_bits: int) -> float:
    """Return the cost of a step: what takes longest.

    One addition a vector and row, and what comes with them; the loads; and a sum that waits for
    the one before, for four cycles of two additions. extra: further additions.
    """
    additions, loads = rows * vectors + extra, rows + vectors
    if vector_bits < 512:
        return max(additions, 0.6 * loads, 8.0)
    # No more than two such vectors are loaded in a cycle, and those of B come from the second-level
    # cache.
    return max(additions, 1.1 * loads, 8.0) + 0.25 * vectors


def _emit_tile(b: Builder, kernel: Microkernel, groups: Groups) -> None:
    s, lanes = kernel.arithmetic.type, kernel.lanes
    vector, right_type = vector_type(lanes, s), vector_type(lanes, kernel.rhs.type)
    left_type = kernel.lhs.type
    starts = range(0, kernel.nr, lanes)
    # Rows from `rows` on repeat the last one, so that nothing beyond A is read, and what is written
    # twice is the same.
    last = b.sub("%rows", 1)
    numbers = [b.minimum(i, last) if i else 0 for i in range(kernel.mr)]
    lefts = [b.mul(i, "%a_row") for i in numbers]
    targets = [b.element_address("%c", s, b.mul(i, "%c_row")) for i in numbers]
    places = [b.element_address(row, s, j) for row in targets for j in starts]
    # The lines to be written are fetched while sums are taken.
    for place in places:
        prefetch(b, place, to_write=True)
    sums = [Val(vector, "zeroinitializer")] * len(places)
    surplus = [Val(vector, "zeroinitializer")] * (len(starts) if groups.shift else 0)
    shift = Val(left_type, str(groups.shift))
    operands = [Val("ptr", "%a"), Val("ptr", "%b")]
    with b.carrying(0, "%k", [*operands, *sums, *surplus], plain=True) as turn:
        (left, right), old = turn.values[:2], iter(turn.values[2:])
        columns = [vector_at(b, right_type, right.name, kernel.rhs.type, j) for j in starts]
        following = []
        for at in lefts:
            element = b.load(left_type, b.element_address(left.name, left_type, at))
            if surplus:
                element = b.binary("xor", element, shift)
            spread = b.splat(element, lanes)
            for column in columns:
                following.append(groups.multiply_add(b, spread, column, next(old)))
        for column in columns[: len(surplus)]:
            spread = b.splat(shift, lanes)
            following.append(groups.multiply_add(b, spread, column, next(old)))
        turn.values = [
            b.following(left, left_type, "%a_k"),
            b.following(right, kernel.rhs.type, "%b_k"),
            *following,
        ]
    sums, surplus = turn.values[2 : 2 + len(sums)], turn.values[2 + len(sums) :]
    if surplus:
        spare = [surplus[n % len(starts)] for n in range(len(sums))]
        sums = [b.binary("sub", x, y) for x, y in zip(sums, spare, strict=True)]
    _write(b, kernel, places, sums)


def _write(b: Builder, kernel: Microkernel, places: Sequence[str], sums: Sequence[Val]) -> None:
    """Write the sums of vectors to their places, of which some may be the same."""
    arithmetic, lanes = kernel.arithmetic, kernel.lanes
    vector, align = vector_type(lanes, arithmetic.type), arithmetic.bytes
    masks = _present(b, kernel) if kernel.writes is Writes.PART else []

    def old(number: int, place: str) -> Val:
        if not masks:
            return b.load(vector, place, align=align)
        return masked_load(b, vector, place, masks[number % len(masks)], align)

    def added() -> Sequence[Val]:
        # At the end: a sum that begins with what is there would be rounded more.
        return [
            arithmetic.add(b, old(n, place), total)
            for n, (place, total) in enumerate(zip(places, sums, strict=True))
        ]

    totals = b.choose(Val("i1", "%more"), added, lambda: sums)
    for n, (place, total) in enumerate(zip(places, totals, strict=True)):
        if masks:
            masked_store(b, total, place, masks[n % len(masks)], align)
        else:
            b.store(total, place, align=align)


def _present(b: Builder, kernel: Microkernel) -> list[Val]:
    """Return which columns there are, as a mask for each vector."""
    limit = str(b.minimum("%columns", kernel.nr))
    starts = range(0, kernel.nr, kernel.lanes)
    return [lanes_below(b, j, limit, kernel.lanes, "i32") for j in starts]
