"""The first k elements of an order: tiles of rows are sorted, and the first k of each go on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hlo.analysis.fusion.roles import Role
from hlo.codegen.kernels.sort.keys import Order
from hlo.codegen.kernels.sort.lines import Lines
from hlo.codegen.kernels.variables import as_index
from hlo.codegen.llvm import Index, Val, i64
from hlo.codegen.loops.kernel import Kernel
from hlo.codegen.scalar.operations import convert
from hlo.codegen.targets.base import Plan
from hlo.codegen.targets.gpu.base import Gpu
from hlo.codegen.targets.gpu.kernels.sort.records import Record, Records, Rows, Sorting
from hlo.codegen.targets.gpu.kernels.sort.sort import MOST_LENGTH, plan_rows
from hlo.codegen.targets.gpu.kernels.sort.tiles import (
    SortPieces,
    TileSorter,
    most_records,
    tile_for,
)
from hlo.ir import Instruction
from hlo.llvm import byte_size
from hlo.values.types import S32, S64

# Of each tile at most this part goes on: what is left gets short in few steps.
_PART = 4


def plan_topk(inst: Instruction, _: Mapping[Instruction, Role], gpu: Gpu) -> Plan | None:
    """Plan a selection."""
    sorting, k = _Selection(), inst.k
    rows = sorting.rows(inst)
    if not rows.count or not rows.length or not k:
        return Plan(())
    if rows.length >= MOST_LENGTH:
        return None
    most = most_records(rows.record_bytes)
    if rows.length <= most or k * _PART > most:
        return plan_rows(inst, sorting, gpu)
    steps: list[_Select] = []
    length, end, source = rows.length, 0, -1
    while length > most:
        left = length // most * k + min(k, length % most)
        tile = tile_for(Rows(rows.count, length, rows.types))
        steps.append(_Select(sorting, tile, length, source, end, k))
        length, source, end = left, end, end + rows.count * left
    tile = tile_for(Rows(rows.count, length, rows.types))
    steps.append(_Select(sorting, tile, length, source, -1, k))
    return Plan(tuple(steps), tuple(end * byte_size(t) for t in rows.types))


@dataclass(frozen=True)
class _Selection(Sorting):
    """Elements by rank, with their positions."""

    def rows(self, inst: Instruction) -> Rows:
        lines, order = _lines_of(inst), _order_of(inst)
        return Rows(lines.count, lines.length, ("i64", "i32") if order.bits > 32 else ("i64",))

    def records(self, k: Kernel) -> Records:
        return _SelectionRecords(k)

    def key_bits(self, inst: Instruction) -> int:
        return _order_of(inst).bits


def _lines_of(inst: Instruction) -> Lines:
    shape = inst.operands[0].array_shape
    return Lines(shape, shape.rank - 1)


def _order_of(inst: Instruction) -> Order:
    return Order(inst.operands[0].array_shape.element_type, inst.largest, total=True)


class _SelectionRecords(Records):
    """A rank, above the position where it has 32 bits at most."""

    def __init__(self, k: Kernel) -> None:
        self._k, self._b = k, k.b
        self._lines, self._order = _lines_of(k.inst), _order_of(k.inst)
        self._is_split = self._order.bits > 32

    def read(self, row: Index, position: Index) -> list[Val]:
        b, (operand,) = self._b, self._k.inst.operands
        value = self._k.elements.at(operand, self._lines.at(self._lines.start(b, row), position))
        assert isinstance(value, Val)
        rank = self._order.rank(b, value)
        if self._is_split:
            return [rank, b.cast("trunc", i64(position), "i32")]
        rank = b.cast("zext", rank, "i64")
        return [b.binary("or", b.binary("shl", rank, 32), i64(position))]

    def less(self, x: Record, y: Record) -> Val:
        return self._b.icmp("ult", x[0], y[0])

    def write(self, row: Index, position: Index, record: Record) -> None:
        k, b, (operand,) = self._k, self._b, self._k.inst.operands
        with b.when(b.compare("slt", position, k.inst.k)):
            if self._is_split:
                source = as_index(b, record[1])
            else:
                source = b.binary("and", record[0], (1 << 32) - 1).name
            start = self._lines.start(b, row)
            at = self._lines.at(start, position)
            k.store(k.elements.at(operand, self._lines.at(start, source)), at, 0)
            k.store(convert(b, i64(source), S64, S32), at, 1)

    def digit(self, record: Record, shift: Index) -> Index:
        b = self._b
        by = i64(b.add(shift, 0 if self._is_split else 32))
        return b.binary("and", b.binary("lshr", record[0], by), 255).name


@dataclass(frozen=True)
class _Select(SortPieces):
    """Sort tiles of rows and keep the first records of each.

    length: of the rows. source, target: where records are in scratch memory, and go; below 0
    elements are read, and the results are written. kept: how many records, at the most.
    """

    length: int
    source: int
    target: int
    kept: int

    def _length(self, rows: Rows) -> int:
        return self.length

    def _read(self, s: TileSorter, row: Index, position: Index) -> list[Val]:
        if self.source < 0:
            return s.records.read(row, position)
        b = s.b
        return s.scratch().load(b.add(b.add(b.mul(row, self.length), position), self.source))

    def _write(self, s: TileSorter, row: Index, cut: Index, at: Index, record: Record) -> None:
        b, size = s.b, self.tile.size
        if self.target < 0:
            s.records.write(row, at, record)
            return
        whole, rest = divmod(self.length, size)
        left = whole * self.kept + min(self.kept, rest)
        with b.when(b.compare("slt", at, self.kept)):
            place = b.add(b.add(b.mul(row, left), b.mul(cut, self.kept)), at)
            s.scratch().put(record, b.add(place, self.target))


PLANNERS = {"topk": plan_topk}
