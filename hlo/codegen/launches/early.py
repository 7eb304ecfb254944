"""The order of a block's commands for a GPU: scalars as early as they can be computed.

A launch after that stores them beside its own work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from hlo.codegen.entry.commands import Command, ComputeScalar, UseConstant
from hlo.ir import Instruction


def with_early_scalars(
    commands: Sequence[Command], reads: Callable[[Instruction], Iterable[Instruction]]
) -> list[Command]:
    """Return commands in an order in which each scalar follows what it is computed from.

    reads: the instructions whose stored values a scalar is computed from.
    """
    after: dict[int, list[Command]] = {}
    # The number of the command after which the value of an instruction is there.
    there: dict[Instruction, int] = {}
    for number, command in enumerate(commands):
        if isinstance(command, ComputeScalar):
            place = max([there.get(inst, -1) for inst in reads(command.inst)], default=-1)
            there[command.inst] = place
            after.setdefault(place, []).append(command)
        elif not isinstance(command, UseConstant):
            there[command.inst] = number
    order = after.get(-1, [])
    for number, command in enumerate(commands):
        if not isinstance(command, ComputeScalar):
            order += [command, *after.get(number, ())]
    return order
