"""Fourier transforms of any length: a block a few rows, long rows in two steps.

A length with a large prime factor is a convolution with a chirp (Bluestein), of a length with small
ones. A row of n = n1 n2 numbers that a block has no memory for is transformed as n2 rows of n1, the
numbers n2 apart, and then as n1 rows of n2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hlo.analysis.fusion.roles import Role
from hlo.codegen.kernels.fft.dft import Complex, good_length, is_direct, roots_of_unity
from hlo.codegen.kernels.fft.fft import passes_of
from hlo.codegen.kernels.fft.rows import Pass
from hlo.codegen.llvm import Index
from hlo.codegen.loops.kernel import Kernel
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.targets.base import Plan
from hlo.codegen.targets.gpu.base import Gpu, Grid
from hlo.codegen.targets.gpu.block import Block
from hlo.codegen.targets.gpu.kernels.fft.ends import (
    ArrayRows,
    ScratchRows,
    Spectrum,
    Twiddles,
    zero,
)
from hlo.codegen.targets.gpu.kernels.fft.rows import (
    Shape,
    SharedRows,
    longest,
    roots_table,
    stage_powers,
)
from hlo.ir import Instruction


@dataclass(frozen=True)
class _WholeRows:
    """The step of a pass whose rows fit a block.

    length: of the transform. roots, chirp, spectrum: the tables; no chirp for a direct transform.
    """

    p: Pass
    length: int
    roots: int
    chirp: Spectrum | None = None
    spectrum: Spectrum | None = None

    def __call__(self, k: Kernel) -> Grid:
        p, type_ = self.p, scalar.ssa_type(self.p.part)
        total = _count(p)
        shape = Shape.of(self.length, total, type_)
        ends = ArrayRows(k, p)
        s, first = _rows(k, shape, k.tables[self.roots])
        b = s.b
        with s.each(p.n, by_rows=not p.is_contiguous(p.before)) as (row, at):
            # Rows that there are none of are copies of the last one.
            value = ends.read(b.minimum(b.add(first, row), total - 1), at)
            if self.chirp is not None:
                value = self.chirp.multiply(k, type_, value, at)
            s.put(value, row, at)
        if self.chirp is not None and self.spectrum is not None:
            _clear(s, p.n)
            s.transform()
            with s.each(self.length, by_rows=False) as (row, at):
                s.put(self.spectrum.multiply(k, type_, s.get(row, at), at), row, at)
            s.exchange_parts()
            s.transform()
            s.exchange_parts()
        else:
            s.transform()
        with s.each(ends.written, by_rows=not p.is_contiguous(p.after)) as (row, at):
            there = b.add(first, row)
            with b.when(b.compare("slt", there, total)):
                value = s.get(row, at)
                if self.chirp is not None:
                    value = self.chirp.multiply(k, type_, value, at)
                ends.write(there, at, value)
        blocks = -(-total // shape.rows)
        return Grid(total, 1.0, blocks, shape.threads, shape.dynamic_bytes)


def _clear(s: SharedRows, first: int) -> None:
    """Set the numbers of rows from one on to zero."""
    nothing = zero(s.shape.type)
    with s.each(s.shape.length - first, by_rows=False) as (row, at):
        s.put((nothing, nothing), row, s.b.add(at, first))


def _rows(k: Kernel, shape: Shape, table: str) -> tuple[SharedRows, Index]:
    """Return the rows of this block, and the number of the first."""
    assert isinstance(k.target, Gpu)
    block = Block(k.b, k.target)
    return SharedRows(block, shape, table), k.b.mul(block.block_index(), shape.rows)


def _count(p: Pass) -> int:
    """Return how many rows a pass has."""
    return math.prod(p.after.dims[d] for d in p.others)


# --- long rows ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Long:
    """A transform of rows of n1 n2 numbers in two steps. scratch: rows between them."""

    p: Pass
    n1: int
    n2: int
    scratch: int

    @property
    def n(self) -> int:
        return self.n1 * self.n2

    @property
    def type(self) -> str:
        return scalar.ssa_type(self.p.part)

    @property
    def is_convolution(self) -> bool:
        return self.n != self.p.n


@dataclass(frozen=True)
class _Columns:
    """The first step: transform the numbers n2 apart, and turn them.

    source: None for the array, or the number of scratch memory. chirp: the factors of a convolution
    whose rows are the array's.
    """

    row: _Long
    roots: int
    twiddles: Twiddles
    source: int | None = None
    chirp: Spectrum | None = None

    def __call__(self, k: Kernel) -> Grid:
        r, type_ = self.row, self.row.type
        total = _count(r.p) * r.n2
        shape = Shape.of(r.n1, total, type_)
        s, first = _rows(k, shape, k.tables[self.roots])
        b = s.b
        with s.each(r.n1, by_rows=True) as (row, at):
            there = b.minimum(b.add(first, row), total - 1)
            place = b.add(b.mul(at, r.n2), b.urem(there, r.n2))
            s.put(self._number(k, b.udiv(there, r.n2), place), row, at)
        s.transform()
        between = ScratchRows(k, r.scratch, r.n, type_)
        with s.each(r.n1, by_rows=True) as (row, at):
            there = b.add(first, row)
            with b.when(b.compare("slt", there, total)):
                column = b.urem(there, r.n2)
                value = self.twiddles.multiply(k, type_, s.get(row, at), b.mul(column, at))
                between.write(b.udiv(there, r.n2), b.add(b.mul(at, r.n2), column), value)
        blocks = -(-total // shape.rows)
        return Grid(total, 1.0, blocks, shape.threads, shape.dynamic_bytes)

    def _number(self, k: Kernel, row: Index, at: Index) -> Complex:
        """Return a number of a long row."""
        r, b = self.row, k.b
        if self.source is not None:
            return ScratchRows(k, self.source, r.n, r.type).read(row, at)
        array = ArrayRows(k, r.p)
        if self.chirp is None:
            return array.read(row, at)
        chirp = self.chirp

        def inside() -> list[Any]:
            return [*chirp.multiply(k, r.type, array.read(row, at), at)]

        re, im = b.choose(b.compare("slt", at, r.p.n), inside, lambda: [zero(r.type), zero(r.type)])
        return re, im


@dataclass(frozen=True)
class _Lines:
    """The second step: transform what lies together.

    factors: of a convolution; the chirp where the array is written, else the spectrum. target: None
    for the array, or the number of scratch memory.
    """

    row: _Long
    roots: int
    target: int | None = None
    factors: Spectrum | None = None

    def __call__(self, k: Kernel) -> Grid:
        r, type_ = self.row, self.row.type
        total = _count(r.p) * r.n1
        shape = Shape.of(r.n2, total, type_)
        s, first = _rows(k, shape, k.tables[self.roots])
        b, between = s.b, ScratchRows(k, r.scratch, r.n2, type_)
        with s.each(r.n2, by_rows=False) as (row, at):
            s.put(between.read(b.minimum(b.add(first, row), total - 1), at), row, at)
        s.transform()
        with s.each(r.n2, by_rows=True) as (row, at):
            there = b.add(first, row)
            with b.when(b.compare("slt", there, total)):
                place = b.add(b.mul(at, r.n1), b.urem(there, r.n1))
                self._store(k, b.udiv(there, r.n1), place, s.get(row, at))
        blocks = -(-total // shape.rows)
        return Grid(total, 1.0, blocks, shape.threads, shape.dynamic_bytes)

    def _store(self, k: Kernel, row: Index, at: Index, value: Complex) -> None:
        r, b = self.row, k.b
        if self.target is not None:
            assert self.factors is not None
            # The convolution's second transform is an inverse one.
            value = self.factors.multiply(k, r.type, value, at)[::-1]
            ScratchRows(k, self.target, r.n, r.type).write(row, at, value)
            return
        array = ArrayRows(k, r.p)
        with b.when(b.compare("slt", at, array.written)):
            if self.factors is not None:
                value = self.factors.multiply(k, r.type, value[::-1], at)
            array.write(row, at, value)


# --- the operation ------------------------------------------------------------------------------


@dataclass
class _Builder:
    """A plan under construction. shared_bytes: what the machine has for a block."""

    shared_bytes: int
    steps: list[Callable[..., Any]] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    tables: list[np.ndarray] = field(default_factory=list)

    def table(self, values: np.ndarray) -> int:
        self.tables.append(values)
        return len(self.tables) - 1

    def scratch(self, size: int) -> int:
        self.sizes.append(size)
        return len(self.sizes) - 1

    def roots(self, n: int, dtype: np.dtype) -> int:
        return self.table(roots_table(n, stage_powers(n), dtype))

    def add(self, p: Pass) -> bool:
        """Add the steps of a pass; returns whether there are any for its length."""
        dtype, most = p.part.dtype, longest(scalar.ssa_type(p.part), self.shared_bytes)
        if is_direct(p.n):
            length, chirp, spectrum = p.n, None, None
        else:
            length = good_length(2 * p.n - 1)
            if length > most:
                length = 1 << (2 * p.n - 2).bit_length()
            chirp, spectrum = (self._factors(x, dtype) for x in _convolution(p.n, length))
        if length <= most:
            self.steps.append(_WholeRows(p, length, self.roots(length, dtype), chirp, spectrum))
            return True
        n1 = _divisor(length)
        if length // n1 > most:
            return False
        size = _count(p) * length * 2 * dtype.itemsize
        row = _Long(p, n1, length // n1, self.scratch(size))
        first, second = self.roots(n1, dtype), self.roots(row.n2, dtype)
        twiddles = self._twiddles(length, dtype)
        if chirp is None:
            self.steps += [_Columns(row, first, twiddles), _Lines(row, second)]
            return True
        spare = self.scratch(size)
        self.steps += [
            _Columns(row, first, twiddles, chirp=chirp),
            _Lines(row, second, spare, spectrum),
            _Columns(row, first, twiddles, source=spare),
            _Lines(row, second, factors=chirp),
        ]
        return True

    def _factors(self, values: np.ndarray, dtype: np.dtype) -> Spectrum:
        return Spectrum(self.table(values.astype(dtype)), values.shape[1])

    def _twiddles(self, n: int, dtype: np.dtype) -> Twiddles:
        step = 1 << (n.bit_length() // 2)
        count = -(-n // step)
        coarse = self.table(roots_table(n, np.arange(count) * step, dtype))
        return Twiddles(coarse, self.table(roots_table(n, np.arange(step), dtype)), step, count)


def _divisor(n: int) -> int:
    """Return the largest divisor of a number up to its square root."""
    return next(d for d in range(math.isqrt(n), 0, -1) if n % d == 0)


def _convolution(n: int, length: int) -> Sequence[np.ndarray]:
    """Return what numbers are multiplied with before and after a convolution that transforms n of
    them, and in between, with the factor of the inverse transform."""
    j = np.arange(n)
    chirp = roots_of_unity(2 * n, j * j)
    kernel = np.zeros(length, np.complex128)
    kernel[:n] = chirp[0] - 1j * chirp[1]
    kernel[length - n + 1 :] = kernel[n - 1 : 0 : -1]
    spectrum = np.fft.fft(kernel) / length
    return np.stack(chirp), np.stack([spectrum.real, spectrum.imag])


def plan_fft(inst: Instruction, _: Mapping[Instruction, Role], gpu: Gpu) -> Plan | None:
    """Plan a transform."""
    if not inst.array_shape.num_elements:
        return Plan(())
    passes, plan = passes_of(inst), _Builder(gpu.most_shared_bytes)
    if passes[0].target == 0:
        plan.scratch(inst.operands[0].array_shape.byte_size)
    if not all([plan.add(p) for p in passes]):
        return None
    return Plan(tuple(plan.steps), tuple(plan.sizes), tuple(plan.tables))


PLANNERS = {"fft": plan_fft}
