"""Reductions over dimensions.

Three shapes of the same loop nest: along rows, where what is reduced is contiguous and the sum runs
in vector registers; along columns, where a strip of results is kept on the stack while rows go by;
and, where few results take long sums, in blocks of fixed size whose results are reduced again, so
that threads can share the work without a say in the result.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hlo.analysis.patterns import single_binary_op
from hlo.codegen import scalar
from hlo.codegen.element import Indices
from hlo.codegen.fusion import Role
from hlo.codegen.kernel import (
    Extent,
    Kernel,
    Plan,
    loop_nest,
    loop_order,
    over_elements,
    planner,
    split_index,
)
from hlo.codegen.llvm import Builder, Index, Val
from hlo.codegen.scalar import Value
from hlo.codegen.target import Target
from hlo.ir import Computation, Instruction
from hlo.types import ELEMENT_TYPES, ArrayShape, ElementType

# Results of a strip of columns that stay on the stack, and elements of a block of a long reduction.
_STRIP = 256
_BLOCK = 16384
# A reduction is cut into blocks when it gives at most so many results.
_FEW_RESULTS = 16


@dataclass(frozen=True)
class Combiner:
    """The function that a reduction applies, and what its accumulators are held in.

    known: the opcode when it is a single operation on one value; such sums of narrow floats are
    kept in f32 and rounded once, and are in no stated order.
    """

    computation: Computation
    types: tuple[ElementType, ...]
    known: str | None

    @staticmethod
    def of(inst: Instruction, values: int) -> Combiner:
        comp = inst.attrs["to_apply"]
        types = []
        for p in comp.parameters[:values]:
            assert isinstance(p.shape, ArrayShape)
            types.append(p.shape.element_type)
        known = single_binary_op(comp) if values == 1 else None
        if known not in _KNOWN or types[0].is_complex:
            known = None
        if known == "add" and types[0].is_float and types[0].bits < 32:
            types = [ELEMENT_TYPES["f32"]]
        return Combiner(comp, tuple(types), known)

    def identity(self) -> Value | None:
        """Return a value that changes nothing, for a known operation."""
        if self.known is None:
            return None
        et = self.types[0]
        return scalar.constant(et, np.asarray(_KNOWN[self.known](et)))

    def apply(self, k: Kernel, held: Sequence[Value], new: Sequence[Value]) -> Sequence[Value]:
        """Return the accumulators after one more element."""
        if self.known is None:
            return k.elements.call(self.computation, [*held, *new])
        (x,), (y,) = held, new
        assert isinstance(x, Val) and isinstance(y, Val)
        et = self.types[0]
        if et.is_float and self.known in ("add", "multiply"):
            op = "fadd" if self.known == "add" else "fmul"
            # The order of a sum is not stated: LLVM may keep partial sums in vector lanes.
            return [k.b.op(x.type, f"{op} reassoc contract {x}, {y.name}")]
        return [scalar.combine(k.b, self.known, et, x, y)]


def _lowest(et: ElementType) -> object:
    if et.is_pred:
        return False
    if et.is_float:
        return -math.inf
    return -(1 << et.bits - 1) if et.is_signed else 0


def _highest(et: ElementType) -> object:
    if et.is_pred:
        return True
    if et.is_float:
        return math.inf
    return (1 << et.bits - (1 if et.is_signed else 0)) - 1


_KNOWN = {
    "add": lambda et: -0.0 if et.is_float else 0,
    "multiply": lambda et: 1,
    "maximum": _lowest,
    "minimum": _highest,
    "and": lambda et: True if et.is_pred else -1,
    "or": lambda et: 0,
    "xor": lambda et: 0,
}


@dataclass(frozen=True)
class Reduction:
    """The parts of a reduce instruction."""

    inst: Instruction
    operands: tuple[Instruction, ...]
    inits: tuple[Instruction, ...]
    kept: tuple[int, ...]
    reduced: tuple[int, ...]
    combiner: Combiner

    @staticmethod
    def of(inst: Instruction) -> Reduction:
        count = len(inst.operands) // 2
        source = inst.operands[0].shape
        assert isinstance(source, ArrayShape)
        order = [d for d in reversed(source.layout.minor_to_major)] if source.layout else []
        gone = set(inst.attrs["dimensions"])
        return Reduction(
            inst,
            tuple(inst.operands[:count]),
            tuple(inst.operands[count:]),
            tuple(d for d in range(source.rank) if d not in gone),
            # In memory order, so that the innermost loop is the contiguous one.
            tuple(d for d in order if d in gone),
            Combiner.of(inst, count),
        )

    @property
    def source(self) -> ArrayShape:
        assert isinstance(self.operands[0].shape, ArrayShape)
        return self.operands[0].shape

    @property
    def result(self) -> ArrayShape:
        shape = self.inst.shape.at((0,)) if self.inst.shape.is_tuple else self.inst.shape
        assert isinstance(shape, ArrayShape)
        return shape

    def reduced_sizes(self) -> list[int]:
        return [self.source.dims[d] for d in self.reduced]

    def place(self, kept: Sequence[Index], reduced: Sequence[Index]) -> Indices:
        """Return the operand indices of a result's indices and a position in the reduced dims."""
        at: list[Index] = [0] * self.source.rank
        for d, i in zip(self.kept, kept, strict=True):
            at[d] = i
        for d, i in zip(self.reduced, reduced, strict=True):
            at[d] = i
        return tuple(at)

    def inits_of(self, k: Kernel) -> list[Value]:
        return [
            scalar.convert(k.b, k.elements.at(i, ()), _type(i), et)
            for i, et in zip(self.inits, self.combiner.types, strict=True)
        ]

    def elements_at(self, k: Kernel, at: Indices) -> list[Value]:
        """Return the operands' elements, as the combiner takes them."""
        wanted = [_type(p) for p in self.combiner.computation.parameters[len(self.operands) :]]
        if self.combiner.known:
            wanted = list(self.combiner.types)
        return [
            scalar.convert(k.b, k.elements.at(o, at), _type(o), et)
            for o, et in zip(self.operands, wanted, strict=True)
        ]

    def store(self, k: Kernel, values: Sequence[Value], at: Indices) -> None:
        for n, (value, et) in enumerate(zip(values, self.combiner.types, strict=True)):
            shape = self.inst.shape.at((n,)) if self.inst.shape.is_tuple else self.inst.shape
            assert isinstance(shape, ArrayShape)
            k.store(scalar.convert(k.b, value, et, shape.element_type), at, n)


def _type(inst: Instruction) -> ElementType:
    assert isinstance(inst.shape, ArrayShape)
    return inst.shape.element_type


class Accumulators:
    """Accumulators on the stack: one row of `count` for each reduced value."""

    def __init__(self, b: Builder, types: Sequence[ElementType], count: int = 1) -> None:
        self.b = b
        self.types = types
        self.slots = [
            b.alloca(scalar.memory_type(et), count * (2 if et.is_complex else 1), align=64)
            for et in types
        ]

    def get(self, at: Index = 0) -> list[Value]:
        return [
            scalar.load(self.b, et, s.name, at)
            for et, s in zip(self.types, self.slots, strict=True)
        ]

    def put(self, values: Sequence[Value], at: Index = 0) -> None:
        for et, s, v in zip(self.types, self.slots, values, strict=True):
            scalar.store(self.b, et, v, s.name, at)


@planner("reduce")
def plan_reduce(inst: Instruction, _: Mapping[Instruction, Role], __: Target) -> Plan:
    """Choose rows, columns or blocks."""
    r = Reduction.of(inst)
    order = loop_order(r.source)
    if order and order[-1] in r.kept and r.result.dims:
        return Plan((_columns,))
    length = math.prod(r.reduced_sizes())
    if r.combiner.known and r.result.num_elements <= _FEW_RESULTS and length >= 4 * _BLOCK:
        blocks = -(-length // _BLOCK)
        return Plan((_blocks, _join_blocks), (r.result.num_elements * blocks * 8,))
    return Plan((_rows,))


def _rows(k: Kernel) -> Extent:
    """Reduce one result after the other; the innermost loop runs along memory."""
    r = Reduction.of(k.inst)
    acc = Accumulators(k.b, r.combiner.types)
    length = math.prod(r.reduced_sizes())

    def body(at: Indices) -> None:
        acc.put(r.inits_of(k))

        def step(found: tuple[str, ...]) -> None:
            new = r.elements_at(k, r.place(at, found))
            acc.put(r.combiner.apply(k, acc.get(), new))

        loop_nest(k.b, [(0, n) for n in r.reduced_sizes()], step)
        r.store(k, acc.get(), at)

    extent = over_elements(k, r.result, body)
    return Extent(extent.iterations, extent.cost * max(1, length))


def _columns(k: Kernel) -> Extent:
    """Reduce strips of neighbouring results together, row by row."""
    r, b = Reduction.of(k.inst), k.b
    minor = loop_order(r.source)[-1]
    width = r.source.dims[minor]
    strip = min(width, _STRIP)
    strips = -(-width // strip)
    acc = Accumulators(b, r.combiner.types, strip)
    others = [d for d in r.kept if d != minor]
    sizes = [r.source.dims[d] for d in others]
    outer = math.prod(sizes)

    def indices(found: Sequence[Index], column: Index) -> Indices:
        by_dim = dict(zip(others, found, strict=True)) | {minor: column}
        return tuple(by_dim[d] for d in r.kept)

    with b.loop(k.begin, k.end) as at:
        row, part = split_index(b, at, [max(outer, 1), strips])
        found = split_index(b, row, sizes) if sizes else []
        first = b.mul(part, strip)
        here = b.minimum(strip, b.sub(width, first))
        with b.loop(0, here) as j:
            acc.put(r.inits_of(k), j)

        def step(reduced: tuple[str, ...]) -> None:
            with b.loop(0, here) as j:
                new = r.elements_at(k, r.place(indices(found, b.add(first, j)), reduced))
                acc.put(r.combiner.apply(k, acc.get(j), new), j)

        loop_nest(b, [(0, n) for n in r.reduced_sizes()], step)
        with b.loop(0, here) as j:
            r.store(k, acc.get(j), indices(found, b.add(first, j)))
    return Extent(outer * strips, strip * max(1, math.prod(r.reduced_sizes())))


def _blocks(k: Kernel) -> Extent:
    """Reduce each block of a long reduction to one value in scratch memory."""
    r, b = Reduction.of(k.inst), k.b
    length = math.prod(r.reduced_sizes())
    blocks = -(-length // _BLOCK)
    acc = Accumulators(b, r.combiner.types)
    identity = r.combiner.identity()
    assert identity is not None
    # Whole rows of the innermost loop that fit a block; a row longer than a block is cut.
    with b.loop(k.begin, k.end) as at:
        result, block = split_index(b, at, [max(1, r.result.num_elements), blocks])
        kept = split_index(b, result, r.result.dims) if r.result.dims else []
        first = b.mul(block, _BLOCK)
        last = b.minimum(b.add(first, _BLOCK), length)
        acc.put([identity])

        def step(place: Sequence[Index]) -> None:
            new = r.elements_at(k, r.place(kept, place))
            acc.put(r.combiner.apply(k, acc.get(), new))

        sizes = r.reduced_sizes()
        inner = sizes[-1]
        # One pass a row: from where the block begins in it to where the row or the block ends.
        with b.loop(b.udiv(first, inner), b.add(b.udiv(b.sub(last, 1), inner), 1)) as line:
            start = b.mul(line, inner)
            lo = b.maximum(b.sub(first, start), 0)
            hi = b.minimum(b.sub(last, start), inner)
            head = split_index(b, line, sizes[:-1]) if sizes[:-1] else []
            with b.loop(lo, hi) as j:
                step([*head, j])
        scalar.store(b, r.combiner.types[0], acc.get()[0], k.scratch[0], at)
    return Extent(max(1, r.result.num_elements) * blocks, _BLOCK)


def _join_blocks(k: Kernel) -> Extent:
    """Reduce the blocks' values, in order, onto the initial value."""
    r, b = Reduction.of(k.inst), k.b
    blocks = -(-math.prod(r.reduced_sizes()) // _BLOCK)
    acc = Accumulators(b, r.combiner.types)
    with b.loop(k.begin, k.end):
        with b.loop(0, max(1, r.result.num_elements)) as result:
            acc.put(r.inits_of(k))
            with b.loop(0, blocks) as block:
                at = b.add(b.mul(result, blocks), block)
                value = scalar.load(b, r.combiner.types[0], k.scratch[0], at)
                acc.put(r.combiner.apply(k, acc.get(), [value]))
            place = split_index(b, result, r.result.dims) if r.result.dims else []
            r.store(k, acc.get(), tuple(place))
    return Extent(1)


__all__ = ["Accumulators", "Combiner", "Reduction"]
