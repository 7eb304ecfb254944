"""dot: a product of its own, or the last one of a chain, which is computed block by block.

A task takes some rows of a batch. The first products write these rows, as sums, to blocks of its
own; they become rows of the last product's operand, which it multiplies. The blocks stay in the
cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hlo.analysis.fusion.chains import Chain, chain_of
from hlo.analysis.fusion.roles import Role
from hlo.codegen.kernels.chain.blocks import Blocks, Link
from hlo.codegen.kernels.chain.dimensions import Rows, common_rows
from hlo.codegen.kernels.matmul.contraction import (
    operand_view,
    plan_dot,
    product_of,
    settled,
    source_of,
)
from hlo.codegen.kernels.matmul.gemm import PackShared, Steps
from hlo.codegen.kernels.matmul.product import Dim, Dims, Product, Source, SumTypes, count, sums_of
from hlo.codegen.kernels.matmul.schedule import Packing, Schedule, pitch
from hlo.codegen.kernels.matmul.scheduler import block_schedule, own_batches
from hlo.codegen.kernels.views import StridedView, whole_view
from hlo.codegen.loops.kernel import planner
from hlo.codegen.targets.base import Plan, Target
from hlo.ir import Instruction
from hlo.ops.elementwise.casts import widens
from hlo.values.types import ElementType

# Bytes of a block, and its rows at the most; and at the least, in tiles.
_BLOCK_BYTES, _BLOCK_ROWS, _LEAST_TILES = 128 * 1024, 96, 4


@planner("dot")
def plan_product(inst: Instruction, roles: Mapping[Instruction, Role], target: Target) -> Plan:
    """Compute a product, with what its operand is made of where that is fused into it."""
    chain = chain_of(inst, roles)
    if chain is None:
        return plan_dot(inst, roles, target)
    return _Planner(chain, roles, target).plan()


@dataclass
class _Planner:
    chain: Chain
    roles: Mapping[Instruction, Role]
    target: Target

    def plan(self) -> Plan:
        self.steps = Steps()
        products = self._products(is_settled=False)
        rows = common_rows(products, self.chain.rows.length) if products else None
        if products is None or rows is None:
            self.steps = Steps()
            products = self._products(is_settled=True)
            assert products is not None
            rows = common_rows(products, self.chain.rows.length)
            assert rows is not None
        products = [replace(p, batch=rows.batch[n], m=rows.rows[n]) for n, p in enumerate(products)]
        return self._schedule(products, rows)

    # --- products -------------------------------------------------------------------------------

    def _products(self, *, is_settled: bool) -> list[Product] | None:
        """Return the products, rows of the space in the place of m; None if views do not fit.

        is_settled: whether all operands are copied, so that they do.
        """
        found = []
        for inst in self.chain.first:
            path = _path(self.chain.last, inst)
            sums = _sums(inst)
            views = [self._view(inst, n, sums, path, is_settled=is_settled) for n in (0, 1)]
            sources = [source_of(v, self.chain.last, self.roles) for v in views]
            product = product_of(inst, views, sources, sums)
            if product is None:
                return None
            found.append(self._along_rows(product))
        last = self._last(is_settled=is_settled)
        return None if last is None else [*found, last]

    def _view(
        self,
        inst: Instruction,
        number: int,
        sums: SumTypes,
        path: Sequence[int],
        *,
        is_settled: bool,
    ) -> StridedView:
        if is_settled:
            return settled(self.steps, inst, number, sums, self.target, path)
        return operand_view(self.steps, inst, number, self.roles, sums, self.target, path)

    def _along_rows(self, p: Product) -> Product:
        """Return a first product with what runs along rows as n, in its order there."""
        if any(d.size != 1 and d.c < self.chain.rows.length for d in p.m):
            p = p.flipped()
        return replace(p, n=_sorted(p.n, "c"), k=_sorted(p.k, "b"))

    def _last(self, *, is_settled: bool) -> Product | None:
        """Return the last product, with the rows as A."""
        chain, inst = self.chain, self.chain.last
        sums = _sums(inst)
        et = chain.operand.array_shape.element_type
        other = 1 - chain.number
        view = self._view(inst, other, sums, (), is_settled=is_settled)
        sources = [source_of(view, inst, self.roles)] * 2
        sources[chain.number] = Source(-1, self._block_type(et, view.et, sums.total))
        views = [view, view]
        views[chain.number] = whole_view(-1, chain.operand.array_shape)
        p = product_of(inst, views, sources, sums)
        if p is None:
            return None
        p = p.flipped() if chain.number == 1 else p
        return replace(p, n=_sorted(p.n, "c"), k=_sorted(p.k, "a"))

    def _block_type(self, et: ElementType, other: ElementType, total: ElementType) -> ElementType:
        """Return the type in which rows are stored: that of sums, unless pairs are multiplied."""
        kernels = self.target.microkernels(et, other, total)
        is_exact = et is total or widens(et, total)
        return total if is_exact and all(k.group == 1 for k in kernels) else et

    # --- blocks ---------------------------------------------------------------------------------

    def _schedule(self, products: Sequence[Product], rows: Rows) -> Plan:
        *first, last = products
        length = self.chain.rows.length
        size = max(p.arithmetic.bytes for p in first)
        wanted = min(_BLOCK_ROWS, _BLOCK_BYTES // (length * size))
        schedules = []
        for p in first:
            least = _LEAST_TILES * block_schedule(p, 1, self.target).rows
            s = block_schedule(p, max(wanted, least), self.target)
            schedules.append(replace(s, direct=False))
        # All products take the same rows at a time.
        number = min(s.rows for s in schedules)
        width = max(s.wide_columns for s in schedules)
        blocks = [pitch(width, p.arithmetic.bytes) for p in first]
        is_shared = _width(last.a.et) == first[0].arithmetic.bytes
        own = blocks[0] if is_shared else pitch(length, _width(last.a.et))
        last = _in_block(last, own)
        schedules = [replace(s, rows=number) for s in schedules]
        final = replace(block_schedule(last, number, self.target), rows=number)
        tasks = count(rows.batch[0]) * -(-rows.count // number)
        slots = self.target.slots(tasks)
        links = [
            self._link(s, number * pitch_ * s.p.arithmetic.bytes, slots)
            for s, pitch_ in zip(schedules, blocks, strict=True)
        ]
        block = links[0].block
        if not is_shared:
            block = self.steps.memory(slots * number * own * _width(last.a.et))
        final = replace(final, p=replace(last, a=replace(last.a, memory=block)))
        end = self._link(final, 0, slots)
        self.steps.emitters.append(
            Blocks(tuple(links), replace(end, block=block), rows, number, tuple(blocks), own, tasks)
        )
        return self.steps.plan()

    def _link(self, s: Schedule, block: int, slots: int) -> Link:
        """Return a product with its memory, after a step for a B that is packed beforehand.

        block: bytes of the block that it writes, none where it writes the result.
        """
        if not block:
            panels = self.steps.memory(s.slot_bytes * slots)
        else:
            panels = self.steps.memory(sum(s.panel_bytes[:2]) * slots)
        shared = -1
        if s.b is Packing.SHARED:
            strips = -(-count(s.p.n) // s.kernel.nr)
            groups = own_batches(s.p.batch) * strips * s.kernel.nr * s.kernel.groups(count(s.p.k))
            shared = self.steps.memory(groups * s.kernel.rhs.bytes)
            self.steps.emitters.append(PackShared(s, shared))
        return Link(s, panels, shared, self.steps.memory(block * slots) if block else -1)


def _sums(inst: Instruction) -> SumTypes:
    lhs, rhs = (o.array_shape.element_type for o in inst.operands)
    return sums_of(lhs, rhs, inst.array_shape.element_type)


def _sorted(dims: Dims, side: str) -> Dims:
    """Return dimensions as they lie in an array, the outermost first; at least one."""
    found = [d for d in dims if d.size != 1]
    return tuple(sorted(found, key=lambda d: -abs(d.stride(side)))) or (Dim(1),)


def _in_block(p: Product, row: int) -> Product:
    """Return the last product on a block, whose rows lie at a distance: only these it has."""
    strides = [row]
    for d in p.m[:0:-1]:
        strides.insert(0, strides[0] * d.size)
    m = tuple(replace(d, a=s) for d, s in zip(p.m, strides, strict=True))
    return replace(p, batch=tuple(replace(d, a=0) for d in p.batch), m=m)


def _width(et: ElementType) -> int:
    return max(8, et.bits) // 8


def _path(root: Instruction, inst: Instruction) -> tuple[int, ...]:
    """Return the numbers of operands that lead from an instruction to another one."""
    paths: dict[Instruction, tuple[int, ...]] = {root: ()}
    todo = [root]
    for node in todo:
        for number, operand in enumerate(node.operands):
            if operand not in paths:
                paths[operand] = (*paths[node], number)
                todo.append(operand)
    return paths[inst]
