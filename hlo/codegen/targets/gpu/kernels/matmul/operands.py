"""Elements of operands and results, by their indices in m, n and k."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from hlo.codegen.kernels.matmul.product import Computed, Dims, Product, count, offset_at
from hlo.codegen.llvm import TRUE, Builder, Index, Val, i64
from hlo.codegen.loops.kernel import Kernel, split_index
from hlo.codegen.loops.vectors import Types
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.scalar.operations import Value
from hlo.codegen.targets.gpu.kernels.matmul.sums import parts_of
from hlo.values.layout.plain import loop_order
from hlo.values.types import ElementType


@dataclass(frozen=True)
class Place:
    """An index of m, n, k or of the batch, as the indices of its dimensions.

    inside: whether there is such an index; one that is not, counts as 0.
    """

    dims: Dims
    digits: tuple[Index, ...]
    inside: Val = TRUE

    @cached_property
    def names(self) -> Mapping[str, Index]:
        """The indices of the dimensions that bounds name."""
        found = zip(self.dims, self.digits, strict=True)
        return {d.name: i for d, i in found if d.name}

    def offset(self, b: Builder, side: str) -> Index:
        """Return how far it leads into an array."""
        return offset_at(b, 0, self.dims, self.digits, side)


def place_at(b: Builder, dims: Dims, index: Index, *, is_checked: bool = False) -> Place:
    """Return an index as a place. is_checked: it may be beyond the end."""
    inside, size = TRUE, count(dims)
    if is_checked:
        inside = b.compare("slt", index, size)
        index = b.select(inside, i64(index), i64(0)).name if inside is not TRUE else index
    digits = split_index(b, index, [d.size for d in dims]) if dims else []
    return Place(dims, tuple(digits), inside)


class Operand:
    """One operand of a product in a kernel: loads its elements, zeros where there are none."""

    def __init__(self, k: Kernel, p: Product, side: str, to: ElementType) -> None:
        """to: the type that elements are converted to."""
        self.k, self.side = k, side
        self.source = p.source(side)
        source = self.source
        if isinstance(source.memory, Computed):
            self.base = ""
        elif isinstance(source.memory, int):
            self.base = k.scratch[source.memory]
        else:
            self.base = k.pointer(k.inputs.leaves[source.memory.number])
        self.types = Types.of(source.et, to)

    def at(self, batch: Place, free: Place, inner: Place) -> Value:
        """Return an element."""
        b = self.k.b
        at, inside = self.position(batch, free, inner)
        found = self._element(b.select(inside, i64(at), i64(0)).name if inside != TRUE else at)
        value = self.types.through(b, found)
        if inside == TRUE:
            return value
        et = self.types.chain[-1]
        return scalar.select(b, inside, value, scalar.constant(et, et.dtype.type(0)))

    def bits_at(self, batch: Place, free: Place, inner: Place) -> Val:
        """Return an element as it is in memory, in the type that elements are converted to."""
        b, et = self.k.b, self.types.chain[-1]
        if isinstance(self.source.memory, Computed) or self.source.et is not et:
            value = self.at(batch, free, inner)
            assert isinstance(value, Val)
            return scalar.to_memory(b, et, value)
        at, inside = self.position(batch, free, inner)
        memory = scalar.memory_type(et)
        index = b.select(inside, i64(at), i64(0)).name if inside != TRUE else at
        found = b.load(memory, b.element_address(self.base, memory, index))
        zero = scalar.to_memory(b, et, parts_of(scalar.constant(et, et.dtype.type(0)))[0])
        return b.select(inside, found, zero)

    def position(self, batch: Place, free: Place, inner: Place) -> tuple[Index, Val]:
        """Return where an element is from the beginning of its array, and whether it is there."""
        b = self.k.b
        at: Index = self.source.offset
        for place in (batch, free, inner):
            at = b.add(at, place.offset(b, self.side))
        inside = b.both(free.inside, inner.inside)
        for bound in self.source.bounds:
            tap = b.udiv(inner.names[bound.tap], bound.unit)
            along = b.mul(free.names[bound.free], bound.step)
            where = b.add(b.add(along, b.mul(tap, bound.jump)), bound.low)
            inside = b.both(inside, b.icmp("ult", i64(where), bound.size))
        return at, inside

    def _element(self, at: Index) -> Value:
        b, source = self.k.b, self.source
        if not isinstance(source.memory, Computed):
            return scalar.load(b, source.et, self.base, at)
        inst = source.memory.instruction(self.k.inst)
        shape = inst.array_shape
        order = loop_order(shape)
        digits = split_index(b, at, [shape.dims[d] for d in order]) if order else []
        where = dict(zip(order, digits, strict=True))
        return self.k.elements.at(inst, tuple(where.get(d, 0) for d in range(shape.rank)))
