"""Short Fourier transforms in registers, and the factorization of lengths.

A transform of n runs as passes of one short transform each (Stockham's order, which sorts itself):
after passes with product s there are s-long runs of transforms of n / s. With m = n / (s r),
    y[q + s (r p + k)] = w(n/s)^(p k) * sum over j of x[q + s (p + m j)] w(r)^(j k)
for q < s, p < m, k < r, where w(n) = exp(-2 pi i / n).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hlo.codegen.llvm import Builder, Val, float_const
from hlo.codegen.targets.base import Target
from hlo.llvm import vector_type
from hlo.values.types import ELEMENT_TYPES, ElementType

# Real and imaginary part: scalars or vectors.
Complex = tuple[Val, Val]

F64 = ELEMENT_TYPES["f64"]
_PI = np.longdouble("3.14159265358979323846264338327950288")
# Prime factors up to this one are transformed directly.
_LARGEST_PRIME = 19


def prime_factors(n: int) -> list[int]:
    """Return the prime factors of a number, ascending."""
    found, p = [], 2
    while p * p <= n:
        while n % p == 0:
            found.append(p)
            n //= p
        p += 1
    return [*found, n] if n > 1 else found


def is_direct(n: int) -> bool:
    """True when a length factors into short transforms."""
    return all(p <= _LARGEST_PRIME for p in prime_factors(n))


def radices(n: int, target: Target) -> list[int]:
    """Return the radices of a length: powers of two first, large ones first."""
    most = 8 if target.vector_registers >= 32 else 4
    found = []
    while n % 2 == 0:
        # Two radix-4 stages take less work than radix 8 and 2.
        r = 4 if n % 16 == 0 and n // 16 % 2 and most == 8 else most
        while n % r:
            r //= 2
        found.append(r)
        n //= r
    return found + prime_factors(n)[::-1]


def good_length(least: int) -> int:
    """Return the smallest length from `least` on whose only prime factors are 2, 3 and 5."""
    best = 1 << (least - 1).bit_length()
    five = 1
    while five < best:
        three = five
        while three < best:
            n = three << max(0, -(-least // three) - 1).bit_length()
            best = min(best, n)
            three *= 3
        five *= 5
    return best


def roots_of_unity(
    n: int, powers: np.ndarray, et: ElementType = F64
) -> tuple[np.ndarray, np.ndarray]:
    """Return real and imaginary parts of exp(-2 pi i k / n) for integers k, exact for a type."""
    k = np.asarray(powers, np.int64) % n
    wide = np.longdouble if et.bits == 64 else np.float64
    if k.size <= n:
        return _roots(n, k, wide)
    cosine, sine = _roots(n, np.arange(n), wide)
    return cosine[k], sine[k]


def _roots(n: int, k: np.ndarray, wide: type) -> tuple[np.ndarray, np.ndarray]:
    angle = wide(2 * _PI / n) * k
    cosine, sine = np.cos(angle), -np.sin(angle)
    # Quarter turns are exact.
    quarter = 4 * k % n == 0
    turn = 4 * k // n
    cosine = np.where(quarter, np.array([1, 0, -1, 0])[turn], cosine)
    sine = np.where(quarter, np.array([0, -1, 0, 1])[turn], sine)
    return cosine.astype(np.float64), sine.astype(np.float64)


def interleaved(b: Builder, vectors: Sequence[Val], lanes: int, unit: int) -> list[Val]:
    """Return what vectors hold, in turns of `unit` lanes each: first the first units of all."""
    count = len(vectors)
    if count == 1 or lanes == unit:
        return list(vectors)
    if count % 2 == 0:
        # What the even ones make and what the odd ones make, in turns.
        even, odd = (interleaved(b, vectors[n::2], lanes, unit) for n in range(2))
        masks = [
            [
                at + offset + i
                for at in range(start, start + lanes // 2, unit)
                for offset in (0, lanes)
                for i in range(unit)
            ]
            for start in (0, lanes // 2)
        ]
        return [
            b.shuffle_vector(x, y, mask) for x, y in zip(even, odd, strict=True) for mask in masks
        ]
    result = []
    for n in range(count):
        # Where each lane comes from: which vector, and which of its lanes.
        units = [divmod(n * lanes + i, unit) for i in range(lanes)]
        sources = [(u % count, u // count * unit + i) for u, i in units]
        total = vectors[sources[0][0]]
        taken = [lane if which == sources[0][0] else -1 for which, lane in sources]
        total = b.shuffle_vector(total, total, [max(t, 0) for t in taken])
        for which in sorted({w for w, _ in sources} - {sources[0][0]}):
            mask = [lanes + lane if w == which else i for i, (w, lane) in enumerate(sources)]
            total = b.shuffle_vector(total, vectors[which], mask)
        result.append(total)
    return result


# --- in registers -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lanes:
    """Arithmetic on vectors of complex numbers."""

    b: Builder
    type: str
    lanes: int

    @property
    def vector(self) -> str:
        return vector_type(self.lanes, self.type)

    def number(self, value: float) -> Val:
        """Return a vector of one number."""
        return self.b.splat(float_const(self.type, value), self.lanes)

    def two(self, opcode: str, x: Val, y: Val) -> Val:
        return self.b.binary(opcode, x, y, "contract")

    def add(self, x: Complex, y: Complex) -> Complex:
        return self.two("fadd", x[0], y[0]), self.two("fadd", x[1], y[1])

    def subtract(self, x: Complex, y: Complex) -> Complex:
        return self.two("fsub", x[0], y[0]), self.two("fsub", x[1], y[1])

    def scale(self, x: Complex, by: Val) -> Complex:
        return self.two("fmul", x[0], by), self.two("fmul", x[1], by)

    def multiply(self, x: Complex, y: Complex) -> Complex:
        (a, b), (c, d) = x, y
        re = self.two("fsub", self.two("fmul", a, c), self.two("fmul", b, d))
        im = self.two("fadd", self.two("fmul", a, d), self.two("fmul", b, c))
        return re, im

    def negate(self, x: Val) -> Val:
        return self.b.unary("fneg", x)

    def turn(self, x: Complex, power: int, n: int) -> Complex:
        """Return x * exp(-2 pi i power / n)."""
        power %= n
        eighths, rest = divmod(8 * power, n)
        if rest:
            c, s = (self.number(float(v)) for v in roots_of_unity(n, np.array(power)))
            return self.multiply(x, (c, s))
        if eighths % 2:
            half = self.number(math.sqrt(0.5))
            # (1 - i) x
            x = self.scale((self.two("fadd", x[0], x[1]), self.two("fsub", x[1], x[0])), half)
        re, im = x
        match eighths // 2:
            case 1:
                return im, self.negate(re)
            case 2:
                return self.negate(re), self.negate(im)
            case 3:
                return self.negate(im), re
        return x

    def transform(self, x: Sequence[Complex]) -> list[Complex]:
        """Return the Fourier transform of numbers in registers: a power of two, or a prime."""
        n = len(x)
        if n == 1:
            return list(x)
        if n == 2:
            return [self.add(*x), self.subtract(*x)]
        if n % 2 == 0:
            even, odd = self.transform(x[::2]), self.transform(x[1::2])
            turned = [self.turn(v, k, n) for k, v in enumerate(odd)]
            pairs = list(zip(even, turned, strict=True))
            return [self.add(*p) for p in pairs] + [self.subtract(*p) for p in pairs]
        return self._prime(x)

    def _prime(self, x: Sequence[Complex]) -> list[Complex]:
        """Add numbers and their mirror images: half of the products are equal up to signs."""
        p, half = len(x), len(x) // 2
        sums = [self.add(x[j], x[p - j]) for j in range(1, half + 1)]
        differences = [self.subtract(x[j], x[p - j]) for j in range(1, half + 1)]
        total = x[0]
        for s in sums:
            total = self.add(total, s)
        result = [total] * p
        for k in range(1, half + 1):
            even, odd = x[0], None
            for j, (s, d) in enumerate(zip(sums, differences, strict=True), 1):
                cosine, sine = (float(v) for v in roots_of_unity(p, np.array(j * k)))
                even = self.add(even, self.scale(s, self.number(cosine)))
                part = self.scale(d, self.number(-sine))
                odd = part if odd is None else self.add(odd, part)
            assert odd is not None
            # even - i odd, and its mirror image
            result[k] = self.two("fadd", even[0], odd[1]), self.two("fsub", even[1], odd[0])
            result[p - k] = self.two("fsub", even[0], odd[1]), self.two("fadd", even[1], odd[0])
        return result
