"""The records that radix sorts move: a key, and a reference to the element."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hlo.codegen.kernels.reduce.combiner import element_type
from hlo.codegen.kernels.sort.keys import SortKey
from hlo.codegen.kernels.sort.lines import Lines
from hlo.codegen.kernels.variables import Variable, as_index
from hlo.codegen.llvm import Index, Val, i64
from hlo.codegen.loops.kernel import Kernel
from hlo.codegen.loops.vectors import clear
from hlo.codegen.scalar import operations as scalar
from hlo.ir import Instruction

# Keys of short rows are split into narrower digits: counting would take longer than moving.
_SHORT = 2048


@dataclass(frozen=True)
class Records:
    """The records that are sorted in place of elements.

    content: the key alone, which determines the value; the key and the value's bits; or the key and
    the index of the element. Next to a 64-bit key there is no room: indices have an array of their
    own.
    """

    key_bits: int
    content: str

    @staticmethod
    def of(inst: Instruction, key: SortKey) -> Records:
        """Choose the smallest content that determines the values of a sort's operands."""
        bits = key.bits
        if len(inst.operands) == 1:
            if key.value_order is not None:
                return Records(bits, "key")
            et = element_type(inst.operands[0])
            if bits <= 32 and et.bits <= 32 and not et.is_complex:
                return Records(bits, "value")
        return Records(bits, "index")

    @property
    def word(self) -> str:
        alone = self.content == "key" and self.key_bits <= 32
        return "i32" if alone else "i64"

    @property
    def is_split(self) -> bool:
        return self.content == "index" and self.key_bits == 64

    @property
    def types(self) -> list[str]:
        """The element types of the arrays of records."""
        return [self.word, "i32"] if self.is_split else [self.word]

    @property
    def sizes(self) -> list[int]:
        """The bytes of an element of each array."""
        return [4 if t == "i32" else 8 for t in self.types]

    @property
    def shift(self) -> int:
        """Where the key begins in the word."""
        return 0 if self.content == "key" or self.is_split else 32

    def digits(self, length: int) -> list[tuple[int, int]]:
        """Return the digits of a key, the lowest first: their shifts and widths."""
        if self.key_bits <= 16 or length < _SHORT:
            width = 8
        else:
            width = 11
        places = range(0, self.key_bits, width)
        return [(self.shift + at, min(width, self.key_bits - at)) for at in places]


class RecordSorter:
    """Emission of parts of a radix sort into one kernel."""

    def __init__(self, k: Kernel, needed: tuple[int, ...]) -> None:
        self.k = k
        self.b = k.b
        self.needed = needed
        key = SortKey.of(k.inst.to_apply)
        assert key is not None
        self.key = key
        self.records = Records.of(k.inst, key)
        shape = k.inst.operands[0].array_shape
        self.lines = Lines(shape, k.inst.dimensions[0])
        self.n = self.lines.length
        self.digits = self.records.digits(self.n)
        self.buckets = 1 << max(bits for _, bits in self.digits)

    # --- records --------------------------------------------------------------------------------

    def record(self, start: Sequence[Index], position: Index) -> list[Val]:
        """Return the record of an element."""
        b, r, k = self.b, self.records, self.k
        at = self.lines.at(start, position)
        values = [k.elements.at(o, at) for o in k.inst.operands]
        rank = self.key.rank(b, values)
        word = rank if rank.type == r.word else b.cast("zext", rank, r.word)
        if r.content == "key":
            return [word]
        index = Val("i64", str(position))
        if r.is_split:
            return [word, b.cast("trunc", index, "i32")]
        high = b.binary("shl", word, 32)
        low = index
        if r.content == "value":
            low = self._bits(values[0])
        return [b.binary("or", high, low)]

    def _bits(self, value: object) -> Val:
        b, et = self.b, element_type(self.k.inst.operands[0])
        assert isinstance(value, Val)
        raw = scalar.to_memory(b, et, value)
        if raw.type == "float":
            raw = b.cast("bitcast", raw, "i32")
        return b.cast("zext", raw, "i64")

    def address(self, part: int, at: Index) -> str:
        return self.b.element_address(self.k.scratch[part], self.records.types[part], at)

    def load(self, at: Index) -> list[Val]:
        """Return the record at a position in the workspace."""
        return [self.b.load(t, self.address(part, at)) for part, t in enumerate(self.records.types)]

    def put(self, record: Sequence[Val], at: Index) -> None:
        for part, value in enumerate(record):
            self.b.store(value, self.address(part, at))

    def digit(self, word: Val, number: int) -> Index:
        """Return a digit of a record's key."""
        return self.digit_at(word, self.digits[number][0])

    def digit_at(self, word: Val, shift: Index) -> Index:
        """Return the digit that begins at a bit; zeros above the last one."""
        b = self.b
        by = str(shift)
        if isinstance(shift, str) and word.type == "i32":
            by = b.cast("trunc", i64(shift), "i32").name
        moved = b.binary("lshr", word, by) if shift else word
        return as_index(b, b.binary("and", moved, self.buckets - 1))

    def write(self, start: Sequence[Index], position: Index, record: Sequence[Val]) -> None:
        """Store the results at a position of a row, given the record that is sorted there."""
        b, k, r = self.b, self.k, self.records
        at = self.lines.at(start, position)
        (word,) = record[:1]
        if r.content == "key":
            t = f"i{r.key_bits}"
            rank = word if word.type == t else b.cast("trunc", word, t)
            order = self.key.value_order
            assert order is not None
            k.store(order.value(b, rank), at)
            return
        if r.content == "value":
            et = element_type(k.inst.operands[0])
            bits = scalar.memory_type(et)
            t = "i32" if bits == "float" else bits
            raw = b.cast("trunc", word, t)
            if bits == "float":
                raw = b.cast("bitcast", raw, "float")
            k.store(scalar.from_memory(b, et, raw), at)
            return
        if r.is_split:
            source = as_index(b, record[1])
        else:
            source = b.binary("and", word, (1 << 32) - 1).name
        place = self.lines.at(start, source)
        for n in self.needed:
            k.store(k.elements.at(k.inst.operands[n], place), at, n)

    # --- counts ---------------------------------------------------------------------------------

    def count_up(self, counts: str, digit: Index) -> Index:
        """Increment a count; returns the old value."""
        b = self.b
        at = b.element_address(counts, "i32", digit)
        old = b.load("i32", at)
        b.store(b.binary("add", old, 1), at)
        return as_index(b, old)

    def clear(self, counts: str, size: int) -> None:
        clear(self.b, counts, 4 * size)

    def sum_up(self, counts: str) -> None:
        """Replace counts by their exclusive prefix sums."""
        b = self.b
        total = Variable(b, 0)
        with b.loop(0, self.buckets, plain=True) as d:
            at = b.element_address(counts, "i32", d)
            here = as_index(b, b.load("i32", at))
            before = total.get()
            b.store(b.cast("trunc", i64(before), "i32"), at)
            total.set(b.add(before, here))

    def move(self, counts: str, shift: Index, source: Index, target: Index, count: Index) -> None:
        """Move records to the positions in the prefix sums of their digits."""
        b = self.b
        with b.loop(0, count, plain=True) as i:
            record = self.load(b.add(source, i))
            place = self.count_up(counts, self.digit_at(record[0], shift))
            self.put(record, b.add(target, place))
