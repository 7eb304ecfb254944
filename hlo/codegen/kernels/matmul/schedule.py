"""A matrix product cut into blocks, and the forms in which its operands are read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property

from hlo.codegen.kernels.matmul.microkernels import Microkernel, PanelOrder
from hlo.codegen.kernels.matmul.product import Dims, Product, count
from hlo.codegen.llvm import Builder, Index
from hlo.codegen.loops.kernel import split_index

# Bytes of a line of a cache.
LINE = 64


class Packing(Enum):
    """Where the microkernel reads an operand: as it lies, or from panels.

    PER_TASK: each task packs what it reads. SHARED: a step before packs B once for all tasks.
    """

    IN_PLACE = auto()
    PER_TASK = auto()
    SHARED = auto()


@dataclass(frozen=True)
class Cut:
    """How k is cut: blocks of `step` indices of dimension `level`, whole in those inside it."""

    dims: Dims
    level: int
    step: int

    @staticmethod
    def of(dims: Dims, most: int, unit: int) -> Cut:
        """Cut into blocks of about `most`, or not at all where it is little more.

        unit: what blocks of the innermost dimension are a multiple of.
        """
        if count(dims) <= most * 5 // 4:
            return Cut(dims, 0, dims[0].size)
        inside = 1
        for level in range(len(dims) - 1, -1, -1):
            size = dims[level].size
            if inside * size > most:
                parts = -(-size * inside // most)
                step = -(-size // parts)
                return Cut(dims, level, -(-step // unit) * unit if inside == 1 else step)
            inside *= size
        raise AssertionError(dims)

    @property
    def inside(self) -> int:
        return count(self.dims[self.level + 1 :])

    @property
    def most(self) -> int:
        """The length of a block that is not the last of its dimension."""
        return min(self.step, self.dims[self.level].size) * self.inside

    @property
    def parts(self) -> int:
        return -(-self.dims[self.level].size // self.step)

    @property
    def number(self) -> int:
        """How many blocks there are."""
        return count(self.dims[: self.level]) * self.parts

    def steps(self, unit: int) -> int:
        """Return how many steps there are of `unit` indices of k, or of a block's remainder."""
        last = (self.dims[self.level].size - (self.parts - 1) * self.step) * self.inside
        runs = (self.parts - 1) * -(-self.most // unit) + -(-last // unit)
        return count(self.dims[: self.level]) * runs

    def block(self, b: Builder, number: Index) -> KBlock:
        """Return a block by its number."""
        sizes = [d.size for d in self.dims[: self.level]]
        *outer, part = split_index(b, number, [*sizes, self.parts])
        start = b.mul(part, self.step)
        here = b.minimum(self.step, b.sub(self.dims[self.level].size, start))
        if self.dims[self.level].size % self.step == 0:
            here = self.step
        linear: Index = 0
        for size, i in zip(sizes, outer, strict=True):
            linear = b.add(b.mul(linear, size), i)
        linear = b.add(b.mul(linear, self.dims[self.level].size), start)
        return KBlock(self, tuple(outer), start, here, b.mul(linear, self.inside))

    @property
    def inner_dims(self) -> Dims:
        return self.dims[self.level :]


@dataclass(frozen=True)
class KBlock:
    """A block of k: indices of the outer dimensions, and a range of the one that is cut.

    linear: the number of indices of k before it.
    """

    cut: Cut
    outer: tuple[Index, ...]
    start: Index
    here: Index
    linear: Index

    def length(self, b: Builder) -> Index:
        return b.mul(self.here, self.cut.inside)


@dataclass(frozen=True)
class Schedule:
    """How a product is computed. rows, columns: of a block of the result."""

    p: Product
    kernel: Microkernel
    cut: Cut
    rows: int
    columns: int
    shares: int
    a: Packing
    b: Packing
    # Of A's panel: what the microkernel wants, or what suits the operand where it wants any.
    a_order: PanelOrder
    # True when the microkernel writes to the result itself.
    direct: bool
    cost: float

    @property
    def name(self) -> str:
        """What sets it apart from other schedules of one product that take sums in one order."""
        roles = "x".join(str(count(d)) for d in (self.p.batch, self.p.m, self.p.n))
        packings = f"{self.a.name.lower()}+{self.b.name.lower()}"
        order = f"{self.a_order.name.lower()}"
        return f"{self.kernel.name} {roles} {self.rows}x{self.columns} {packings} {order}"

    @cached_property
    def row_blocks(self) -> int:
        return -(-count(self.p.m) // self.rows)

    @cached_property
    def column_blocks(self) -> int:
        return -(-count(self.p.n) // self.columns)

    @property
    def tasks(self) -> int:
        return self.shares * count(self.p.batch) * self.row_blocks * self.column_blocks

    # --- panels of a task -----------------------------------------------------------------------

    @property
    def depth(self) -> int:
        """Groups of a panel along k."""
        return self.kernel.groups(self.cut.most)

    @property
    def a_pitch(self) -> int:
        """The distance of rows in A's panel, or of groups of k where those are outermost."""
        if self.a_order is PanelOrder.K_OUTERMOST:
            return self.rows
        return pitch(self.depth, self.kernel.lhs.bytes)

    @property
    def b_pitch(self) -> int:
        """The distance of columns in a local panel of B, or of groups of k, as for A."""
        if self.kernel.rhs.order is PanelOrder.K_OUTERMOST:
            return self.wide_columns
        return pitch(self.depth, self.kernel.rhs.bytes)

    @property
    def wide_columns(self) -> int:
        """Columns of a block, rounded up to whole tiles."""
        width = self.kernel.nr
        return -(-self.columns // width) * width

    @property
    def panel_bytes(self) -> tuple[int, int, int]:
        """Bytes of a task's panel of A, of B, and of its sums, each in whole cache lines."""
        kernel = self.kernel
        a = b = sums = 0
        if self.a is Packing.PER_TASK:
            a = self.a_pitch * (self.depth if self.a_order is PanelOrder.K_OUTERMOST else self.rows)
        if self.b is Packing.PER_TASK:
            is_outermost = kernel.rhs.order is PanelOrder.K_OUTERMOST
            b = self.b_pitch * (self.depth if is_outermost else self.columns)
        elif self.b is Packing.IN_PLACE and self.has_rest:
            b = kernel.nr * self.depth
        if not self.direct:
            sums = self.rows * self.wide_columns
        sizes = (a * kernel.lhs.bytes, b * kernel.rhs.bytes, sums * kernel.arithmetic.bytes)
        first, second, third = (-(-size // LINE) * LINE for size in sizes)
        return first, second, third

    @property
    def has_rest(self) -> bool:
        """True when the last columns of a B that is read in place are packed nevertheless."""
        has_strips = self.kernel.rhs.order is PanelOrder.K_OUTERMOST
        return has_strips and count(self.p.n) % self.kernel.nr != 0

    @property
    def slot_bytes(self) -> int:
        """Bytes of a task's panels."""
        return sum(self.panel_bytes)


def pitch(length: int, size: int) -> int:
    """Return a distance between rows of `length` such that few rows share a cache set."""
    lines = -(-length * size // LINE)
    return (lines | 1) * LINE // size
