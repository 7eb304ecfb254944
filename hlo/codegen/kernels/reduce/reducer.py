"""The loop structure of a reduction, and the emission of its parts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from hlo.analysis.fusion.roles import Role
from hlo.codegen.kernels.reduce.combiner import Combiner, element_type
from hlo.codegen.llvm import Index
from hlo.codegen.loops.collapse import collapsible_reads
from hlo.codegen.loops.element import ElementEmitter
from hlo.codegen.loops.kernel import Kernel, split_index
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.scalar.operations import Value
from hlo.ir import Instruction
from hlo.values.layout.plain import loop_order
from hlo.values.types import ArrayShape

# Rows per pass over a strip.
ROWS_AT_ONCE = 8
# Bytes of results on the stack.
_STRIP_BYTES = 8192
# Desired number of chunks of a large reduction, and the minimum number of elements in one.
_SHARES, _PART_ELEMENTS = 128, 8192
# Maximum number of rows of a part, and its number of elements: short sums are more precise.
_PART_ROWS, BLOCK = 128, 512


@dataclass(frozen=True)
class Reduction:
    """A reduce instruction and its loop structure.

    Loops are groups of collapsed dimensions. reduced: the reduced dimensions in loop order. kept:
    the others, in memory order. order: that of all loops, if it is not that of the operand.
    """

    inst: Instruction
    roles: Mapping[Instruction, Role]
    combiner: Combiner
    order: tuple[int, ...] | None = None

    @staticmethod
    def of(inst: Instruction, roles: Mapping[Instruction, Role]) -> Reduction:
        return Reduction(inst, roles, Combiner.of(inst.to_apply))

    @cached_property
    def operands(self) -> list[Instruction]:
        return self.inst.operands[: self.combiner.count]

    @property
    def source(self) -> ArrayShape:
        return self.operands[0].array_shape

    @cached_property
    def results(self) -> list[ArrayShape]:
        return [s for _, s in self.inst.shape.leaves() if isinstance(s, ArrayShape)]

    @cached_property
    def loops(self) -> list[int]:
        """The dimensions of more than one element, the slowest-varying loop first."""
        return loop_order(self.source) if self.order is None else list(self.order)

    @cached_property
    def reduced(self) -> list[list[int]]:
        gone = set(self.inst.dimensions)
        order = [d for d in self.loops if d in gone]
        # Only a known function may be applied in another order than the row-major one.
        return self._merged(order if self.combiner.known else sorted(order))

    @cached_property
    def kept(self) -> list[list[int]]:
        gone = set(self.inst.dimensions)
        return self._merged([d for d in self.loops if d not in gone])

    def _merged(self, order: Sequence[int]) -> list[list[int]]:
        flags = collapsible_reads(self.operands, self.roles, order)
        groups: list[list[int]] = []
        for at, d in enumerate(order):
            if at and flags[at - 1]:
                groups[-1].append(d)
            else:
                groups.append([d])
        return groups

    def size(self, groups: Sequence[Sequence[int]]) -> int:
        """Return the number of positions of some loops."""
        return math.prod(self.source.dims[d] for g in groups for d in g)

    @cached_property
    def length(self) -> int:
        return self.size(self.reduced)

    @cached_property
    def by_columns(self) -> bool:
        """True when adjacent results read adjacent elements."""
        order = self.loops
        return bool(self.kept and order and order[-1] == self.kept[-1][-1])

    @property
    def width(self) -> int:
        """The contiguous results of a reduction by columns."""
        return self.size(self.kept[-1:])

    @cached_property
    def strip(self) -> int:
        """How many of these are reduced together."""
        most = max(64, _STRIP_BYTES // sum(et.byte_width for et in self.combiner.held))
        if self.width <= most:
            return self.width
        return -(-self.width // -(-self.width // most) // 64) * 64

    @cached_property
    def part(self) -> int:
        """The number of reduced elements per part."""
        length, results = self.length, self.size(self.kept)
        if not results or not self.combiner.splits(length):
            return length
        least = _PART_ELEMENTS
        if self.by_columns:
            wanted = -(-_SHARES // -(-results // self.strip))
            least = -(-least // self.strip)
        elif results >= _SHARES // 2:
            return length
        else:
            wanted = -(-_SHARES // max(results, 1))
        size = max(least, -(-length // wanted), 1)
        if self.by_columns:
            size = min(-(-size // ROWS_AT_ONCE) * ROWS_AT_ONCE, max(least, _PART_ROWS))
        else:
            size = -(-size // BLOCK) * BLOCK
        return length if size >= length else size

    @property
    def parts(self) -> int:
        return -(-self.length // self.part) if self.part else 1

    @cached_property
    def fused_reads(self) -> int:
        """The number of instructions fused into reading one element."""
        seen: set[Instruction] = set()
        todo = list(self.operands)
        while todo:
            inst = todo.pop()
            if inst not in seen:
                seen.add(inst)
                if self.roles[inst] is Role.FUSED:
                    todo.extend(inst.operands)
        return len(seen)

    def scratch_bytes(self) -> tuple[int, ...]:
        """Return the sizes of the arrays `[parts, results]` of partial results, one per value."""
        count = self.parts * self.size(self.kept)
        return tuple(count * et.byte_width for et in self.combiner.held)


class Reducer:
    """Emission of a reduction, into a kernel of its own or into another one."""

    def __init__(self, inst: Instruction, elements: ElementEmitter) -> None:
        self.inst = inst
        self.elements = elements
        self.b = elements.b
        self.r = Reduction.of(inst, elements.roles)
        self.combiner = self.r.combiner
        self.given = [element_type(o) for o in self.r.operands]

    def indices(self, groups: Sequence[Sequence[int]], found: Sequence[Index]) -> dict[int, Index]:
        """Return the index of each dimension from those of loops."""
        dims = self.r.source.dims
        result: dict[int, Index] = {}
        for group, at in zip(groups, found, strict=True):
            for d, i in zip(group, split_index(self.b, at, [dims[d] for d in group]), strict=True):
                result[d] = i
        return result

    def reduced_at(self, at: Index) -> dict[int, Index]:
        """Return the indices of a position in the reduced dimensions."""
        return self._at(self.r.reduced, at)

    def kept_at(self, at: Index) -> dict[int, Index]:
        """Return the indices of a result, given its position in memory order."""
        return self._at(self.r.kept, at)

    def _at(self, groups: list[list[int]], at: Index) -> dict[int, Index]:
        if not groups:
            return {}
        sizes = [self.r.size([g]) for g in groups]
        return self.indices(groups, split_index(self.b, at, sizes))

    def element(self, kept: Mapping[int, Index], reduced: Mapping[int, Index]) -> list[Value]:
        """Return the operands' elements, in the types that the combiner expects."""
        at = tuple(kept.get(d, reduced.get(d, 0)) for d in range(self.r.source.rank))
        values = [self.elements.at(o, at) for o in self.r.operands]
        return self.combiner.elements(self.b, values, self.given)

    def inits(self) -> list[Value]:
        operands = self.inst.operands[self.combiner.count :]
        values = [self.elements.at(i, ()) for i in operands]
        return self.combiner.start(self.b, values, [element_type(i) for i in operands])

    def apply(
        self, held: Sequence[Value], new: Sequence[Value], *, in_order: bool = False
    ) -> list[Value]:
        return self.combiner.apply(self.elements, held, new, in_order=in_order)

    def apply_all(self, held: Sequence[Value], new: Sequence[Sequence[Value]]) -> list[Value]:
        return self.combiner.apply_all(self.elements, held, new)


class KernelReducer(Reducer):
    """Emission of a reduction into a kernel of its own."""

    def __init__(self, k: Kernel) -> None:
        super().__init__(k.inst, k.elements)
        self.k = k

    def store(self, values: Sequence[Value], kept: Mapping[int, Index]) -> None:
        """Store one set of results."""
        r = self.r
        gone = set(self.inst.dimensions)
        at = tuple(kept.get(d, 0) for d in range(r.source.rank) if d not in gone)
        rounded = self.combiner.result(self.b, values, [s.element_type for s in r.results])
        for n, value in enumerate(rounded):
            self.k.store(value, at, n)

    def leave(self, values: Sequence[Value], part: Index, result: Index) -> None:
        """Store the result of a part, for `_join`."""
        at = self.b.add(self.b.mul(part, self.r.size(self.r.kept)), result)
        for et, value, base in zip(self.combiner.held, values, self.k.scratch, strict=True):
            scalar.store(self.b, et, value, base, at)

    def left(self, part: Index, result: Index) -> list[Value]:
        """Return the value stored by `leave`."""
        at = self.b.add(self.b.mul(part, self.r.size(self.r.kept)), result)
        return [
            scalar.load(self.b, et, base, at)
            for et, base in zip(self.combiner.held, self.k.scratch, strict=True)
        ]
