"""Rows of complex numbers in a block's shared memory, and their transforms.

A block has a few rows. A stage reads the numbers of short transforms from one of two buffers,
multiplies them with roots of unity, and writes the results to the other: Stockham's order, see
`dft`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from hlo.codegen.kernels.fft.dft import Complex, Lanes, prime_factors, roots_of_unity
from hlo.codegen.llvm import Builder, Index, Val, float_const
from hlo.codegen.targets.gpu.block import Block
from hlo.llvm import byte_size

# Static shared memory of a block, in bytes.
_SHARED_BYTES = 48 << 10
_THREADS, _MOST_THREADS, _WARP = 256, 1024, 32
# Behind so many numbers one is unused: those that a stage writes apart are in different banks.
_GAP = 32
# Rows of a block at the most: as many as an access to memory has neighbours.
_MOST_ROWS = 16


@dataclass(frozen=True)
class Scalars(Lanes):
    """Arithmetic on complex numbers, one at a time."""

    @staticmethod
    def of(b: Builder, type_: str) -> Scalars:
        return Scalars(b, type_, 1)

    def number(self, value: float) -> Val:
        return float_const(self.type, value)


def most_numbers(type_: str) -> int:
    """Return how many numbers all rows of a block have at the most, with those unused."""
    return _SHARED_BYTES // (4 * byte_size(type_))


def _pitch_of(length: int) -> int:
    """Return the distance of rows, an odd number: columns are in different banks, too."""
    return (length + length // _GAP) | 1


def longest(type_: str, shared_bytes: int) -> int:
    """Return the length of the longest rows that a block transforms, a power of two.

    shared_bytes: what the machine has for a block.
    """
    most = shared_bytes // (4 * byte_size(type_))
    return 1 << (most - 1).bit_length() - 1


@dataclass(frozen=True)
class Shape:
    """Rows of a block: their length, how many, and LLVM's type of a part of a number."""

    length: int
    rows: int
    type: str

    @staticmethod
    def of(length: int, total: int, type_: str) -> Shape:
        most = max(1, most_numbers(type_) // _pitch_of(length))
        return Shape(length, min(most, total, _MOST_ROWS), type_)

    @property
    def pitch(self) -> int:
        """The distance of rows."""
        return _pitch_of(self.length)

    @property
    def plane_bytes(self) -> int:
        """The size of the real parts of all rows, or of the imaginary ones; there are four."""
        return -(-self.rows * self.pitch * byte_size(self.type) // 16) * 16

    @property
    def dynamic_bytes(self) -> int:
        """The dynamic shared memory of a block, if static memory is too small."""
        return 4 * self.plane_bytes if 4 * self.plane_bytes > _SHARED_BYTES else 0

    @property
    def threads(self) -> int:
        wanted = -(-self.length * self.rows // 4)
        # Such a block is alone on its multiprocessor.
        most = _MOST_THREADS if self.dynamic_bytes else _THREADS
        return min(most, -(-wanted // _WARP) * _WARP)

    @property
    def radices(self) -> list[int]:
        return radices_of(self.length)

    @property
    def root_count(self) -> int:
        """How many roots of unity the table of the length has."""
        return len(stage_powers(self.length))


def roots_table(n: int, powers: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return exp(-2 pi i k / n) for powers k: real parts, then imaginary ones."""
    return np.stack(roots_of_unity(n, powers)).astype(dtype)


def stage_powers(n: int) -> np.ndarray:
    """Return the powers of roots of unity that the stages of a length multiply with, in order."""
    found, done = [np.zeros(1, np.int64)], 1
    for radix in radices_of(n):
        if done > 1:
            step = n // (done * radix)
            found += [np.arange(done) * (r * step) for r in range(1, radix)]
        done *= radix
    # A table has an element, even if none is read.
    return np.concatenate(found[1:] or found)


def radices_of(n: int) -> list[int]:
    """Return the lengths of the short transforms of a length's stages."""
    found = []
    while n % 2 == 0:
        r = next(r for r in (8, 4, 2) if n % r == 0)
        found.append(r)
        n //= r
    return [*found, *prime_factors(n)[::-1]]


def root(b: Builder, type_: str, table: str, count: int, at: Index) -> Complex:
    """Return a number of such a table."""
    places = (at, b.add(at, count))
    re, im = (b.load(type_, b.element_address(table, type_, place)) for place in places)
    return re, im


class SharedRows:
    """Emission of what a block does with its rows. table: the roots of unity of the stages."""

    def __init__(self, block: Block, shape: Shape, table: str) -> None:
        self.block, self.b, self.shape, self._table = block, block.b, shape, table
        self.lanes = Scalars.of(block.b, shape.type)
        planes = self._planes_of(shape)
        self._planes = [planes[:2], planes[2:]]
        self._side = 0
        self._is_turned = False
        self.thread = block.thread_index()

    def _planes_of(self, shape: Shape) -> list[str]:
        """Reserve shared memory for real and imaginary parts, twice."""
        if not shape.dynamic_bytes:
            size = shape.plane_bytes // byte_size(shape.type)
            return [self.block.shared_array(shape.type, size) for _ in range(4)]
        base = self.block.dynamic_shared()
        return [self.b.element_address(base, "i8", n * shape.plane_bytes) for n in range(4)]

    @contextmanager
    def each(self, count: int, *, by_rows: bool) -> Iterator[tuple[Index, Index]]:
        """Emit the body for the thread's share of the first numbers of rows: row, place.

        by_rows: neighbouring threads have neighbouring rows.
        """
        b, s = self.b, self.shape
        with b.loop(self.thread, s.rows * count, s.threads) as n:
            if by_rows:
                yield b.urem(n, s.rows), b.udiv(n, s.rows)
            else:
                yield b.udiv(n, count), b.urem(n, count)

    def exchange_parts(self) -> None:
        """Exchange real and imaginary parts of all numbers."""
        self._is_turned = not self._is_turned

    def get(self, row: Index, at: Index) -> Complex:
        """Return a number."""
        re, im = (
            self.b.load(self.shape.type, address)
            for address in self._addresses(self._side, row, at)
        )
        return re, im

    def put(self, value: Complex, row: Index, at: Index) -> None:
        """Set a number."""
        self._put(value, self._side, row, at)

    def _put(self, value: Complex, side: int, row: Index, at: Index) -> None:
        for part, address in zip(value, self._addresses(side, row, at), strict=True):
            self.b.store(part, address)

    def _addresses(self, side: int, row: Index, at: Index) -> list[str]:
        b = self.b
        place = b.add(b.mul(row, self.shape.pitch), b.add(at, b.udiv(at, _GAP)))
        planes = self._planes[side]
        if self._is_turned:
            planes = planes[::-1]
        return [b.element_address(plane, self.shape.type, place) for plane in planes]

    def transform(self) -> None:
        """Transform all rows; what was written before is visible after, and the result too."""
        self.block.barrier()
        done, first_root = 1, 0
        for radix in self.shape.radices:
            self._stage(radix, done, first_root)
            self._side = 1 - self._side
            first_root += (radix - 1) * done if done > 1 else 0
            done *= radix
            self.block.barrier()

    def _stage(self, radix: int, done: int, first_root: int) -> None:
        """Do the short transforms of one length, after transforms of `done`.

        first_root: where the stage's roots of unity begin in the table.
        """
        b, s = self.b, self.shape
        count = s.length // radix
        with self.each(count, by_rows=False) as (row, j):
            values = [self.get(row, b.add(j, r * count)) for r in range(radix)]
            place = b.urem(j, done)
            if done > 1:
                for r in range(1, radix):
                    at = b.add(place, first_root + (r - 1) * done)
                    factor = root(b, self.shape.type, self._table, s.root_count, at)
                    values[r] = self.lanes.multiply(values[r], factor)
            first = b.add(b.mul(b.udiv(j, done), done * radix), place)
            for r, value in enumerate(self.lanes.transform(values)):
                self._put(value, 1 - self._side, row, b.add(first, r * done))
