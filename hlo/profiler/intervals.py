"""Medians with confidence intervals that assume nothing of how times are distributed.

The interval of a median is between two of the sorted values, whose ranks follow from the binomial
distribution alone. Times have outliers on one side, which a mean would follow; a minimum says what
the machine can do once, not what a run takes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A median and its confidence interval. count: of values; with too few there is no bound."""

    value: float
    low: float
    high: float
    count: int

    @property
    def spread(self) -> float:
        """Half the width of the interval, as a fraction of the value."""
        return (self.high - self.low) / 2 / self.value if self.value else 0.0


def estimate(values: Sequence[float], confidence: float = CONFIDENCE) -> Estimate:
    """Return the median of positive values with its confidence interval."""
    ordered, count = sorted(values), len(values)
    rank = _rank(count, confidence)
    if rank is None:
        return Estimate(median(ordered), 0.0, math.inf, count)
    return Estimate(median(ordered), ordered[rank], ordered[count - 1 - rank], count)


def _rank(count: int, confidence: float) -> int | None:
    """Return the largest k so that the median is between the k-th smallest and largest values.

    Counted from 0; None if there are too few values for the confidence.
    """
    # By Hoeffding's inequality ranks below this have less than exp(-800), which no float has.
    first = max(0, count // 2 - 20 * math.isqrt(count))
    outside, found = 0.0, None
    for k in range(first, count // 2):
        outside += math.exp(_log_probability(count, k))
        if 2 * outside > 1 - confidence:
            break
        found = k
    return found


def _log_probability(count: int, k: int) -> float:
    """Return the logarithm of the probability of `k` heads in `count` throws of a fair coin."""
    ways = math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(count - k + 1)
    return ways - count * math.log(2)
