"""Products without tiles: a thread, or the lanes of a warp, compute an element of the result."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from hlo.codegen.kernels.matmul.product import Product, count
from hlo.codegen.llvm import Index, Val
from hlo.codegen.loops.kernel import Kernel, split_index
from hlo.codegen.targets.base import Extent
from hlo.codegen.targets.gpu.base import Gpu, Grid
from hlo.codegen.targets.gpu.block import Block
from hlo.codegen.targets.gpu.kernels.matmul.cost import plain_work
from hlo.codegen.targets.gpu.kernels.matmul.operands import Operand, Place
from hlo.codegen.targets.gpu.kernels.matmul.results import Ending
from hlo.codegen.targets.gpu.kernels.matmul.sums import parts_of, value_of

_THREADS = 256


@dataclass(frozen=True)
class Direct:
    """A thread computes an element, in the order in which the result lies in memory."""

    p: Product
    ending: Ending

    def __call__(self, k: Kernel) -> Extent:
        b, p = k.b, self.p
        total = count(p.batch) * count(p.m) * count(p.n)
        cost = float(count(p.k))
        if not isinstance(k.target, Gpu):
            # One thread that does all: where functions are applied to elements.
            with b.loop(k.begin, k.end, plain=True) as at:
                self._element(k, at)
            return Extent(total, cost)
        threads = min(_THREADS, -(-total // k.target.lanes) * k.target.lanes)
        number = Block(b, k.target).global_index(threads)
        with b.when(b.compare("slt", number, total)):
            self._element(k, number)
        work = plain_work(p, self.ending.sum)
        return Grid(total, cost, -(-total // threads), threads, 0, work)

    def _element(self, k: Kernel, at: Index) -> None:
        """Compute the at-th element of the result."""
        b, p, sums = k.b, self.p, self.ending.sum
        all_dims = (*p.batch, *p.m, *p.n)
        order = sorted(range(len(all_dims)), key=lambda n: -abs(all_dims[n].c))
        digits = split_index(b, at, [all_dims[n].size for n in order]) if order else []
        found = dict(zip(order, digits, strict=True))
        indices = iter([found[n] for n in range(len(all_dims))])
        batch, row, column = (
            Place(dims, tuple(itertools.islice(indices, len(dims)))) for dims in (p.batch, p.m, p.n)
        )
        x, y = (Operand(k, p, side, sums.total) for side in "ab")

        def level(inner: tuple[Index, ...], total: Sequence[Val]) -> Sequence[Val]:
            if len(inner) == len(p.k):
                place = Place(p.k, inner)
                factors = x.at(batch, row, place), y.at(batch, column, place)
                return parts_of(sums.multiply_add(b, *factors, value_of(total)))
            size = p.k[len(inner)].size
            if size == 1:
                return level((*inner, 0), total)
            with b.carrying(0, size, total) as turn:
                turn.values = [*level((*inner, turn.index), turn.values)]
            return turn.values

        value = value_of(level((), sums.zero()))
        self.ending.put(k, p, 0, batch, row, column, value)
