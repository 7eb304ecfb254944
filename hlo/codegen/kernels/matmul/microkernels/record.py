"""What a microkernel is, as a record.

A microkernel multiplies a block of A by a panel of B, tile by tile: for each tile of the result,
`mr` rows by `nr` columns, it goes through k in steps of `kr` and keeps the sums in registers. What
chooses blocks (`scheduler.py`), packs panels (`packing.py`) and runs over tiles (`block.py`) asks
the record; nothing else in a product depends on how a tile is computed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cached_property

from hlo.codegen.kernels.matmul.arithmetic import Arithmetic
from hlo.codegen.llvm import Builder, Val, i64
from hlo.codegen.scalar import operations as scalar
from hlo.values.types import ElementType


class PanelOrder(Enum):
    """In what order the elements of an operand lie that a microkernel reads.

    The operand's free index is the row of A, or the column of B. K_INNERMOST: all of k of one free
    index, then that of the next. K_OUTERMOST: one group of k of all free indices, then the next
    group. ANY: at any two strides.
    """

    K_INNERMOST = auto()
    K_OUTERMOST = auto()
    ANY = auto()


@dataclass(frozen=True)
class PanelFormat:
    """How a microkernel wants an operand in memory.

    element: the type that elements are converted to. group: so many consecutive elements along k
    of one free index are neighbours and count as one in strides and lengths, as for instructions
    that sum up four products of bytes in a lane of 32 bits; the last group is filled up with zeros.
    is_padded: free indices are filled up with zeros to whole tiles, so that a microkernel may read
    a tile's operands without asking how many rows or columns there are.
    """

    element: ElementType
    order: PanelOrder
    group: int = 1
    is_padded: bool = False

    @property
    def type(self) -> str:
        """The LLVM type of a group."""
        if self.group == 1:
            return scalar.memory_type(self.element)
        return f"i{8 * self.bytes}"

    @property
    def bytes(self) -> int:
        """Bytes of a group."""
        return self.group * max(8, self.element.bits) // 8


class Writes(Enum):
    """What the function of a tile writes, and what its last parameters are.

    ROWS: `ptr c, i64 c_row, i1 more`: the first `rows` rows of C's tile; with `more` it adds to
    what is there. PART: the same, of the first `columns` columns. TILE: always all rows and
    columns. SUMS: `ptr out`: the sums of the whole tile, row after row without a gap; the loop over
    tiles adds them to C, whatever its strides.
    """

    ROWS = auto()
    PART = auto()
    TILE = auto()
    SUMS = auto()


# The sizes of m or n that a microkernel is meant for, unless it says otherwise.
ANY_SIZE = range(1, sys.maxsize)


@dataclass(frozen=True)
class Microkernel:
    """A way to compute tiles of a matrix product C = A * B on a target.

    name: of its functions; two microkernels with one name are the same. mr, nr: rows and columns of
    a tile. kr: indices of k that a step takes. lhs, rhs: what it reads of A and of B. total: the
    type of sums. cycles: of a step, all of a tile's products with kr indices of k; tile_cycles: of
    all else that is done once for a tile: reading and writing sums. Both are in cycles of vector
    operations.

    emit: writes the body of the function of a tile, whose parameters are `parameters`. writes: what
    that function writes. lanes: of the vectors in which the columns of a tile are written.

    pads_k: panels are filled up with zeros along k to a multiple of kr; without it `emit` takes
    care of the remainder. blocks_k: k is cut into blocks that stay in the cache, which pays unless
    every element is read only once. m, n: the sizes of the product that it is meant for. exact:
    False where the unit takes denormals for zero, or rounds sums to odd. features: what a target
    has to have, in LLVM's names. prologue, epilogue: write what is done before and after all tiles
    of a block, by the thread that computes them, such as setting up a matrix unit. attributes: what
    LLVM has to know of the functions, such as a mode that they run in.
    """

    name: str
    mr: int
    nr: int
    kr: int
    lhs: PanelFormat
    rhs: PanelFormat
    total: ElementType
    cycles: float
    tile_cycles: float
    emit: Callable[[Builder, Microkernel], None] = field(compare=False, repr=False)
    writes: Writes = Writes.TILE
    lanes: int = 1
    pads_k: bool = True
    blocks_k: bool = True
    m: range = ANY_SIZE
    n: range = ANY_SIZE
    exact: bool = True
    features: frozenset[str] = frozenset()
    prologue: Callable[[Builder], None] | None = field(default=None, compare=False, repr=False)
    epilogue: Callable[[Builder], None] | None = field(default=None, compare=False, repr=False)
    attributes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        assert self.nr % self.lanes == 0, "a row of a tile is whole vectors"
        assert self.lhs.group == self.rhs.group, "both operands are grouped alike along k"
        assert self.kr % self.lhs.group == 0, "a step takes whole groups"
        assert self.pads_k or self.lhs.group == 1, "the last group is filled up"
        assert self.rhs.order is not PanelOrder.ANY, "columns of B are packed in one order"
        assert self.rhs.is_padded or self.rhs.order is PanelOrder.K_INNERMOST, (
            "rows of B are read in whole vectors"
        )

    def __hash__(self) -> int:
        return hash(self.name)

    def panel(self, side: str) -> PanelFormat:
        """Return what it reads of an operand, "a" or "b"."""
        return self.lhs if side == "a" else self.rhs

    @property
    def group(self) -> int:
        return self.lhs.group

    @property
    def k_multiple(self) -> int:
        """What panels are filled up to along k."""
        return self.kr if self.pads_k else 1

    def groups(self, length: int) -> int:
        """Return how many groups of a panel so many indices of k take."""
        return -(-length // self.k_multiple) * self.k_multiple // self.group

    @cached_property
    def arithmetic(self) -> Arithmetic:
        return Arithmetic(self.total)

    def strides(self, side: str) -> list[Val]:
        """Return the strides of an operand that its format leaves open, as parameters.

        They are `%a_row` and `%a_k`, or `%b_column` and `%b_k`, in groups: the distance of free
        indices, and that of groups along k.
        """
        free, k = i64("%a_row" if side == "a" else "%b_column"), i64(f"%{side}_k")
        match self.panel(side).order:
            case PanelOrder.K_INNERMOST:
                return [free]
            case PanelOrder.K_OUTERMOST:
                return [k]
            case PanelOrder.ANY:
                return [free, k]

    @property
    def asks_columns(self) -> bool:
        """Whether the function of a tile is told how many columns there are."""
        return not self.rhs.is_padded or self.writes is Writes.PART

    @property
    def parameters(self) -> str:
        """The parameters of the function of a tile.

        `%rows` and, where it `asks_columns`, `%columns` tell how many there are from here to the
        end of the block, which may be more than a tile has; `%k`: how many groups of k.
        """
        lhs = ["ptr readonly %a", *self.strides("a"), "i64 %rows"]
        columns = ["i64 %columns"] if self.asks_columns else []
        rhs = ["ptr readonly %b", *self.strides("b"), *columns]
        result = ["ptr noalias %c", "i64 %c_row", "i1 %more"]
        if self.writes is Writes.SUMS:
            result = ["ptr noalias %out"]
        return ", ".join(map(str, [*lhs, *rhs, "i64 %k", *result]))
