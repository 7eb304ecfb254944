"""HLO text: `parse` and the printer."""

from hlo.frontends.text.parser import parse
from hlo.frontends.text.printer import (
    PrintOptions,
    print_computation,
    print_instruction,
    print_module,
)
from hlo.ir import Computation, Instruction, Module

__all__ = ["PrintOptions", "parse", "print_computation", "print_instruction", "print_module"]

Module.to_text = print_module
Module.from_text = parse
Computation.to_text = print_computation
Instruction.to_text = print_instruction


def __dir__() -> list[str]:
    return sorted(__all__)
