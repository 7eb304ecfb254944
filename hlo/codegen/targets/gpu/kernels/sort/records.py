"""What sorts on GPUs move in place of elements: records of one or a few words.

A record has what decides the order, and where the element is that it stands for; what else belongs
to the element is read when the order is known.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from hlo.codegen.kernels.reduce.combiner import element_type
from hlo.codegen.kernels.sort.keys import SortKey
from hlo.codegen.kernels.sort.lines import Lines
from hlo.codegen.kernels.sort.records import Records as KeyWords
from hlo.codegen.kernels.sort.records import RecordSorter
from hlo.codegen.kernels.variables import as_index
from hlo.codegen.llvm import Builder, Index, Val, i64
from hlo.codegen.loops.inline import inline
from hlo.codegen.loops.kernel import Kernel
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.scalar.operations import Cplx, Value
from hlo.ir import Instruction
from hlo.llvm import byte_size

Record = Sequence[Val]


@dataclass(frozen=True)
class Rows:
    """Rows that are sorted, each by itself: how many, their length, and the words of a record.

    is_strided: neighbours in memory are of neighbouring rows. element_bytes: what is read for a
    record, and written for one, in all arrays.
    """

    count: int
    length: int
    types: tuple[str, ...]
    is_strided: bool = False
    element_bytes: int = 8

    @property
    def record_bytes(self) -> int:
        return sum(map(byte_size, self.types))

    @property
    def scratch_bytes(self) -> tuple[int, ...]:
        """The sizes of two arrays of all records, one behind the other, for each word."""
        return tuple(2 * self.count * self.length * byte_size(t) for t in self.types)


class Records(ABC):
    """Emission of what is done with records, into one kernel.

    is_order: whether `less` is a strict weak order, whatever the elements are.
    """

    is_order = True

    @abstractmethod
    def read(self, row: Index, position: Index) -> list[Val]:
        """Return the record of an element."""

    @abstractmethod
    def less(self, x: Record, y: Record) -> Val:
        """Return whether a record comes before another."""

    @abstractmethod
    def write(self, row: Index, position: Index, record: Record) -> None:
        """Store the results at a position of a row, given the record that is sorted there."""

    def digit(self, record: Record, shift: Index) -> Index:
        """Return the eight bits of the key that begin at a bit of it."""
        raise NotImplementedError


class Sorting(ABC):
    """What is sorted, by the instruction: an immutable value, as a part of the steps of plans."""

    @abstractmethod
    def rows(self, inst: Instruction) -> Rows:
        """Return the rows of an instruction."""

    @abstractmethod
    def records(self, k: Kernel) -> Records:
        """Return the records in a kernel under construction."""

    def key_bits(self, inst: Instruction) -> int:
        """Return the width of the integer that is the key of a record, 0 if there is none."""
        return 0


class Words:
    """Arrays of records in memory, an array for each word.

    gap: behind how many records one is unused, so that neighbouring threads that have as many each
    use different banks of shared memory; 0 for never.
    """

    def __init__(
        self, b: Builder, types: Sequence[str], bases: Sequence[str], gap: int = 0
    ) -> None:
        self.b, self.types, self.bases, self._gap = b, types, bases, gap

    def _place(self, at: Index) -> Index:
        return self.b.add(at, self.b.udiv(at, self._gap)) if self._gap else at

    def load(self, at: Index) -> list[Val]:
        pairs, place = zip(self.types, self.bases, strict=True), self._place(at)
        return [self.b.load(t, self.b.element_address(base, t, place)) for t, base in pairs]

    def put(self, record: Sequence[Value], at: Index) -> None:
        place = self._place(at)
        for t, base, word in zip(self.types, self.bases, record, strict=True):
            assert isinstance(word, Val)
            self.b.store(word, self.b.element_address(base, t, place))


# --- by a key -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class KeySorting(Sorting):
    """A sort whose comparator compares integers of at most 64 bits. needed: the results."""

    needed: tuple[int, ...]

    def rows(self, inst: Instruction) -> Rows:
        lines = lines_of(inst)
        key = SortKey.of(inst.to_apply)
        assert key is not None
        return Rows(
            lines.count, lines.length, tuple(KeyWords.of(inst, key).types), is_strided(lines)
        )

    def records(self, k: Kernel) -> Records:
        return _KeyRecords(k, self.needed)

    def key_bits(self, inst: Instruction) -> int:
        key = SortKey.of(inst.to_apply)
        assert key is not None
        return key.bits


class _KeyRecords(Records):
    def __init__(self, k: Kernel, needed: tuple[int, ...]) -> None:
        self._b, self._sorter = k.b, RecordSorter(k, needed)

    def read(self, row: Index, position: Index) -> list[Val]:
        return self._sorter.record(self._sorter.lines.start(self._b, row), position)

    def less(self, x: Record, y: Record) -> Val:
        mine, other = x[0], y[0]
        if self._sorter.records.content == "value":
            # Equal keys may be of values with different bits.
            mine, other = (self._b.binary("lshr", word, 32) for word in (mine, other))
        return self._b.icmp("ult", mine, other)

    def write(self, row: Index, position: Index, record: Record) -> None:
        self._sorter.write(self._sorter.lines.start(self._b, row), position, record)

    def digit(self, record: Record, shift: Index) -> Index:
        b, word = self._b, record[0]
        by = i64(b.add(shift, self._sorter.records.shift))
        if word.type != "i64":
            by = b.cast("trunc", by, word.type)
        return as_index(b, b.binary("and", b.binary("lshr", word, by), 255))


# --- by a comparator ----------------------------------------------------------------------------


@dataclass(frozen=True)
class ComparedSorting(Sorting):
    """A sort with any comparator. needed: the results."""

    needed: tuple[int, ...]

    def rows(self, inst: Instruction) -> Rows:
        lines = lines_of(inst)
        types = tuple(_word_types(inst, self.needed))
        return Rows(lines.count, lines.length, types, is_strided(lines), _element_bytes(inst))

    def records(self, k: Kernel) -> Records:
        return _ComparedRecords(k, self.needed)


def _compared(inst: Instruction) -> list[int]:
    """Return the numbers of the operands that the comparator reads."""
    comp = inst.to_apply
    return sorted({p.parameter_number // 2 for p in comp.parameters if p.users or comp.root is p})


def _is_indexed(inst: Instruction, needed: Sequence[int]) -> bool:
    """True when a record has the position of its element: it stands for more than it has."""
    return not set(needed) <= set(_compared(inst))


def _word_types(inst: Instruction, needed: Sequence[int]) -> list[str]:
    types: list[str] = []
    for number in _compared(inst):
        et = element_type(inst.operands[number])
        types += [scalar.memory_type(et)] * (2 if et.is_complex else 1)
    return [*types, "i32"] if _is_indexed(inst, needed) else types


class _ComparedRecords(Records):
    """The elements that the comparator reads, and the position if there are others."""

    is_order = False

    def __init__(self, k: Kernel, needed: tuple[int, ...]) -> None:
        self._k, self._b, self._needed = k, k.b, needed
        self._lines = lines_of(k.inst)
        self._compared = _compared(k.inst)
        self._is_indexed = _is_indexed(k.inst, needed)
        self._types = [element_type(o) for o in k.inst.operands]

    def read(self, row: Index, position: Index) -> list[Val]:
        b, at = self._b, self._lines.at(self._lines.start(self._b, row), position)
        words: list[Val] = []
        for number in self._compared:
            value = self._k.elements.at(self._k.inst.operands[number], at)
            parts = [value.re, value.im] if isinstance(value, Cplx) else [value]
            et = self._types[number]
            words += parts if et.is_complex else [scalar.to_memory(b, et, p) for p in parts]
        if self._is_indexed:
            words.append(b.cast("trunc", i64(position), "i32"))
        return words

    def _values(self, record: Record) -> dict[int, Value]:
        """Return the elements in a record, by the number of the operand."""
        words, found = iter(record), dict[int, Value]()
        for number in self._compared:
            et = self._types[number]
            if et.is_complex:
                found[number] = Cplx(next(words), next(words))
            else:
                found[number] = scalar.from_memory(self._b, et, next(words))
        return found

    def less(self, x: Record, y: Record) -> Val:
        mine, other = self._values(x), self._values(y)
        args: list[Value] = []
        for number, et in enumerate(self._types):
            nothing = scalar.constant(et, et.dtype.type(0))
            args += [mine.get(number, nothing), other.get(number, nothing)]
        (result,) = inline(self._b, self._k.inst.to_apply, args)
        assert isinstance(result, Val)
        return result

    def write(self, row: Index, position: Index, record: Record) -> None:
        b, k, start = self._b, self._k, self._lines.start(self._b, row)
        at, values = self._lines.at(start, position), self._values(record)
        for number in self._needed:
            if number in values:
                value = values[number]
            else:
                source = self._lines.at(start, as_index(b, record[-1]))
                value = k.elements.at(k.inst.operands[number], source)
            k.store(value, at, number)


def lines_of(inst: Instruction) -> Lines:
    """Return the rows of a sort's operands."""
    return Lines(inst.operands[0].array_shape, inst.dimensions[0])


def _element_bytes(inst: Instruction) -> int:
    return sum(element_type(o).byte_width for o in inst.operands)


def is_strided(lines: Lines) -> bool:
    """True when neighbours in memory are of neighbouring rows."""
    assert lines.shape.layout is not None
    order = [d for d in lines.shape.layout.minor_to_major if lines.shape.dims[d] != 1]
    return bool(order) and order[0] != lines.dim
