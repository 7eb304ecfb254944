"""Matrix products: the steps that compute one, in blocks that threads share.

The result is cut into blocks of rows and columns, and k into blocks too: for each, the parts of A
and B that it takes are read in place where they lie well in memory, or copied to panels first, and
a microkernel multiplies them. Panels are a task's own, or, for a B that many tasks read, made by a
step of their own before. A long k with a small result is split (split-k), and the partial sums are
added at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from hlo.codegen.kernels.matmul.microkernels import PanelOrder, Writes, block_function
from hlo.codegen.kernels.matmul.packing import Packer, segments
from hlo.codegen.kernels.matmul.panels import StridedMatrix, clear, copy
from hlo.codegen.kernels.matmul.product import (
    Dim,
    Product,
    count,
    merged,
    offset_at,
    uniform_stride,
)
from hlo.codegen.kernels.matmul.schedule import Cut, KBlock, Packing, Schedule
from hlo.codegen.kernels.matmul.scheduler import best_schedule, own_batches
from hlo.codegen.kernels.matmul.shares import AddShares
from hlo.codegen.kernels.matmul.streaming import Stream, Streamed, streamed
from hlo.codegen.llvm import FALSE, TRUE, Builder, Index, Val, i64, ptr
from hlo.codegen.loops.kernel import LIGHT_COST, Kernel, KernelEmitter, slot_of, split_index
from hlo.codegen.loops.vectors import Types
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.targets.base import Extent, Plan, Target
from hlo.ir import Instruction


@dataclass
class Steps:
    """The steps of a plan in the making, and their scratch memory."""

    emitters: list[KernelEmitter] = field(default_factory=list)
    scratch: list[int] = field(default_factory=list)

    def memory(self, bytes_: int) -> int:
        """Reserve scratch memory; returns its number."""
        self.scratch.append(max(1, bytes_))
        return len(self.scratch) - 1

    def plan(self) -> Plan:
        return Plan(tuple(self.emitters), tuple(self.scratch))


def add_product(steps: Steps, p: Product, elements: int, inst: Instruction, target: Target) -> None:
    """Append the steps of a product whose sizes are all positive.

    elements: of the result, for sums that are added up in shares. inst: what it is a part of.
    """
    p = replace(p, is_whole=count(p.batch) * count(p.m) * count(p.n) == elements)
    few = streamed(p, inst)
    if few is not None:
        _add_stream(steps, few, elements)
        return
    s = best_schedule(p, target)
    own = steps.memory(s.slot_bytes * target.slots(s.tasks))
    shared = partial = -1
    if s.b is Packing.SHARED:
        strips = -(-count(s.p.n) // s.kernel.nr)
        groups = own_batches(s.p.batch) * strips * s.kernel.nr * s.kernel.groups(count(s.p.k))
        shared = steps.memory(groups * s.kernel.rhs.bytes)
        steps.emitters.append(PackShared(s, shared))
    if s.shares > 1:
        partial = steps.memory(s.shares * elements * s.p.arithmetic.bytes)
    steps.emitters.append(_Multiply(s, own, shared, partial, elements))
    if s.shares > 1:
        steps.emitters.append(AddShares(s.p.arithmetic, s.p.store, s.shares, partial, elements))


def _add_stream(steps: Steps, s: Streamed, elements: int) -> None:
    """Append the steps of a product of few rows."""
    partial = steps.memory(s.shares * elements * s.p.arithmetic.bytes) if s.shares > 1 else -1
    steps.emitters.append(Stream(s, partial, elements))
    if s.shares > 1:
        steps.emitters.append(AddShares(s.p.arithmetic, s.p.store, s.shares, partial, elements))


def over_tasks(
    k: Kernel,
    tasks: int,
    memory: str,
    bytes_: int,
    cost: float,
    body: Callable[[Index, str], None],
) -> Extent:
    """Write the body for every task and the memory it may use, threads sharing the tasks.

    memory: the address of `Target.slots(tasks)` times `bytes_`. cost: of all tasks.
    """
    b = k.b
    slot = b.element_address(memory, "i8", b.mul(slot_of(k, tasks), bytes_))
    with b.loop(k.begin, k.end, plain=True) as task:
        body(task, slot)
    return Extent(tasks, cost / tasks)


@dataclass(frozen=True)
class PackShared:
    """Copies B into strips `[batch][strip][k][columns]`, zeros where it has no more columns."""

    s: Schedule
    scratch: int

    def __call__(self, k: Kernel) -> Extent:
        b, s, p = k.b, self.s, self.s.p
        kernel, width, n = s.kernel, s.kernel.nr, count(p.n)
        strips = -(-n // width)
        depth = kernel.groups(count(p.k))
        whole = Cut(p.k, 0, p.k[0].size)
        own = [d for d in p.batch if d.b]
        cost = depth * width / 4
        k.is_light = cost < LIGHT_COST
        packer = Packer(k, p, "b", kernel.rhs)
        with b.loop(k.begin, k.end, plain=True) as at:
            *indices, strip = split_index(b, at, [*(d.size for d in own), strips])
            found = iter(indices)
            batch = [next(found) if d.b else 0 for d in p.batch]
            panel = b.element_address(
                k.scratch[self.scratch], kernel.rhs.type, b.mul(at, depth * width)
            )
            first = b.mul(strip, width)
            here = b.minimum(width, b.sub(n, first)) if n % width else width
            if n % width or p.b.bounds or count(p.k) % kernel.k_multiple:
                clear(b, panel, kernel.rhs.bytes, depth * width)
            packer.pack(panel, width, kernel.rhs.order, first, here, whole.block(b, 0), batch)
        return Extent(own_batches(p.batch) * strips, cost)


# --- multiplication -----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Multiply:
    """Computes the blocks of the result, each a task; threads share the tasks."""

    s: Schedule
    own: int
    shared: int
    partial: int
    elements: int

    def __call__(self, k: Kernel) -> Extent:
        s = self.s
        k.is_light = s.cost < LIGHT_COST * s.tasks * s.cut.number
        own = k.scratch[self.own]
        return over_tasks(
            k, s.tasks, own, s.slot_bytes, s.cost, lambda task, slot: self._task(k, task, slot)
        )

    def _task(self, k: Kernel, task: Index, slot: str) -> None:
        b, s, p = k.b, self.s, self.s.p
        sizes = [s.shares, *(d.size for d in p.batch), s.column_blocks, s.row_blocks]
        share, *batch, column_block, row_block = split_index(b, task, sizes)
        m, n = count(p.m), count(p.n)
        m0, n0 = b.mul(row_block, s.rows), b.mul(column_block, s.columns)
        rows = b.minimum(s.rows, b.sub(m, m0)) if m % s.rows else s.rows
        columns = b.minimum(s.columns, b.sub(n, n0)) if n % s.columns else s.columns
        t = BlockTask(k, s, slot, self.shared, batch, m0, n0, rows, columns)
        base, store = k.outputs[0], p.store
        offset: Index = p.c_offset
        if s.shares > 1:
            base, store = k.scratch[self.partial], Types.of(p.arithmetic.total)
            offset = b.add(b.mul(share, self.elements), p.c_offset)
        offset = offset_at(b, offset, p.batch, batch, "c")
        result = Result(store.result_address(b, base, offset), store)
        c = t.target(result)
        number = s.cut.number
        first: Index = 0
        last: Index = number
        if s.shares > 1:
            first = b.udiv(b.mul(share, number), s.shares)
            last = b.udiv(b.mul(b.add(share, 1), number), s.shares)
        t.add_up(c, first, last)
        if not s.direct:
            t.deliver(result, c)


@dataclass(frozen=True)
class _Panel:
    """Where B is, and those of its strides that the function of a block takes."""

    address: str
    strides: tuple[Index, ...]


@dataclass(frozen=True)
class Result:
    """Where the sums of a batch go."""

    address: str
    store: Types


class BlockTask:
    """Emission of one block of the result.

    slot: the address of the task's panels. shared: the number of the memory that `PackShared` has
    filled. a0: the row of A that is the first, where that is another one than of the result.
    """

    def __init__(
        self, k: Kernel, s: Schedule, slot: str, shared: int, batch: Sequence[Index], m0: Index,
        n0: Index, rows: Index, columns: Index, a0: Index | None = None,
    ) -> None:  # fmt: skip
        self.k, self.b, self.s, self.p, self.kernel = k, k.b, s, s.p, s.kernel
        self.shared, self.batch = shared, batch
        self.m0, self.n0, self.rows, self.columns = m0, n0, rows, columns
        self.a0 = m0 if a0 is None else a0
        self.type = s.p.arithmetic.type
        at, addresses = 0, []
        for size in s.panel_bytes:
            addresses.append(self.b.element_address(slot, "i8", at))
            at += size
        self.a_panel, self.b_panel, self.sums = addresses

    def target(self, result: Result) -> StridedMatrix:
        """Return where the microkernel writes."""
        b, p = self.b, self.p
        if not self.s.direct:
            return StridedMatrix(self.sums, self.s.wide_columns, 1)
        row, column = uniform_stride(p.m, "c"), uniform_stride(p.n, "c")
        assert row is not None and column is not None
        at = b.add(b.mul(self.m0, row), b.mul(self.n0, column))
        return StridedMatrix(b.element_address(result.address, self.type, at), row, column)

    def _origin(self, side: str, first: Index, block: KBlock) -> tuple[str, int, int]:
        """Return where an operand is in place: address, strides along free and k in groups."""
        b, p = self.b, self.p
        source = p.source(side)
        cut = block.cut
        at = offset_at(b, 0, p.batch, self.batch, side)
        at = offset_at(b, at, cut.dims[: cut.level], block.outer, side)
        at = b.add(at, b.mul(block.start, cut.dims[cut.level].stride(side)))
        free, step = uniform_stride(p.free(side), side), uniform_stride(cut.inner_dims, side)
        assert free is not None and step is not None
        at = b.add(at, b.mul(first, free))
        element, group = scalar.memory_type(source.et), self.kernel.group
        address = b.element_address(source.address(self.k), element, at)
        return (address, free, step) if group == 1 else (address, free // group, 1)

    def _groups(self, length: Index) -> Index:
        """Return how many groups so many indices of k take in a panel, with padding."""
        b, unit = self.b, self.kernel.k_multiple
        whole = b.udiv(b.add(length, unit - 1), unit)
        return b.mul(whole, unit // self.kernel.group)

    def add_up(self, c: StridedMatrix, first: Index, last: Index) -> None:
        """Write the sum of the products of some blocks of k."""
        b, cut = self.b, self.s.cut
        if cut.number == 1:
            self.multiply(cut.block(b, 0), c, FALSE)
        else:
            with b.loop(first, last, plain=True) as i:
                self.multiply(cut.block(b, i), c, b.compare("ne", i, first))

    def multiply(self, block: KBlock, c: StridedMatrix, more: Val) -> None:
        """Add the products of a block of k."""
        b = self.b
        depth = self._groups(block.length(b))
        a, a_free, a_k = self._a(block, depth)
        steps = -(-count(self.p.k) // self.kernel.kr)
        is_light = steps * self.kernel.cycles < 2 * LIGHT_COST
        function = block_function(b.module, self.kernel, is_light=is_light)
        a_strides = {
            PanelOrder.K_INNERMOST: [a_free],
            PanelOrder.K_OUTERMOST: [a_k],
            PanelOrder.ANY: [a_free, a_k],
        }[self.kernel.lhs.order]
        lhs = [ptr(a), *map(i64, a_strides), i64(self.rows)]
        c_strides = [c.row, c.column] if self.kernel.writes is Writes.SUMS else [c.row]

        def call(panel: _Panel, columns: Index, first: Index) -> None:
            at = b.element_address(c.address, self.type, first)
            rhs = [ptr(panel.address), *map(i64, panel.strides), i64(columns)]
            result = [ptr(at), *map(i64, c_strides), more]
            b.call_void(function, [*lhs, *rhs, i64(depth), *result])

        if self.kernel.rhs.order is PanelOrder.K_INNERMOST:
            call(self._columns(block, depth), self.columns, 0)
        elif self.s.b is Packing.IN_PLACE and self.s.has_rest:
            self._whole_strips(block, depth, call)
        else:
            call(self._strips(block, depth), self._wide_columns(), 0)

    def _a(self, block: KBlock, depth: Index) -> tuple[str, Index, Index]:
        """Return where A is: address, strides along rows and k in groups."""
        b, s, lhs = self.b, self.s, self.kernel.lhs
        if s.a is Packing.IN_PLACE:
            return self._origin("a", self.a0, block)
        is_row = s.a_order is PanelOrder.K_INNERMOST
        bounded = bool(self.p.a.bounds)
        has_zeros, rows = count(self.p.k) % self.kernel.k_multiple != 0, self.rows
        if lhs.is_padded and count(self.p.m) % self.kernel.mr:
            has_zeros, rows = True, self._whole_tiles(self.rows, self.kernel.mr)
        if has_zeros or (bounded and not is_row):
            clear(b, self.a_panel, lhs.bytes, b.mul(rows if is_row else depth, s.a_pitch))
        packer = Packer(self.k, self.p, "a", lhs)
        packer.pack(
            self.a_panel, s.a_pitch, s.a_order, self.a0, self.rows, block, self.batch,
            fills=bounded and is_row and not has_zeros,
        )  # fmt: skip
        if is_row:
            return self.a_panel, s.a_pitch, 1
        return self.a_panel, 1, s.a_pitch

    def _whole_tiles(self, size: Index, unit: int) -> Index:
        """Return a number of rows or columns rounded up to whole tiles."""
        return self.b.mul(self.b.udiv(self.b.add(size, unit - 1), unit), unit)

    def _wide_columns(self) -> Index:
        """Return the columns to compute: whole tiles, if what is written has room for them."""
        if self.s.direct or count(self.p.n) % self.kernel.nr == 0:
            return self.columns
        return self._whole_tiles(self.columns, self.kernel.nr)

    def _pack_b(
        self, pitch: int, first: Index, columns: Index, block: KBlock, cleared: Index
    ) -> None:
        """Copy columns of B to the panel. cleared: groups that are set to zero before."""
        rhs = self.kernel.rhs
        if cleared != 0:
            clear(self.b, self.b_panel, rhs.bytes, cleared)
        packer = Packer(self.k, self.p, "b", rhs)
        packer.pack(self.b_panel, pitch, rhs.order, first, columns, block, self.batch)

    def _columns(self, block: KBlock, depth: Index) -> _Panel:
        """Return B column after column."""
        b, s, p, rhs = self.b, self.s, self.p, self.kernel.rhs
        if s.b is Packing.IN_PLACE:
            panel, b_column, _ = self._origin("b", self.n0, block)
            return _Panel(panel, (b_column,))
        has_zeros = p.b.bounds or count(p.k) % self.kernel.k_multiple
        columns = self.columns
        if rhs.is_padded and count(p.n) % self.kernel.nr:
            has_zeros, columns = True, self._whole_tiles(self.columns, self.kernel.nr)
        cleared = b.mul(columns, s.b_pitch) if has_zeros else 0
        self._pack_b(s.b_pitch, self.n0, self.columns, block, cleared)
        return _Panel(self.b_panel, (s.b_pitch,))

    def _strips(self, block: KBlock, depth: Index) -> _Panel:
        """Return B in strips of a tile's columns: groups of k one after the other."""
        b, s, p, kernel = self.b, self.s, self.p, self.kernel
        match s.b:
            case Packing.SHARED:
                strips, whole = -(-count(p.n) // kernel.nr), kernel.groups(count(p.k))
                at: Index = 0
                for d, i in zip(p.batch, self.batch, strict=True):
                    if d.b:
                        at = b.add(b.mul(at, d.size), i)
                strip = b.add(b.mul(at, strips), b.udiv(self.n0, kernel.nr))
                before = b.udiv(block.linear, kernel.group)
                at = b.mul(b.add(b.mul(strip, whole), before), kernel.nr)
                shared = self.k.scratch[self.shared]
                panel = b.element_address(shared, kernel.rhs.type, at)
                return _Panel(panel, (kernel.nr, whole * kernel.nr))
            case Packing.PER_TASK:
                has_zeros = p.b.bounds or count(p.n) % kernel.nr or count(p.k) % kernel.k_multiple
                cleared = b.mul(depth, s.b_pitch) if has_zeros else 0
                self._pack_b(s.b_pitch, self.n0, self.columns, block, cleared)
                return _Panel(self.b_panel, (s.b_pitch, kernel.nr))
            case Packing.IN_PLACE:
                panel, _, b_k = self._origin("b", self.n0, block)
                return _Panel(panel, (b_k, kernel.nr))

    def _whole_strips(
        self, block: KBlock, depth: Index, call: Callable[[_Panel, Index, Index], None]
    ) -> None:
        """Multiply strips of B in place, and what is left of its columns from a panel."""
        b, nr = self.b, self.kernel.nr
        whole_columns = b.mul(b.udiv(self.columns, nr), nr)
        call(self._strips(block, depth), whole_columns, 0)
        rest = b.sub(self.columns, whole_columns)

        def last() -> None:
            # What is left of the columns is less than a tile may read.
            self._pack_b(nr, b.add(self.n0, whole_columns), rest, block, b.mul(depth, nr))
            width = rest if self.s.direct else nr
            call(_Panel(self.b_panel, (nr, nr)), width, whole_columns)

        _when(b, b.compare("sgt", rest, 0), last)

    def deliver(self, result: Result, sums: StridedMatrix) -> None:
        """Bring the sums to the result."""
        b, p = self.b, self.p
        m, n = merged(p.m, "c") or (Dim(1),), merged(p.n, "c") or (Dim(1),)
        with (
            segments(b, m, self.m0, self.rows) as i,
            segments(b, n, self.n0, self.columns) as j,
        ):
            at: Index = 0
            for dims, segment in ((m, i), (n, j)):
                at = offset_at(b, at, dims, (*segment.outer, segment.start), "c")
            to = StridedMatrix(result.store.result_address(b, result.address, at), m[-1].c, n[-1].c)
            here = b.add(b.mul(i.done, self.s.wide_columns), j.done)
            frm = StridedMatrix(
                b.element_address(sums.address, self.type, here), self.s.wide_columns, 1
            )
            copy(b, self.k.target, result.store, to, frm, i.length, j.length)


def _when(b: Builder, condition: Val, body: Callable[[], None]) -> None:
    """Write a body that runs if a condition holds, which may be known."""
    if condition == TRUE:
        body()
    elif condition != FALSE:
        with b.when(condition):
            body()
