"""Radix sorts: stable sorts by an integer key, digit by digit from the lowest.

A row is first turned into records: the key, and a reference to the element. A short row is sorted
by one thread in memory of its own; a long one by all of them, see `radix_long`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hlo.codegen.kernels.sort.keys import SortKey
from hlo.codegen.kernels.sort.lines import Lines
from hlo.codegen.kernels.sort.radix_long import plan_long_radix
from hlo.codegen.kernels.sort.records import Records, RecordSorter
from hlo.codegen.kernels.variables import Variable, as_index
from hlo.codegen.llvm import Index
from hlo.codegen.loops.kernel import Kernel
from hlo.codegen.targets.base import Extent, Plan
from hlo.ir import Instruction

# A row at least this long is sorted by all threads, if there are few rows.
_LONG, _FEW_LINES = 65536, 8


def plan_radix(inst: Instruction, lines: Lines, key: SortKey, needed: tuple[int, ...]) -> Plan:
    """Return the steps that sort rows by a key. needed: the results that are used."""
    records = Records.of(inst, key)
    if lines.length >= _LONG and lines.count <= _FEW_LINES:
        return plan_long_radix(records, lines, needed)
    sizes = (lines.groups * 2 * lines.length * size for size in records.sizes)
    return Plan((_SortLines(needed),), tuple(sizes))


@dataclass(frozen=True)
class _SortLines:
    """Sort each row."""

    needed: tuple[int, ...]

    def __call__(self, k: Kernel) -> Extent:
        s = RecordSorter(k, self.needed)
        b, n = k.b, s.n
        counts = b.alloca("i32", len(s.digits) * s.buckets, align=64).name
        with b.loop(k.begin, k.end) as group:
            base = b.mul(group, 2 * n)
            with s.lines.of_group(b, group) as line:
                self._line(s, s.lines.start(b, line), base, counts)
        return Extent(s.lines.groups, float(s.lines.each * n * 4 * (len(s.digits) + 2)))

    def _line(self, s: RecordSorter, start: Sequence[Index], base: Index, counts: str) -> None:
        b, n = s.b, s.n
        passes = range(len(s.digits))
        tables = [b.element_address(counts, "i32", p * s.buckets) for p in passes]
        s.clear(counts, len(s.digits) * s.buckets)
        with b.loop(0, n, plain=True) as i:
            record = s.record(start, i)
            s.put(record, b.add(base, i))
            for p in passes:
                s.count_up(tables[p], s.digit(record[0], p))
        source, target = Variable(b, base), Variable(b, b.add(base, n))
        for p in passes:
            # If all keys have the same digit, nothing moves.
            digit = s.digit(s.load(source.get())[0], p)
            at = b.element_address(tables[p], "i32", digit)
            same = as_index(b, b.load("i32", at))
            with b.when(b.compare("ne", same, n)):
                s.sum_up(tables[p])
                here, there = source.get(), target.get()
                s.move(tables[p], s.digits[p][0], here, there, n)
                source.set(there)
                target.set(here)
        final = source.get()
        with b.loop(0, n, plain=True) as i:
            s.write(start, i, s.load(b.add(final, i)))
