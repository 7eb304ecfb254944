"""How a matrix product is cut into blocks, and which of its operands are packed.

What is cheapest is estimated, in cycles of vector operations, from shapes, strides and the target
alone, so that the number of threads never shows in a result.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from hlo.codegen.kernels.matmul.microkernels import Microkernel, PanelOrder, Writes
from hlo.codegen.kernels.matmul.product import (
    Computed,
    Dim,
    Dims,
    Product,
    count,
    merged,
    uniform_stride,
)
from hlo.codegen.kernels.matmul.schedule import LINE, Cut, Packing, Schedule
from hlo.codegen.loops.vectors import Types, lanes_of
from hlo.codegen.targets.base import Target
from hlo.ir import Instruction
from hlo.values.layout.plain import minor_to_major
from hlo.values.types import ElementType

# Bytes along k of a block: a strip of B of that depth stays in a first- or second-level cache.
_DEPTH_BYTES = 2048
# Products of floats that are added up one after the other at the most, about: blocks of so many
# have sums of their own, whose rounding errors are smaller, at hardly a cost. What adds up groups
# rounds less often.
_CHAIN = 320
# What a byte of work space may cost where memory is scarce.
_WORK_BYTE = 4.0
# Indices of k that blocks of its innermost dimension are multiples of.
_UNIT = 16
# Bytes of a task's sums, and of a B that is read in place by many.
_SUMS_BYTES, _IN_PLACE_BYTES = 256 * 1024, 256 * 1024
# Maximum number of tasks of a product, and the minimum cost of one; and the same for large ones,
# which are worth dividing among many processors.
_TASKS, _TASK_COST = 16, 20_000
_MANY_TASKS, _LARGE_TASK_COST = 64, 8_000_000
# How often a partial sum of split-k is moved: written for blocks of k, read for the final sum.
_SHARE_MOVES = 3
# So many schedules are measured where it is measured which is the fastest.
_MEASURED = 8
# The cost of a vector of an operand that is read from another cache than the first.
_READ = 0.5
# The cost of an element that goes to its place in a group on its own.
_SCATTERED = 3.0
# How often an operand may be computed while it is packed.
_AGAIN = 2
# Sets of the first two caches, and how many lines of one that are read in turn stay: lines so far
# apart that they share a set displace each other.
# Caches for vectors of 512 bits have more of them.
_SETS, _WAYS, _MORE_WAYS = 64, 4, 8
_SECOND_SETS, _SECOND_WAYS = 1024, 16


# By the types of A and B: the operands of a product may change places.
_Kernels = Mapping[tuple[ElementType, ElementType], Sequence[Microkernel]]


def best_schedule(p: Product, target: Target) -> Schedule:
    """Return the cheapest way to compute a product whose sizes are all positive."""
    a, b, total = p.a.et, p.b.et, p.arithmetic.total
    kernels = tuple(target.microkernels(a, b, total)), tuple(target.microkernels(b, a, total))
    best = _best_schedule(p, target, *kernels)
    if target.choices is None:
        return best
    found = _schedules(*_prepared(p, *kernels), target, (1.0, 0.5, 2.0))
    others = sorted((s for s in found if _sums_alike(s, best)), key=lambda s: s.cost)
    ways = {s.name: s for s in (best, *others)}
    names = list(ways)[:_MEASURED]
    return target.choices.choose(p.key, {n: ways[n] for n in names})


def _sums_alike(s: Schedule, t: Schedule) -> bool:
    """True when two schedules add up the same products in the same order.

    Where vectors run along n each sum is a chain of its own, whatever the size of the tile; other
    microkernels are alike only to themselves.
    """
    is_chain = all(x.kernel.rhs.order is PanelOrder.K_OUTERMOST for x in (s, t))
    family, other = (x.kernel.name.rpartition(".")[0] for x in (s, t))
    is_same = s.kernel is t.kernel or (is_chain and family == other and s.kernel.kr == t.kernel.kr)
    order, other_order = ([(d.size, *sorted((d.a, d.b))) for d in x.cut.dims] for x in (s, t))
    blocks, other_blocks = ((x.cut.level, x.cut.step, x.shares) for x in (s, t))
    return is_same and order == other_order and blocks == other_blocks


def _prepared(
    p: Product, kernels: tuple[Microkernel, ...], flipped: tuple[Microkernel, ...]
) -> tuple[Product, _Kernels]:
    """Return a product without superfluous dimensions, and the microkernels by types."""
    by_types = {(p.b.et, p.a.et): flipped, (p.a.et, p.b.et): kernels}
    p, one = p.simplified(), (Dim(1),)
    return replace(p, m=p.m or one, n=p.n or one, k=p.k or one), by_types


@lru_cache(maxsize=512)
def _best_schedule(
    p: Product,
    target: Target,
    kernels: tuple[Microkernel, ...],
    flipped: tuple[Microkernel, ...],
) -> Schedule:
    found = _schedules(*_prepared(p, kernels, flipped), target)
    return min(found, key=lambda s: _order(s, target))


def block_schedule(p: Product, target: Target, rows: int | None = None) -> Schedule:
    """Return the cheapest way to multiply in tasks that do more with their sums than store them.

    The product stays as it is: what is m, and in what order dimensions are, is decided elsewhere.
    rows: of a block that has all columns, at the most; otherwise blocks are as large as suits the
    product. B is packed before all tasks where many of them read it.
    """
    kernels = tuple(target.microkernels(p.a.et, p.b.et, p.arithmetic.total))
    return _block_schedule(p, target, kernels, rows)


# Layers of one size have equal products.
@lru_cache(maxsize=512)
def _block_schedule(
    p: Product, target: Target, kernels: tuple[Microkernel, ...], rows: int | None
) -> Schedule:
    found = [
        _schedule(p, kernel, cut, target, target.panel_bytes, keeps_sums=rows is None)
        for kernel in kernels
        if _is_for(kernel, p)
        for cut in _cuts(p, kernel)
        if _has_whole_steps(cut, kernel)
    ]
    if rows is not None:
        found = [_in_rows(s, p, rows) for s in found]
    return min(found, key=lambda s: _order(s, target))


def _in_rows(s: Schedule, p: Product, rows: int) -> Schedule:
    """Return a schedule in blocks of at most so many rows, which have all columns."""
    rows = _share(count(p.m), rows, s.kernel.mr)
    columns, b = count(p.n), s.b
    if s.kernel.rhs.order is PanelOrder.K_OUTERMOST:
        columns = -(-columns // s.kernel.nr) * s.kernel.nr
        if b is not Packing.IN_PLACE:
            own = own_batches(p.batch) == count(p.batch)
            b = Packing.PER_TASK if own and count(p.m) <= 2 * rows else Packing.SHARED
    return replace(s, rows=rows, columns=columns, shares=1, b=b)


def computes_seldom(s: Schedule, inst: Instruction) -> bool:
    """True when the operands that are computed while they are packed are so in runs, hardly twice.

    inst: the instruction of the kernel.
    """
    orders, again = {"a": s.a_order, "b": s.kernel.rhs.order}, {"a": s.column_blocks, "b": 1}
    if s.b is Packing.PER_TASK:
        again["b"] = s.row_blocks
    for side, order in orders.items():
        source = s.p.source(side)
        if not isinstance(source.memory, Computed):
            continue
        if s.b is not Packing.SHARED or side == "a":
            again[side] *= count([d for d in s.p.batch if not d.stride(side)])
        shape = source.memory.instruction(inst).array_shape
        sizes = [shape.dims[d] for d in minor_to_major(shape) if shape.dims[d] != 1]
        run = s.cut.dims[-1] if order is PanelOrder.K_INNERMOST else s.p.free(side)[-1]
        is_run = run.stride(side) == 1 and run.size == sizes[0]
        has_groups = s.kernel.group > 1 and order is PanelOrder.K_OUTERMOST
        if again[side] > _AGAIN or not is_run or has_groups:
            return False
    return True


def _is_for(kernel: Microkernel, p: Product) -> bool:
    """True when a microkernel is meant for a product's sizes and as exact as it has to be."""
    has_size = count(p.m) in kernel.m and count(p.n) in kernel.n
    return has_size and (kernel.exact or not p.exact)


def _order(s: Schedule, target: Target) -> tuple[int, float]:
    """Return what is least for the best schedule."""
    memory = s.slot_bytes * target.slots(s.tasks) if target.saves_memory else 0
    return _rank(s), s.cost + _WORK_BYTE * memory


def _rank(s: Schedule) -> int:
    """Return what goes before cost: microkernels that take groups along k before all others.

    Costs count vectors, but not that narrower elements take less of the cache. Where elements go to
    their groups one by one, groups come last.
    """
    if s.kernel.group == 1:
        return 1
    orders = {"a": s.a_order, "b": s.kernel.rhs.order}
    has_runs = all(
        order is PanelOrder.K_INNERMOST or _is_run(s.p, side, s.cut)
        for side, order in orders.items()
    )
    return 0 if has_runs else 2


def _is_run(p: Product, side: str, cut: Cut) -> bool:
    """True when the k of an operand is one run, without padding."""
    return not p.source(side).bounds and uniform_stride(cut.dims, side) is not None


def own_batches(batch: Dims) -> int:
    """Return how many different matrices B has."""
    return count([d for d in batch if d.b])


def _schedules(
    p: Product, kernels: _Kernels, target: Target, scales: Sequence[float] = (1.0,)
) -> Iterator[Schedule]:
    """Yield the ways to compute a product. scales: of panels, over the size that is estimated."""
    for q in _variants(p):
        for kernel in kernels[q.a.et, q.b.et]:
            if not _is_for(kernel, q):
                continue
            for cut in _cuts(q, kernel):
                if _has_whole_steps(cut, kernel):
                    for scale in scales:
                        yield _schedule(q, kernel, cut, target, int(target.panel_bytes * scale))


def _cuts(p: Product, kernel: Microkernel) -> list[Cut]:
    """Return ways to cut k into blocks."""
    if not kernel.blocks_k:
        return [Cut(p.k, 0, p.k[0].size)]
    most = max(64, _DEPTH_BYTES * kernel.group // kernel.rhs.bytes)
    if kernel.total.is_float and kernel.group == 1:
        most = min(most, _CHAIN)
    unit = max(_UNIT, kernel.k_multiple)
    cuts = [Cut.of(p.k, most, unit)]
    inner = p.k[-1].size
    if len(p.k) > 1 and inner >= 64 and cuts[0].level < len(p.k) - 1:
        cuts.append(Cut(p.k, len(p.k) - 1, Cut.of(p.k[-1:], most, unit).step))
    return cuts


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


def _copy_cost(
    p: Product, side: str, kernel: Microkernel, order: PanelOrder, cut: Cut, lanes: int
) -> float:
    """Return the cost of packing an element of an operand."""
    source, is_inner = p.source(side), order is PanelOrder.K_INNERMOST
    along, across = p.k[-1].stride(side), p.free(side)[-1].stride(side)
    if not is_inner:
        along, across = across, along
    through = 0.0 if source.et is kernel.total else 0.1
    if kernel.group > 1 and not is_inner and not _is_run(p, side, cut):
        return _SCATTERED
    if along == 1:
        return 2.5 / lanes + through
    return (0.6 if across == 1 else 1.5) + through


def _can_read(p: Product, side: str, kernel: Microkernel, cut: Cut) -> bool:
    """True when the microkernel can read an operand itself.

    The operand has to be of the panel's type, at strides that the format allows, and to need no
    zeros; but columns of B that make no whole tile are packed on their own.
    """
    source, panel = p.source(side), kernel.panel(side)
    free, step = uniform_stride(p.free(side), side), uniform_stride(cut.inner_dims, side)
    if source.et is not panel.element or source.bounds or free is None or step is None:
        return False
    if isinstance(source.memory, Computed):
        return False
    if count(p.k) % kernel.k_multiple:
        return False
    tile, has_strips = (
        (kernel.mr if side == "a" else kernel.nr),
        panel.order is PanelOrder.K_OUTERMOST,
    )
    if panel.is_padded and count(p.free(side)) % tile and not (side == "b" and has_strips):
        return False
    if kernel.group > 1:
        # Strides are in groups.
        return panel.order is PanelOrder.K_INNERMOST and step == 1 and free % kernel.group == 0
    match panel.order:
        case PanelOrder.K_INNERMOST:
            return step == 1 or count(cut.inner_dims) == 1
        case PanelOrder.K_OUTERMOST:
            return free == 1 or (free == 0 and count(p.free(side)) == 1)
        case PanelOrder.ANY:
            return True


def _crowded(stride_bytes: int, lines: int, sets: int = _SETS, ways: int = _WAYS) -> bool:
    """True when lines at a stride share so few cache sets that they would not stay."""
    step = abs(stride_bytes) // LINE
    return step != 0 and lines > ways * (sets // math.gcd(step, sets))


def _pays_in_place(p: Product, kernel: Microkernel, cut: Cut, strips: int) -> bool:
    """True when A, which the microkernel can read at any strides, is best read in place."""
    row, step = uniform_stride(p.m, "a"), uniform_stride(cut.inner_dims, "a")
    assert row is not None and step is not None
    size = kernel.lhs.bytes
    if strips == 1:
        # The next rows are in the same lines, if each index of k has one of its own.
        return step == 1 or not _crowded(step * size, cut.most, _SECOND_SETS, _SECOND_WAYS)
    if step == 1:
        is_wide = kernel.lanes * kernel.arithmetic.bytes >= LINE
        return not _crowded(row * size, kernel.mr, ways=_MORE_WAYS if is_wide else _WAYS)
    return abs(row) == 1 and not _crowded(step * size, cut.most)


def _schedule(
    p: Product,
    kernel: Microkernel,
    cut: Cut,
    target: Target,
    panel_bytes: int,
    *,
    keeps_sums: bool = False,
) -> Schedule:
    """Return the schedule of a product with a microkernel and blocks of k.

    keeps_sums: whether the sums of a block go to memory of the task in any case, and whole.
    """
    m, n, k, batch = count(p.m), count(p.n), count(p.k), count(p.batch)
    lanes, size = lanes_of(target, kernel.total), kernel.arithmetic.bytes
    bands, strips = -(-m // kernel.mr), -(-n // kernel.nr)
    cost = batch * bands * strips * (
        cut.steps(kernel.kr) * kernel.cycles + cut.number * kernel.tile_cycles
    )  # fmt: skip

    # Which operands are read in place, and how large blocks are.
    has_strips = kernel.rhs.order is PanelOrder.K_OUTERMOST
    a_order = kernel.lhs.order
    a = Packing.IN_PLACE if _can_read(p, "a", kernel, cut) else Packing.PER_TASK
    if a_order is PanelOrder.ANY:
        runs = p.k[-1].a == 1 or p.m[-1].a != 1
        a_order = PanelOrder.K_INNERMOST if runs else PanelOrder.K_OUTERMOST
        if a is Packing.IN_PLACE and not _pays_in_place(p, kernel, cut, strips):
            a = Packing.PER_TASK
    panel = panel_bytes // (kernel.groups(cut.most) * kernel.lhs.bytes)
    rows = _share(m, panel * (4 if a is Packing.IN_PLACE and not has_strips else 1), kernel.mr)
    b = Packing.IN_PLACE if _can_read(p, "b", kernel, cut) else Packing.PER_TASK
    panel = panel_bytes // (kernel.groups(cut.most) * kernel.rhs.bytes)
    if not has_strips:
        columns = _share(n, panel * (4 if b is Packing.IN_PLACE else 1), kernel.nr)
    else:
        is_large = bands > 2 and k * n * kernel.rhs.bytes > _IN_PLACE_BYTES
        if b is Packing.IN_PLACE and is_large and not target.saves_memory:
            b = Packing.PER_TASK
        is_shared = -(-m // rows) > 2 and not target.saves_memory
        if b is Packing.PER_TASK and not p.b.bounds and is_shared:
            b = Packing.SHARED
        columns = _share(n, panel, kernel.nr) if b is Packing.PER_TASK else strips * kernel.nr

    c_row, c_column = uniform_stride(p.m, "c"), uniform_stride(p.n, "c")
    direct = p.store == Types.of(kernel.total) and c_row is not None and c_column is not None
    direct = direct and not keeps_sums
    if kernel.writes is not Writes.SUMS:
        direct = direct and (c_column == 1 or n == 1)
        if not direct:
            columns = min(columns, _share(n, _SUMS_BYTES // (rows * size), kernel.nr))
    if keeps_sums:
        p = replace(p, is_whole=False)
    each_a = _copy_cost(p, "a", kernel, a_order, cut, lanes)
    each_b = _copy_cost(p, "b", kernel, kernel.rhs.order, cut, lanes)
    again = {
        "a": each_a if a is Packing.PER_TASK else _READ / lanes,
        "b": each_b if b is Packing.PER_TASK else _READ / lanes,
    }
    most_shares = cut.number if p.is_whole and not target.saves_memory else 1
    rows, columns, shares = _enough_tasks(p, kernel, most_shares, cost, rows, columns, again)

    # What is copied.
    if a is Packing.PER_TASK:
        cost += batch * m * k * -(-n // columns) * each_a
    if b is Packing.PER_TASK:
        cost += batch * n * k * -(-m // rows) * each_b
    elif b is Packing.SHARED:
        cost += own_batches(p.batch) * n * k * (each_b + 2 / lanes)
    elif has_strips and n % kernel.nr:
        # The last strip is packed, after as many zeros.
        rest = n % kernel.nr * each_b + kernel.nr / lanes
        cost += batch * -(-m // rows) * k * rest
    if not direct:
        cost += batch * m * n * (0.2 if c_column == 1 else 0.7 if c_row == 1 else 1.5)
    return Schedule(p, kernel, cut, rows, columns, shares, a, b, a_order, direct, cost)


def _has_whole_steps(cut: Cut, kernel: Microkernel) -> bool:
    """True when blocks of k, but for the last, are as long as the microkernel asks."""
    unit, length = kernel.k_multiple, cut.dims[cut.level].size * cut.inside
    return cut.number == 1 or (cut.most % unit == 0 and (cut.level == 0 or length % unit == 0))


def _share(size: int, most: int, unit: int) -> int:
    """Return the size of equal parts of at most about `most`, a multiple of `unit`."""
    parts = -(-size // max(most, unit))
    return -(-size // (parts * unit)) * unit


def _enough_tasks(
    p: Product, kernel: Microkernel, most: int, cost: float, rows: int, columns: int,
    again: Mapping[str, float],
) -> tuple[int, int, int]:  # fmt: skip
    """Return rows and columns of blocks, and shares of k, that give enough tasks.

    Smaller blocks read operands again, shares of k write sums that are added up: what moves less
    elements is chosen. most: shares of k, for whole results only. again: what an element of an
    operand costs that another block reads, too.
    """
    m, n, k, batch = count(p.m), count(p.n), count(p.k), count(p.batch)
    want = min(_TASKS, int(cost / _TASK_COST))
    want = max(want, min(_MANY_TASKS, int(cost / _LARGE_TASK_COST)))

    def blocks() -> tuple[int, int]:
        return -(-m // rows), -(-n // columns)

    def tasks() -> int:
        return batch * math.prod(blocks())

    whole, (down, across) = (rows, columns), blocks()
    shares = max(1, min(most, -(-want // tasks())))
    is_enough = shares * tasks() >= want
    while tasks() < want and (rows > 4 * kernel.mr or columns > 2 * kernel.nr):
        fewer_rows = _share(m, rows // 2, kernel.mr)
        fewer_columns = _share(n, columns // 2, kernel.nr)
        down_more, across_more = (
            (-(-m // fewer_rows) - blocks()[0]) * n * again["b"],
            (-(-n // fewer_columns) - blocks()[1]) * m * again["a"],
        )
        if columns <= 2 * kernel.nr or (rows > 4 * kernel.mr and down_more <= across_more):
            rows = fewer_rows
        else:
            columns = fewer_columns
    while tasks() < want and rows > 2 * kernel.mr:
        rows = _share(m, rows // 2, kernel.mr)
    down, across = blocks()[0] - down, blocks()[1] - across
    if is_enough and _SHARE_MOVES * shares * m * n < (across * m + down * n) * k:
        return *whole, shares
    shares = max(1, min(most, want // tasks()))
    return rows, columns, shares
