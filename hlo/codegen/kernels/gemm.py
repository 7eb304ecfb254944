"""Matrix products: the steps that compute one, in blocks that threads share.

The result is cut into blocks of rows and columns, and k into blocks too: for each, the parts of A
and B that it takes are read in place where they lie well in memory, or copied to panels first, and
a microkernel multiplies them. Panels are a task's own, or, for a B that many tasks read, made by a
step of their own before. A long k with a small result is cut into shares whose sums are added in
the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from hlo.codegen import scalar
from hlo.codegen.kernel import Kernel, KernelEmitter, slot_of, split_index
from hlo.codegen.kernels.microkernel import Arithmetic, Dots, Tile, inner_block, outer_block
from hlo.codegen.kernels.packing import Packer, segments
from hlo.codegen.kernels.panels import Place, clear, copy
from hlo.codegen.kernels.product import Dim, Product, count, merged, uniform_stride
from hlo.codegen.kernels.schedule import (
    LINE,
    Cut,
    Form,
    KBlock,
    Schedule,
    depth_of,
)
from hlo.codegen.kernels.scheduler import best_schedule, own_batches
from hlo.codegen.kernels.vectors import Types
from hlo.codegen.llvm import FALSE, TRUE, Builder, Index, Val, i64, ptr
from hlo.codegen.targets.base import Extent, Plan, Target


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


def add_product(steps: Steps, p: Product, elements: int, target: Target) -> None:
    """Append the steps of a product whose sizes are all positive.

    elements: of the result, for sums that are added up in shares.
    """
    is_whole = count(p.batch) * count(p.m) * count(p.n) == elements
    s = best_schedule(replace(p, is_whole=is_whole), target)
    own = steps.memory(s.slot_bytes * target.slots(s.tasks))
    shared = partial = -1
    if s.b is Form.SHARED:
        strips = -(-count(s.p.n) // s.tile.columns)
        depth = depth_of(s.p.arithmetic, count(s.p.k))
        size = own_batches(s.p.batch) * strips * s.tile.columns * depth
        shared = steps.memory(size * s.p.arithmetic.bytes)
        steps.emitters.append(_PackShared(s, shared))
    if s.shares > 1:
        partial = steps.memory(s.shares * elements * s.p.arithmetic.bytes)
    steps.emitters.append(_Multiply(s, own, shared, partial, elements))
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
class _PackShared:
    """Copies B into strips `[batch][strip][k][columns]`, zeros where it has no more columns."""

    s: Schedule
    scratch: int

    def __call__(self, k: Kernel) -> Extent:
        b, s, p = k.b, self.s, self.s.p
        width, n = s.tile.columns, count(p.n)
        strips = -(-n // width)
        depth = depth_of(p.arithmetic, count(p.k))
        whole = Cut(p.k, 0, p.k[0].size)
        own = [d for d in p.batch if d.b]
        packer = Packer(k, p, "b")
        with b.loop(k.begin, k.end, plain=True) as at:
            *indices, strip = split_index(b, at, [*(d.size for d in own), strips])
            found = iter(indices)
            batch = [next(found) if d.b else 0 for d in p.batch]
            panel = b.element_address(
                k.scratch[self.scratch], p.arithmetic.type, b.mul(at, depth * width)
            )
            first = b.mul(strip, width)
            here = b.minimum(width, b.sub(n, first)) if n % width else width
            if n % width or p.b.bounds:
                clear(b, panel, p.arithmetic, depth * width)
            packer.pack(panel, width, "free", first, here, whole.block(b, 0), batch)
        return Extent(own_batches(p.batch) * strips, depth * width / 4)


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
        t = _Task(k, s, slot, self.shared, batch, m0, n0, rows, columns)
        base, store = k.outputs[0], p.store
        offset: Index = p.c_offset
        if s.shares > 1:
            base, store = k.scratch[self.partial], Types.of(p.arithmetic.total)
            offset = b.add(b.mul(share, self.elements), p.c_offset)
        for d, i in zip(p.batch, batch, strict=True):
            offset = b.add(offset, b.mul(i, d.c))
        result = _Result(store.result_address(b, base, offset), store)
        c = t.target(result)
        number = s.cut.number
        first: Index = 0
        last: Index = number
        if s.shares > 1:
            first = b.udiv(b.mul(share, number), s.shares)
            last = b.udiv(b.mul(b.add(share, 1), number), s.shares)
        if number == 1:
            t.multiply(s.cut.block(b, 0), c, FALSE)
        else:
            with b.loop(first, last, plain=True) as i:
                t.multiply(s.cut.block(b, i), c, b.compare("ne", i, first))
        if not s.direct:
            t.deliver(result, c)


@dataclass(frozen=True)
class _Result:
    """Where the sums of a batch go."""

    address: str
    store: Types


class _Task:
    """Emission of one block of the result."""

    def __init__(
        self, k: Kernel, s: Schedule, slot: str, shared: int, batch: Sequence[Index], m0: Index,
        n0: Index, rows: Index, columns: Index,
    ) -> None:  # fmt: skip
        self.k, self.b, self.s, self.p = k, k.b, s, s.p
        self.shared, self.batch = shared, batch
        self.m0, self.n0, self.rows, self.columns = m0, n0, rows, columns
        self.type = s.p.arithmetic.type
        at, addresses = 0, []
        for n in s.panels:
            addresses.append(self.b.element_address(slot, "i8", at))
            at += -(-n * s.p.arithmetic.bytes // LINE) * LINE
        self.a_panel, self.b_panel, self.sums = addresses

    def target(self, result: _Result) -> Place:
        """Return where the microkernel writes."""
        b, p = self.b, self.p
        if not self.s.direct:
            return Place(self.sums, self.s.wide_columns, 1)
        row, column = uniform_stride(p.m, "c"), uniform_stride(p.n, "c")
        assert row is not None and column is not None
        at = b.add(b.mul(self.m0, row), b.mul(self.n0, column))
        return Place(b.element_address(result.address, self.type, at), row, column)

    def _origin(self, side: str, first: Index, block: KBlock) -> tuple[str, int, int]:
        """Return the address of an operand's element in place, and its strides along free and k."""
        b, p = self.b, self.p
        source = p.source(side)
        at: Index = 0
        for d, i in zip(p.batch, self.batch, strict=True):
            at = b.add(at, b.mul(i, d.stride(side)))
        cut = block.cut
        for d, i in zip(cut.dims[: cut.level], block.outer, strict=True):
            at = b.add(at, b.mul(i, d.stride(side)))
        at = b.add(at, b.mul(block.start, cut.dims[cut.level].stride(side)))
        free, step = uniform_stride(p.free(side), side), uniform_stride(cut.inner_dims, side)
        assert free is not None and step is not None
        at = b.add(at, b.mul(first, free))
        return b.element_address(source.address(self.k), self.type, at), free, step

    def _depth(self, length: Index) -> Index:
        """Return how many elements of a panel so many of k are: half, where they are pairs."""
        return self.b.udiv(self.b.add(length, 1), 2) if self.p.arithmetic.pairs else length

    def multiply(self, block: KBlock, c: Place, more: Val) -> None:
        """Add the products of a block of k."""
        if isinstance(self.s.tile, Dots):
            self._inner(self.s.tile, block, c, more)
        else:
            self._outer(self.s.tile, block, c, more)

    def _a(self, block: KBlock, length: Index) -> tuple[str, int, int]:
        """Return where A is: address, strides along rows and k."""
        s = self.s
        if s.a is Form.DIRECT:
            return self._origin("a", self.m0, block)
        if self.p.a.bounds or (self.p.arithmetic.pairs and count(self.p.k) % 2):
            lines = self.rows if s.inside == "k" else self._depth(length)
            clear(self.b, self.a_panel, self.p.arithmetic, self.b.mul(lines, s.a_pitch))
        packer = Packer(self.k, self.p, "a")
        packer.pack(self.a_panel, s.a_pitch, s.inside, self.m0, self.rows, block, self.batch)
        return (self.a_panel, s.a_pitch, 1) if s.inside == "k" else (self.a_panel, 1, s.a_pitch)

    def _inner(self, dots: Dots, block: KBlock, c: Place, more: Val) -> None:
        b, s, p = self.b, self.s, self.p
        length = block.length(b)
        a, a_row, _ = self._a(block, length)
        if s.b is Form.DIRECT:
            panel, b_column, _ = self._origin("b", self.n0, block)
        else:
            panel, b_column = self.b_panel, s.b_pitch
            if p.b.bounds:
                clear(b, panel, p.arithmetic, b.mul(self.columns, s.b_pitch))
            packer = Packer(self.k, p, "b")
            packer.pack(panel, s.b_pitch, "k", self.n0, self.columns, block, self.batch)
        function = inner_block(b.module, p.arithmetic, dots)
        b.call_void(
            function,
            [
                ptr(a), i64(a_row), i64(self.rows), ptr(panel), i64(b_column), i64(self.columns),
                i64(length), ptr(c.address), i64(c.row), i64(c.column), more,
            ],
        )  # fmt: skip

    def _outer(self, tile: Tile, block: KBlock, c: Place, more: Val) -> None:
        b, s, p = self.b, self.s, self.p
        length = block.length(b)
        depth = self._depth(length)
        a, a_row, a_k = self._a(block, length)
        function = outer_block(b.module, p.arithmetic, tile)

        def call(panel: str, b_k: Index, b_strip: Index, columns: Index, first: Index) -> None:
            at = b.element_address(c.address, self.type, first)
            b.call_void(
                function,
                [
                    ptr(a), i64(a_row), i64(a_k), i64(self.rows), ptr(panel), i64(b_k),
                    i64(b_strip), i64(columns), i64(depth), ptr(at), i64(c.row), more,
                ],
            )  # fmt: skip

        wide = self.columns
        if not s.direct and count(p.n) % tile.columns:
            # The sums have room for whole tiles.
            wide = b.mul(b.udiv(b.add(self.columns, tile.columns - 1), tile.columns), tile.columns)
        match s.b:
            case Form.SHARED:
                strips, whole = -(-count(p.n) // tile.columns), depth_of(p.arithmetic, count(p.k))
                at: Index = 0
                for d, i in zip(p.batch, self.batch, strict=True):
                    if d.b:
                        at = b.add(b.mul(at, d.size), i)
                strip = b.add(b.mul(at, strips), b.udiv(self.n0, tile.columns))
                before = b.udiv(block.linear, 2) if p.arithmetic.pairs else block.linear
                at = b.mul(b.add(b.mul(strip, whole), before), tile.columns)
                panel = b.element_address(self.k.scratch[self.shared], self.type, at)
                call(panel, tile.columns, whole * tile.columns, wide, 0)
            case Form.LOCAL:
                packer = Packer(self.k, p, "b")
                if p.b.bounds or count(p.n) % tile.columns:
                    clear(b, self.b_panel, p.arithmetic, b.mul(depth, s.b_pitch))
                packer.pack(
                    self.b_panel, s.b_pitch, "free", self.n0, self.columns, block, self.batch
                )
                call(self.b_panel, s.b_pitch, tile.columns, wide, 0)
            case Form.DIRECT:
                panel, _, b_k = self._origin("b", self.n0, block)
                if count(p.n) % tile.columns == 0:
                    call(panel, b_k, tile.columns, self.columns, 0)
                    return
                whole_columns = b.mul(b.udiv(self.columns, tile.columns), tile.columns)
                call(panel, b_k, tile.columns, whole_columns, 0)
                rest = b.sub(self.columns, whole_columns)

                def last() -> None:
                    # What is left of the columns is less than a tile may read.
                    clear(b, self.b_panel, p.arithmetic, b.mul(depth, tile.columns))
                    first = b.add(self.n0, whole_columns)
                    packer = Packer(self.k, p, "b")
                    packer.pack(self.b_panel, tile.columns, "free", first, rest, block, self.batch)
                    width = rest if s.direct else tile.columns
                    call(self.b_panel, tile.columns, tile.columns, width, whole_columns)

                _when(b, b.compare("sgt", rest, 0), last)

    def deliver(self, result: _Result, sums: Place) -> None:
        """Bring the sums to the result."""
        b, p = self.b, self.p
        m, n = merged(p.m, "c") or (Dim(1),), merged(p.n, "c") or (Dim(1),)
        with (
            segments(b, m, self.m0, self.rows) as i,
            segments(b, n, self.n0, self.columns) as j,
        ):
            at: Index = 0
            for dims, segment in ((m, i), (n, j)):
                for d, x in zip(dims, (*segment.outer, segment.start), strict=True):
                    at = b.add(at, b.mul(x, d.c))
            to = Place(result.store.result_address(b, result.address, at), m[-1].c, n[-1].c)
            here = b.add(b.mul(i.done, self.s.wide_columns), j.done)
            frm = Place(b.element_address(sums.address, self.type, here), self.s.wide_columns, 1)
            copy(b, self.k.target, result.store, to, frm, i.length, j.length)


def _when(b: Builder, condition: Val, body: Callable[[], None]) -> None:
    """Write a body that runs if a condition holds, which may be known."""
    if condition == TRUE:
        body()
    elif condition != FALSE:
        with b.when(condition):
            body()


@dataclass(frozen=True)
class AddShares:
    """Adds the sums of the shares of k, and stores them."""

    arithmetic: Arithmetic
    store: Types
    shares: int
    partial: int
    elements: int

    def __call__(self, k: Kernel) -> Extent:
        b, arithmetic, store = k.b, self.arithmetic, self.store
        chunk = 256
        with b.loop(k.begin, k.end, plain=True) as part:
            first = b.mul(part, chunk)
            last = b.minimum(b.add(first, chunk), self.elements)
            with b.loop(first, last, rolled=True) as at:
                base = k.scratch[self.partial]
                values = []
                for share in range(self.shares):
                    place = b.add(at, share * self.elements)
                    address = b.element_address(base, arithmetic.type, place)
                    values.append(b.load(arithmetic.type, address))
                total = values[0]
                for value in values[1:]:
                    total = arithmetic.add(b, total, value)
                value = scalar.from_memory(b, arithmetic.total, total)
                result: scalar.Value = value
                for source, target in zip(store.chain, store.chain[1:], strict=False):
                    result = scalar.convert(b, result, source, target)
                scalar.store(b, store.chain[-1], result, k.outputs[0], at)
        return Extent(-(-self.elements // chunk), chunk * self.shares / 8)
