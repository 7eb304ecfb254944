"""What becomes of a sum: an element of the result, or one of several parts to add up."""

from __future__ import annotations

from dataclasses import dataclass

from hlo.codegen.kernels.matmul.product import Computed, Dims, Product, count
from hlo.codegen.llvm import Index
from hlo.codegen.loops.kernel import Kernel, split_index
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.scalar.operations import Value
from hlo.codegen.targets.base import Extent
from hlo.codegen.targets.gpu.base import Gpu, Grid
from hlo.codegen.targets.gpu.block import Block
from hlo.codegen.targets.gpu.kernels.matmul.cost import parts_work
from hlo.codegen.targets.gpu.kernels.matmul.operands import Place
from hlo.codegen.targets.gpu.kernels.matmul.sums import Sum
from hlo.gpu.work import Work
from hlo.values.layout.plain import loop_order

_THREADS = 256


@dataclass(frozen=True)
class Ending:
    """Where a kernel's sums go.

    partial: the number of the scratch memory for sums of parts of k, one array after the other; -1
    where sums are whole and go to the result. path: the numbers of operands that lead from the
    kernel's instruction, which is computed of each sum, to the product; none for the product.
    """

    sum: Sum
    partial: int = -1
    path: tuple[int, ...] = ()

    def put(
        self, k: Kernel, p: Product, part: Index, batch: Place, row: Place, column: Place,
        value: Value,
    ) -> None:  # fmt: skip
        """Write a sum of the part-th part of k."""
        b = k.b
        at: Index
        if self.partial < 0:
            at = p.c_offset
            for place in (batch, row, column):
                at = b.add(at, place.offset(b, "c"))
            self.store(k, value, at)
            return
        at = self._number(k, p, batch, row, column)
        at = b.add(b.mul(part, count(p.batch) * count(p.m) * count(p.n)), at)
        scalar.store(b, self.sum.total, value, k.scratch[self.partial], at)

    def store(self, k: Kernel, value: Value, at: Index) -> None:
        """Store what becomes of a whole sum. at: its place in the result's memory."""
        b = k.b
        stored = self.sum.stored(b, value)
        if not self.path:
            self.sum.store.store(b, stored, k.outputs[0], at)
            return
        order = loop_order(k.shape)
        digits = split_index(b, at, [k.shape.dims[d] for d in order])
        where = dict(zip(order, digits, strict=True))
        indices = tuple(where.get(d, 0) for d in range(k.shape.rank))
        k.elements.kept[Computed(self.path).instruction(k.inst)] = lambda _: stored
        k.store(k.elements.compute(k.inst, indices), indices)

    def _number(self, k: Kernel, p: Product, *places: Place) -> Index:
        """Return the number of an element among all, counted along n first."""
        b = k.b
        at: Index = 0
        for place in places:
            for d, i in zip(place.dims, place.digits, strict=True):
                at = b.add(b.mul(at, d.size), i)
        return at


@dataclass(frozen=True)
class AddParts:
    """Adds up the sums of the parts of k, in order: a thread an element."""

    p: Product
    ending: Ending
    parts: int

    def __call__(self, k: Kernel) -> Grid:
        assert isinstance(k.target, Gpu)
        b, p, sums = k.b, self.p, self.ending.sum
        dims: Dims = (*p.batch, *p.m, *p.n)
        total = count(dims)
        at = Block(b, k.target).global_index(_THREADS)
        with b.when(b.compare("slt", at, total)):
            memory = k.scratch[self.ending.partial]
            found = scalar.load(b, sums.total, memory, at)
            for part in range(1, self.parts):
                found = sums.add(
                    b, found, scalar.load(b, sums.total, memory, b.add(at, part * total))
                )
            digits = split_index(b, at, [d.size for d in dims]) if dims else []
            place = Place(dims, tuple(digits))
            self.ending.store(k, found, b.add(place.offset(b, "c"), p.c_offset))
        work = parts_work(p, sums, self.parts)
        return Grid(total, self.parts, -(-total // _THREADS), _THREADS, 0, work)


def fill_with_zeros(k: Kernel) -> Extent:
    """Write empty sums: a thread an element."""
    b, shape = k.b, k.shape
    et = shape.element_type
    total = shape.num_elements

    def store(at: Index) -> None:
        scalar.store(b, et, scalar.constant(et, et.dtype.type(0)), k.outputs[0], at)

    if not isinstance(k.target, Gpu):
        with b.loop(k.begin, k.end, plain=True) as at:
            store(at)
        return Extent(total)
    number = Block(b, k.target).global_index(_THREADS)
    with b.when(b.compare("slt", number, total)):
        store(number)
    work = Work((), total * et.byte_width)
    return Grid(total, 1.0, -(-total // _THREADS), _THREADS, 0, work)
