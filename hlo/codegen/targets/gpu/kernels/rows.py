"""Row by row: softmax, normalizations, and what else needs values of a row for each element of it.

See `hlo.analysis.fusion.rows`. A group of adjacent threads has a row. Each of them has a few
elements, in registers from the first time that they are read or computed, so that memory is read
once and written once. The reductions of the row are combined by exchange between lanes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hlo.analysis.fusion.roles import Role
from hlo.analysis.fusion.rows import Rows, locals_of, rows_of
from hlo.codegen.kernels.reduce.reducer import KernelReducer, Reducer
from hlo.codegen.llvm import Index, Val
from hlo.codegen.loops.element import Indices
from hlo.codegen.loops.kernel import Kernel, split_index
from hlo.codegen.scalar.operations import Value
from hlo.codegen.targets.base import Plan
from hlo.codegen.targets.gpu.base import Gpu, Grid
from hlo.codegen.targets.gpu.block import Block
from hlo.codegen.targets.gpu.kernels.team import chosen, combine_threads
from hlo.ir import Instruction
from hlo.values.layout.plain import loop_order
from hlo.values.types import ArrayShape

# Threads of a block, at least and at the most.
_BLOCK, _LARGEST = 128, 1024
# Elements that a thread would have, and those that registers have room for.
_WANTED, _MOST = 8, 16
# Bytes that a thread reads by one instruction.
_VECTOR_BYTES = 16


@dataclass(frozen=True)
class RowGroups:
    """How threads share rows.

    group: the threads of a row, a power of two. vector: the elements that follow each other which a
    thread reads at once. turns: how many of these it has. at_once: the rows of a block.
    """

    group: int
    vector: int
    turns: int
    at_once: int

    @staticmethod
    def of(rows: Rows) -> RowGroups:
        """Return how to share rows, of which none is too long for the threads of a block."""
        inner = rows.space.dims[rows.order[-1]]
        vector = math.gcd(inner, max(1, _VECTOR_BYTES // rows.space.element_type.byte_width))
        best: tuple[int, int, RowGroups] | None = None
        group = 1
        while group <= _LARGEST and group * vector <= rows.length:
            turns = -(-rows.length // (group * vector))
            each = turns * vector
            if each <= max(_MOST, vector):
                at_once = max(1, min(_BLOCK // group, rows.row_count))
                # The least idle threads; of equal ones, what is nearest to the wanted size.
                rank = group * each, abs(each - _WANTED)
                if best is None or rank < best[:2]:
                    best = (*rank, RowGroups(group, vector, turns, at_once))
            group *= 2
        assert best is not None, rows.length
        return best[2]


def plan_rows(inst: Instruction, roles: Mapping[Instruction, Role]) -> Plan | None:
    """Return the kernel of an instruction that goes row by row, None for any other one."""
    return Plan((emit_rows,)) if rows_of(inst, roles) is not None else None


def emit_rows(k: Kernel) -> Grid:
    """Emit a thread's part of a row."""
    return _Emitter(k).emit()


class _Emitter:
    """Emission of one thread's elements of a row."""

    def __init__(self, k: Kernel) -> None:
        assert isinstance(k.target, Gpu)
        rows = rows_of(k.inst, k.roles)
        assert rows is not None
        groups = RowGroups.of(rows)
        self.k, self.b, self.rows, self.g = k, k.b, rows, groups
        self.block = Block(k.b, k.target)
        lanes = k.target.lanes
        self.threads = -(-groups.group * groups.at_once // lanes) * lanes

    def emit(self) -> Grid:
        """Write the code."""
        k, b, rows, g = self.k, self.b, self.rows, self.g
        b.is_careful = True
        thread = self.block.thread_index()
        self.member = b.urem(thread, g.group)
        number = b.add(b.mul(self.block.block_index(), g.at_once), b.udiv(thread, g.group))
        blocks = -(-rows.row_count // g.at_once)
        self.is_own = b.both(
            b.compare("slt", number, rows.row_count),
            b.compare("slt", thread, g.group * g.at_once),
        )
        is_shared = blocks * self.threads != rows.row_count * g.group
        if is_shared:
            # Threads without a row of their own do the work of others, and store nothing.
            number = b.minimum(number, rows.row_count - 1)
        outer = [rows.space.dims[d] for d in rows.order[: rows.outer]]
        self.row = split_index(b, number, outer) if outer else []
        self.turns = [self._turn(n) for n in range(g.turns)]
        for inst, _ in locals_of(rows, k.roles):
            if inst.opcode == "reduce":
                self._keep(inst)
        write = self._reduction() if k.inst.opcode == "reduce" else self._elements()
        if is_shared and any(f"%buf{n}" in k.outputs for n in k.inputs.buffer_of.values()):
            self.block.barrier()  # the elements of others were read before they are overwritten
        write()
        return Grid(blocks * self.threads, 1.0, blocks, self.threads, is_final=True)

    def _turn(self, number: int) -> tuple[Val, list[list[Index]]]:
        """Return whether a turn's elements exist, and where they are along the row.

        Where they do not, they are those of the first turn.
        """
        b, g, rows = self.b, self.g, self.rows
        own = b.mul(self.member, g.vector)
        first = b.add(own, number * g.group * g.vector)
        exists = b.compare("slt", first, rows.length)
        if (number + 1) * g.group * g.vector <= rows.length:
            exists = Val("i1", "true")
        else:
            first = b.select(exists, *(Val("i64", str(i)) for i in (first, own))).name
        *head, last = split_index(b, first, [rows.space.dims[d] for d in rows.order[rows.outer :]])
        return exists, [[*head, b.add(last, n)] for n in range(g.vector)]

    def _indices(self, shape: ArrayShape, along: Sequence[Index]) -> Indices:
        """Return the indices of an element of an array that lies like the space."""
        place = dict(zip(loop_order(shape), [*self.row, *along], strict=True))
        return tuple(place.get(d, 0) for d in range(shape.rank))

    def _total(self, w: Reducer) -> list[Value]:
        """Return what the row is reduced to, in every thread of its group."""
        combiner = w.combiner
        found: list[list[Value]] = []
        for exists, places in self.turns:
            for along in places:
                indices = self._indices(w.r.source, along)
                new = w.element(dict(enumerate(indices)), {})
                if exists.name != "true":
                    new = chosen(self.block, exists, new, combiner.identity())
                found.append(new)

        def follow(held: list[Value], new: list[Value]) -> list[Value]:
            return w.apply(held, new, in_order=True)

        own = w.apply_all(found[0], found[1:])
        total = combine_threads(
            self.block, own, combiner.held, self.g.group, self.threads, follow, in_order=False
        )
        return follow(w.inits(), total)

    def _keep(self, inst: Instruction) -> None:
        """Compute a reduction of the row."""
        w = Reducer(inst, self.k.elements)
        (value,) = w.combiner.result(self.b, self._total(w), [inst.array_shape.element_type])
        self.k.elements.kept[inst] = lambda _: value

    def _elements(self) -> Callable[[], None]:
        """Compute the elements of the result; returns what stores them."""
        k, b = self.k, self.b
        places = [
            (exists, [self._indices(k.shape, along) for along in places])
            for exists, places in self.turns
        ]
        values = [[k.elements.compute(k.inst, at) for at in turn] for _, turn in places]

        def write() -> None:
            for (exists, turn), elements in zip(places, values, strict=True):
                with b.when(b.both(self.is_own, exists)):
                    for at, value in zip(turn, elements, strict=True):
                        k.store(value, at)

        return write

    def _reduction(self) -> Callable[[], None]:
        """Compute the row's own result; returns what stores it."""
        w, b = KernelReducer(self.k), self.b
        total = self._total(w)
        kept = dict(zip(loop_order(w.r.source), self.row, strict=False))

        def write() -> None:
            with b.when(b.both(self.is_own, b.compare("eq", self.member, 0))):
                w.store(total, kept)

        return write
