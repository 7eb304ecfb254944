"""Constant values: text to numpy and back, exact to the bit."""

from hlo.literal.reader import read_literal
from hlo.literal.value import Literal
from hlo.literal.writer import write_literal

__all__ = ["Literal", "read_literal", "write_literal"]
