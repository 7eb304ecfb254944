"""The commands of an entry function, in order: one record for each kernel, copy, loop and branch.

The buffers of all of them are known, so that emission makes no decisions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hlo.codegen.entry.buffers import Buffer
from hlo.codegen.entry.kernel_plans import KernelPlan
from hlo.codegen.loops.kernel import Inputs
from hlo.codegen.plan.liveness import Path, Storage
from hlo.ir import Computation, Instruction
from hlo.values.types import ArrayShape


@dataclass(frozen=True)
class Copy:
    """Copies an array between two buffers."""

    source: Buffer
    target: Buffer
    shape: ArrayShape


@dataclass(frozen=True)
class StoreScalar:
    """Writes a scalar to a buffer."""

    value: Storage
    target: Buffer
    shape: ArrayShape


Move = Copy | StoreScalar


@dataclass(frozen=True)
class ComputeScalar:
    """Computes a scalar in registers."""

    inst: Instruction


@dataclass(frozen=True)
class UseConstant:
    """Begins the use of a constant, which has a buffer of its own."""

    inst: Instruction
    buffer: Buffer


@dataclass(frozen=True)
class KernelCall:
    """Runs the kernels of an instruction in sequence.

    moves: copies of operands that are updated in place to the results, before the call. buffers:
    those of the results, then those that are read; offsets: where in each of them, in bytes.
    results: the number of each result's buffer among them. scratch: workspace of this call.
    tables: offsets of the plan's tables in the constants.
    """

    inst: Instruction
    plan: KernelPlan
    moves: tuple[Move, ...]
    buffers: tuple[Buffer, ...]
    offsets: tuple[int, ...]
    results: tuple[int, ...]
    inputs: Inputs
    scratch: tuple[Buffer, ...]
    tables: tuple[int, ...]


@dataclass(frozen=True)
class HostCall:
    """Runs an instruction outside. results: buffers of its array leaves, scalars included."""

    inst: Instruction
    results: Mapping[Path, Buffer]


@dataclass(frozen=True)
class Block:
    """The commands of a computation."""

    comp: Computation
    commands: tuple[Command, ...]

    def all_commands(self) -> Iterator[Command]:
        """Yield every command once, loops and branches before what is inside of them."""
        for command in self.commands:
            yield command
            if isinstance(command, Loop):
                yield from command.condition.all_commands()
                yield from command.body.all_commands()
            elif isinstance(command, Branches):
                for branch, _ in command.branches:
                    yield from branch.all_commands()


@dataclass(frozen=True)
class Loop:
    """A `while` whose arrays stay in the buffers of its state.

    enter: moves of the initial values. carry: moves of the values that an iteration has computed.
    """

    inst: Instruction
    enter: tuple[Copy, ...]
    condition: Block
    body: Block
    carry: tuple[Copy, ...]


@dataclass(frozen=True)
class Branches:
    """A `conditional`. branches: each with the moves of its results to the common buffers."""

    inst: Instruction
    branches: tuple[tuple[Block, tuple[Copy, ...]], ...]


Command = ComputeScalar | UseConstant | KernelCall | HostCall | Loop | Branches
