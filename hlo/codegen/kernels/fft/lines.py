"""Fourier transforms of rows in the workspace, of lengths with small prime factors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hlo.codegen.kernels.fft.dft import (
    Complex,
    Lanes,
    interleaved,
    radices,
    roots_of_unity,
)
from hlo.codegen.llvm import POLLED_COST, Builder, Index, Val, ptr
from hlo.codegen.loops.kernel import Kernel
from hlo.codegen.loops.vectors import define, vector_at
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.targets.base import Target
from hlo.values.types import ElementType

# Cost of one element in one stage, in approximate scalar operations.
_STAGE_COST = 8


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
class Transform:
    """The transform of `lines` interleaved rows of n complex numbers in the workspace.

    room: how many numbers of a row the workspace has behind those.
    """

    n: int
    lines: int
    part: ElementType
    lanes: int
    stages: tuple[_Stage, ...]
    room: int = 0

    @staticmethod
    def of(n: int, lines: int, part: ElementType, target: Target, room: int = 0) -> Transform:
        """Choose the stages of a transform for a machine's vectors."""
        lanes = max(1, target.vector_bits // part.bits)
        stages, span, length = [], lines, n
        for r in radices(n, target):
            length //= r
            wide = span < lanes and lanes % span == 0
            stages.append(_Stage(r, span, length, wide))
            span *= r
        return Transform(n, lines, part, lanes, tuple(stages), room)

    @property
    def type(self) -> str:
        return scalar.memory_type(self.part)

    @property
    def size(self) -> int:
        """Elements of one plane of the workspace."""
        return (self.n + self.room) * self.lines

    def tables(self) -> list[np.ndarray]:
        """Return the twiddle factors of each stage."""
        return [self._table(s) for s in self.stages]

    def _table(self, s: _Stage) -> np.ndarray:
        """Return w(m r)^(p k), parts first: by p and k, or where vectors run over p by k and p."""
        p, k = np.arange(s.count), np.arange(1, s.radix)
        if not s.wide:
            return roots_table(self.part, s.count * s.radix, np.multiply.outer(p, k))
        return roots_table(self.part, s.count * s.radix, np.multiply.outer(k, np.repeat(p, s.span)))

    def emit(self, k: Kernel, tables: Sequence[str], here: str, other: str) -> str:
        """Transform the workspace's content; returns which of its two buffers has the result."""

        def write(b: Builder) -> None:
            places = "%here", "%other"
            for n, stage in enumerate(self.stages):
                source, target = places[n % 2], places[1 - n % 2]
                _StageEmitter(b, self, stage, f"%table{n}", source, target).emit()
                if self.size * _STAGE_COST > POLLED_COST:
                    b.poll(self.size * _STAGE_COST)

        params = [f"ptr noalias readonly %table{n}" for n in range(len(tables))]
        name = define(
            k.b.module, f"fft.{self.part}.{self.n}x{self.lines}.{self.size}",
            ", ".join(["ptr noalias %here", "ptr noalias %other", *params]), write,
        )  # fmt: skip
        k.b.call_void(name, [ptr(x) for x in (here, other, *tables)])
        return other if len(self.stages) % 2 else here


def roots_table(part: ElementType, n: int, powers: np.ndarray) -> np.ndarray:
    """Return powers of the n-th root of unity, real parts before imaginary ones."""
    return np.stack(roots_of_unity(n, powers, part)).astype(part.dtype)


@dataclass(frozen=True)
class _StageEmitter:
    """Emits the loops of a stage, from one buffer of the workspace to the other."""

    b: Builder
    t: Transform
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
        """Return the width of vectors over a span, with a small remainder."""
        lanes, span = self.t.lanes, self.s.span
        width = lanes
        while width > 1 and (width > span or (span % width and width > lanes // 4)):
            width //= 2
        return width if span % width == 0 or span >= lanes else 1

    def _factors(self, p: Index) -> list[tuple[Val, Val]]:
        """Load the twiddle factors of a run, if there are any."""
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
                parts.append(self.b.load(t, address, is_invariant=True))
            found.append((parts[0], parts[1]))
        return found

    def _run(self, p: Index, q: Index, width: int, factors: Sequence[tuple[Val, Val]]) -> None:
        """Transform `width` adjacent elements of run p."""
        b, s, lanes = self.b, self.s, Lanes(self.b, self.t.type, width)
        first = b.add(b.mul(p, s.span), q)
        x = [
            self._load(lanes, b.add(first, j * s.span * s.count), self.source)
            for j in range(s.radix)
        ]
        y = lanes.transform(x)
        for k, (re, im) in enumerate(factors, 1):
            y[k] = lanes.multiply(y[k], (b.splat(re, width), b.splat(im, width)))
        out = b.add(b.mul(p, s.span * s.radix), q)
        for k, value in enumerate(y):
            self._store(lanes, value, b.add(out, k * s.span))

    def _wide(self, at: Index, width: int) -> None:
        """Transform `width` adjacent elements of all runs together; each run is stored
        separately."""
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
            b.store(part, address, align=self.t.part.bits // 8)


# --- rows in the workspace ----------------------------------------------------------------------


class WorkSpace:
    """Two buffers for rows, and access to their elements."""

    def __init__(self, k: Kernel, t: Transform, bases: Sequence[str]) -> None:
        self.k, self.t = k, t
        self.here, self.other = bases

    def load(self, at: Index) -> Complex:
        b, t = self.k.b, self.t.type
        re, im = (
            b.load(t, b.element_address(self.here, t, b.add(at, p * self.t.size))) for p in range(2)
        )
        return re, im

    def store(self, value: Complex, at: Index) -> None:
        self._store(self.here, value, at)

    def store_in_other(self, value: Complex, at: Index) -> None:
        """Store a number in the other buffer."""
        self._store(self.other, value, at)

    def _store(self, base: str, value: Complex, at: Index) -> None:
        b, t = self.k.b, self.t.type
        for p, part in enumerate(value):
            b.store(part, b.element_address(base, t, b.add(at, p * self.t.size)))

    def exchange(self) -> None:
        """Go on with the other buffer."""
        self.here, self.other = self.other, self.here

    def transform(self, tables: Sequence[str]) -> None:
        if self.t.emit(self.k, tables, self.here, self.other) != self.here:
            self.exchange()
