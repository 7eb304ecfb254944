"""Reducers, and their accumulators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hlo.analysis.patterns import picks_an_argument, single_binary_op
from hlo.codegen.llvm import Builder, Index, Val
from hlo.codegen.loops.element import ElementEmitter
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.scalar.operations import Cplx, Value
from hlo.ir import Computation, Instruction
from hlo.ops import OPS, OpSpec
from hlo.values.types import ELEMENT_TYPES, ElementType

# Reductions of more elements may be split, although their function is not known to be associative:
# the specification permits that. Shorter ones are in row-major order.
_SEQUENTIAL_MAX = 4096
# A function that only selects one of its arguments loses no precision.
_SEQUENTIAL_PICK_MAX = 64


@dataclass(frozen=True)
class Combiner:
    """The function of a reduction: `n` accumulators and `n` elements to `n` accumulators.

    known: the opcode when it is a single operation that may be applied in any order; sums of narrow
    floats and sub-byte integers are accumulated in wider types and rounded once. held: the types of
    accumulators; parameters: those that the function declares.
    """

    computation: Computation
    parameters: tuple[ElementType, ...]
    held: tuple[ElementType, ...]
    known: str | None

    @staticmethod
    def of(computation: Computation) -> Combiner:
        """Describe a reduction function."""
        types = tuple(element_type(p) for p in computation.parameters)
        n = len(types) // 2
        opcode = single_binary_op(computation) if n == 1 else None
        if opcode is None or not _any_order(OPS[opcode], types[0]):
            return Combiner(computation, types, types[:n], None)
        return Combiner(computation, types, (_wider(types[0]),), opcode)

    @property
    def count(self) -> int:
        """The number of values that are reduced together."""
        return len(self.held)

    @property
    def rounds(self) -> bool:
        """True for sums of floats, whose error grows with the length of chains of additions."""
        return self.known == "add" and (self.held[0].is_float or self.held[0].is_complex)

    def splits(self, length: int) -> bool:
        """True when a reduction of `length` elements may be split into partial reductions.

        The parts are in order; a part begins with its first element, or with `identity`.
        """
        if self.known:
            return True
        if self.parameters[: self.count] != self.parameters[self.count :]:
            return False
        if length > _SEQUENTIAL_MAX:
            return True
        return length > _SEQUENTIAL_PICK_MAX and self.picks

    @cached_property
    def picks(self) -> bool:
        """True for a function that only selects one of its arguments."""
        return self.known is None and picks_an_argument(self.computation)

    def neutral(self) -> np.ndarray:
        """Return the identity element of a known operation."""
        assert self.known is not None
        identity = OPS[self.known].identity
        assert identity is not None
        return np.asarray(identity(self.held[0]))

    def identity(self) -> list[Value]:
        """Return the identity element as a value."""
        return [scalar.constant(self.held[0], self.neutral())]

    def start(
        self, b: Builder, values: Sequence[Value], given: Sequence[ElementType]
    ) -> list[Value]:
        """Convert initial values to the types of accumulators."""
        return self._hold(b, values, given, self.parameters[: self.count])

    def elements(
        self, b: Builder, values: Sequence[Value], given: Sequence[ElementType]
    ) -> list[Value]:
        """Convert elements to the types that `apply` expects."""
        wanted = self.parameters[self.count :]
        if self.known:
            return self._hold(b, values, given, wanted)
        return [
            scalar.convert(b, v, have, want)
            for v, have, want in zip(values, given, wanted, strict=True)
        ]

    def _hold(
        self,
        b: Builder,
        values: Sequence[Value],
        given: Sequence[ElementType],
        declared: Sequence[ElementType],
    ) -> list[Value]:
        return [
            scalar.convert(b, scalar.convert(b, v, have, want), want, held)
            for v, have, want, held in zip(values, given, declared, self.held, strict=True)
        ]

    def result(
        self, b: Builder, values: Sequence[Value], wanted: Sequence[ElementType]
    ) -> list[Value]:
        """Convert accumulators to the types of results."""
        return [
            scalar.convert(b, scalar.convert(b, v, held, declared), declared, want)
            for v, held, declared, want in zip(
                values, self.held, self.parameters[: self.count], wanted, strict=True
            )
        ]

    def apply(
        self,
        elements: ElementEmitter,
        held: Sequence[Value],
        new: Sequence[Value],
        *,
        in_order: bool = False,
    ) -> list[Value]:
        """Return the accumulators after one more element, which may be other accumulators.

        in_order: LLVM must not reassociate a sum. Otherwise it may use partial sums in vector
        lanes, since the order is unspecified.
        """
        b, flags = elements.b, "contract" if in_order else "reassoc contract"
        if self.known is None:
            return elements.call(self.computation, [*held, *new])
        (x,), (y,), et = held, new, self.held[0]
        if isinstance(x, Cplx) and isinstance(y, Cplx):
            return [Cplx(_add(b, flags, x.re, y.re), _add(b, flags, x.im, y.im))]
        assert isinstance(x, Val) and isinstance(y, Val)
        if et.is_float and self.known == "add":
            return [_add(b, flags, x, y)]
        return [scalar.combine(b, self.known, et, x, y)]

    def apply_all(
        self, elements: ElementEmitter, held: Sequence[Value], new: Sequence[Sequence[Value]]
    ) -> list[Value]:
        """Return the accumulators after some elements: those of a sum are added in pairs first.

        That needs no more additions than one by one, and the large accumulators are rounded less
        often.
        """
        if self.known is None or not new:
            for element in new:
                held = self.apply(elements, held, element)
            return list(held)
        rest = list(new)
        while len(rest) > 1:
            pairs = zip(rest[::2], rest[1::2], strict=False)
            odd = rest[len(rest) // 2 * 2 :]
            rest = [self.apply(elements, x, y, in_order=True) for x, y in pairs] + odd
        return self.apply(elements, held, rest[0], in_order=True)


def _add(b: Builder, flags: str, x: Val, y: Val) -> Val:
    return b.binary("fadd", x, y, flags)


def _any_order(spec: OpSpec, et: ElementType) -> bool:
    """True when an operation is associative and commutative, sums of floats taken as exact.

    Products of floats are not: whether they overflow depends on the order.
    """
    if spec.identity is None or spec.identity(_wider(et)) is None:
        return False
    return spec.name == "add" or spec.is_associative(et)


def _wider(et: ElementType) -> ElementType:
    if et.is_float and et.bits < 32:
        return ELEMENT_TYPES["f32"]
    if et.is_integer and et.bits < 8:
        return ELEMENT_TYPES["s8" if et.is_signed else "u8"]
    return et


def element_type(inst: Instruction) -> ElementType:
    """Return the element type of an instruction that produces an array."""
    return inst.array_shape.element_type


class Accumulators:
    """Values on the stack, which LLVM turns into registers where it can.

    A single set is stored as SSA types; with a `count`, there is a row for each value.
    """

    def __init__(self, b: Builder, types: Sequence[ElementType], count: int | None = None) -> None:
        self.b = b
        self.types = types
        self.count = count
        self._slots = [self._reserve(et) for et in types]

    def _reserve(self, et: ElementType) -> list[str]:
        if self.count is None:
            t = scalar.ssa_type(et)
            return [self.b.alloca(t).name for _ in range(2 if et.is_complex else 1)]
        parts = 2 if et.is_complex else 1
        return [self.b.alloca(scalar.memory_type(et), self.count * parts, align=64).name]

    def addresses(self) -> list[str]:
        """Return the addresses of rows, or of single values of types that are not complex."""
        return [slots[0] for slots in self._slots]

    def get(self, at: Index = 0) -> list[Value]:
        """Return the values, at one position of the rows."""
        return [self._get(et, slots, at) for et, slots in zip(self.types, self._slots, strict=True)]

    def _get(self, et: ElementType, slots: list[str], at: Index) -> Value:
        if self.count is not None:
            return scalar.load(self.b, et, slots[0], at)
        t = scalar.ssa_type(et)
        parts = [self.b.load(t, slot) for slot in slots]
        return Cplx(*parts) if et.is_complex else parts[0]

    def put(self, values: Sequence[Value], at: Index = 0) -> None:
        """Set the values, at one position of the rows."""
        for et, slots, v in zip(self.types, self._slots, values, strict=True):
            if self.count is not None:
                scalar.store(self.b, et, v, slots[0], at)
                continue
            parts = [v.re, v.im] if isinstance(v, Cplx) else [v]
            for slot, part in zip(slots, parts, strict=True):
                self.b.store(part, slot)
