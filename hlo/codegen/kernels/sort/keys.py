"""Orders of elements as orders of unsigned integers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from hlo.analysis.patterns import order_terms
from hlo.codegen.llvm import Builder, Val, float_const, int_const
from hlo.codegen.loops.inline import inline
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.scalar.operations import Value
from hlo.ir import Computation, Instruction
from hlo.values.types import ElementType


@dataclass(frozen=True)
class Order:
    """The order of values of one type, by value or total; `bits` is the width of its integers.

    By value, zeros are equal; the position of NaN is unspecified, but all of them are at one end.
    """

    et: ElementType
    descending: bool
    total: bool

    @property
    def bits(self) -> int:
        return max(8, self.et.bits)

    @property
    def is_exact(self) -> bool:
        """True when different values have different integers."""
        return self.total or not self.et.is_float

    def rank(self, b: Builder, value: Val) -> Val:
        """Return the unsigned integer of a value: the smaller, the earlier."""
        et = self.et
        if et.is_float and not self.is_exact:
            # An addition of zero would quiet NaN, too.
            zero = float_const(value.type, 0.0)
            value = b.select(b.fcmp("oeq", value, zero), zero, value)
        raw = scalar.to_memory(b, et, value)
        if et.is_float:
            raw = self._from_float(b, raw)
        elif et.is_signed:
            raw = b.binary("xor", raw, self._top)
        return b.binary("xor", raw, -1) if self.descending else raw

    def value(self, b: Builder, rank: Val) -> Val:
        """Return the value of an integer of an exact order."""
        et = self.et
        raw = b.binary("xor", rank, -1) if self.descending else rank
        if et.is_float:
            raw = self._to_float(b, raw)
        elif et.is_signed:
            raw = b.binary("xor", raw, self._top)
        if et.is_float and raw.type != scalar.memory_type(et):
            raw = b.cast("bitcast", raw, scalar.memory_type(et))
        return scalar.from_memory(b, et, raw)

    @property
    def _top(self) -> Val:
        return int_const(self.bits, 1 << self.bits - 1)

    def _from_float(self, b: Builder, raw: Val) -> Val:
        """Sign and magnitude to an unsigned integer: negative numbers count downwards."""
        t = f"i{self.bits}"
        if raw.type != t:
            raw = b.cast("bitcast", raw, t)
        if self.et.name == "f8e8m0fnu":
            return raw
        if self.et.bits < 8:
            # The sign is the topmost of the significant bits.
            raw = b.binary("shl", raw, 8 - self.et.bits)
        sign = b.binary("ashr", raw, self.bits - 1)
        if self.et.name.endswith("fnuz"):
            # The bits of -0 are NaN in these: it is ordered before the other negative values.
            raw = self._next(b, raw, sign, 1)
        flip = b.binary("or", sign, self._top)
        return b.binary("xor", raw, flip)

    def _to_float(self, b: Builder, rank: Val) -> Val:
        if self.et.name == "f8e8m0fnu":
            return rank
        # Values that were not negative now have their topmost bit set.
        negative = b.binary("ashr", b.binary("xor", rank, -1), self.bits - 1)
        flip = b.binary("or", negative, self._top)
        raw = b.binary("xor", rank, flip)
        if self.et.name.endswith("fnuz"):
            raw = self._next(b, raw, negative, -1)
        return b.binary("lshr", raw, 8 - self.et.bits) if self.et.bits < 8 else raw

    def _next(self, b: Builder, raw: Val, sign: Val, step: int) -> Val:
        """Return a number `step` units closer to zero, with wraparound, if its sign is set."""
        moved = b.binary("add" if step > 0 else "sub", raw, sign)
        top = b.binary("and", sign, self._top)
        return b.binary("or", moved, top)


@dataclass(frozen=True)
class Canonical:
    """An order of elements by themselves, some of which are equal without having the same bits.

    ties: what these count as, if not as themselves: constants of the comparator, or None for zero.
    """

    order: Order
    ties: tuple[Instruction | None, ...]

    def difference(self, b: Builder, value: Val, rank: Val) -> Val:
        """Return a number that is zero if an element is the value of its rank."""
        exact = replace(self.order, total=True)
        return b.binary("xor", exact.rank(b, value), rank)

    def tied(self, b: Builder, comparator: Computation) -> Iterator[Val]:
        """Yield the ranks of what elements of different bits count as."""
        for constant in self.ties:
            if constant is None:
                value = float_const(scalar.ssa_type(self.order.et), 0.0)
            else:
                (found,) = inline(b, comparator, [None] * len(comparator.parameters), constant)
                assert isinstance(found, Val)
                value = found
            yield self.order.rank(b, value)


@dataclass(frozen=True)
class SortKey:
    """The keys by which a comparator orders elements, as one unsigned integer.

    terms: the instructions of the comparator that compute keys from the even parameters, and the
    order of each; the first key counts most.
    """

    comparator: Computation
    terms: tuple[tuple[Instruction, Order], ...]

    @staticmethod
    def of(comparator: Computation) -> SortKey | None:
        """Return the keys of a comparator, None if it has none or they do not fit 64 bits."""
        found = order_terms(comparator)
        if found is None:
            return None
        terms = []
        for term in found:
            et = term.key.array_shape.element_type
            terms.append((term.key, Order(et, term.descending, term.total_order)))
        if sum(order.bits for _, order in terms) > 64:
            return None
        return SortKey(comparator, tuple(terms))

    @property
    def bits(self) -> int:
        """The width of the integer: 8, 16, 32 or 64."""
        needed = sum(order.bits for _, order in self.terms)
        return max(8, 1 << (needed - 1).bit_length())

    @property
    def value_order(self) -> Order | None:
        """The order of the first operand's elements, if the key is nothing else."""
        ((source, order), *more) = self.terms
        alone = not more and source.opcode == "parameter" and source.parameter_number == 0
        return order if alone and order.is_exact else None

    @property
    def canonical(self) -> Canonical | None:
        """How the first operand's elements are found from keys, if the key tells nearly all."""
        ((source, order), *more) = self.terms
        if more:
            return None
        ties: list[Instruction | None] = []
        while source.opcode == "select":
            _, *arms = source.operands
            constants = [arm for arm in arms if arm.opcode == "constant"]
            others = [arm for arm in arms if arm.opcode != "constant"]
            if not constants or not others:
                return None
            ties += constants
            (source,) = others
        if source.opcode != "parameter" or source.parameter_number != 0:
            return None
        if not order.is_exact:
            ties.append(None)
        return Canonical(order, tuple(ties))

    def rank(self, b: Builder, values: Sequence[Value]) -> Val:
        """Return the integer of an element, given the operands' values there."""
        args: list[Value | None] = []
        for value in values:
            args += [value, None]
        t = f"i{self.bits}"
        total: Val | None = None
        for source, order in self.terms:
            (key,) = inline(b, self.comparator, args, source)
            assert isinstance(key, Val)
            rank = order.rank(b, key)
            if rank.type != t:
                rank = b.cast("zext", rank, t)
            if total is not None:
                above = b.binary("shl", total, order.bits)
                rank = b.binary("or", above, rank)
            total = rank
        assert total is not None
        return total
