"""Fourier transforms of rows in the workspace, of lengths with small prime factors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hlo.codegen.kernels.fft.copies import Copies
from hlo.codegen.kernels.fft.dft import Complex, radices
from hlo.codegen.kernels.fft.stages import Planes, Stage
from hlo.codegen.llvm import POLLED_COST, Index, Val, i64, ptr
from hlo.codegen.loops.kernel import Kernel
from hlo.codegen.loops.vectors import clear, vector_at
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.targets.base import Target
from hlo.llvm import vector_type
from hlo.values.types import ElementType

# Cost of one element in one stage, in approximate scalar operations.
_STAGE_COST = 8


@dataclass(frozen=True)
class Transform:
    """The transform of `lines` interleaved rows of n complex numbers in the workspace.

    room: how many numbers of a row the workspace has behind those.
    """

    n: int
    lines: int
    part: ElementType
    lanes: int
    stages: tuple[Stage, ...]
    room: int = 0

    @staticmethod
    def of(n: int, lines: int, part: ElementType, target: Target, room: int = 0) -> Transform:
        """Choose the stages of a transform for a machine's vectors."""
        lanes = max(1, target.vector_bits // part.bits)
        stages, span, length = [], lines, n
        for r in radices(n, target):
            length //= r
            stages.append(Stage.of(r, span, length, lanes))
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
        """Return the twiddle factors of each stage but the last."""
        return [s.table(self.part) for s in self.stages if not s.is_last]


class WorkSpace:
    """Two buffers for rows, each of a plane for the real and one for the imaginary parts.

    here, other: the planes of the buffer with the content, and of the other one.
    """

    def __init__(self, k: Kernel, t: Transform, bases: Sequence[str]) -> None:
        self.k, self.t = k, t
        self.here, self.other = (
            (base, k.b.element_address(base, t.type, t.size)) for base in bases
        )

    @property
    def copies(self) -> Copies:
        return Copies(self.k.b.module, self.t.part, self.t.lanes)

    # --- elements -------------------------------------------------------------------------------

    def load(self, at: Index) -> Complex:
        b, t = self.k.b, self.t.type
        re, im = (b.load(t, b.element_address(base, t, at)) for base in self.here)
        return re, im

    def store(self, value: Complex, at: Index) -> None:
        b, t = self.k.b, self.t.type
        for part, base in zip(value, self.here, strict=True):
            b.store(part, b.element_address(base, t, at))

    # --- numbers of all rows --------------------------------------------------------------------

    def number(self, j: int) -> Complex:
        """Return number j of all rows, as vectors."""
        b, t = self.k.b, self.t
        vector = vector_type(t.lines, t.type)
        re, im = (vector_at(b, vector, base, t.type, j * t.lines) for base in self.here)
        return re, im

    def set_number(self, value: Complex, j: int, *planes: Planes) -> None:
        """Store number j of all rows, into the planes of buffers."""
        for buffer in planes:
            for part, base in zip(value, self.after(buffer, j), strict=True):
                self.k.b.store(part, base, align=self.t.part.bits // 8)

    def after(self, planes: Planes, j: int) -> Planes:
        """Return the addresses of number j in planes."""
        re, im = (self.k.b.element_address(base, self.t.type, j * self.t.lines) for base in planes)
        return re, im

    # --- all of it ------------------------------------------------------------------------------

    def exchange(self) -> None:
        """Go on with the other buffer."""
        self.here, self.other = self.other, self.here

    def exchange_parts(self) -> None:
        """Take real parts for imaginary ones: a transform with both exchanged is the inverse one
        without its factor."""
        self.here, self.other = self.here[::-1], self.other[::-1]

    def transform(self, tables: Sequence[str]) -> None:
        """Transform the rows."""
        b, t, left = self.k.b, self.t, iter(tables)
        for stage in t.stages:
            function = stage.function(b.module, t.part)
            table = [] if stage.is_last else [ptr(next(left))]
            self._call(function, [i64(stage.span), i64(stage.count), *table])
            if t.size * _STAGE_COST > POLLED_COST:
                b.poll(t.size * _STAGE_COST)

    def _call(self, function: str, args: Sequence[Val], first: int = 0) -> None:
        """Call a function from one buffer to the other, there from a number on; go on with that."""
        planes = [ptr(base) for base in (*self.here, *self.after(self.other, first))]
        self.k.b.call_void(function, [*planes, *args])
        self.exchange()

    def gather(self, order: str, count: int, first: int = 0) -> None:
        """Move numbers to the other buffer in an order, there from number `first` on."""
        self._call(self.copies.gather(self.t.lines), [ptr(order), i64(count)], first)

    def clear(self, first: int, count: int) -> None:
        """Set numbers of all rows to zero."""
        for base in self.after(self.here, first):
            clear(self.k.b, base, count * self.t.lines * self.t.part.bits // 8)
