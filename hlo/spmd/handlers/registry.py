"""How operations are partitioned: a function for each that has more to it than its factors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hlo.ir import Instruction
from hlo.spmd.builder import SpmdBuilder
from hlo.spmd.mesh import PartitionSpec
from hlo.spmd.value import Value

Wanted = Sequence[PartitionSpec]
"""The spec that each leaf of the result is going to have."""

Handler = Callable[[SpmdBuilder, Instruction, Sequence[Value], Wanted], Value]
"""Appends what the devices do for an instruction of the program, and returns its value.

The value may have another spec than the wanted one, whatever costs least: the caller changes its
distribution afterwards.
"""

HANDLERS: dict[str, Handler] = {}


def handles(*opcodes: str) -> Callable[[Handler], Handler]:
    """Register the handler of operations."""

    def register(handler: Handler) -> Handler:
        for opcode in opcodes:
            assert opcode not in HANDLERS, opcode
            HANDLERS[opcode] = handler
        return handler

    return register
