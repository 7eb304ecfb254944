"""Chains of products: how they are computed, block by block.

A task takes some rows of a batch. The first products write these rows, as sums, to blocks of its
own; they become rows of the last product's operand, which it multiplies, or of the result. The
blocks stay in the cache. Where nothing is reduced along rows, a block may have some columns only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hlo.analysis.fusion.chains import Chain, chain_of
from hlo.analysis.fusion.roles import Role
from hlo.codegen.kernels.chain.blocks import Blocks, Link
from hlo.codegen.kernels.chain.dimensions import Rows
from hlo.codegen.kernels.chain.products import (
    first_product,
    last_product,
    path_to,
    rows_of_products,
    sums_of_dot,
    with_rows,
)
from hlo.codegen.kernels.matmul.contraction import (
    operand_view,
    plan_dot,
    settled,
    source_of,
)
from hlo.codegen.kernels.matmul.gemm import PackShared, Steps
from hlo.codegen.kernels.matmul.product import (
    Product,
    SumTypes,
    count,
)
from hlo.codegen.kernels.matmul.schedule import Packing, Schedule, pitch
from hlo.codegen.kernels.matmul.scheduler import block_schedule, own_batches
from hlo.codegen.kernels.views import StridedView
from hlo.codegen.loops.kernel import planner
from hlo.codegen.targets.base import Plan, Target
from hlo.ir import Instruction
from hlo.ops.elementwise.casts import widens
from hlo.values.types import ElementType

# Bytes of a block, and its rows at the most; and at the least, in tiles.
_BLOCK_BYTES, _BLOCK_ROWS, _LEAST_TILES = 128 * 1024, 96, 4
# So many blocks there should be for threads to share.
_TASKS = 16


@planner("dot")
def plan_product(inst: Instruction, roles: Mapping[Instruction, Role], target: Target) -> Plan:
    """Compute a product, with what its operand is made of where that is fused into it."""
    chain = chain_of(inst, roles)
    return plan_dot(inst, roles, target) if chain is None else plan_chain(chain, roles, target)


def plan_chain(chain: Chain, roles: Mapping[Instruction, Role], target: Target) -> Plan:
    """Compute what is made of the results of products."""
    return _Planner(chain, roles, target).plan()


@dataclass
class _Planner:
    chain: Chain
    roles: Mapping[Instruction, Role]
    target: Target

    def plan(self) -> Plan:
        if not self.chain.root.array_shape.num_elements:
            return Plan(())
        self.steps = Steps()
        products = self._products(is_settled=False)
        rows = rows_of_products(self.chain, products) if products else None
        if products is None or rows is None:
            self.steps = Steps()
            products = self._products(is_settled=True)
            assert products is not None
            rows = rows_of_products(self.chain, products)
            assert rows is not None
        products = with_rows(products, rows)
        if self.chain.number is None:
            return self._stored(products, rows)
        return self._multiplied(products, rows)

    # --- products -------------------------------------------------------------------------------

    def _products(self, *, is_settled: bool) -> list[Product] | None:
        """Return the products, rows of the space in the place of m; None if views do not fit.

        is_settled: whether all operands are copied, so that they do.
        """
        found = []
        for inst in self.chain.first:
            path = path_to(self.chain.root, inst, self.roles)
            sums = sums_of_dot(inst)
            views = [self._view(inst, n, sums, path, is_settled=is_settled) for n in (0, 1)]
            sources = [source_of(v, self.chain.root, self.roles) for v in views]
            product = first_product(self.chain, inst, views, sources)
            if product is None:
                return None
            found.append(product)
        if self.chain.number is None:
            return found
        last = self._last(self.chain.number, is_settled=is_settled)
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

    def _last(self, number: int, *, is_settled: bool) -> Product | None:
        """Return the last product, with the rows as A. number: of the operand that they are."""
        chain = self.chain
        et = chain.operand.array_shape.element_type
        sums = sums_of_dot(chain.root)
        view = self._view(chain.root, 1 - number, sums, (), is_settled=is_settled)
        source = source_of(view, chain.root, self.roles)
        return last_product(chain, number, view, source, self._block_type(et, view.et, sums.total))

    def _block_type(self, et: ElementType, other: ElementType, total: ElementType) -> ElementType:
        """Return the type in which rows are stored: that of sums, unless pairs are multiplied."""
        kernels = self.target.microkernels(et, other, total)
        is_exact = et is total or widens(et, total)
        return total if is_exact and all(k.group == 1 for k in kernels) else et

    # --- blocks ---------------------------------------------------------------------------------

    def _multiplied(self, products: Sequence[Product], rows: Rows) -> Plan:
        """Multiply rows of blocks by the last product."""
        *first, last = products
        schedules = self._of_rows(first, rows)
        number, pitches = schedules[0].rows, _pitches(schedules)
        tasks = count(rows.batch[0]) * -(-rows.count // number)
        # A row may take the place of that which it is made of.
        is_shared = last.a.et.byte_width == first[0].arithmetic.bytes
        own = pitches[0] if is_shared else pitch(self.chain.rows.length, last.a.et.byte_width)
        slots = self.target.slots(tasks)
        links = self._links(schedules, pitches, slots)
        block = links[0].block
        if not is_shared:
            block = self.steps.memory(slots * number * own * last.a.et.byte_width)
        last = _in_block(last, own)
        final = replace(block_schedule(last, self.target, number), rows=number)
        final = replace(final, p=replace(last, a=replace(last.a, memory=block)))
        shared = self._shared(final)
        end = Link(final, self.steps.memory(final.slot_bytes * slots), shared, block)
        return self._plan(Blocks(links, end, rows, number, schedules[0].columns, pitches, own))

    def _stored(self, products: Sequence[Product], rows: Rows) -> Plan:
        """Store what is made of blocks of rows, or of parts of them."""
        if self.chain.has_reductions:
            schedules = self._of_rows(products, rows)
        else:
            schedules = [block_schedule(p, self.target) for p in products]
            number = min(s.rows for s in schedules)
            columns = min(s.columns for s in schedules)
            unit = math.lcm(*(s.kernel.nr for s in schedules))
            columns = columns // unit * unit or unit
            schedules = [replace(s, rows=number, columns=columns) for s in schedules]
        pitches = _pitches(schedules)
        number, columns = schedules[0].rows, schedules[0].columns
        blocks = -(-rows.count // number) * -(-self.chain.rows.length // columns)
        links = self._links(schedules, pitches, self.target.slots(count(rows.batch[0]) * blocks))
        return self._plan(Blocks(links, None, rows, number, columns, pitches))

    def _plan(self, step: Blocks) -> Plan:
        self.steps.emitters.append(step)
        return self.steps.plan()

    def _of_rows(self, products: Sequence[Product], rows: Rows) -> list[Schedule]:
        """Return schedules of first products in blocks of the same whole rows."""
        size = max(p.arithmetic.bytes for p in products)
        share = -(-rows.count * count(rows.batch[0]) // _TASKS)
        wanted = min(_BLOCK_ROWS, _BLOCK_BYTES // (self.chain.rows.length * size), share)
        found = []
        for p in products:
            least = _LEAST_TILES * block_schedule(p, self.target, 1).rows
            s = block_schedule(p, self.target, max(wanted, least))
            found.append(replace(s, direct=False))
        number, columns = min(s.rows for s in found), max(s.columns for s in found)
        return [replace(s, rows=number, columns=columns) for s in found]

    def _links(
        self, schedules: Sequence[Schedule], pitches: Sequence[int], slots: int
    ) -> tuple[Link, ...]:
        """Return first products with their memory."""
        found = []
        for s, distance in zip(schedules, pitches, strict=True):
            shared = self._shared(s)
            panels = self.steps.memory(sum(s.panel_bytes[:2]) * slots)
            block = self.steps.memory(s.rows * distance * s.p.arithmetic.bytes * slots)
            found.append(Link(s, panels, shared, block))
        return tuple(found)

    def _shared(self, s: Schedule) -> int:
        """Append the step that packs B, if there is one; returns the memory for it, or -1."""
        if s.b is not Packing.SHARED:
            return -1
        strips = -(-count(s.p.n) // s.kernel.nr)
        groups = own_batches(s.p.batch) * strips * s.kernel.nr * s.kernel.groups(count(s.p.k))
        shared = self.steps.memory(groups * s.kernel.rhs.bytes)
        self.steps.emitters.append(PackShared(s, shared))
        return shared


def _pitches(schedules: Sequence[Schedule]) -> tuple[int, ...]:
    """Return the distances of rows in blocks that have room for whole tiles of all products."""
    width = max(s.wide_columns for s in schedules)
    return tuple(pitch(width, s.p.arithmetic.bytes) for s in schedules)


def _in_block(p: Product, row: int) -> Product:
    """Return the last product on a block, whose rows lie at a distance: only these it has."""
    strides = [row]
    for d in p.m[:0:-1]:
        strides.insert(0, strides[0] * d.size)
    m = tuple(replace(d, a=s) for d, s in zip(p.m, strides, strict=True))
    return replace(p, batch=tuple(replace(d, a=0) for d in p.batch), m=m)
