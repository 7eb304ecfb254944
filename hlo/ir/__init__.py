"""The IR: modules of computations of instructions. Data and invariants; independent of opcodes."""

from hlo.ir.computation import Computation
from hlo.ir.instruction import Instruction
from hlo.ir.module import Module, need_module

__all__ = ["Computation", "Instruction", "Module", "need_module"]


def __dir__() -> list[str]:
    return sorted(__all__)
