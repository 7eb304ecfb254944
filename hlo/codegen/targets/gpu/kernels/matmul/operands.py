"""Elements of operands and results, by their indices in m, n and k."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from hlo.codegen.kernels.matmul.product import Computed, Dims, Product, count, offset_at
from hlo.codegen.llvm import TRUE, Builder, Index, Val, i64
from hlo.codegen.loops.kernel import Kernel, split_index
from hlo.codegen.loops.vectors import Types
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.scalar.operations import Value
from hlo.codegen.targets.gpu.kernels.matmul.sums import parts_of
from hlo.values.layout.plain import loop_order, strides_of
from hlo.values.types import ArrayShape, ElementType


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


@dataclass(frozen=True)
class _Where:
    """Where an element is: its index in memory, or those in an array that is computed.

    inside: whether there is such an element.
    """

    indices: tuple[Index, ...]
    inside: Val


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
        return self._converted(self.where(batch, free, inner), 0)

    def bits_at(self, batch: Place, free: Place, inner: Place, number: int = 1) -> list[Val]:
        """Return elements as they are in memory, in the type that elements are converted to.

        number: of elements that follow each other in the operand's memory, in one line of it.
        """
        where = self.where(batch, free, inner)
        return [self._bits(where, n) for n in range(number)]

    def where(self, batch: Place, free: Place, inner: Place) -> _Where:
        """Return where an element is: some element's place if it is not there."""
        b = self.k.b
        places = batch, free, inner
        if isinstance(self.source.memory, Computed):
            inst = self.source.memory.instruction(self.k.inst)
            shape = inst.array_shape
            digits = (
                None if self.source.bounds or self.source.offset else self._digits(shape, places)
            )
            if digits is not None:
                return _Where(tuple(digits), b.both(free.inside, inner.inside))
        at, inside = self.position(*places)
        at = b.select(inside, i64(at), i64(0)).name if inside != TRUE else at
        if not isinstance(self.source.memory, Computed):
            return _Where((at,), inside)
        order = loop_order(shape)
        split = split_index(b, at, [shape.dims[d] for d in order]) if order else []
        found = dict(zip(order, split, strict=True))
        return _Where(tuple(found.get(d, 0) for d in range(shape.rank)), inside)

    def _digits(self, shape: ArrayShape, places: Sequence[Place]) -> list[Index] | None:
        """Return the indices of an array's dimensions; None if they do not follow one by one.

        That takes no division, but where dimensions that lie side by side count as one.
        """
        found: list[Index] = [0] * shape.rank
        strides, order = strides_of(shape), loop_order(shape)
        left = set(order)
        for place in places:
            for dim, digit in zip(place.dims, place.digits, strict=True):
                if dim.size == 1:
                    continue
                own = [d for d in order if 0 < dim.stride(self.side) <= strides[d]]
                while math.prod(shape.dims[d] for d in own) > dim.size:
                    own = own[1:]
                sizes = [shape.dims[d] for d in own]
                if not own or strides[own[-1]] != dim.stride(self.side) or not left.issuperset(own):
                    return None
                if math.prod(sizes) != dim.size:
                    return None
                left -= set(own)
                for d, n in zip(own, split_index(self.k.b, digit, sizes), strict=True):
                    found[d] = n
        return None if left else found

    def _bits(self, where: _Where, ahead: int) -> Val:
        b, et = self.k.b, self.types.chain[-1]
        if isinstance(self.source.memory, Computed) or self.source.et is not et:
            value = self._converted(where, ahead)
            assert isinstance(value, Val)
            return scalar.to_memory(b, et, value)
        memory = scalar.memory_type(et)
        at = b.add(where.indices[0], ahead)
        found = b.load(memory, b.element_address(self.base, memory, at))
        zero = scalar.to_memory(b, et, parts_of(scalar.constant(et, et.dtype.type(0)))[0])
        return b.select(where.inside, found, zero)

    def _converted(self, where: _Where, ahead: int) -> Value:
        b, et = self.k.b, self.types.chain[-1]
        value = self.types.through(b, self._element(where, ahead))
        if where.inside == TRUE:
            return value
        return scalar.select(b, where.inside, value, scalar.constant(et, et.dtype.type(0)))

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

    def _element(self, where: _Where, ahead: int) -> Value:
        """Return the element that is so many ahead of another in the same line of memory."""
        b, source = self.k.b, self.source
        if not isinstance(source.memory, Computed):
            return scalar.load(b, source.et, self.base, b.add(where.indices[0], ahead))
        inst = source.memory.instruction(self.k.inst)
        indices = [*where.indices]
        if ahead:
            d = loop_order(inst.array_shape)[-1]
            indices[d] = b.add(indices[d], ahead)
        return self.k.elements.at(inst, tuple(indices))
