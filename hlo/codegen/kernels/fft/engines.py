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
    Lanes,
    good_length,
    is_direct,
    prime_factors,
    roots_of_unity,
)
from hlo.codegen.kernels.fft.lines import Transform, WorkSpace
from hlo.codegen.llvm import i64, ptr
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

    def _multiply(self, work: WorkSpace, table: str, count: int) -> None:
        """Multiply the first numbers of rows by a table."""
        function = work.copies.multiply(self.inner.lines)
        planes = [ptr(base) for base in work.here]
        work.k.b.call_void(function, [*planes, ptr(table), i64(count)])


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
        n, m = self.n, self.inner.n
        self._multiply(work, chirp, n)
        work.clear(n, m - n)
        work.transform(inner)
        self._multiply(work, spectrum, m)
        work.exchange_parts()
        work.transform(inner)
        work.exchange_parts()
        self._multiply(work, chirp, n)


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
        # Where each number goes in the result: from place q to inverse[q].
        places = np.empty(n - 1, np.int32)
        places[np.array(inverse) - 1] = np.arange(n - 1)
        order = np.array(powers, np.int32)
        return [*self.inner.tables(), order, places, self._spectrum(c + 1j * s)]

    def emit(self, work: WorkSpace, tables: Sequence[str]) -> None:
        *inner, order, places, spectrum = tables
        n, lanes = self.n, Lanes(work.k.b, self.inner.type, self.inner.lines)
        # Both buffers keep these, since any of them may have the next result.
        both = work.here, work.other
        work.set_number(work.number(0), n + _FIRST, *both)
        work.gather(order, n - 1)
        work.transform(inner)
        total = work.number(0)
        work.set_number(lanes.add(total, work.number(n + _FIRST)), n + _SUM, *both)
        self._multiply(work, spectrum, n - 1)
        work.exchange_parts()
        # The first number of a spectrum is added to all numbers.
        first = work.number(n + _FIRST)
        work.set_number(lanes.add(work.number(0), first), 0, work.here)
        work.transform(inner)
        work.exchange_parts()
        work.gather(places, n - 1, first=1)
        work.set_number(work.number(n + _SUM), 0, work.here)


def _generator(n: int) -> int:
    """Return the least number whose powers modulo a prime are all numbers but 0."""
    orders = [(n - 1) // p for p in set(prime_factors(n - 1))]
    return next(g for g in range(1, n) if all(pow(g, order, n) != 1 for order in orders))
