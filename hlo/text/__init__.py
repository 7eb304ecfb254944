"""HLO text: `parse` and `print_module`."""

from hlo.text.parser import parse
from hlo.text.printer import PrintOptions, print_module

__all__ = ["PrintOptions", "parse", "print_module"]
