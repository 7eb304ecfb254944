"""How a matrix product is cut into blocks, and which of its operands are packed.

What is cheapest is estimated, in cycles of vector operations, from shapes, strides and the target
alone, so that the number of threads never shows in a result.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from hlo.codegen.kernels.microkernel import Dots, Tile
from hlo.codegen.kernels.product import Dim, Dims, Product, count, merged, uniform_stride
from hlo.codegen.kernels.schedule import LINE, Cut, Form, Schedule, depth_of
from hlo.codegen.kernels.vectors import Types
from hlo.codegen.targets.base import Target

# Bytes along k of a block: a strip of B of that depth stays in a first- or second-level cache.
_DEPTH_BYTES = 2048
# Bytes of a task's panel, of its sums, and of a B that is read in place by many.
_PANEL_BYTES, _SUMS_BYTES, _IN_PLACE_BYTES = 192 * 1024, 256 * 1024, 256 * 1024
# Tasks of a product at the most, and the cost of one that is worth having.
_TASKS, _TASK_COST = 16, 20_000
# How often a sum of a share of k is moved: written for each of some blocks of k, read to be added.
_SHARE_MOVES = 3
# Sets of a first-level cache: lines so far apart that they share one displace each other.
_SETS = 64


@lru_cache(maxsize=512)
def best_schedule(p: Product, target: Target) -> Schedule:
    """Return the cheapest way to compute a product whose sizes are all positive."""
    p, one = p.simplified(), (Dim(1),)
    p = replace(p, m=p.m or one, n=p.n or one, k=p.k or one)
    choices = list(_schedules(p, target))
    if not choices:
        p = replace(p, arithmetic=replace(p.arithmetic, pairs=False))
        choices = list(_schedules(p, target))
    return min(choices, key=lambda s: s.cost)


def own_batches(batch: Dims) -> int:
    """Return how many different matrices B has."""
    return count([d for d in batch if d.b])


def _tiles(p: Product, target: Target) -> Iterator[Tile]:
    """Yield tiles that fill the registers of a target."""
    lanes = max(1, target.vector_bits // max(p.arithmetic.total.bits, 8))
    if target.vector_registers >= 32:
        shapes = [(4, 4), (8, 2), (8, 1)]
    else:
        shapes = [(6, 2), (6, 1)]
    if count(p.m) == 1:
        shapes = [(1, 4), (1, 1)]
    for rows, vectors in shapes:
        yield Tile(rows, vectors, lanes)


def _schedules(p: Product, target: Target) -> Iterator[Schedule]:
    most = max(64, _DEPTH_BYTES // p.arithmetic.bytes)
    lanes = max(1, target.vector_bits // max(p.arithmetic.total.bits, 8))
    square = Dots(4, 4 if target.vector_registers >= 32 else 2, lanes)
    for q in _variants(p):
        cuts = [Cut.of(q.k, most)]
        inner = q.k[-1].size
        if len(q.k) > 1 and inner >= 64 and cuts[0].level < len(q.k) - 1:
            cuts.append(Cut(q.k, len(q.k) - 1, Cut.of(q.k[-1:], most).step))
        for cut in cuts:
            for tile in _tiles(q, target):
                s = _outer_schedule(q, tile, cut, target)
                if not p.arithmetic.pairs or _makes_pairs(s):
                    yield s
            if not p.arithmetic.pairs:
                yield _inner_schedule(q, square, cut, target)
        if count(q.n) == 1 and not p.arithmetic.pairs:
            whole = Cut(q.k, 0, q.k[0].size)
            yield _inner_schedule(q, Dots(8, 1, lanes), whole, target)


def _variants(p: Product) -> Iterator[Product]:
    """Yield the product with its dimensions in other roles and orders."""
    for q in (p, p.flipped()):
        orders = {tuple(sorted(q.k, key=lambda d: -abs(d.stride(s)))) for s in "ab"}
        for k in sorted(orders, key=lambda order: [-abs(d.a) for d in order]):
            r = replace(q, k=merged(k, "ab") or q.k)
            yield r
            outer = _outer_columns(r)
            if outer:
                # Columns that are not in one run are products of their own.
                yield replace(r, batch=(*r.batch, *r.n[:outer]), n=r.n[outer:])


def _outer_columns(p: Product) -> int:
    """Return how many outer dimensions of n keep it from being one run in the result or in B."""
    for outer in range(len(p.n)):
        rest = p.n[outer:]
        own = p.b.bounds or uniform_stride(rest, "b") is not None
        if uniform_stride(rest, "c") is not None and own:
            return 0 if any(d.name for d in p.n[:outer]) else outer
    return 0


def _copy_cost(p: Product, side: str, inside: str, lanes: int) -> float:
    """Return the cost of packing an element with k, or else the free dimension, inside."""
    source = p.source(side)
    along = p.k[-1].stride(side) if inside == "k" else p.free(side)[-1].stride(side)
    across = p.free(side)[-1].stride(side) if inside == "k" else p.k[-1].stride(side)
    through = 0.0 if source.et is p.arithmetic.total else 0.1
    if along == 1:
        return 2.5 / lanes + through
    return (0.6 if across == 1 else 1.5) + through


def _is_plain(p: Product, side: str, cut: Cut) -> bool:
    """True when the microkernel can read an operand itself: of the type, at constant strides."""
    source = p.source(side)
    return (
        not p.arithmetic.pairs
        and source.et is p.arithmetic.total
        and not source.bounds
        and uniform_stride(p.free(side), side) is not None
        and uniform_stride(cut.inner_dims, side) is not None
    )


def _crowded(stride_bytes: int, lines: int) -> bool:
    """True when lines at a stride share so few cache sets that they would not stay."""
    step = abs(stride_bytes) // LINE
    if step == 0 or lines <= 4:
        return False
    sets = _SETS // math.gcd(step, _SETS)
    return lines > 4 * sets


def _reads_rows(p: Product, cut: Cut, rows: int, strips: int) -> bool:
    """True when A is best read in place."""
    if not _is_plain(p, "a", cut):
        return False
    row, step = uniform_stride(p.m, "a"), uniform_stride(cut.inner_dims, "a")
    assert row is not None and step is not None
    if strips == 1:
        return True
    size = p.arithmetic.bytes
    if step == 1:
        return not _crowded(row * size, rows)
    return abs(row) == 1 and not _crowded(step * size, cut.most)


def _outer_schedule(p: Product, tile: Tile, cut: Cut, target: Target) -> Schedule:
    m, n, batch, lanes = count(p.m), count(p.n), count(p.batch), tile.lanes
    size = p.arithmetic.bytes
    strips, bands = -(-n // tile.columns), -(-m // tile.rows)
    depth = depth_of(p.arithmetic, count(p.k))
    cycles = max(tile.rows * tile.vectors, 0.6 * (tile.rows + tile.vectors), 4.0)
    tiles = bands * strips * batch
    cost = tiles * (depth * cycles + cut.number * (15 + tile.rows * tile.vectors))

    a = Form.DIRECT if _reads_rows(p, cut, tile.rows, strips) else Form.LOCAL
    inside = "k" if p.k[-1].a == 1 or p.m[-1].a != 1 else "free"
    panel = max(tile.rows, _PANEL_BYTES // (depth_of(p.arithmetic, cut.most) * size))
    rows = _share(m, panel, tile.rows)
    plain_b = _is_plain(p, "b", cut) and uniform_stride(p.n, "b") in ((0, 1) if n == 1 else (1,))
    if plain_b and (bands <= 2 or count(p.k) * n * size <= _IN_PLACE_BYTES):
        b = Form.DIRECT
    elif p.b.bounds or -(-m // rows) <= 2:
        b = Form.LOCAL
    else:
        b = Form.SHARED
    columns = -(-n // tile.columns) * tile.columns
    if b is Form.LOCAL:
        columns = _share(n, max(tile.columns, _PANEL_BYTES // (cut.most * size)), tile.columns)
    c_row, c_column = uniform_stride(p.m, "c"), uniform_stride(p.n, "c")
    direct = (
        p.store == Types.of(p.arithmetic.total) and c_row is not None and (c_column == 1 or n == 1)
    )
    if not direct:
        columns = min(columns, _share(n, max(tile.columns, _SUMS_BYTES // (rows * size)),
                                      tile.columns))  # fmt: skip
    rows, columns, shares = _enough_tasks(p, tile, cut, cost, rows, columns)
    if a is Form.LOCAL:
        cost += batch * m * count(p.k) * -(-n // columns) * _copy_cost(p, "a", inside, lanes)
    if b is Form.LOCAL:
        cost += batch * n * count(p.k) * -(-m // rows) * _copy_cost(p, "b", "free", lanes)
    elif b is Form.SHARED:
        each = _copy_cost(p, "b", "free", lanes) + 2 / lanes
        cost += own_batches(p.batch) * n * count(p.k) * each
    elif n % tile.columns:
        # The last strip is packed, after as many zeros.
        rest = n % tile.columns * _copy_cost(p, "b", "free", lanes) + tile.columns / lanes
        cost += batch * -(-m // rows) * count(p.k) * rest
    if not direct:
        cost += batch * m * n * (0.2 if c_column == 1 else 0.7 if c_row == 1 else 1.5)
    return Schedule(p, tile, cut, rows, columns, shares, a, b, inside, direct, cost)


def _inner_schedule(p: Product, dots: Dots, cut: Cut, target: Target) -> Schedule:
    m, n, batch, lanes = count(p.m), count(p.n), count(p.batch), dots.lanes
    size = p.arithmetic.bytes
    bands, strips = -(-m // dots.rows), -(-n // dots.columns)
    # As many loads as the square's sides in each step, and the sums of lanes for each block.
    each = max(dots.rows * dots.columns, 1.1 * (dots.rows + dots.columns), 4.0)
    steps = cut.number * -(-cut.most // lanes)
    squares = batch * bands * strips
    cost = squares * (steps * each + cut.number * (30 + 4 * dots.rows * dots.columns))

    def form(side: str) -> Form:
        step = uniform_stride(cut.inner_dims, side)
        plain = _is_plain(p, side, cut) and (step == 1 or count(cut.inner_dims) == 1)
        return Form.DIRECT if plain else Form.LOCAL

    a, b = form("a"), form("b")
    panel = max(1, _PANEL_BYTES // (cut.most * size))
    rows = _share(m, panel if a is Form.LOCAL else 4 * panel, dots.rows)
    columns = _share(n, panel if b is Form.LOCAL else 4 * panel, dots.columns)
    direct = (
        p.store == Types.of(p.arithmetic.total)
        and uniform_stride(p.m, "c") is not None
        and uniform_stride(p.n, "c") is not None
    )
    rows, columns, shares = _enough_tasks(p, dots, cut, cost, rows, columns)
    if a is Form.LOCAL:
        cost += batch * m * count(p.k) * -(-n // columns) * _copy_cost(p, "a", "k", lanes)
    if b is Form.LOCAL:
        cost += batch * n * count(p.k) * -(-m // rows) * _copy_cost(p, "b", "k", lanes)
    if not direct:
        cost += batch * m * n * 0.7
    return Schedule(p, dots, cut, rows, columns, shares, a, b, "k", direct, cost)


def _makes_pairs(s: Schedule) -> bool:
    """True when neighbours along k can be paired: in one run, where they are not in a row."""
    cut = s.cut
    length = cut.dims[cut.level].size * cut.inside
    if cut.number > 1 and (cut.most % 2 or (cut.level > 0 and length % 2)):
        return False

    def in_one_run(side: str) -> bool:
        return uniform_stride(cut.dims, side) is not None and not s.p.source(side).bounds

    return in_one_run("b") and (s.inside == "k" or in_one_run("a"))


def _share(size: int, most: int, unit: int) -> int:
    """Return the size of equal parts of at most about `most`, a multiple of `unit`."""
    parts = -(-size // max(most, unit))
    return -(-size // (parts * unit)) * unit


def _enough_tasks(
    p: Product, tile: Tile | Dots, cut: Cut, cost: float, rows: int, columns: int
) -> tuple[int, int, int]:
    """Return rows and columns of blocks, and shares of k, that give enough tasks.

    Smaller blocks read operands again, shares of k write sums that are added up: what moves less
    elements is chosen. Sums are added up for whole results only.
    """
    m, n, k, batch = count(p.m), count(p.n), count(p.k), count(p.batch)
    want = min(_TASKS, int(cost / _TASK_COST))

    def blocks() -> tuple[int, int]:
        return -(-m // rows), -(-n // columns)

    def tasks() -> int:
        return batch * math.prod(blocks())

    most = cut.number if p.is_whole else 1
    whole, (down, across) = (rows, columns), blocks()
    shares = max(1, min(most, -(-want // tasks())))
    is_enough = shares * tasks() >= want
    while tasks() < want and rows > 4 * tile.rows and rows >= min(m, columns):
        rows = _share(m, rows // 2, tile.rows)
    while tasks() < want and columns > 2 * tile.columns:
        columns = _share(n, columns // 2, tile.columns)
    while tasks() < want and rows > 2 * tile.rows:
        rows = _share(m, rows // 2, tile.rows)
    down, across = blocks()[0] - down, blocks()[1] - across
    if is_enough and _SHARE_MOVES * shares * m * n < (across * m + down * n) * k:
        return *whole, shares
    shares = max(1, min(most, want // tasks()))
    return rows, columns, shares
