"""Constant values: text to numpy and back, exact to the bit."""

from hlo.values.dense import brace_pairs
from hlo.values.literal.reader import read_literal
from hlo.values.literal.value import Literal, write_literal

__all__ = ["Literal", "brace_pairs", "read_literal", "write_literal"]


def __dir__() -> list[str]:
    return sorted(__all__)
