"""Fourier transforms of any length, one dimension at a time.

A kernel copies rows to the workspace, with separate real and imaginary parts, transforms them
there, and writes them to the result; several adjacent rows at once, so that vectors run across
them. Lengths with a large prime factor are convolutions (`engines.py`). Real rows of even length
are transformed as complex ones of half the length. An inverse transform is the forward one with
real and imaginary parts exchanged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from hlo.analysis.fusion.roles import Role
from hlo.codegen.kernels.fft.dft import Complex, Lanes
from hlo.codegen.kernels.fft.engines import Engine
from hlo.codegen.kernels.fft.lines import WorkSpace, roots_table
from hlo.codegen.llvm import Index, Val, float_const
from hlo.codegen.loops.element import Indices, physical_index
from hlo.codegen.loops.kernel import Kernel, planner, slot_of, split_index
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.scalar.operations import Cplx
from hlo.codegen.targets.base import Extent, Plan, Target
from hlo.ir import Instruction
from hlo.values.layout.plain import loop_order
from hlo.values.types import ArrayShape, ElementType, complex_part

# Contiguous rows from this length on are transformed one by one: their workspace fits the L1 cache.
_LONG = 256
# Input and output of the transform of the last dimension, which is the first to be transformed.
_COMPLEX, _FROM_REAL, _TO_REAL = "complex", "from real", "to real"


# --- passes over an array -----------------------------------------------------------------------


@dataclass(frozen=True)
class _Pass:
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
        return self.kind != _COMPLEX and self.n % 2 == 0

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
class _Emit:
    """The step of a pass. scratch, tables: the first numbers of its work space and constants."""

    p: _Pass
    scratch: int
    tables: int

    def __call__(self, k: Kernel) -> Extent:
        b, p = k.b, self.p
        engine, groups, lines = p.engine(k.target), p.groups(k.target), p.lines(k.target)
        count = len(p.tables(k.target))
        tables = k.tables[self.tables : self.tables + count]
        slot = slot_of(k, groups)
        at = b.mul(slot, p.work_bytes(k.target))
        bases = [b.element_address(k.scratch[self.scratch + n], "i8", at) for n in range(2)]
        *outer, inner = [p.after.dims[d] for d in p.others] or [1]
        chunks = -(-inner // lines)
        with b.loop(k.begin, k.end, plain=True) as group:
            *start, chunk = split_index(b, group, [*outer, chunks])
            first = b.mul(chunk, lines)
            here = b.minimum(lines, b.sub(inner, first)) if inner % lines else lines
            work = WorkSpace(k, engine.inner, bases)
            io = _Lines(k, self.p, work, lines, start, first, here)
            io.bring(tables)
            engine.emit(work, tables[:-1] if p.is_half else tables)
            io.deliver(tables)
        length = max(2, engine.inner.n)
        return Extent(groups, lines * length * (math.log2(length) + 4) / engine.inner.lanes * 4)


@dataclass
class _Lines:
    """A group of rows, copied to the workspace and back.

    start: indices in the other dimensions except the last; first, count: the range in the last.
    """

    k: Kernel
    p: _Pass
    work: WorkSpace
    lines: int
    start: Sequence[Index]
    first: Index
    count: Index

    def bring(self, tables: Sequence[str]) -> None:
        """Copy the rows to the workspace, prepared for a forward transform."""
        p, b, n = self.p, self.k.b, self.p.n
        if p.kind == _COMPLEX:
            with self._each(p.before, 0, n) as (j, line):
                value = self._load(j, line)
                re, im = value
                self.work.store((im, re) if p.inverse else (re, im), self._at(j, line))
        elif p.kind == _FROM_REAL:
            step = 2 if p.is_half else 1
            with self._each(p.before, 0, n // step) as (j, line):
                re = self._load(b.mul(j, step), line)[0]
                im = self._load(b.add(b.mul(j, 2), 1), line)[0] if p.is_half else self._zero()
                self.work.store((re, im), self._at(j, line))
        elif p.is_half:
            with self._each(p.before, 0, n // 2) as (j, line):
                self._bring_half(j, line, tables[-1])
        else:
            with self._each(p.before, 0, n // 2 + 1) as (j, line):
                # The first number of a real row's spectrum has no imaginary part: it is ignored.
                re, im = self._load(j, line)
                begins = b.compare("eq", j, 0)
                im = b.select(begins, self._zero(), im)
                mirror = b.select(begins, Val("i64", "0"), Val("i64", str(b.sub(n, j)))).name
                self.work.store((b.unary("fneg", im), re), self._at(mirror, line))
                self.work.store((im, re), self._at(j, line))

    def _bring_half(self, j: Index, line: Index, table: str) -> None:
        """Combine numbers of the spectrum of a real line into one of the half-length spectrum.

        That is X_j + X*_{h-j} + i w^-j (X_j - X*_{h-j}), parts in each other's place.
        """
        b, half, lanes = self.k.b, self.p.n // 2, self._lanes()
        re, im = self._load(j, line)
        mirrored_re, mirrored_im = self._load(b.sub(half, j), line)
        # The first and the middle number have no imaginary parts.
        begins = b.compare("eq", j, 0)
        im, mirrored_im = (b.select(begins, self._zero(), x) for x in (im, mirrored_im))
        mirrored = mirrored_re, b.unary("fneg", mirrored_im)
        even, odd = lanes.add((re, im), mirrored), lanes.subtract((re, im), mirrored)
        c, s = self._factor(table, j)
        x, y = lanes.multiply(odd, (c, b.unary("fneg", s)))
        total = lanes.add(even, (b.unary("fneg", y), x))
        self.work.store(total[::-1], self._at(j, line))

    def deliver(self, tables: Sequence[str]) -> None:
        """Copy the transformed rows to the result."""
        p, b, n = self.p, self.k.b, self.p.n
        scale = float_const(self._type, 1.0 / n) if p.inverse else None
        if p.kind == _COMPLEX:
            with self._each(p.after, 0, n) as (j, line):
                re, im = self.work.load(self._at(j, line))
                self._store((im, re) if p.inverse else (re, im), j, line, scale)
        elif p.kind == _FROM_REAL and not p.is_half:
            with self._each(p.after, 0, n // 2 + 1) as (j, line):
                self._store(self.work.load(self._at(j, line)), j, line, scale)
        elif p.kind == _FROM_REAL:
            with self._each(p.after, 0, n // 2 + 1) as (j, line):
                self._deliver_half(j, line, tables[-1])
        elif p.is_half:
            with self._each(p.after, 0, n // 2) as (j, line):
                im, re = self.work.load(self._at(j, line))
                self._store((re,), b.mul(j, 2), line, scale)
                self._store((im,), b.add(b.mul(j, 2), 1), line, scale)
        else:
            with self._each(p.after, 0, n) as (j, line):
                self._store(self.work.load(self._at(j, line))[1:], j, line, scale)

    def _deliver_half(self, j: Index, line: Index, table: str) -> None:
        """Make a number of a real line's spectrum out of two of the half-length spectrum.

        That is (Z_j + Z*_{h-j}) / 2 - i w^j (Z_j - Z*_{h-j}) / 2, with Z_h = Z_0.
        """
        b, half, lanes = self.k.b, self.p.n // 2, self._lanes()
        at, mirror = (
            b.select(b.compare("eq", x, half), Val("i64", "0"), Val("i64", str(x))).name
            for x in (j, b.sub(half, j))
        )
        re, im = self.work.load(self._at(at, line))
        mirrored_re, mirrored_im = self.work.load(self._at(mirror, line))
        mirrored = mirrored_re, b.unary("fneg", mirrored_im)
        even, odd = lanes.add((re, im), mirrored), lanes.subtract((re, im), mirrored)
        x, y = lanes.multiply(odd, self._factor(table, j))
        total = lanes.add(even, (y, b.unary("fneg", x)))
        self._store(total, j, line, float_const(self._type, 0.5))

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
        if self.p.is_contiguous(shape):
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
            base = k.outputs[0] if p.in_place else k.scratch[p.source or 0]
            at = physical_index(k.b, p.before, indices)
            value = scalar.load(k.b, p.before.element_type, base, at)
        return (value.re, value.im) if isinstance(value, Cplx) else (value,)

    def _store(self, parts: tuple[Val, ...], j: Index, line: Index, scale: Val | None) -> None:
        k, b, p = self.k, self.k.b, self.p
        if scale is not None:
            parts = tuple(b.binary("fmul", x, scale) for x in parts)
        value = Cplx(*parts) if len(parts) == 2 else parts[0]
        at = physical_index(b, p.after, self._indices(p.after, j, line))
        base = k.outputs[0] if p.target is None else k.scratch[p.target]
        scalar.store(b, p.after.element_type, value, base, at)

    def _factor(self, table: str, j: Index) -> Complex:
        """Load exp(-2 pi i j / n)."""
        b, t = self.k.b, self._type
        c, s = (
            b.load(t, b.element_address(table, t, b.add(j, p * (self.p.n // 2 + 1))))
            for p in range(2)
        )
        return c, s


# --- the operation ------------------------------------------------------------------------------


def _passes(inst: Instruction) -> list[_Pass]:
    """Return the passes of an operation, in order."""
    before, after = inst.operands[0].array_shape, inst.array_shape
    kind, lengths = inst.fft_type, inst.fft_length
    inverse = kind in ("IFFT", "IRFFT")
    axes = range(after.rank - len(lengths), after.rank)
    *leading, last = zip(axes, lengths, strict=True)
    if kind == "IRFFT":
        # Complex dimensions first, of the half that is given.
        spare = 0 if leading else None
        found = [
            _Pass(axis, n, _COMPLEX, True, before, before, 0 if at else None, 0)
            for at, (axis, n) in enumerate(leading)
        ]
        return [*found, _Pass(*last, _TO_REAL, True, before, after, spare, None)]
    first = _FROM_REAL if kind == "RFFT" else _COMPLEX
    found = [_Pass(*last, first, inverse, before, after, None, None)]
    for axis, n in reversed(leading):
        found.append(_Pass(axis, n, _COMPLEX, inverse, after, after, None, None, in_place=True))
    return found


@planner("fft")
def _plan_fft(inst: Instruction, roles: Mapping[Instruction, Role], target: Target) -> Plan:
    after = inst.array_shape
    before = inst.operands[0].array_shape
    if not after.num_elements:
        return Plan(())
    passes = _passes(inst)
    sizes: list[int] = []
    if passes[0].target == 0:
        sizes.append(before.byte_size)
    steps: list[_Emit] = []
    tables: list[np.ndarray] = []
    for p in passes:
        steps.append(_Emit(p, len(sizes), len(tables)))
        sizes += [target.slots(p.groups(target)) * p.work_bytes(target)] * 2
        tables += p.tables(target)
    return Plan(tuple(steps), tuple(sizes), tuple(tables))
