"""Fourier transforms of any length, along one dimension after the other.

A kernel brings lines into work space, real and imaginary parts apart, transforms them there, and
writes them where they belong; several lines that are neighbours in memory at once, so that vectors
run across them. Lengths with a large prime factor are convolutions of a longer, good length
(Bluestein). Real lines of even length are transformed as complex ones of half the length. An
inverse transform is one with the parts in each other's place.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from hlo.codegen import scalar
from hlo.codegen.element import Indices, physical_index
from hlo.codegen.fusion import Role
from hlo.codegen.kernel import (
    Extent,
    Kernel,
    Plan,
    loop_order,
    planner,
    slot_of,
    slots,
    split_index,
)
from hlo.codegen.kernels.dft import (
    Complex,
    Lanes,
    good_length,
    interleaved,
    is_direct,
    radices,
    roots_of_unity,
)
from hlo.codegen.kernels.microkernel import define, splat, vector_at
from hlo.codegen.llvm import Builder, Index, Val, float_const
from hlo.codegen.scalar import Cplx
from hlo.codegen.target import Target
from hlo.ir import Instruction
from hlo.types import ArrayShape, ElementType, complex_part

# Lines from this length on are transformed one by one where they are contiguous: their work space
# stays in the first cache.
_LONG = 256
# What the first dimension to be transformed, the last, holds and gives.
_COMPLEX, _FROM_REAL, _TO_REAL = "complex", "from real", "to real"


@dataclass(frozen=True)
class _Stage:
    """One pass of short transforms.

    radix r; span: s, the distance of a run's elements, lines included; count: m. wide: vectors run
    over all of s * m, else over each s.
    """

    radix: int
    span: int
    count: int
    wide: bool


@dataclass(frozen=True)
class _Transform:
    """The transform of `lines` lines of n complex numbers that lie in work space side by side."""

    n: int
    lines: int
    part: ElementType
    lanes: int
    stages: tuple[_Stage, ...]

    @staticmethod
    def of(n: int, lines: int, part: ElementType, target: Target) -> _Transform:
        lanes = max(1, target.vector_bits // part.bits)
        stages, span, length = [], lines, n
        for r in radices(n, target):
            length //= r
            wide = span < lanes and lanes % span == 0
            stages.append(_Stage(r, span, length, wide))
            span *= r
        return _Transform(n, lines, part, lanes, tuple(stages))

    @property
    def type(self) -> str:
        return scalar.memory_type(self.part)

    @property
    def size(self) -> int:
        """Elements of one plane of work space."""
        return self.n * self.lines

    def tables(self) -> list[np.ndarray]:
        """Return the factors of each stage."""
        return [self._table(s) for s in self.stages]

    def _table(self, s: _Stage) -> np.ndarray:
        """Return w(m r)^(p k), parts first: by p and k, or where vectors run over p by k and p."""
        p, k = np.arange(s.count), np.arange(1, s.radix)
        if not s.wide:
            return _table(self.part, s.count * s.radix, np.multiply.outer(p, k))
        return _table(self.part, s.count * s.radix, np.multiply.outer(k, np.repeat(p, s.span)))

    def emit(self, k: Kernel, tables: Sequence[str], here: str, other: str) -> str:
        """Transform what is in work space; returns which of two places has the result."""

        def write(b: Builder) -> None:
            places = "%here", "%other"
            for n, stage in enumerate(self.stages):
                source, target = places[n % 2], places[1 - n % 2]
                _StageEmitter(b, self, stage, f"%table{n}", source, target).emit()

        params = [f"ptr noalias readonly %table{n}" for n in range(len(tables))]
        name = define(
            k.b.module, f"fft.{self.part}.{self.n}x{self.lines}",
            ", ".join(["ptr noalias %here", "ptr noalias %other", *params]), write,
        )  # fmt: skip
        args = ", ".join(f"ptr {x}" for x in (here, other, *tables))
        k.b.write(f"call void @{name}({args})")
        return other if len(self.stages) % 2 else here


def _table(part: ElementType, n: int, powers: np.ndarray) -> np.ndarray:
    return np.stack(roots_of_unity(n, powers, part)).astype(part.dtype)


@dataclass(frozen=True)
class _StageEmitter:
    """Emits the loops of a stage, from one place in work space to the other."""

    b: Builder
    t: _Transform
    s: _Stage
    table: str
    source: str
    target: str

    def emit(self) -> None:
        b, s = self.b, self.s
        if s.wide:
            whole = s.span * s.count
            vectors = whole - whole % self.t.lanes
            if vectors:
                with b.loop(0, vectors, self.t.lanes, plain=True) as at:
                    self._wide(at, self.t.lanes)
            if vectors < whole:
                width = math.gcd(s.span, whole)
                with b.loop(vectors, whole, width, plain=True) as at:
                    self._wide(at, width)
            return
        width = self._width()
        with b.loop(0, s.count, plain=True) as p:
            factors = self._factors(p)
            end = s.span - s.span % width
            with b.loop(0, end, width, plain=True) as q:
                self._run(p, q, width, factors)
            if end < s.span:
                with b.loop(end, s.span, plain=True) as q:
                    self._run(p, q, 1, factors)

    def _width(self) -> int:
        """Return the width of vectors that run over a span: one that leaves little over."""
        lanes, span = self.t.lanes, self.s.span
        width = lanes
        while width > 1 and (width > span or (span % width and width > lanes // 4)):
            width //= 2
        return width if span % width == 0 or span >= lanes else 1

    def _factors(self, p: Index) -> list[tuple[Val, Val]]:
        """Load the factors of a run, where there are any."""
        s, t = self.s, self.t.type
        if s.count == 1:
            return []
        found = []
        first = self.b.mul(p, s.radix - 1)
        for k in range(s.radix - 1):
            parts = []
            for plane in range(2):
                at = self.b.add(first, plane * s.count * (s.radix - 1) + k)
                address = self.b.element_address(self.table, t, at)
                parts.append(self.b.effect(t, f"load {t}, ptr {address}, !invariant.load !{{}}"))
            found.append((parts[0], parts[1]))
        return found

    def _run(self, p: Index, q: Index, width: int, factors: Sequence[tuple[Val, Val]]) -> None:
        """Transform `width` neighbours of run p."""
        b, s, lanes = self.b, self.s, Lanes(self.b, self.t.type, width)
        first = b.add(b.mul(p, s.span), q)
        x = [
            self._load(lanes, b.add(first, j * s.span * s.count), self.source)
            for j in range(s.radix)
        ]
        y = lanes.transform(x)
        for k, (re, im) in enumerate(factors, 1):
            y[k] = lanes.multiply(y[k], (splat(b, re, width), splat(b, im, width)))
        out = b.add(b.mul(p, s.span * s.radix), q)
        for k, value in enumerate(y):
            self._store(lanes, value, b.add(out, k * s.span))

    def _wide(self, at: Index, width: int) -> None:
        """Transform `width` neighbours of all runs together; each run is stored apart."""
        b, s, lanes = self.b, self.s, Lanes(self.b, self.t.type, width)
        whole = s.span * s.count
        x = [self._load(lanes, b.add(at, j * whole), self.source) for j in range(s.radix)]
        y = lanes.transform(x)
        if s.count > 1:
            for k in range(1, s.radix):
                parts = [
                    vector_at(
                        b, lanes.vector, self.table, lanes.type,
                        b.add(at, (plane * (s.radix - 1) + k - 1) * whole),
                    )
                    for plane in range(2)
                ]  # fmt: skip
                y[k] = lanes.multiply(y[k], (parts[0], parts[1]))
        out = b.mul(at, s.radix)
        ordered = [interleaved(b, [v[plane] for v in y], width, s.span) for plane in range(2)]
        for n, (re, im) in enumerate(zip(*ordered, strict=True)):
            self._store(lanes, (re, im), b.add(out, n * width))

    def _load(self, lanes: Lanes, at: Index, base: str) -> Complex:
        b = self.b
        re, im = (
            vector_at(b, lanes.vector, base, lanes.type, b.add(at, plane * self.t.size))
            for plane in range(2)
        )
        return re, im

    def _store(self, lanes: Lanes, value: Complex, at: Index) -> None:
        b = self.b
        for plane, part in enumerate(value):
            address = b.element_address(self.target, lanes.type, b.add(at, plane * self.t.size))
            b.write(f"store {part}, ptr {address}, align {self.t.part.bits // 8}")


# --- lines in work space ------------------------------------------------------------------------


class _Work:
    """Two places for lines, and element access to them."""

    def __init__(self, k: Kernel, t: _Transform, bases: Sequence[str]) -> None:
        self.k, self.t = k, t
        self.here, self.other = bases

    def load(self, at: Index) -> Complex:
        return self._load(self.here, at)

    def _load(self, base: str, at: Index) -> Complex:
        b, t = self.k.b, self.t.type
        re, im = (
            b.effect(t, f"load {t}, ptr {b.element_address(base, t, b.add(at, p * self.t.size))}")
            for p in range(2)
        )
        return re, im

    def store(self, value: Complex, at: Index) -> None:
        b, t = self.k.b, self.t.type
        for p, part in enumerate(value):
            address = b.element_address(self.here, t, b.add(at, p * self.t.size))
            b.write(f"store {part}, ptr {address}")

    def transform(self, tables: Sequence[str]) -> None:
        result = self.t.emit(self.k, tables, self.here, self.other)
        if result != self.here:
            self.here, self.other = self.other, self.here


@dataclass(frozen=True)
class _Engine:
    """A complex transform of any length on lines in work space.

    n: the length; inner: the transform that does it, of a longer length if there are large primes.
    """

    n: int
    inner: _Transform

    @staticmethod
    def of(n: int, lines: int, part: ElementType, target: Target) -> _Engine:
        length = n if is_direct(n) else good_length(2 * n - 1)
        return _Engine(n, _Transform.of(length, lines, part, target))

    @property
    def is_direct(self) -> bool:
        return self.n == self.inner.n

    def tables(self) -> list[np.ndarray]:
        found = self.inner.tables()
        if self.is_direct:
            return found
        # exp(-i pi j^2 / n), and the transform of the sequence that is convolved with.
        j, m = np.arange(self.n), self.inner.n
        chirp = roots_of_unity(2 * self.n, j * j)
        kernel = np.zeros(m, np.complex128)
        kernel[: self.n] = chirp[0] - 1j * chirp[1]
        kernel[m - self.n + 1 :] = kernel[self.n - 1 : 0 : -1]
        spectrum = np.fft.fft(kernel) / m
        part = self.inner.part.dtype
        planes = np.stack([spectrum.real, spectrum.imag]).astype(part)
        return [*found, np.stack(chirp).astype(part), planes]

    def emit(self, work: _Work, tables: Sequence[str]) -> None:
        """Transform the lines in work space."""
        if self.is_direct:
            work.transform(tables)
            return
        *inner, chirp, spectrum = tables
        m, lines, b = self.inner.n, self.inner.lines, work.k.b
        self._multiply(work, chirp, self.n, swap=False)
        with b.loop(self.n * lines, m * lines, rolled=True) as at:
            zero = float_const(self.inner.type, 0.0)
            work.store((zero, zero), at)
        work.transform(inner)
        # The inverse transform is one with the parts in each other's place.
        self._multiply(work, spectrum, m, swap=True)
        work.transform(inner)
        self._swap(work)
        self._multiply(work, chirp, self.n, swap=False)

    def _multiply(self, work: _Work, table: str, count: int, *, swap: bool) -> None:
        b, t, lines = work.k.b, self.inner.type, self.inner.lines
        lanes = Lanes(b, t, 1)
        with b.loop(0, count) as j:
            factor = [
                b.effect(t, f"load {t}, ptr {b.element_address(table, t, b.add(j, p * count))}")
                for p in range(2)
            ]
            with b.loop(0, lines, rolled=True) as line:
                at = b.add(b.mul(j, lines), line)
                re, im = lanes.multiply(work.load(at), (factor[0], factor[1]))
                work.store((im, re) if swap else (re, im), at)

    def _swap(self, work: _Work) -> None:
        b = work.k.b
        with b.loop(0, self.n * self.inner.lines, rolled=True) as at:
            re, im = work.load(at)
            work.store((im, re), at)


# --- passes over an array -----------------------------------------------------------------------


@dataclass(frozen=True)
class _Pass:
    """Transforms the lines of an array along one dimension.

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

    # --- how it is cut --------------------------------------------------------------------------

    @property
    def part(self) -> ElementType:
        return complex_part(self.after.element_type)

    @property
    def is_half(self) -> bool:
        """True when a real line is transformed as a complex one of half its length."""
        return self.kind != _COMPLEX and self.n % 2 == 0

    @property
    def others(self) -> list[int]:
        """The other dimensions of more than one element, the slowest in memory first."""
        return [d for d in loop_order(self.after) if d != self.axis]

    def is_contiguous(self, shape: ArrayShape) -> bool:
        """True when neighbours along the dimension are neighbours in memory."""
        order = loop_order(shape)
        return not order or order[-1] == self.axis or self.axis not in order

    def lines(self, target: Target) -> int:
        """Return how many lines are transformed together."""
        size = self.after.dims[self.others[-1]] if self.others else 1
        if self.is_contiguous(self.after) and self.n >= _LONG:
            return 1
        lanes = max(1, target.vector_bits // self.part.bits)
        return min(lanes, 1 << (size - 1).bit_length())

    def engine(self, target: Target) -> _Engine:
        n = self.n // 2 if self.is_half else self.n
        return _Engine.of(n, self.lines(target), self.part, target)

    def tables(self, target: Target) -> list[np.ndarray]:
        """Return the constants that the pass reads."""
        found = self.engine(target).tables()
        if self.is_half:
            found.append(_table(self.part, self.n, np.arange(self.n // 2 + 1)))
        return found

    def groups(self, target: Target) -> int:
        """Return how many groups of lines there are."""
        *outer, inner = [self.after.dims[d] for d in self.others] or [1]
        return math.prod(outer) * -(-inner // self.lines(target))

    def work_bytes(self, target: Target) -> int:
        """Return the size of one of the two places for a group of lines."""
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
            work = _Work(k, engine.inner, bases)
            io = _Lines(k, self.p, work, lines, start, first, here)
            io.bring(tables)
            engine.emit(work, tables[:-1] if p.is_half else tables)
            io.deliver(tables)
        length = max(2, engine.inner.n)
        return Extent(groups, lines * length * (math.log2(length) + 4) / engine.inner.lanes * 4)


@dataclass
class _Lines:
    """A group of lines on their way into work space and out of it.

    start: where they lie in the other dimensions but the last; first, count: which they are there.
    """

    k: Kernel
    p: _Pass
    work: _Work
    lines: int
    start: Sequence[Index]
    first: Index
    count: Index

    def bring(self, tables: Sequence[str]) -> None:
        """Copy the lines into work space, so that a transform of them is what is wanted."""
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
                # A real line's first number has no imaginary part, whatever is there.
                re, im = self._load(j, line)
                begins = b.compare("eq", j, 0)
                im = b.select(begins, self._zero(), im)
                mirror = b.select(begins, Val("i64", "0"), Val("i64", str(b.sub(n, j)))).name
                self.work.store((b.op(im.type, f"fneg {im}"), re), self._at(mirror, line))
                self.work.store((im, re), self._at(j, line))

    def _bring_half(self, j: Index, line: Index, table: str) -> None:
        """Combine numbers of the spectrum of a real line into one of the half-length spectrum.

        That is X_j + X*_{h-j} + i w^-j (X_j - X*_{h-j}), parts in each other's place.
        """
        b, half, lanes = self.k.b, self.p.n // 2, self._lanes()
        re, im = self._load(j, line)
        mirrored_re, mirrored_im = self._load(b.sub(half, j), line)
        # The first number and the one in the middle have no imaginary parts.
        begins = b.compare("eq", j, 0)
        im, mirrored_im = (b.select(begins, self._zero(), x) for x in (im, mirrored_im))
        mirrored = mirrored_re, b.op(im.type, f"fneg {mirrored_im}")
        even, odd = lanes.add((re, im), mirrored), lanes.subtract((re, im), mirrored)
        c, s = self._factor(table, j)
        x, y = lanes.multiply(odd, (c, b.op(s.type, f"fneg {s}")))
        total = lanes.add(even, (b.op(y.type, f"fneg {y}"), x))
        self.work.store(total[::-1], self._at(j, line))

    def deliver(self, tables: Sequence[str]) -> None:
        """Copy the transformed lines to where they belong."""
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
        mirrored = mirrored_re, b.op(im.type, f"fneg {mirrored_im}")
        even, odd = lanes.add((re, im), mirrored), lanes.subtract((re, im), mirrored)
        x, y = lanes.multiply(odd, self._factor(table, j))
        total = lanes.add(even, (y, b.op(x.type, f"fneg {x}")))
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
            parts = tuple(b.op(x.type, f"fmul {x}, {scale.name}") for x in parts)
        value = Cplx(*parts) if len(parts) == 2 else parts[0]
        at = physical_index(b, p.after, self._indices(p.after, j, line))
        base = k.outputs[0] if p.target is None else k.scratch[p.target]
        scalar.store(b, p.after.element_type, value, base, at)

    def _factor(self, table: str, j: Index) -> Complex:
        """Load exp(-2 pi i j / n)."""
        b, t = self.k.b, self._type
        c, s = (
            b.effect(
                t, f"load {t}, ptr {b.element_address(table, t, b.add(j, p * (self.p.n // 2 + 1)))}"
            )
            for p in range(2)
        )
        return c, s


# --- the operation ------------------------------------------------------------------------------


def _passes(inst: Instruction) -> list[_Pass]:
    """Return the passes of an operation, in order."""
    before, after = inst.operands[0].shape, inst.shape
    assert isinstance(before, ArrayShape) and isinstance(after, ArrayShape)
    kind, lengths = inst.attrs["fft_type"], inst.attrs["fft_length"]
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
    after = inst.shape
    assert isinstance(after, ArrayShape)
    before = inst.operands[0].shape
    assert isinstance(before, ArrayShape)
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
        sizes += [slots(p.groups(target)) * p.work_bytes(target)] * 2
        tables += p.tables(target)
    return Plan(tuple(steps), tuple(sizes), tuple(tables))
