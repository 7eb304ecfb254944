"""Constant values: text to numpy and back, exact to the bit."""

from hlo.dense import brace_pairs
from hlo.literal.reader import read_literal
from hlo.literal.value import Literal, write_literal

__all__ = ["Literal", "brace_pairs", "read_literal", "write_literal"]


def __dir__() -> list[str]:
    return sorted(__all__)
