"""The first k elements of an order, by selection.

Candidates collect in a buffer. When it cannot take another block it is sorted, all but the k best
are dropped, and the last of them becomes the limit for later elements: soon, whole blocks contain
none that is better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hlo.analysis.fusion.roles import Role
from hlo.codegen.kernels.sort.keys import Order
from hlo.codegen.kernels.sort.lines import Lines
from hlo.codegen.kernels.sort.merging import MergeSort, Record
from hlo.codegen.kernels.variables import Variable
from hlo.codegen.llvm import FALSE, Builder, Index, ModuleBuilder, Val, i64, ptr
from hlo.codegen.loops.kernel import Kernel, planner
from hlo.codegen.loops.vectors import define
from hlo.codegen.scalar.operations import convert
from hlo.codegen.targets.base import Extent, Plan, Target
from hlo.ir import Instruction
from hlo.values.types import S32, S64

# Elements that are compared with the limit together.
_BLOCK = 64


@planner("topk")
def plan_topk(inst: Instruction, _: Mapping[Instruction, Role], __: Target) -> Plan:
    """Plan a buffer of candidates for every group of rows."""
    s = _Sizes(inst)
    if not s.lines.count or not s.k:
        return Plan(())
    return Plan((_select,), (2 * s.lines.groups * s.capacity * s.word_bytes,))


class _Sizes:
    """The workspace of a selection.

    A candidate is one integer: the element's rank in the high bits, its index in the low bits.
    Smaller is better.
    """

    def __init__(self, inst: Instruction) -> None:
        shape = inst.operands[0].array_shape
        self.lines = Lines(shape, shape.rank - 1)
        self.order = Order(shape.element_type, inst.largest, total=True)
        self.k: int = inst.k
        self.capacity = 2 * self.k + _BLOCK
        # Half of the word is the rank, half the index.
        self.half = 32 if self.order.bits <= 32 else 64
        self.word = f"i{2 * self.half}"
        self.word_bytes = 2 * self.half // 8


def _sorter(module: ModuleBuilder, word: str) -> str:
    """Return the function (words, capacity, count, kept) that puts the least of words in order.

    There is room for twice the capacity.
    """

    def write(b: Builder) -> None:
        def load(at: Index) -> list[Val]:
            return [b.load(word, b.element_address("%words", word, at))]

        def put(record: Record, at: Index) -> None:
            (value,) = record
            assert isinstance(value, Val)
            b.store(value, b.element_address("%words", word, at))

        def less(x: Record, y: Record) -> Val:
            (mine,), (other,) = x, y
            assert isinstance(mine, Val) and isinstance(other, Val)
            return b.icmp("ult", mine, other)

        end = MergeSort(b, load, put, less).sort(0, "%capacity", "%count")
        with b.when(b.compare("ne", end, 0)), b.loop(0, "%kept", plain=True) as i:
            put(load(b.add(end, i)), i)

    parameters = "ptr noalias %words, i64 %capacity, i64 %count, i64 %kept"
    return define(module, f"hlo.least.{word}", parameters, write)


class _Selection(_Sizes):
    """Emission of a selection into one kernel."""

    def __init__(self, k: Kernel) -> None:
        super().__init__(k.inst)
        self.kernel = k
        self.b = k.b
        self.limit = k.b.alloca(self.word).name

    def address(self, at: Index) -> str:
        return self.b.element_address(self.kernel.scratch[0], self.word, at)

    def load(self, at: Index) -> Val:
        return self.b.load(self.word, self.address(at))

    def rank(self, start: Sequence[Index], position: Index) -> Val:
        """Return the rank of an element, as wide as half a word."""
        value = self.kernel.elements.at(
            self.kernel.inst.operands[0], self.lines.at(start, position)
        )
        assert isinstance(value, Val)
        rank = self.order.rank(self.b, value)
        t = f"i{self.half}"
        return rank if rank.type == t else self.b.cast("zext", rank, t)

    def candidate(self, rank: Val, position: Index) -> Val:
        b, t = self.b, self.word
        high = b.binary("shl", b.cast("zext", rank, t), self.half)
        low = str(position)
        if t != "i64":
            low = b.cast("zext", i64(position), t).name
        return b.binary("or", high, low)

    def shrink(self, base: Index, filled: Variable) -> None:
        """Keep the k best candidates, in order, and take the last of them for the limit."""
        b = self.b
        args = [ptr(self.address(base)), i64(self.capacity), i64(filled.get()), i64(self.k)]
        b.call_void(_sorter(b.module, self.word), args)
        last = self.load(b.add(base, self.k - 1))
        b.store(last, self.limit)
        filled.set(self.k)

    def passes(self, start: Sequence[Index], first: Index) -> Val:
        """Return whether any element of a block that begins there is better than the limit.

        The last block ends where the row ends, and so may have some of the one before, too.
        """
        b, t = self.b, f"i{self.half}"
        word = b.load(self.word, self.limit)
        limit = b.cast("trunc", b.binary("lshr", word, self.half), t)
        found = b.alloca("i1").name
        b.store(FALSE, found)
        count = min(_BLOCK, self.lines.length)
        first = b.minimum(first, self.lines.length - count)
        with b.loop(0, count) as i:
            better = b.icmp("ult", self.rank(start, b.add(first, i)), limit)
            before = b.load("i1", found)
            b.store(b.binary("or", before, better), found)
        return b.load("i1", found)

    def take(self, start: Sequence[Index], position: Index, base: Index, filled: Variable) -> None:
        """Add an element to the candidates if it is better than the limit."""
        b = self.b
        candidate = self.candidate(self.rank(start, position), position)
        limit = b.load(self.word, self.limit)
        with b.when(b.icmp("ult", candidate, limit)):
            b.store(candidate, self.address(b.add(base, filled.get())))
            filled.add(1)

    def write(self, start: Sequence[Index], position: Index, word: Val) -> None:
        """Store the results at a position."""
        k, b, t = self.kernel, self.b, f"i{self.half}"
        index = b.cast("trunc", word, t)
        if t == "i32":
            index = b.cast("zext", index, "i64")
        at = self.lines.at(start, position)
        value = k.elements.at(k.inst.operands[0], self.lines.at(start, index.name))
        k.store(value, at, 0)
        k.store(convert(b, index, S64, S32), at, 1)


def _select(k: Kernel) -> Extent:
    """Select from each row."""
    s = _Selection(k)
    b, n = k.b, s.lines.length
    with b.loop(k.begin, k.end) as group:
        base = b.mul(group, 2 * s.capacity)
        with s.lines.of_group(b, group) as line:
            start = s.lines.start(b, line)
            _select_line(s, start, base)
    return Extent(s.lines.groups, float(s.lines.each * (n + 20 * s.capacity)))


def _select_line(s: _Selection, start: Sequence[Index], base: Index) -> None:
    b, n = s.b, s.lines.length
    filled = Variable(b, 0)
    b.store(Val(s.word, "-1"), s.limit)  # any element is better
    # After the last block there is an empty one, to sort the remaining candidates.
    with b.loop(0, -(-n // _BLOCK) * _BLOCK + 1, _BLOCK, plain=True) as first:
        is_full = b.compare("sgt", filled.get(), s.capacity - _BLOCK)
        is_last = b.compare("sge", first, n)
        with b.when(b.binary("or", is_full, is_last)):
            s.shrink(base, filled)
        last = b.minimum(b.add(first, _BLOCK), n)
        # The worst possible rank passes no limit, but counts until there are k elements.
        is_short = b.compare("slt", filled.get(), s.k)
        passes = b.binary("or", s.passes(start, first), is_short)
        with b.when(passes), b.loop(first, last, plain=True) as i:
            s.take(start, i, base, filled)
    with b.loop(0, s.k, plain=True) as i:
        s.write(start, i, s.load(b.add(base, i)))
