"""Where the rows of a Fourier transform come from, and where they go."""

from __future__ import annotations

from dataclasses import dataclass

from hlo.codegen.kernels.fft.dft import Complex
from hlo.codegen.kernels.fft.rows import FROM_REAL, TO_REAL, Pass
from hlo.codegen.kernels.variables import chosen
from hlo.codegen.llvm import Index, Val, float_const
from hlo.codegen.loops.address import Indices, physical_index
from hlo.codegen.loops.kernel import Kernel, split_index
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.scalar.operations import Cplx
from hlo.codegen.targets.gpu.kernels.fft.rows import Scalars, root
from hlo.values.types import ArrayShape


class ArrayRows:
    """Emission of accesses to the rows of an array along one dimension, for a forward transform."""

    def __init__(self, k: Kernel, p: Pass) -> None:
        self._k, self._b, self._p = k, k.b, p
        self._type = scalar.ssa_type(p.part)

    def _indices(self, row: Index, at: Index) -> Indices:
        p = self._p
        found = split_index(self._b, row, [p.after.dims[d] for d in p.others]) if p.others else []
        places = dict(zip(p.others, found, strict=True)) | {p.axis: at}
        return tuple(places.get(d, 0) for d in range(p.after.rank))

    def _load(self, row: Index, at: Index) -> Complex:
        k, b, p = self._k, self._b, self._p
        indices = self._indices(row, at)
        if p.in_place or p.source is not None:
            base = k.outputs[0] if p.in_place else k.scratch[p.source or 0]
            place = physical_index(b, p.before, indices)
            value = scalar.load(b, p.before.element_type, base, place)
        else:
            value = k.elements.at(k.inst.operands[0], indices)
        if isinstance(value, Cplx):
            return value.re, value.im
        return value, float_const(self._type, 0.0)

    def read(self, row: Index, at: Index) -> Complex:
        """Return a number of a row."""
        b, p = self._b, self._p
        if p.kind == TO_REAL:
            # The second half of the spectrum of real numbers is the first one's mirror image.
            is_first = b.compare("sle", at, p.n // 2)
            re, im = self._load(row, chosen(b, is_first, at, b.sub(p.n, at)))
            return b.select(is_first, im, b.unary("fneg", im)), re
        re, im = self._load(row, at)
        return (im, re) if p.inverse else (re, im)

    @property
    def written(self) -> int:
        """How many numbers of a row are written."""
        return self._p.n // 2 + 1 if self._p.kind == FROM_REAL else self._p.n

    def write(self, row: Index, at: Index, number: Complex) -> None:
        """Store a number of a transformed row."""
        k, b, p = self._k, self._b, self._p
        re, im = number[::-1] if p.inverse else number
        if p.inverse:
            factor = float_const(self._type, 1.0 / p.n)
            re, im = b.binary("fmul", re, factor), b.binary("fmul", im, factor)
        base = k.outputs[0] if p.target is None else k.scratch[p.target]
        shape: ArrayShape = p.after
        value = re if p.kind == TO_REAL else Cplx(re, im)
        scalar.store(
            b, shape.element_type, value, base, physical_index(b, shape, self._indices(row, at))
        )


@dataclass(frozen=True)
class Spectrum:
    """A factor for each number: a table, by its number, of so many."""

    table: int
    count: int

    def multiply(self, k: Kernel, type_: str, value: Complex, at: Index) -> Complex:
        factor = root(k.b, type_, k.tables[self.table], self.count, at)
        return Scalars.of(k.b, type_).multiply(value, factor)


@dataclass(frozen=True)
class Twiddles:
    """Roots of unity of a long length: the product of two of tables, of steps and of few."""

    coarse: int
    fine: int
    step: int
    count: int

    def multiply(self, k: Kernel, type_: str, value: Complex, power: Index) -> Complex:
        b, lanes = k.b, Scalars.of(k.b, type_)
        high = root(b, type_, k.tables[self.coarse], self.count, b.udiv(power, self.step))
        low = root(b, type_, k.tables[self.fine], self.step, b.urem(power, self.step))
        return lanes.multiply(value, lanes.multiply(high, low))


class ScratchRows:
    """Emission of accesses to rows of complex numbers in scratch memory, parts in turns."""

    def __init__(self, k: Kernel, scratch: int, length: int, type_: str) -> None:
        self._k, self._base, self._length, self._type = k, k.scratch[scratch], length, type_

    def _addresses(self, row: Index, at: Index) -> list[str]:
        b = self._k.b
        place = b.mul(b.add(b.mul(row, self._length), at), 2)
        return [b.element_address(self._base, self._type, b.add(place, n)) for n in range(2)]

    def read(self, row: Index, at: Index) -> Complex:
        re, im = (self._k.b.load(self._type, address) for address in self._addresses(row, at))
        return re, im

    def write(self, row: Index, at: Index, number: Complex) -> None:
        for part, address in zip(number, self._addresses(row, at), strict=True):
            self._k.b.store(part, address)


def zero(type_: str) -> Val:
    return float_const(type_, 0.0)
