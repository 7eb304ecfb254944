"""One pass of short transforms over rows in the workspace, as a function of the sizes.

The last vector of a run ends where the run ends, so that it may have some elements that the one
before has, too: nothing is left over, and there is one copy of the short transform.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hlo.codegen.kernels.fft.dft import Complex, Lanes, interleaved, roots_of_unity
from hlo.codegen.llvm import Builder, Index, ModuleBuilder, Val
from hlo.codegen.loops.vectors import define, vector_at
from hlo.codegen.scalar import operations as scalar
from hlo.values.types import ElementType

# Real and imaginary parts of rows: their addresses.
Planes = tuple[str, str]
# What machines multiply an index by in an address.
_LARGEST_SCALE = 8


@dataclass(frozen=True)
class Stage:
    """One pass of short transforms.

    radix: r. span: s, the distance of a run's elements, lines included. count: m. width: of
    vectors. is_wide: they run over all of s * m, else over each s.
    """

    radix: int
    span: int
    count: int
    width: int
    is_wide: bool

    @staticmethod
    def of(radix: int, span: int, count: int, lanes: int) -> Stage:
        """Choose the vectors of a stage, for a machine with so many lanes."""
        if span < lanes and lanes % span == 0:
            return Stage(radix, span, count, min(lanes, span * power_of_two(count)), True)
        return Stage(radix, span, count, min(lanes, power_of_two(span)), False)

    @property
    def is_last(self) -> bool:
        """True when no twiddle factors are needed."""
        return self.count == 1

    def table(self, part: ElementType) -> np.ndarray:
        """Return the twiddle factors w(m r)^(p k), in the order in which they are read.

        That is by p, k and part, or where vectors run over p by vector, k, part and lane.
        """
        k, n = np.arange(1, self.radix), self.count * self.radix
        if not self.is_wide:
            return roots_table(part, n, np.multiply.outer(np.arange(self.count), k), axis=-1)
        whole = self.span * self.count
        first = np.minimum(np.arange(0, whole, self.width), whole - self.width)
        p = (first[:, None] + np.arange(self.width)) // self.span
        return roots_table(part, n, p[:, None, :] * k[:, None], axis=-2)

    def function(self, module: ModuleBuilder, part: ElementType) -> str:
        """Return the function (x, y, span, count, table), each of x and y as two planes.

        The last stage has no table.
        """
        kind = f".wide{self.span}" if self.is_wide else ""
        end = ".last" if self.is_last else ""
        table = "" if self.is_last else ", ptr noalias readonly %table"
        return define(
            module, f"fft.{part}.{self.radix}x{self.width}{kind}{end}",
            "ptr noalias readonly %x_re, ptr noalias readonly %x_im, ptr noalias %y_re, "
            f"ptr noalias %y_im, i64 %span, i64 %count{table}",
            _StageWriter(self, part).write,
        )  # fmt: skip


def roots_table(part: ElementType, n: int, powers: np.ndarray, axis: int = 0) -> np.ndarray:
    """Return powers of the n-th root of unity. axis: of real and imaginary parts."""
    return np.stack(roots_of_unity(n, powers, part), axis=axis).astype(part.dtype)


def power_of_two(most: int) -> int:
    """Return the largest power of two up to a number."""
    return 1 << (most.bit_length() - 1)


class _Strides:
    """Addresses that lie a number of strides after another: machines add few of them at once.

    stride: in bytes.
    """

    def __init__(self, b: Builder, stride: Index, count: int) -> None:
        self._b = b
        odd = {j // self._scale(j) for j in range(1, count)}
        self._multiples = {n: b.mul(stride, n) for n in sorted(odd)}

    @staticmethod
    def _scale(j: int) -> int:
        return min(j & -j, _LARGEST_SCALE)

    def address(self, base: str, j: int) -> str:
        """Return the address j strides after a base."""
        if j == 0:
            return base
        scale = self._scale(j)
        return self._b.element_address(base, f"i{8 * scale}", self._multiples[j // scale])


class _StageWriter:
    """Writes the function of a stage, for any span and count; of a wide one for any count."""

    def __init__(self, stage: Stage, part: ElementType) -> None:
        self.s, self.part = stage, part
        self.type = scalar.memory_type(part)

    def write(self, b: Builder) -> None:
        self.b = b
        self.lanes = Lanes(b, self.type, self.s.width)
        x, y = ("%x_re", "%x_im"), ("%y_re", "%y_im")
        whole = b.mul("%span", "%count")
        self.inputs = _Strides(b, self._bytes(whole), self.s.radix)
        if self.s.is_wide:
            self._wide(x, y, whole)
        else:
            self.results = _Strides(b, self._bytes("%span"), self.s.radix)
            self._runs(x, y)

    def _bytes(self, elements: Index) -> Index:
        return self.b.mul(elements, self.part.bits // 8)

    def _runs(self, x: Planes, y: Planes) -> None:
        b, s = self.b, self.s
        last = b.sub("%span", s.width)
        with b.loop(0, "%count", plain=True) as p:
            factors = [] if s.is_last else self._factors(p)
            first = b.mul(p, "%span")
            x, y = self._planes(x, first), self._planes(y, b.mul(first, s.radix))
            with b.loop(0, "%span", s.width, plain=True) as i:
                q = b.minimum(i, last)
                found = self._transformed(self._planes(x, q))
                for k, factor in enumerate(factors, 1):
                    found[k] = self.lanes.multiply(found[k], factor)
                target = self._planes(y, q)
                for k, value in enumerate(found):
                    for part, base in zip(value, target, strict=True):
                        self._store(part, self.results.address(base, k))

    def _factors(self, p: Index) -> list[Complex]:
        """Load the twiddle factors of a run, each in all lanes."""
        b, s = self.b, self.s
        address = b.element_address("%table", self.type, b.mul(p, 2 * (s.radix - 1)))
        parts = [
            b.load(self.type, b.element_address(address, self.type, n), is_invariant=True)
            for n in range(2 * (s.radix - 1))
        ]
        wide = [b.splat(part, s.width) for part in parts]
        return list(zip(wide[::2], wide[1::2], strict=True))

    def _wide(self, x: Planes, y: Planes, whole: Index) -> None:
        """Transform adjacent elements of all runs together; each run is stored separately."""
        b, s = self.b, self.s
        last = b.sub(whole, s.width)
        with b.loop(0, whole, s.width, plain=True) as i:
            at = b.minimum(i, last)
            found = self._transformed(self._planes(x, at))
            if not s.is_last:
                address = b.element_address("%table", self.type, b.mul(i, 2 * (s.radix - 1)))
                for k in range(1, s.radix):
                    re, im = (self._vector(address, 2 * (k - 1) + n) for n in range(2))
                    found[k] = self.lanes.multiply(found[k], (re, im))
            for n, base in enumerate(self._planes(y, b.mul(at, s.radix))):
                ordered = interleaved(b, [v[n] for v in found], s.width, s.span)
                for k, part in enumerate(ordered):
                    self._store(part, b.element_address(base, self.type, k * s.width))

    def _transformed(self, x: Planes) -> list[Complex]:
        """Load elements of all inputs, and transform them."""
        inputs = []
        for j in range(self.s.radix):
            re, im = (self._vector(self.inputs.address(base, j), 0) for base in x)
            inputs.append((re, im))
        return self.lanes.transform(inputs)

    def _planes(self, planes: Planes, at: Index) -> Planes:
        re, im = (self.b.element_address(base, self.type, at) for base in planes)
        return re, im

    def _vector(self, base: str, number: int) -> Val:
        return vector_at(self.b, self.lanes.vector, base, self.type, number * self.s.width)

    def _store(self, part: Val, address: str) -> None:
        self.b.store(part, address, align=self.part.bits // 8)
