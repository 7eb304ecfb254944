"""The blocks of rows of a chain of products, each a task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hlo.analysis.fusion.chains import Chain, chain_of
from hlo.codegen.kernels.chain.dimensions import Rows
from hlo.codegen.kernels.matmul.gemm import BlockTask, Result
from hlo.codegen.kernels.matmul.panels import StridedMatrix
from hlo.codegen.kernels.matmul.product import count
from hlo.codegen.kernels.matmul.schedule import Schedule
from hlo.codegen.kernels.reduce.row_loops import over_row, prepare_row
from hlo.codegen.llvm import Index
from hlo.codegen.loops.element import Indices
from hlo.codegen.loops.kernel import Kernel, slot_of, split_index
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.scalar.operations import Value
from hlo.codegen.targets.base import Extent
from hlo.ir import Instruction
from hlo.values.layout.plain import loop_order
from hlo.values.types import ArrayShape

# Of an element of a row, in rough scalar operations.
_ROW_COST = 8.0


@dataclass(frozen=True)
class Link:
    """A product of a chain: its schedule, and memory by number.

    panels: of each task. shared: of a B that was packed before, or -1. block: of the rows that it
    writes, or the last one reads; each task has its own.
    """

    s: Schedule
    panels: int
    shared: int
    block: int


@dataclass(frozen=True)
class Blocks:
    """Computes the result in blocks of `number` rows, each a task; threads share the tasks.

    pitches, own: the distance of rows, in elements, in the blocks of the first products and in
    that of the last one.
    """

    first: tuple[Link, ...]
    last: Link
    rows: Rows
    number: int
    pitches: tuple[int, ...]
    own: int
    tasks: int

    def __call__(self, k: Kernel) -> Extent:
        chain = chain_of(k.inst, k.roles)
        assert chain is not None
        b, memory = k.b, list(k.scratch)
        slot = slot_of(k, self.tasks)
        sizes = {self.last.block: self.number * self.own * self.last.s.p.a.et.byte_width}
        for link, pitch in zip(self.first, self.pitches, strict=True):
            sizes[link.block] = self.number * pitch * link.s.p.arithmetic.bytes
            sizes[link.panels] = sum(link.s.panel_bytes[:2])
        sizes[self.last.panels] = self.last.s.slot_bytes
        for n, size in sizes.items():
            k.scratch[n] = b.element_address(memory[n], "i8", b.mul(slot, size))
        with b.loop(k.begin, k.end, plain=True) as task:
            self._task(k, chain, task)
        k.scratch[:] = memory
        products = sum(link.s.cost for link in (*self.first, self.last)) / self.tasks
        return Extent(self.tasks, products + _ROW_COST * self.number * chain.rows.length)

    def _task(self, k: Kernel, chain: Chain, task: Index) -> None:
        b, number, total = k.b, self.number, self.rows.count
        sizes = [d.size for d in self.rows.batch[0]]
        *batch, block = split_index(b, task, [*sizes, -(-total // number)])
        m0 = b.mul(block, number)
        here = b.minimum(number, b.sub(total, m0)) if total % number else number
        for link, pitch in zip(self.first, self.pitches, strict=True):
            t = BlockTask(
                k, link.s, k.scratch[link.panels], link.shared, batch, m0, 0, here,
                chain.rows.length,
            )  # fmt: skip
            t.add_up(StridedMatrix(k.scratch[link.block], pitch, 1), 0, link.s.cut.number)
        self._compute_rows(k, chain, batch, m0, here)
        self._multiply(k, batch, m0, here)

    def _compute_rows(
        self, k: Kernel, chain: Chain, batch: Sequence[Index], m0: Index, here: Index
    ) -> None:
        """Make rows of the last product's operand of those that the first ones have written."""
        b, rows, loops = k.b, chain.rows, self.rows
        base: Index = 0
        for i, step in zip(batch, loops.batch_steps, strict=True):
            base = b.add(base, b.mul(i, step))
        operand, to = chain.operand, self.last.s.p.a.et
        et = operand.array_shape.element_type
        with b.loop(0, here, plain=True) as r:
            at = base
            found = split_index(b, b.add(m0, r), [d.size for d in loops.rows[0]])
            for i, step in zip(found, loops.row_steps, strict=True):
                at = b.add(at, b.mul(i, step))
            row = split_index(b, at, [rows.space.dims[d] for d in rows.order[: rows.outer]])
            for inst, link, pitch in zip(chain.first, self.first, self.pitches, strict=True):
                k.elements.kept[inst] = _reader(k, chain, inst, link, b.mul(r, pitch))
            prepare_row(k, rows, row)

            def write(index: Indices) -> None:
                value = scalar.convert(b, k.elements.compute(operand, index), et, to)
                place = b.add(b.mul(r, self.own), _position(k, chain, operand.array_shape, index))
                scalar.store(b, to, value, k.scratch[self.last.block], place)

            over_row(k, rows, row, operand.array_shape, write)

    def _multiply(self, k: Kernel, batch: Sequence[Index], m0: Index, here: Index) -> None:
        """Multiply the block, and write the rows of the result."""
        b, s = k.b, self.last.s
        t = BlockTask(
            k, s, k.scratch[self.last.panels], self.last.shared, batch, m0, 0, here, count(s.p.n),
            a0=0,
        )  # fmt: skip
        offset: Index = s.p.c_offset
        for d, i in zip(s.p.batch, batch, strict=True):
            offset = b.add(offset, b.mul(i, d.c))
        result = Result(s.p.store.result_address(b, k.outputs[0], offset), s.p.store)
        c = t.target(result)
        t.add_up(c, 0, s.cut.number)
        if not s.direct:
            t.deliver(result, c)


def _position(k: Kernel, chain: Chain, shape: ArrayShape, at: Indices) -> Index:
    """Return the place of an element in its row."""
    linear: Index = 0
    for d in loop_order(shape)[chain.rows.outer :]:
        linear = k.b.add(k.b.mul(linear, shape.dims[d]), at[d])
    return linear


def _reader(
    k: Kernel, chain: Chain, inst: Instruction, link: Link, row: Index
) -> Callable[[Indices], Value]:
    """Return what reads a first product's elements in a row of its block."""

    def read(at: Indices) -> Value:
        place = k.b.add(row, _position(k, chain, inst.array_shape, at))
        return link.s.p.store.load(k.b, k.scratch[link.block], place)

    return read
