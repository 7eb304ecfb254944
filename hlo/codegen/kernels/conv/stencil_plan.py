"""What a stencil sums, and how its work is cut into tasks."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hlo.codegen.kernels.conv.stencil_blocks import places_at_once
from hlo.codegen.kernels.conv.stencil_rows import Taps
from hlo.codegen.kernels.matmul.arithmetic import Arithmetic
from hlo.codegen.kernels.matmul.product import Dim, Dims, Source, count
from hlo.codegen.kernels.matmul.schedule import LINE
from hlo.codegen.loops.vectors import Types

# Places that are multiplied at once, and bytes of a task's panel, at the most.
_FEW, _PANEL_BYTES = 49, 128 * 1024
# Vectors of groups in a panel.
_VECTORS = 4
# What a group has of features, unless there are several.
_ONE = Dim(1)
# Shares of the images whose sums are added up apart, where there are few other tasks.
_TASKS, _TASK_WORK = 16, 20_000


@dataclass(frozen=True)
class Line:
    """One spatial dimension: `many` places that are run over, `few` that are multiplied at once.

    Place m and f see element `m * step + f * jump + low` of the input's `size`, elements `stride`
    apart. One of the two counts the positions of the window and the other its taps.
    """

    many: int
    few: int
    step: int
    jump: int
    low: int
    size: int
    stride: int

    def reach(self, many: int) -> int:
        """Return how many elements so many places see."""
        return (many - 1) * self.step + (self.few - 1) * self.jump + 1

    @property
    def is_whole(self) -> bool:
        return self.low >= 0 and self.low + self.reach(self.many) <= self.size


@dataclass(frozen=True)
class Stencil:
    """A convolution to compute. Strides of A, B and C are those of input, filter and result.

    groups: independent of each other. outer: what else the result has (images, several outputs of a
    group). summed: what is added up beside the window (images, for the gradient of the filter).
    y, x: the window. many, few: strides of B and C along the window's places in (y, x).
    inputs, outputs: the features of a group of the input, which are added up, and of the result,
    contiguous from one group to the next.
    """

    a: Source
    b: Source
    groups: Dim
    outer: Dims
    summed: Dims
    y: Line
    x: Line
    many: tuple[int, int]
    few: tuple[int, int]
    # True when the few places are positions: the gradient of the filter.
    correlates: bool
    arithmetic: Arithmetic
    store: Types
    c_offset: int
    elements: int
    inputs: Dim = _ONE
    outputs: Dim = _ONE

    @property
    def features(self) -> int:
        """Features of the result that vectors may be of."""
        return self.groups.size * self.outputs.size

    def of_inputs(self, features: int) -> int:
        """Return how many features of the input go with so many of the result, whole groups."""
        return features // self.outputs.size * self.inputs.size

    @property
    def few_places(self) -> int:
        return self.y.few * self.x.few

    @property
    def is_worthwhile(self) -> bool:
        """True when few places are few, and fewer than the others."""
        return self.few_places <= _FEW and self.y.many * self.x.many >= self.few_places

    @property
    def is_whole(self) -> bool:
        """True when no other stencils, nor zeros, lie between elements of the result."""
        places = self.few_places if self.correlates else self.y.many * self.x.many
        return places * self.features * count(self.outer) == self.elements

    @property
    def work(self) -> int:
        """Multiplications."""
        places = self.y.many * self.x.many * self.few_places
        each = self.features * self.inputs.size
        return each * count(self.outer) * count(self.summed) * places


@dataclass(frozen=True)
class StencilTiling:
    """How a stencil is cut into tasks. across: vectors are of features, not of places in a row."""

    s: Stencil
    lanes: int
    across: bool
    registers: int

    # --- a task's part --------------------------------------------------------------------------

    @property
    def width(self) -> int:
        """Features of the result that a task computes at a place."""
        if not self.across:
            return 1
        return min(_VECTORS, -(-self.s.features // self.lanes)) * self.lanes

    @property
    def input_width(self) -> int:
        """Features in an element of the panel."""
        return self.s.of_inputs(self.width)

    @property
    def blocks(self) -> int:
        """How many tasks share the features of a place."""
        return -(-self.s.features // self.width)

    @property
    def rows(self) -> int:
        """Rows of places that a panel serves."""
        y = self.s.y
        room = _PANEL_BYTES // (self.row * self.s.arithmetic.bytes)
        most = max(1, (room - (y.few - 1) * y.jump - 1) // y.step + 1)
        blocks = -(-y.many // most)
        return -(-y.many // blocks)

    @property
    def row_blocks(self) -> int:
        return -(-self.s.y.many // self.rows)

    @property
    def shares(self) -> int:
        """Parts of what is summed that are added up apart."""
        if not self.s.correlates or not self.s.is_whole:
            return 1
        others = count(self.s.outer) * self.blocks
        want = min(_TASKS, self.s.work // (_TASK_WORK * self.lanes)) // others
        return max(1, min(count(self.s.summed), want))

    @property
    def task_sizes(self) -> list[int]:
        """Shares, outer dimensions, blocks of features, blocks of rows (filters only)."""
        rows = 1 if self.s.correlates else self.row_blocks
        return [self.shares, *(d.size for d in self.s.outer), self.blocks, rows]

    @property
    def tasks(self) -> int:
        return math.prod(self.task_sizes)

    @property
    def places(self) -> int:
        """Places that are computed at once, where groups have several features."""
        return places_at_once(self.s.x.many, self.s.x.few, self.registers)

    # --- the panel of the input, in elements of the arithmetic ----------------------------------

    @property
    def phase(self) -> int:
        """The distance of phases of columns."""
        x = self.s.x
        columns = -(-x.reach(x.many) // x.step)
        return columns * self.input_width if self.across else columns + self.lanes

    @property
    def row(self) -> int:
        """The distance of rows."""
        return self.phase * self.s.x.step

    @property
    def panel(self) -> int:
        return self.row * self.s.y.reach(self.rows) + self.lanes

    # --- the other panel: of the filter's many taps, or of results that are converted -----------

    @property
    def other_row(self) -> int:
        return self.s.x.many * self.width

    @property
    def other(self) -> int:
        return 0 if self.in_place else self.other_row * self.rows

    @property
    def in_place(self) -> bool:
        """True when the other array is read or written where it lies."""
        s = self.s
        plain = (
            s.b.et is s.arithmetic.total
            if s.correlates
            else s.store == Types.of(s.arithmetic.total)
        )
        if not self.across:
            return plain and s.many[1] == 1
        inner = s.groups.b if s.correlates else self.feature_step
        return plain and inner == 1 and (not s.correlates or s.groups.size % self.lanes == 0)

    @property
    def feature_step(self) -> int:
        """The distance of features of a vector in the result."""
        return self.s.outputs.c or self.s.groups.c

    @property
    def sums(self) -> int:
        return self.s.few_places * self.width if self.s.correlates else 0

    @property
    def parts(self) -> list[int]:
        """Bytes of a task's panels, each on lines of its own."""
        size = self.s.arithmetic.bytes
        sizes = (self.panel, self.other, self.sums)
        return [-(-n * size // LINE) * LINE for n in sizes]

    @property
    def slot_bytes(self) -> int:
        return sum(self.parts)

    # --- factors --------------------------------------------------------------------------------

    @property
    def factor_dims(self) -> Dims:
        """What else than taps and groups the filter depends on."""
        return tuple(d for d in self.s.outer if d.b)

    @property
    def factor_width(self) -> int:
        """Features of the result in the packed filter: whole vectors."""
        return self.blocks * self.width

    @property
    def factor_count(self) -> int:
        return count(self.factor_dims) * self.factors * self.factor_width

    @property
    def factors(self) -> int:
        """How many factors a feature of the result has."""
        return self.s.few_places * self.s.inputs.size

    @property
    def taps(self) -> Taps:
        s = self.s
        return Taps(s.y.few, s.x.few, s.x.step, s.x.jump)
