"""The blocks of rows of a chain of products, each a task."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass

from hlo.analysis.fusion.chains import Chain, chain_of
from hlo.codegen.kernels.chain.dimensions import Rows
from hlo.codegen.kernels.matmul.gemm import BlockTask, Result
from hlo.codegen.kernels.matmul.packing import segments
from hlo.codegen.kernels.matmul.panels import StridedMatrix
from hlo.codegen.kernels.matmul.product import Dim, count, offset_at
from hlo.codegen.kernels.matmul.schedule import LINE, Schedule
from hlo.codegen.kernels.reduce.row_loops import over_row, prepare_row
from hlo.codegen.llvm import Index, i64, ptr
from hlo.codegen.loops.element import Indices
from hlo.codegen.loops.kernel import LIGHT_COST, Kernel, slot_of, split_index
from hlo.codegen.loops.outlined import call_outlined
from hlo.codegen.loops.vectors import prefetch
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.scalar.operations import Value
from hlo.codegen.targets.base import Extent
from hlo.ir import Instruction
from hlo.values.layout.plain import loop_order
from hlo.values.types import ArrayShape

# Of an element of a row, in rough scalar operations.
_ELEMENT_COST = 8.0


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
    """Computes the result in blocks of `number` rows and `width` columns; threads share the blocks.

    A block is narrower than a row only where it is stored, and nothing is reduced. pitches, own:
    the distance of rows, in elements, in the blocks of the first products and in that of the last
    one, if there is one.
    """

    first: tuple[Link, ...]
    last: Link | None
    rows: Rows
    number: int
    width: int
    pitches: tuple[int, ...]
    own: int = 0

    def __call__(self, k: Kernel) -> Extent:
        chain = chain_of(k.inst, k.roles)
        assert chain is not None
        b, memory = k.b, list(k.scratch)
        sizes = [d.size for d in self.rows.batch[0]]
        sizes += [-(-chain.rows.length // self.width), -(-self.rows.count // self.number)]
        tasks = math.prod(sizes)
        slot = slot_of(k, tasks)
        for n, size in self._memory().items():
            k.scratch[n] = b.element_address(memory[n], "i8", b.mul(slot, size))
        with b.loop(k.begin, k.end, plain=True) as task:
            *batch, column, row = split_index(b, task, sizes)
            _Block(k, self, chain, batch, row, column).write(memory)
        k.scratch[:] = memory
        links = [*self.first, *([self.last] if self.last else [])]
        products = sum(link.s.cost for link in links) / tasks
        elements = self.number * min(self.width, chain.rows.length)
        cost = products + _ELEMENT_COST * elements
        k.is_light = cost < LIGHT_COST
        return Extent(tasks, cost)

    def _memory(self) -> dict[int, int]:
        """Return the bytes of each task's part of the memories, by their numbers."""
        sizes = {}
        if self.last is not None:
            sizes[self.last.block] = self.number * self.own * self.last.s.p.a.et.byte_width
            sizes[self.last.panels] = self.last.s.slot_bytes
        for link, pitch in zip(self.first, self.pitches, strict=True):
            sizes[link.block] = self.number * pitch * link.s.p.arithmetic.bytes
            sizes[link.panels] = sum(link.s.panel_bytes[:2])
        return sizes


class _Block:
    """Emission of one block."""

    def __init__(
        self, k: Kernel, step: Blocks, chain: Chain, batch: Sequence[Index], row: Index,
        column: Index,
    ) -> None:  # fmt: skip
        b = self.b = k.b
        self.k, self.step, self.chain, self.batch = k, step, chain, list(batch)
        total, length = step.rows.count, chain.rows.length
        self.m0, self.n0 = b.mul(row, step.number), b.mul(column, step.width)
        self.height: Index = step.number
        if total % step.number:
            self.height = b.minimum(step.number, b.sub(total, self.m0))
        self.width: Index = min(step.width, length)
        if step.width < length and length % step.width:
            self.width = b.minimum(step.width, b.sub(length, self.n0))

    def write(self, memory: Sequence[str]) -> None:
        """Write all of it. memory: the parameters of which the kernel's memory is a part."""
        k, step = self.k, self.step
        for link, pitch in zip(step.first, step.pitches, strict=True):
            t = BlockTask(
                k, link.s, k.scratch[link.panels], link.shared, self.batch, self.m0, self.n0,
                self.height, self.width,
            )  # fmt: skip
            t.add_up(StridedMatrix(k.scratch[link.block], pitch, 1), 0, link.s.cut.number)
        self._call_rows(memory)
        if step.last is not None:
            self._multiply(step.last)

    def _call_rows(self, memory: Sequence[str]) -> None:
        """Make rows of the operand, or of the result, by a function."""
        k, names = self.k, ("m0", "n0", "height", "width")
        known = {f"%{name}": getattr(self, name) for name in names}
        known |= {f"%batch{n}": i for n, i in enumerate(self.batch)}
        passed = {name: i64(i) for name, i in known.items() if isinstance(i, str)}
        inside = {name: i if isinstance(i, int) else name for name, i in known.items()}
        links = [*self.step.first, *([self.step.last] if self.step.last else [])]
        blocks = {memory[link.block]: ptr(k.scratch[link.block]) for link in links}

        def write(inner: Kernel) -> None:
            block = copy(self)
            block.k, block.b, inner.scratch = inner, inner.b, list(memory)
            block.m0, block.n0, block.height, block.width, *block.batch = inside.values()
            block._compute_rows()

        call_outlined(k, blocks | passed, write)

    def _compute_rows(self) -> None:
        """Make rows of the operand, or of the result, of those that first products have written."""
        k, b, rows, step = self.k, self.b, self.chain.rows, self.step
        loops, shape = step.rows, self.chain.operand.array_shape
        base: Index = 0
        for i, distance in zip(self.batch, loops.batch_steps, strict=True):
            base = b.add(base, b.mul(i, distance))
        with b.loop(0, self.height, plain=True) as r:
            at = base
            found = split_index(b, b.add(self.m0, r), [d.size for d in loops.rows[0]])
            for i, distance in zip(found, loops.row_steps, strict=True):
                at = b.add(at, b.mul(i, distance))
            if step.last is None:
                self._fetch(b.add(at, loops.row_steps[-1]))
            row = split_index(b, at, [rows.space.dims[d] for d in rows.order[: rows.outer]])
            for inst, link, pitch in zip(self.chain.first, step.first, step.pitches, strict=True):
                k.elements.kept[inst] = self._reader(inst, link, b.mul(r, pitch))
            if step.width >= rows.length:
                prepare_row(k, rows, row)
                over_row(k, rows, row, shape, lambda index: self._store(r, index))
            else:
                self._part_of_row(r, row)

    def _fetch(self, row: Index) -> None:
        """Fetch what the block has of a row of the result, which is written next, if there is one.

        Where the block is narrower than the row, the processor does not guess what is next.
        """
        b, et = self.b, self.chain.operand.array_shape.element_type
        type_, size = scalar.memory_type(et), et.byte_width
        start = b.add(b.mul(row, self.chain.rows.length), self.n0)
        base = b.element_address(self.k.outputs[0], type_, start)
        with b.loop(0, b.mul(self.width, size), LINE, plain=True) as at:
            prefetch(b, b.element_address(base, "i8", at), to_write=True)

    def _part_of_row(self, r: Index, row: Sequence[Index]) -> None:
        """Store the elements of a row that the block has."""
        b, rows, shape = self.b, self.chain.rows, self.chain.operand.array_shape
        order = loop_order(shape)
        inner = tuple(Dim(shape.dims[d]) for d in order[rows.outer :])
        with segments(b, inner, self.n0, self.width) as part:
            with b.loop(part.start, b.add(part.start, part.length)) as i:
                place = dict(zip(order, [*row, *part.outer, i], strict=True))
                self._store(r, tuple(place.get(d, 0) for d in range(shape.rank)))

    def _store(self, r: Index, at: Indices) -> None:
        """Store an element of a row."""
        k, b, operand, last = self.k, self.b, self.chain.operand, self.step.last
        value = k.elements.compute(operand, at)
        if last is None:
            k.store(value, at)
            return
        shape, to = operand.array_shape, last.s.p.a.et
        value = scalar.convert(b, value, shape.element_type, to)
        place = b.add(b.mul(r, self.step.own), self._position(shape, self.chain.rows.order, at))
        scalar.store(b, to, value, k.scratch[last.block], place)

    def _multiply(self, last: Link) -> None:
        """Multiply the block, and write the rows of the result."""
        k, b, s = self.k, self.b, last.s
        t = BlockTask(
            k, s, k.scratch[last.panels], last.shared, self.batch, self.m0, 0, self.height,
            count(s.p.n), a0=0,
        )  # fmt: skip
        offset = offset_at(b, s.p.c_offset, s.p.batch, self.batch, "c")
        result = Result(s.p.store.result_address(b, k.outputs[0], offset), s.p.store)
        c = t.target(result)
        t.add_up(c, 0, s.cut.number)
        if not s.direct:
            t.deliver(result, c)

    def _position(self, shape: ArrayShape, loops: Sequence[int], at: Indices) -> Index:
        """Return the place of an element in its row. loops: the dimension of each."""
        linear: Index = 0
        for d in loops[self.chain.rows.outer :]:
            linear = self.b.add(self.b.mul(linear, shape.dims[d]), at[d])
        return linear

    def _reader(self, inst: Instruction, link: Link, row: Index) -> Callable[[Indices], Value]:
        """Return what reads a first product's elements in a row of its block."""

        loops = self.chain.rows.loops_of(inst)
        assert loops is not None

        def read(at: Indices) -> Value:
            place = self.b.sub(self._position(inst.array_shape, loops, at), self.n0)
            base = self.k.scratch[link.block]
            return link.s.p.store.load(self.b, base, self.b.add(row, place))

        return read
