"""A builder of LLVM IR: functions, blocks, values, structured loops.

What it makes are the records of `hlo.llvm`. Three things keep it small, and so keep LLVM's own time
short: integer arithmetic on known numbers is done here, an operation that is written twice where
the first dominates is written once (value numbering by scope), and addresses in loops over vectors
begin at starts that are computed before (`starts.py`).
"""

from hlo.codegen.llvm.builder import POLLED_COST, Builder, RareFlag, Turn
from hlo.codegen.llvm.module import ModuleBuilder
from hlo.codegen.llvm.values import (
    FALSE,
    TRUE,
    Index,
    Operand,
    Val,
    float_const,
    i32,
    i64,
    int_const,
    ptr,
)

__all__ = [
    "FALSE", "POLLED_COST", "TRUE", "Builder", "Index", "ModuleBuilder", "Operand",
    "RareFlag", "Turn", "Val", "float_const", "i32", "i64", "int_const", "ptr",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)
