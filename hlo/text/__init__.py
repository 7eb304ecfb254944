"""HLO text: `parse` and the printer."""

from hlo.ir import Module
from hlo.text.parser import parse
from hlo.text.printer import PrintOptions, print_computation, print_instruction, print_module

__all__ = ["PrintOptions", "parse", "print_computation", "print_instruction", "print_module"]

Module.to_text = print_module
Module.from_text = parse
