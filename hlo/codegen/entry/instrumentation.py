"""What measuring and tracing programs do besides: code around the commands of an entry function.

An `Instrumentation` is told of each command while the entry function is written, and writes code
of its own there through `entry.b`. Functions that kernels apply to elements have none.

Data leaves by symbols that this code refers to. `called` has the addresses of functions and arrays
in this process, which `hlo.runtime.executable.Executable` resolves when it loads the code; `ir` has
functions in LLVM IR that are compiled with the program. Programs without instrumentation are byte
for byte the same as if there were no such thing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hlo.codegen.entry.commands import Block, Command, Loop
    from hlo.codegen.entry.state import EntryState


class Instrumentation:
    """Code around the commands of an entry function; this one writes none.

    `before` and `after` enclose the code of a command, with that of the blocks inside a loop or
    conditional. Where they are called, `entry.pointers` and `entry.scalars` have the values that
    exist there. Values of one block are not visible in another: what has to last is in memory.
    """

    # Functions, in LLVM IR, that the code calls.
    ir: str = ""
    # Whether functions have their names in object code, which then shares nothing with other code.
    keeps_names: bool = False

    @property
    def called(self) -> Mapping[str, int]:
        """Addresses in this process of functions and data, by the symbol in the code."""
        return {}

    def begin(self, entry: EntryState) -> None:
        """Write the prologue of the function: parameters have addresses, nothing is computed."""

    def enter(self, entry: EntryState, block: Block) -> None:
        """Write what precedes the commands of a computation, each time that it runs."""

    def before(self, entry: EntryState, command: Command) -> None:
        """Write what precedes the code of a command."""

    def command(self, entry: EntryState, command: Command, emit: Callable[[], None]) -> None:
        """Write a command, by `emit`; a call without results may be left out, or in a branch."""
        emit()

    def after(self, entry: EntryState, command: Command) -> None:
        """Write what follows the code of a command, whose results exist now."""

    def leave(self, entry: EntryState, block: Block) -> None:
        """Write what follows the commands of a computation."""

    def iteration(self, entry: EntryState, loop: Loop) -> None:
        """Write what precedes the body of a loop, once its condition was true."""

    def body(self, entry: EntryState, loop: Loop, emit: Callable[[], None]) -> None:
        """Write the body of a loop, by `emit`, which may be called for several versions of it."""
        emit()

    def end(self, entry: EntryState) -> None:
        """Write the epilogue, when all results are in memory."""
