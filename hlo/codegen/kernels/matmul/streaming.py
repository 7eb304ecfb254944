"""Products of few rows: B is read once, as it lies in memory, and added up row by row.

A vector times a matrix takes as long as it takes to read the matrix: strips of a tile's columns,
one after the other, would read a line here and a line there. A task takes some columns of some of
k, a page of each row of B, and adds these up in buffers on the stack, one for each row of A.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hlo.codegen.kernels.matmul.arithmetic import Arithmetic
from hlo.codegen.kernels.matmul.panels import clear
from hlo.codegen.kernels.matmul.product import (
    Computed,
    Product,
    count,
    offset_at,
    uniform_stride,
)
from hlo.codegen.llvm import Builder, Index, Val
from hlo.codegen.loops.kernel import Kernel, split_index
from hlo.codegen.loops.vectors import Types
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.targets.base import Extent
from hlo.ir import Instruction

# Rows of A at the most, and how many rows of B are added at a time: of them all elements of A are
# in registers.
_ROWS = 7
_UNROLLED, _FEW_ROWS, _UNROLLED_MORE = 4, 3, 2
# Bytes of a task's columns, in the type of sums: a page. Columns at the least, and bytes of B, of
# what is worth it.
_COLUMN_BYTES, _LEAST_COLUMNS, _LEAST_BYTES = 4096, 64, 1 << 16
# Rows of B that are added up before they are added to the others, so that errors stay small.
_BLOCK = 512
# How many tasks there should be, and rows of B in each.
_TASKS, _TASK_ROWS = 16, 256


@dataclass(frozen=True)
class Streamed:
    """A product of few rows. columns: of a task. shares: of k; the sums of all are added up."""

    p: Product
    columns: int
    shares: int

    @property
    def column_blocks(self) -> int:
        return -(-count(self.p.n) // self.columns)

    @property
    def tasks(self) -> int:
        return self.shares * count(self.p.batch) * self.column_blocks


def streamed(p: Product, inst: Instruction) -> Streamed | None:
    """Return how to compute a product row by row of B, None if that does not suit it.

    inst: the kernel's instruction, whose operands may be computed in it.
    """
    for q in (p.simplified(), p.flipped().simplified()):
        m, n, k = count(q.m), count(q.n), count(q.k)
        suits = (
            _has_rows(q, inst)
            and m <= _ROWS
            and n >= _LEAST_COLUMNS
            and len(q.k) == 1
            and uniform_stride(q.n, "b") == 1
            and uniform_stride(q.n, "c") is not None
            and not (q.a.bounds or q.b.bounds)
            and n * k * q.b.et.byte_width >= _LEAST_BYTES
        )
        if not suits:
            continue
        most = _COLUMN_BYTES // q.arithmetic.bytes
        columns = -(-n // -(-n // most))
        blocks = count(q.batch) * -(-n // columns)
        shares = min(-(-_TASKS // blocks), k // _TASK_ROWS) if q.is_whole else 1
        return Streamed(q, columns, max(1, shares))
    return None


def _has_rows(p: Product, inst: Instruction) -> bool:
    """True when A is in memory, and B is or is computed in rows of its innermost dimension."""
    if isinstance(p.a.memory, Computed):
        return False
    if not isinstance(p.b.memory, Computed):
        return True
    shape = p.b.memory.instruction(inst).array_shape
    assert shape.layout is not None
    return shape.dims[shape.layout.minor_to_major[0]] == count(p.n) and not p.b.offset


@dataclass(frozen=True)
class Stream:
    """Computes the tasks. partial: memory for the sums of shares, if there are several.

    elements: of the result.
    """

    s: Streamed
    partial: int
    elements: int

    def __call__(self, k: Kernel) -> Extent:
        b, s, p = k.b, self.s, self.s.p
        sizes = [s.shares, *(d.size for d in p.batch), s.column_blocks]
        rows, total = range(count(p.m)), Arithmetic(p.arithmetic.total)
        block, sums = (
            [b.alloca(total.type, s.columns, align=64).name for _ in rows] for _ in range(2)
        )
        with b.loop(k.begin, k.end, plain=True) as task:
            share, *batch, column_block = split_index(b, task, sizes)
            n0 = b.mul(column_block, s.columns)
            here = b.minimum(s.columns, b.sub(count(p.n), n0))
            self._add_up(k, batch, share, n0, here, block, sums)
            self._deliver(k, batch, share, n0, here, sums)
        depth = -(-count(p.k) // s.shares)
        return Extent(s.tasks, depth * s.columns * (1 + len(rows)) / 4)

    def _add_up(
        self, k: Kernel, batch: list[Index], share: Index, n0: Index, here: Index,
        block: list[str], sums: list[str],
    ) -> None:  # fmt: skip
        """Leave the sums over a share of k in `sums`; `block` is memory for those of a block."""
        b, p, depth = k.b, self.s.p, count(self.s.p.k)
        first = b.udiv(b.mul(share, depth), self.s.shares)
        last = b.udiv(b.mul(b.add(share, 1), depth), self.s.shares)
        for memory in sums:
            clear(b, memory, p.arithmetic.bytes, here)
        with b.loop(first, last, _BLOCK, plain=True) as start:
            end = b.minimum(b.add(start, _BLOCK), last)
            for memory in block:
                clear(b, memory, p.arithmetic.bytes, here)
            unrolled = _UNROLLED if len(sums) <= _FEW_ROWS else _UNROLLED_MORE
            whole = b.sub(end, b.urem(b.sub(end, start), unrolled))
            for begin, stop, step in ((start, whole, unrolled), (whole, end, 1)):
                with b.loop(begin, stop, step, plain=True) as i:
                    self._add_rows(k, batch, [b.add(i, u) for u in range(step)], n0, here, block)
            with b.loop(0, here) as j:
                for x, total in zip(block, sums, strict=True):
                    self._add_to(b, total, j, b.load(p.arithmetic.type, self._at(b, x, j)))

    def _add_rows(
        self, k: Kernel, batch: list[Index], rows: list[Index], n0: Index, here: Index,
        block: list[str],
    ) -> None:  # fmt: skip
        """Add the products with some rows of B to a block."""
        b, p = k.b, self.s.p
        (along,), total = p.k, p.arithmetic.total
        to_left, left = Types.of(p.a.et, total), p.a.address(k)
        factors, readers = [], []
        for i in rows:
            at = b.add(offset_at(b, 0, p.batch, batch, "a"), b.mul(i, along.a))
            places = [self._row(b, at, r, "a") for r in range(len(block))]
            loaded = [to_left.load(b, left, place) for place in places]
            factors.append([_as_sum(b, to_left, value) for value in loaded])
            at = b.add(offset_at(b, 0, p.batch, batch, "b"), b.mul(i, along.b))
            readers.append(_reader(k, p, at, n0))
        with b.loop(0, here) as j:
            values = [read(j) for read in readers]
            for r, memory in enumerate(block):
                address = self._at(b, memory, j)
                found = b.load(p.arithmetic.type, address)
                for factor, value in zip(factors, values, strict=True):
                    found = p.arithmetic.multiply_add(b, factor[r], value, found)
                b.store(found, address)

    def _deliver(
        self, k: Kernel, batch: list[Index], share: Index, n0: Index, here: Index, sums: list[str]
    ) -> None:
        """Write the sums to the result, or as a share of it."""
        b, p = k.b, self.s.p
        base, store = k.outputs[0], p.store
        offset = offset_at(b, p.c_offset, p.batch, batch, "c")
        if self.s.shares > 1:
            base, store = k.scratch[self.partial], Types.of(p.arithmetic.total)
            offset = b.add(offset, b.mul(share, self.elements))
        step = uniform_stride(p.n, "c")
        assert step is not None
        for r, memory in enumerate(sums):
            row = self._row(b, offset, r, "c")
            with b.loop(0, here) as j:
                found = b.load(p.arithmetic.type, self._at(b, memory, j))
                value = store.through(b, scalar.from_memory(b, p.arithmetic.total, found))
                store.store(b, value, base, b.add(row, b.mul(b.add(n0, j), step)))

    def _row(self, b: Builder, start: Index, number: int, side: str) -> Index:
        """Return where a row of A or of C begins, from row 0 on."""
        m = self.s.p.m
        indices = split_index(b, number, [d.size for d in m]) if m else []
        return offset_at(b, start, m, indices, side)

    def _at(self, b: Builder, memory: str, j: Index) -> str:
        return b.element_address(memory, self.s.p.arithmetic.type, j)

    def _add_to(self, b: Builder, memory: str, j: Index, value: Val) -> None:
        address, arithmetic = self._at(b, memory, j), self.s.p.arithmetic
        b.store(arithmetic.add(b, b.load(arithmetic.type, address), value), address)


def _reader(k: Kernel, p: Product, at: Index, n0: Index) -> Callable[[Index], Val]:
    """Return what reads the elements of a row of B, from a column on. at: where the row begins."""
    b, types, start = k.b, Types.of(p.b.et, p.arithmetic.total), k.b.add(at, n0)
    if isinstance(p.b.memory, Computed):
        run = p.b.memory.run(k, start, types)
        return lambda j: _as_sum(b, types, run(j))
    address = p.b.address(k)
    return lambda j: _as_sum(b, types, types.load(b, address, b.add(start, j)))


def _as_sum(b: Builder, types: Types, value: scalar.Value) -> Val:
    """Return an element in the type of sums, as it is in memory."""
    assert isinstance(value, Val), types
    return scalar.to_memory(b, types.chain[-1], value)
