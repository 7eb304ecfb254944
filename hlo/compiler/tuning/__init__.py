"""Measuring which of equivalent ways is the fastest on this machine, and keeping what was found."""

from hlo.compiler.tuning.record import Tuning, read_tuning
from hlo.compiler.tuning.search import tune

__all__ = ["Tuning", "read_tuning", "tune"]


def __dir__() -> list[str]:
    return sorted(__all__)
