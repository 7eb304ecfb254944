"""The kernel: tiles of keys and values go by, while a warp keeps sums for sixteen rows.

A block has some rows of a batch, each of its warps sixteen. Their part of Q stays in shared memory;
tiles of K and V are copied there ahead. A warp multiplies its rows by a tile of K; what the lanes
have of the products is just what they need as the first operand of the second product, once it has
been made weights. Neither scores nor weights are ever in memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hlo.analysis.fusion.chains import chain_of
from hlo.analysis.fusion.weights import weights_of
from hlo.codegen.kernels.matmul.product import count
from hlo.codegen.llvm import Index, Val, float_const, i64
from hlo.codegen.loops.kernel import Kernel
from hlo.codegen.targets.gpu.base import Gpu, Grid
from hlo.codegen.targets.gpu.block import Block
from hlo.codegen.targets.gpu.kernels.attention.fragments import WeightedSums
from hlo.codegen.targets.gpu.kernels.attention.rows import (
    Running,
    WeightedRow,
    keys_of_lane,
    real,
)
from hlo.codegen.targets.gpu.kernels.attention.tiling import KEYS, ROWS, SLOTS, Attention
from hlo.codegen.targets.gpu.kernels.attention.work import work_of
from hlo.codegen.targets.gpu.kernels.matmul.fragment_products import add_products, joined
from hlo.codegen.targets.gpu.kernels.matmul.fragments import fragments_of
from hlo.codegen.targets.gpu.kernels.matmul.operands import place_at
from hlo.codegen.targets.gpu.kernels.matmul.results import Ending
from hlo.codegen.targets.gpu.kernels.matmul.staging import (
    Slots,
    Tiles,
    commit_copies,
    tiles_of,
    wait_for_copies,
)
from hlo.codegen.targets.gpu.kernels.matmul.sums import Sum
from hlo.codegen.targets.gpu.kernels.matmul.tiles import Share, Tiling, WarpTiling, over_tiles
from hlo.codegen.targets.gpu.kernels.matmul.units import COLUMNS
from hlo.codegen.targets.gpu.kernels.matmul.warp_sums import WarpSums

_ZERO = float_const("float", 0.0)
# Steps of the first product that are code of their own, of a loop over more.
_TOGETHER = 4


@dataclass(frozen=True)
class AttentionKernel:
    """Computes a chain of two products. sum: how the second one's sums are stored."""

    a: Attention
    sum: Sum

    def __call__(self, k: Kernel) -> Grid:
        assert isinstance(k.target, Gpu)
        a = self.a
        _Emitter(k, a, self.sum, Block(k.b, k.target)).emit()
        return Grid(
            a.blocks, a.length, a.blocks, a.warps * k.target.lanes, a.shared_bytes, work_of(a),
            is_final=True, is_large=True,
        )  # fmt: skip


class _Emitter:
    """Emission of what one thread does."""

    def __init__(self, k: Kernel, a: Attention, total: Sum, block: Block) -> None:
        chain = chain_of(k.inst, k.roles)
        assert chain is not None
        weights = weights_of(chain, k.roles)
        assert weights is not None
        self.k, self.b, self.a, self.sum, self.block = k, k.b, a, total, block
        self.chain, self.weights = chain, weights
        b = k.b
        number = b.udiv(block.block_index(), a.row_blocks)
        self.first_row = b.mul(b.urem(block.block_index(), a.row_blocks), a.rows)
        self.own_row = b.mul(block.index(block.warp()), ROWS)
        self.shares = [
            Share(0, place_at(b, p.batch, number), self.first_row, 0, 0, a.tiles)
            for p in (a.first, a.last)
        ]
        base = block.dynamic_shared()
        self.k_slots = Slots(base, 0, a.slot_bytes)
        self.v_slots = Slots(base, a.k.bytes, a.slot_bytes)
        self.q_slots = Slots(base, SLOTS * a.slot_bytes, 0)

    def emit(self) -> None:
        b, a = self.b, self.a
        sums = [_ZERO] * (a.fragments * a.units[1].sums)
        rows = [self._row(n) for n in range(ROWS // COLUMNS)]
        starts = [value for row in rows for value in row.start().values]
        weighted = WeightedSums(self.block, a, self.chain.operand.array_shape.element_type)
        first = a.units[0]
        q = fragments_of(self.block, "a", first, a.q, self.own_row, 1)
        k = fragments_of(self.block, "b", first, a.k_read, 0, KEYS // COLUMNS)

        def scores(slot: Index) -> list[Val]:
            found = [_ZERO] * (KEYS // COLUMNS * first.sums * (2 if first.is_split else 1))
            bases = self.q_slots.address(b, 0), self.k_slots.address(b, slot)

            def add(begin: Index, number: int) -> None:
                for step in (b.add(begin, n) for n in range(number)):
                    x, y = q.read(bases[0], step), k.read(bases[1], step)
                    add_products(b, first, x, y, found)

            if a.steps <= _TOGETHER:
                add(0, a.steps)
            else:
                each = math.gcd(a.steps, _TOGETHER)
                with b.carrying(0, a.steps, [*found], each, plain=True) as turn:
                    found[:] = turn.values
                    add(turn.index, each)
                    turn.values = [*found]
                found[:] = turn.values
            return joined(b, found) if first.is_split else found

        def compute(slot: Index, state: Sequence[Val]) -> Sequence[Val]:
            totals, key = list(state[: len(sums)]), state[-1].name
            running = _split(rows, state[len(sums) : -1])
            weights = self._weights(rows, running, key, scores(slot), totals)
            weighted.add(self.v_slots.address(b, slot), weights, totals)
            held = [value for r in running for value in r.values]
            return [*totals, *held, i64(b.add(key, KEYS))]

        state = over_tiles(
            self.block, Tiling(a.rows, a.fragments * COLUMNS, KEYS), self.shares[0], SLOTS,
            self._stagers(), [*sums, *starts, i64(0)], compute, lambda: commit_copies(b),
            lambda: wait_for_copies(b, SLOTS - 2),
        )  # fmt: skip
        self._store(rows, _split(rows, state[len(sums) : -1]), list(state[: len(sums)]))

    def _stagers(self) -> list[Tiles]:
        """Begin to copy Q; returns what copies K and V."""
        k, a, block = self.k, self.a, self.block
        threads = a.warps * block.gpu.lanes
        (of_first, of_last), (unit, last) = self.shares, a.units
        q = tiles_of(
            k, block, a.first, "a", of_first, a.q, self.q_slots, unit.lhs, threads, a.aligned[0]
        )
        q.begin(0, 0)
        q.finish(0)
        return [
            tiles_of(
                k, block, a.turned, "b", of_first, a.k, self.k_slots, unit.rhs, threads,
                a.aligned[1],
            ),
            tiles_of(
                k, block, a.last, "b", of_last, a.v, self.v_slots, last.rhs, threads, a.aligned[2]
            ),
        ]  # fmt: skip

    def _row(self, half: int) -> WeightedRow:
        """Return one of the lane's rows."""
        b, a = self.b, self.a
        lane = self.block.index(self.block.lane())
        index = b.add(b.add(self.first_row, self.own_row), b.add(b.udiv(lane, 4), COLUMNS * half))
        row = place_at(b, a.first.m, index, is_checked=count(a.first.m) % a.rows != 0)
        at: Index = 0
        batch = self.shares[0].batch
        for place, steps in ((batch, a.batch_steps), (row, a.row_steps)):
            for i, step in zip(place.digits, steps, strict=True):
                at = b.add(at, b.mul(i, step))
        return WeightedRow(self.k, self.block, self.chain, self.weights, at)

    def _weights(
        self, rows: Sequence[WeightedRow], running: list[Running], first: Index,
        scores: Sequence[Val], totals: list[Val],
    ) -> list[list[Val]]:  # fmt: skip
        """Return the weights of a tile, by row; sums and what is known of rows change in place."""
        b = self.b
        store = self.a.first.store
        keys, exist = keys_of_lane(self.block, first, self.a.length, KEYS)
        found = []
        for half, row in enumerate(rows):
            places = [4 * n + 2 * half + i for n in range(KEYS // COLUMNS) for i in (0, 1)]
            own = [real(store.through(b, scores[place])) for place in places]
            weights, running[half], scale, counts = row.add(running[half], keys, exist, own)
            found.append(weights)
            for at in range(2 * half, len(totals), 4):
                for i in (at, at + 1):
                    totals[i] = row.scaled(totals[i], scale, counts)
        return found

    def _store(
        self, rows: Sequence[WeightedRow], running: Sequence[Running], totals: list[Val]
    ) -> None:
        """Store the weighted sums, with the factors of their rows."""
        b, a = self.b, self.a
        for half, row in enumerate(rows):
            row.finish(running[half])
            for opcode, value in row.factors():
                for at in range(2 * half, len(totals), 4):
                    for i in (at, at + 1):
                        totals[i] = b.binary(opcode, totals[i], value)
        tiles = WarpTiling(Tiling(a.rows, a.fragments * COLUMNS, KEYS), a.warps, 1, SLOTS)
        sums = WarpSums(
            self.k, self.block, a.last, a.units[1], tiles, Ending(self.sum), self.shares[1],
            (self.own_row, 0), (1, a.fragments), totals,
        )  # fmt: skip
        sums.store()


def _split(rows: Sequence[WeightedRow], values: Sequence[Val]) -> list[Running]:
    """Return what is known of rows, of which there is the same of each."""
    each = len(values) // len(rows)
    return [row.running(values[n * each : (n + 1) * each]) for n, row in enumerate(rows)]
