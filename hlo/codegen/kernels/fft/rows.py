"""Passes of a Fourier transform over an array; their rows on the way to the workspace and back."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from hlo.codegen.kernels.fft.copies import Copies, Order, of_halved, of_spectrum
from hlo.codegen.kernels.fft.dft import Complex, Lanes
from hlo.codegen.kernels.fft.engines import Engine
from hlo.codegen.kernels.fft.lines import WorkSpace
from hlo.codegen.kernels.fft.stages import power_of_two, roots_table
from hlo.codegen.kernels.variables import chosen
from hlo.codegen.llvm import Index, Val, float_const, i64, ptr
from hlo.codegen.loops.element import Indices, physical_index
from hlo.codegen.loops.kernel import Kernel
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.scalar.operations import Cplx
from hlo.codegen.targets.base import Target
from hlo.values.layout.plain import is_plain, loop_order, strides_of
from hlo.values.types import ArrayShape, ElementType, complex_part

# Contiguous rows from this length on are transformed one by one: their workspace fits the L1 cache.
_LONG = 256
# Input and output of the transform of the last dimension, which is the first to be transformed.
COMPLEX, FROM_REAL, TO_REAL = "complex", "from real", "to real"


# --- passes over an array -----------------------------------------------------------------------


@dataclass(frozen=True)
class Pass:
    """Transforms the rows of an array along one dimension.

    n: the length in the time domain. kind: what the lines hold and give. source, target: None for
    the operand or the result, else the number of scratch memory; `before` and `after` are the
    shapes there. In place, both are the result.
    """

    axis: int
    n: int
    kind: str
    inverse: bool
    before: ArrayShape
    after: ArrayShape
    source: int | None
    target: int | None
    in_place: bool = False

    # --- tiling ---------------------------------------------------------------------------------

    @property
    def part(self) -> ElementType:
        return complex_part(self.after.element_type)

    @property
    def is_half(self) -> bool:
        """True when a real row is transformed as a complex one of half its length."""
        return self.kind != COMPLEX and self.n % 2 == 0

    @property
    def others(self) -> list[int]:
        """The other dimensions of more than one element, slowest-varying first."""
        return [d for d in loop_order(self.after) if d != self.axis]

    def is_contiguous(self, shape: ArrayShape) -> bool:
        """True when the dimension is contiguous in memory."""
        order = loop_order(shape)
        return not order or order[-1] == self.axis or self.axis not in order

    def lines(self, target: Target) -> int:
        """Return how many rows are transformed together."""
        size = self.after.dims[self.others[-1]] if self.others else 1
        if self.is_contiguous(self.after) and self.n >= _LONG:
            return 1
        lanes = max(1, target.vector_bits // self.part.bits)
        return min(lanes, 1 << (size - 1).bit_length())

    def engine(self, target: Target) -> Engine:
        n = self.n // 2 if self.is_half else self.n
        return Engine.of(n, self.lines(target), self.part, target)

    def tables(self, target: Target) -> list[np.ndarray]:
        """Return the constants that the pass reads."""
        found = self.engine(target).tables()
        if self.is_half:
            found.append(roots_table(self.part, self.n, np.arange(self.n // 2 + 1)))
        return found

    def groups(self, target: Target) -> int:
        """Return how many groups of rows there are."""
        *outer, inner = [self.after.dims[d] for d in self.others] or [1]
        return math.prod(outer) * -(-inner // self.lines(target))

    def work_bytes(self, target: Target) -> int:
        """Return the size of one of the two buffers for a group of rows."""
        return 2 * self.engine(target).inner.size * self.part.bits // 8


@dataclass(frozen=True)
class _Array:
    """Where the numbers of a group of rows are, parts in turns: the address of the first, and the
    distances of those of a row, and of rows."""

    address: str
    step: int
    row: int


@dataclass
class Rows:
    """A group of rows, copied to the workspace and back.

    start: indices in the other dimensions except the last; first, count: the range in the last.
    """

    k: Kernel
    p: Pass
    work: WorkSpace
    lines: int
    start: Sequence[Index]
    first: Index
    count: Index

    def bring(self, tables: Sequence[str]) -> None:
        """Copy the rows to the workspace, prepared for a forward transform."""
        p, b, n = self.p, self.k.b, self.p.n
        array = self._array(p.before, self._source())
        if p.kind == TO_REAL:
            self._bring_spectrum(array, tables)
        elif p.kind == FROM_REAL and not p.is_half:
            with self._each(p.before, 0, n) as (j, line):
                self.work.store((self._load(j, line)[0], self._zero()), self._at(j, line))
        elif array:
            self._copy(array, Copies.split, by_columns=True)
        elif p.is_half:
            with self._each(p.before, 0, n // 2) as (j, line):
                at = b.mul(j, 2)
                (re,), (im,) = self._load(at, line), self._load(b.add(at, 1), line)
                self.work.store((re, im), self._at(j, line))
        else:
            with self._each(p.before, 0, n) as (j, line):
                re, im = self._load(j, line)
                self.work.store((im, re) if p.inverse else (re, im), self._at(j, line))

    def _bring_spectrum(self, array: _Array | None, tables: Sequence[str]) -> None:
        """Make a spectrum of all rows of that of real ones, parts in each other's place.

        The first number of a real row's spectrum, and the middle one, have no imaginary parts:
        these are ignored.
        """
        p, b, n = self.p, self.k.b, self.p.n
        if p.is_half and array and array.step == self.lines == 1:
            self._call_on_pairs(self.work.copies.halved, array.address, tables[-1])
        elif p.is_half:
            with self._each(p.before, 0, n // 2) as (j, line):
                begins = b.compare("eq", j, 0)
                x, mirrored = (
                    (re, b.select(begins, self._zero(), im))
                    for re, im in (self._load(at, line) for at in (j, b.sub(n // 2, j)))
                )
                re, im = of_halved(self._lanes(), x, mirrored, self._factor(tables[-1], j))
                self.work.store((im, re), self._at(j, line))
        else:
            with self._each(p.before, 0, n // 2 + 1) as (j, line):
                re, im = self._load(j, line)
                begins = b.compare("eq", j, 0)
                im = b.select(begins, self._zero(), im)
                mirror = chosen(b, begins, 0, b.sub(n, j))
                self.work.store((b.unary("fneg", im), re), self._at(mirror, line))
                self.work.store((im, re), self._at(j, line))

    def deliver(self, tables: Sequence[str]) -> None:
        """Copy the transformed rows to the result."""
        p, b, n = self.p, self.k.b, self.p.n
        base = self._target()
        array = self._array(p.after, base)
        if p.kind == FROM_REAL:
            self._deliver_spectrum(array, tables)
        elif p.kind == TO_REAL and not p.is_half:
            with self._each(p.after, 0, n) as (j, line):
                self._store(self.work.load(self._at(j, line))[1:], j, line)
        elif array:
            self._copy(array, Copies.join, self._scale())
        else:
            with self._each(p.after, 0, n // 2) as (j, line):
                im, re = self.work.load(self._at(j, line))
                self._store((re,), b.mul(j, 2), line)
                self._store((im,), b.add(b.mul(j, 2), 1), line)

    def _deliver_spectrum(self, array: _Array | None, tables: Sequence[str]) -> None:
        """Write the spectrum of real rows."""
        p, b, half = self.p, self.k.b, self.p.n // 2
        if p.is_half and array and array.step == self.lines == 1:
            self._call_on_pairs(self.work.copies.spectrum, array.address, tables[-1])
            return
        with self._each(p.after, 0, half + 1) as (j, line):
            if p.is_half:
                # There is no middle number: that is the first one again.
                x, mirrored = (
                    self.work.load(self._at(chosen(b, b.compare("eq", i, half), 0, i), line))
                    for i in (j, b.sub(half, j))
                )
                twice = of_spectrum(self._lanes(), x, mirrored, self._factor(tables[-1], j))
                found = self._lanes().scale(twice, float_const(self._type, 0.5))
            else:
                found = self.work.load(self._at(j, line))
            self._store(found, j, line)

    # --- whole rows -----------------------------------------------------------------------------

    def _source(self) -> str | None:
        """Return the address of what the rows are of, if it is in memory."""
        k, p = self.k, self.p
        if p.in_place:
            return k.outputs[0]
        if p.source is not None:
            return k.scratch[p.source]
        (operand,) = k.inst.operands
        return k.pointer(operand) if operand in k.inputs.buffer_of else None

    def _target(self) -> str:
        return self.k.outputs[0] if self.p.target is None else self.k.scratch[self.p.target]

    def _array(self, shape: ArrayShape, base: str | None) -> _Array | None:
        """Return where the group's numbers are in an array, if they are together along some
        dimension; those of real rows are pairs of elements."""
        if base is None or not is_plain(shape):
            return None
        p, b, is_complex = self.p, self.k.b, shape.element_type.is_complex
        strides = strides_of(shape)
        step = strides[p.axis] if shape.dims[p.axis] > 1 else 1
        row = strides[p.others[-1]] if p.others else 0
        if not is_complex and (step != 1 or row % 2):
            return None
        if is_complex and step != 1 and row != 1:
            return None
        at = physical_index(b, shape, self._indices(shape, 0, 0))
        address = b.element_address(base, self._type, b.mul(at, 2 if is_complex else 1))
        return _Array(address, step, row if is_complex else row // 2)

    def _planes(self) -> list[Val]:
        """Return the planes of real and imaginary parts, in each other's place for an inverse."""
        planes = self.work.here[::-1] if self.p.inverse else self.work.here
        return [ptr(base) for base in planes]

    def _copy(
        self, array: _Array, function: Callable[[Copies, Order], str], *args: Val,
        by_columns: bool = False,
    ) -> None:  # fmt: skip
        """Call a function that copies numbers between an array and the workspace.

        by_columns: whether rows that lie side by side are copied as vectors. Those that are written
        are not: where numbers are a power of two apart, as of 512 rows of 512, lines of the cache
        that are written so fast throw each other out, and the next rows take twice as long to read.
        """
        b, p, copies = self.k.b, self.p, self.work.copies
        n = p.n // 2 if p.is_half else p.n

        def call(lanes: int, order: Order, *sizes: Index) -> None:
            name = function(replace(copies, lanes=lanes), order)
            places = [ptr(array.address), *self._planes()]
            b.call_void(name, [*places, *map(i64, sizes), *args])

        def one_by_one() -> list[Val]:
            """Go on along what is contiguous in the array."""
            if array.row == 1:
                call(1, Order.ANY, n, array.step, self.lines, self.count, 1)
            else:
                call(1, Order.ANY, self.count, array.row, 1, n, self.lines)
            return []

        def columns() -> list[Val]:
            call(self.lines, Order.COLUMNS, n, array.step)
            return []

        if self.lines == 1 and array.step == 1:
            call(min(copies.lanes, power_of_two(n)), Order.ROW, n)
        elif array.row != 1 or not by_columns:
            one_by_one()
        elif self.count == self.lines:
            columns()
        else:
            b.choose(b.compare("eq", self.count, self.lines), columns, one_by_one)

    def _call_on_pairs(self, function: Callable[[int], str], address: str, table: str) -> None:
        """Call a function on numbers of a spectrum and their mirror images."""
        half = self.p.n // 2
        args = [ptr(address), *self._planes(), ptr(table), i64(half)]
        self.k.b.call_void(function(half), args)

    # --- elements -------------------------------------------------------------------------------

    @property
    def _type(self) -> str:
        return self.work.t.type

    def _lanes(self) -> Lanes:
        return Lanes(self.k.b, self._type, 1)

    def _zero(self) -> Val:
        return float_const(self._type, 0.0)

    @contextmanager
    def _each(self, shape: ArrayShape, start: int, end: int) -> Iterator[tuple[Index, Index]]:
        """Loop over positions and lines, in the order of an array's memory."""
        b = self.k.b
        if self.lines == 1:
            with b.loop(start, end, rolled=True) as j:
                yield j, 0
        elif self.p.is_contiguous(shape):
            with b.loop(0, self.count, plain=True) as line, b.loop(start, end, rolled=True) as j:
                yield j, line
        else:
            with b.loop(start, end, plain=True) as j, b.loop(0, self.count, rolled=True) as line:
                yield j, line

    def _at(self, j: Index, line: Index) -> Index:
        return self.k.b.add(self.k.b.mul(j, self.lines), line)

    def _indices(self, shape: ArrayShape, j: Index, line: Index) -> Indices:
        others = self.p.others
        found = dict(zip(others, [*self.start, self.k.b.add(self.first, line)], strict=False))
        found[self.p.axis] = j
        return tuple(found.get(d, 0) for d in range(shape.rank))

    def _load(self, j: Index, line: Index) -> tuple[Val, ...]:
        k, p = self.k, self.p
        indices = self._indices(p.before, j, line)
        if p.source is None and not p.in_place:
            value = k.elements.at(k.inst.operands[0], indices)
        else:
            base = self._source()
            assert base is not None
            at = physical_index(k.b, p.before, indices)
            value = scalar.load(k.b, p.before.element_type, base, at)
        return (value.re, value.im) if isinstance(value, Cplx) else (value,)

    def _scale(self) -> Val:
        """Return what results are multiplied by."""
        return float_const(self._type, 1.0 / self.p.n if self.p.inverse else 1.0)

    def _store(self, parts: tuple[Val, ...], j: Index, line: Index) -> None:
        b, p = self.k.b, self.p
        if p.inverse:
            parts = tuple(b.binary("fmul", x, self._scale()) for x in parts)
        value = Cplx(*parts) if len(parts) == 2 else parts[0]
        at = physical_index(b, p.after, self._indices(p.after, j, line))
        scalar.store(b, p.after.element_type, value, self._target(), at)

    def _factor(self, table: str, j: Index) -> Complex:
        """Load exp(-2 pi i j / n)."""
        b, t = self.k.b, self._type
        c, s = (
            b.load(t, b.element_address(table, t, b.add(j, p * (self.p.n // 2 + 1))))
            for p in range(2)
        )
        return c, s
