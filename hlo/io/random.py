"""Random values for the parameters of a program: distributions and domains."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import ml_dtypes
import numpy as np

from hlo.errors import HloError, did_you_mean
from hlo.values.numerals import from_double
from hlo.values.types import ArrayShape, ElementType, complex_part, integer_range

# Random integers of more than 8 bits are 0 .. 9: as operands they are likely not to overflow.
# Narrow ones are data that is to saturate or to wrap around, and have any value.
_INTEGERS = 10
_NARROW_BITS = 8


@dataclass(frozen=True)
class Domain:
    """The values of a parameter for which the program makes sense.

    low, high: the smallest and the largest; infinite for none. used_by: the opcode that requires
    it.
    """

    low: float
    high: float
    used_by: str

    def __str__(self) -> str:
        if math.isinf(self.high):
            range_text = f"at least {self.low:g}"
        elif math.isinf(self.low):
            range_text = f"at most {self.high:g}"
        else:
            range_text = f"in {self.low:g}:{self.high:g}"
        return f"{range_text} ({self.used_by})"


@dataclass(frozen=True)
class Distribution:
    """How random numbers are distributed.

    kind: `safe` (normal, within the parameter's known domain), `normal` (standard
    normal, whatever the domain), `uniform` (from 0 to 1), `large` (of either sign, the logarithm
    uniform over the normal numbers of the type), or `range`, uniform from `low` to `high`.
    Integers are always uniform. Those of a `range` are from `low` to `high`, inclusive; others are
    in their domain or, without one, from 0 to 9. Those of at most 8 bits, and all that are `large`,
    have any value of their type instead of 0 to 9.
    """

    kind: str = "safe"
    low: float = 0.0
    high: float = 1.0

    @classmethod
    def parse(cls, text: str) -> Distribution:
        """Return the distribution that `safe`, `normal`, `uniform`, `large` or `LO:HI` names.

        Raises HloError.
        """
        if text in _KINDS:
            return cls(text)
        ends = re.fullmatch(rf"({_NUMBER}):({_NUMBER})", text)
        if ends is None:
            raise HloError.at(
                "bad-distribution", f"{text!r} is not a distribution",
                hint=did_you_mean(text, _KINDS)
                or f"there are {', '.join(_KINDS)} and LO:HI, such as -1:1",
            )  # fmt: skip
        low, high = float(ends[1]), float(ends[2])
        if not (low <= high and math.isfinite(high - low)):
            raise HloError.at("bad-distribution", f"{text!r} is an empty or an infinite range")
        return cls("range", low, high)

    def uses_domain(self, et: ElementType) -> bool:
        """True if the parameter's domain matters."""
        return self.kind == "safe" or (et.is_integer and self.kind != "range")

    def narrows(self, domain: Domain, et: ElementType) -> bool:
        """True if values of a parameter are others because of its domain."""
        if not self.uses_domain(et):
            return False
        usual = self.integers(et) if et.is_integer else None
        return (domain.low, domain.high) != usual

    def integers(self, et: ElementType) -> tuple[int, int]:
        """Return the smallest and the largest random integer of a type without a domain."""
        least, most = integer_range(et)
        if self.kind == "large" or et.bits <= _NARROW_BITS:
            return least, most
        return 0, _INTEGERS - 1


_KINDS = ("safe", "normal", "uniform", "large")
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"


class Distributions:
    """Distributions by the names of parameters.

    specs: `DIST` for all, `PATTERN=DIST` for those whose names match a pattern with `*`, `?` and
    `[..]`; see `Distribution`. Patterns take precedence over `DIST`, later ones over earlier ones.
    Raises HloError for an invalid distribution.
    """

    def __init__(self, specs: Iterable[str] = ()) -> None:
        self._default = Distribution()
        self._patterns: list[tuple[str, Distribution]] = []
        for spec in specs:
            pattern, is_named, text = spec.rpartition("=")
            if is_named:
                self._patterns.insert(0, (pattern.removeprefix("%"), Distribution.parse(text)))
            else:
                self._default = Distribution.parse(text)

    def of(self, name: str) -> Distribution:
        """Return the distribution of a parameter or leaf by name."""
        return next((d for p, d in self._patterns if fnmatchcase(name, p)), self._default)

    def need_names(self, names: Sequence[str]) -> None:
        """Raise HloError unless each pattern matches one of the names."""
        for pattern, _ in self._patterns:
            if not any(fnmatchcase(name, pattern) for name in names):
                raise HloError.at(
                    "unknown-input", f"no parameter is called {pattern!r}",
                    hint=did_you_mean(pattern, names),
                )  # fmt: skip


def random_array(
    shape: ArrayShape,
    seed: Sequence[int],
    distribution: Distribution = Distribution(),
    domain: Domain | None = None,
) -> np.ndarray:
    """Return random elements of a shape, equal for equal seeds.

    Real and imaginary parts have the same distribution. f8e8m0fnu, which has only powers of two,
    gets some near 1 in place of normal numbers; pred is 0 or 1 with equal probability.
    """
    rng, et, dims = np.random.default_rng(seed), shape.element_type, shape.dims
    if et.is_pred:
        return rng.integers(0, 2, dims, dtype=np.uint8).astype(bool)
    if not distribution.uses_domain(et):
        domain = None
    if et.is_integer:
        return _integers(rng, shape, distribution, domain)
    if et.is_complex:
        part = complex_part(et)
        if distribution.kind == "large":
            return _large(rng, (*dims, 2), part).view(et.dtype)[..., 0]
        return _floats(rng, (*dims, 2), part.dtype, distribution, None).view(et.dtype)[..., 0]
    if distribution.kind == "large":
        return _large(rng, dims, et)
    if et.name == "f8e8m0fnu" and distribution.kind in ("safe", "normal"):
        return from_double(2.0 ** rng.integers(-3, 4, dims), et)
    wide = np.dtype(np.float64 if et.bits > 32 else np.float32)
    values = _floats(rng, dims, wide, distribution, domain)
    if distribution.kind == "range":
        limits = ml_dtypes.finfo(et.dtype)
        least = float(limits.smallest_normal) if et.name == "f8e8m0fnu" else float(limits.min)
        values = np.clip(values, least, float(limits.max))
    return np.asarray(values).astype(et.dtype)


def _large(rng: np.random.Generator, dims: tuple[int, ...], et: ElementType) -> np.ndarray:
    """Return normal numbers of a type, as many of each order of magnitude and of each sign."""
    limits = ml_dtypes.finfo(et.dtype)
    least, most = float(limits.smallest_normal), float(limits.max)
    # 2 to a logarithm that was rounded up would exceed the largest number.
    sizes = np.exp2(rng.uniform(np.log2(least), np.log2(most), dims)).clip(least, most)
    signs = 1 if et.name == "f8e8m0fnu" else rng.choice((-1.0, 1.0), dims)
    return from_double(sizes * signs, et)


def _floats(
    rng: np.random.Generator, dims: tuple[int, ...], dtype: np.dtype, distribution: Distribution,
    domain: Domain | None,
) -> np.ndarray:  # fmt: skip
    low, high = distribution.low, distribution.high
    if distribution.kind in ("safe", "normal"):
        if domain is None or math.isinf(domain.low) or math.isinf(domain.high):
            normal = np.asarray(rng.standard_normal(dims, dtype=dtype.type))
            if domain is None:
                return normal
            size = np.abs(normal)
            return np.asarray(
                dtype.type(domain.low) + size
                if math.isinf(domain.high)
                else dtype.type(domain.high) - size
            )
        low, high = domain.low, domain.high
    unit = np.asarray(rng.random(dims, dtype=dtype.type))
    # In doubles, as the width of a range may overflow the type.
    return np.asarray(low + unit.astype(np.float64) * (high - low)).astype(dtype)


def _integers(
    rng: np.random.Generator, shape: ArrayShape, distribution: Distribution, domain: Domain | None
) -> np.ndarray:
    et, dims = shape.element_type, shape.dims
    least, most = integer_range(et)
    low, high = distribution.integers(et)
    if distribution.kind == "range":
        low = max(math.ceil(distribution.low), least)
        high = min(math.floor(distribution.high), most)
        if low > high:
            text = f"{distribution.low:g}:{distribution.high:g}"
            raise HloError.at("bad-distribution", f"no {et} is in {text}")
    elif domain is not None:
        ends = _ends(domain)
        # A domain that the type cannot represent is ignored.
        if max(ends[0], least) <= min(ends[1], most):
            low, high = max(ends[0], least), min(ends[1], most)
    if high < _INTEGERS and low >= 0:
        return rng.integers(low, high + 1, dims, dtype=np.uint8).astype(et.dtype)
    wide = np.dtype(np.uint64 if high > np.iinfo(np.int64).max else np.int64)
    return rng.integers(low, high, dims, dtype=wide.type, endpoint=True).astype(et.dtype)


def _ends(domain: Domain) -> tuple[int, int]:
    """Return the ends of a domain of integers; a half-open one gets the usual width."""
    if math.isinf(domain.low):
        high = math.floor(domain.high)
        return high - _INTEGERS + 1, high
    low = math.ceil(domain.low)
    return low, low + _INTEGERS - 1 if math.isinf(domain.high) else math.floor(domain.high)
