"""Fourier transforms of any length in the workspace: directly, or as a convolution.

A length whose prime factors are small is transformed by stages. A prime n of which n - 1 is such a
length is a convolution of that length (Rader); any other one of a length of at least 2 n - 1
(Bluestein).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hlo.codegen.kernels.fft.dft import (
    Complex,
    Lanes,
    good_length,
    is_direct,
    prime_factors,
    roots_of_unity,
)
from hlo.codegen.kernels.fft.lines import Transform, WorkSpace
from hlo.codegen.llvm import Index, float_const
from hlo.codegen.targets.base import Target
from hlo.values.types import ElementType


@dataclass(frozen=True)
class Engine(ABC):
    """A complex transform of rows in the workspace.

    n: the length; inner: the transform that is run, of n or another length.
    """

    n: int
    inner: Transform

    @staticmethod
    def of(n: int, lines: int, part: ElementType, target: Target) -> Engine:
        """Choose how to transform a length."""
        if is_direct(n):
            return _Direct(n, Transform.of(n, lines, part, target))
        if len(prime_factors(n)) == 1 and is_direct(n - 1):
            return _Rader(n, Transform.of(n - 1, lines, part, target, room=_KEPT + 1))
        return _Bluestein(n, Transform.of(good_length(2 * n - 1), lines, part, target))

    @abstractmethod
    def tables(self) -> list[np.ndarray]:
        """Return the constants that `emit` reads."""

    @abstractmethod
    def emit(self, work: WorkSpace, tables: Sequence[str]) -> None:
        """Transform the rows in the workspace."""

    def _spectrum(self, kernel: np.ndarray) -> np.ndarray:
        """Return the transform of what rows are convolved with, for an inverse without a factor."""
        spectrum = np.fft.fft(kernel) / self.inner.n
        return np.stack([spectrum.real, spectrum.imag]).astype(self.inner.part.dtype)

    def _multiply(self, work: WorkSpace, table: str, count: int, *, swap: bool) -> None:
        """Multiply the first numbers of rows by a table. swap: leave parts in each other's place.

        The inverse transform is the forward one with real and imaginary parts exchanged.
        """
        b, t, lines = work.k.b, self.inner.type, self.inner.lines
        lanes = Lanes(b, t, 1)
        with b.loop(0, count) as j:
            factor = [b.load(t, b.element_address(table, t, b.add(j, p * count))) for p in range(2)]
            with b.loop(0, lines, rolled=True) as line:
                at = b.add(b.mul(j, lines), line)
                re, im = lanes.multiply(work.load(at), (factor[0], factor[1]))
                work.store((im, re) if swap else (re, im), at)


class _Direct(Engine):
    def tables(self) -> list[np.ndarray]:
        return self.inner.tables()

    def emit(self, work: WorkSpace, tables: Sequence[str]) -> None:
        work.transform(tables)


class _Bluestein(Engine):
    def tables(self) -> list[np.ndarray]:
        # exp(-i pi j^2 / n), and the transform of the sequence that is convolved with.
        j, m = np.arange(self.n), self.inner.n
        chirp = roots_of_unity(2 * self.n, j * j)
        kernel = np.zeros(m, np.complex128)
        kernel[: self.n] = chirp[0] - 1j * chirp[1]
        kernel[m - self.n + 1 :] = kernel[self.n - 1 : 0 : -1]
        factors = np.stack(chirp).astype(self.inner.part.dtype)
        return [*self.inner.tables(), factors, self._spectrum(kernel)]

    def emit(self, work: WorkSpace, tables: Sequence[str]) -> None:
        *inner, chirp, spectrum = tables
        m, lines, b = self.inner.n, self.inner.lines, work.k.b
        self._multiply(work, chirp, self.n, swap=False)
        with b.loop(self.n * lines, m * lines, rolled=True) as at:
            zero = float_const(self.inner.type, 0.0)
            work.store((zero, zero), at)
        work.transform(inner)
        self._multiply(work, spectrum, m, swap=True)
        work.transform(inner)
        with b.loop(0, self.n * lines, rolled=True) as at:
            re, im = work.load(at)
            work.store((im, re), at)
        self._multiply(work, chirp, self.n, swap=False)


# Where the first number of a row is, and that of its transform, behind the n numbers of the row.
_FIRST, _SUM, _KEPT = 0, 1, 2


class _Rader(Engine):
    """With a generator g of the numbers modulo n: by j = g^p and k = g^-q, the transform is that of
    a sequence over p convolved with roots of unity, but for what has j or k = 0."""

    def tables(self) -> list[np.ndarray]:
        n = self.n
        powers = [1]
        g = _generator(n)
        for _ in range(n - 2):
            powers.append(powers[-1] * g % n)
        inverse = [powers[0], *powers[:0:-1]]
        c, s = roots_of_unity(n, np.array(inverse))
        orders = [np.array(order, np.int32) for order in (powers, inverse)]
        return [*self.inner.tables(), *orders, self._spectrum(c + 1j * s)]

    def emit(self, work: WorkSpace, tables: Sequence[str]) -> None:
        *inner, powers, inverse, spectrum = tables
        n, lines, b = self.n, self.inner.lines, work.k.b
        lanes = Lanes(b, self.inner.type, 1)

        def kept(which: int, line: Index) -> Index:
            return b.add((n + which) * lines, line)

        def keep(value: Complex, which: int, line: Index) -> None:
            """Keep a number in both buffers, since any of them may have the next result."""
            work.store(value, kept(which, line))
            work.store_in_other(value, kept(which, line))

        with b.loop(0, lines, rolled=True) as line:
            keep(work.load(line), _FIRST, line)
        with b.loop(0, n - 1, plain=True) as p, b.loop(0, lines, rolled=True) as line:
            value = work.load(b.add(b.mul(self._place(work, powers, p), lines), line))
            work.store_in_other(value, b.add(b.mul(p, lines), line))
        work.exchange()
        work.transform(inner)
        with b.loop(0, lines, rolled=True) as line:
            keep(lanes.add(work.load(line), work.load(kept(_FIRST, line))), _SUM, line)
        self._multiply(work, spectrum, n - 1, swap=True)
        with b.loop(0, lines, rolled=True) as line:
            # The first number of a spectrum is added to all numbers.
            re, im = work.load(kept(_FIRST, line))
            work.store(lanes.add(work.load(line), (im, re)), line)
        work.transform(inner)
        with b.loop(0, n - 1, plain=True) as q, b.loop(0, lines, rolled=True) as line:
            re, im = work.load(b.add(b.mul(q, lines), line))
            place = b.mul(self._place(work, inverse, q), lines)
            work.store_in_other((im, re), b.add(place, line))
        with b.loop(0, lines, rolled=True) as line:
            work.store_in_other(work.load(kept(_SUM, line)), line)
        work.exchange()

    def _place(self, work: WorkSpace, order: str, at: Index) -> Index:
        b = work.k.b
        found = b.load("i32", b.element_address(order, "i32", at), is_invariant=True)
        return b.cast("zext", found, "i64").name


def _generator(n: int) -> int:
    """Return the least number whose powers modulo a prime are all numbers but 0."""
    orders = [(n - 1) // p for p in set(prime_factors(n - 1))]
    return next(g for g in range(1, n) if all(pow(g, order, n) != 1 for order in orders))
