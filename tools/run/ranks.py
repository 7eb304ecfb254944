"""What `hlo-run` does under `mpiexec`: one run on the devices of all ranks, told by rank 0."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from ..command_line.common import read_source

if TYPE_CHECKING:
    from hlo.errors import HloError
    from hlo.mpi.world import World

    from .outcome import Outcome

_T = TypeVar("_T")
# How much longer another rank than the first waits for the end of its time: the first says it.
_LATER_S = 5.0


def be_quiet_unless_first() -> None:
    """Lead the output of this process nowhere, unless it is the first rank or runs alone."""
    from hlo.mpi.library import launched_ranks

    if launched_ranks()[1] == 0 or _errors:
        return
    if sys.stderr is not None:
        _errors.append(os.dup(sys.stderr.fileno()))
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
            os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


# The standard error of a rank that is quiet.
_errors: list[int] = []


def _be_heard() -> None:
    """Undo that for standard error: the first rank is lost."""
    for kept in _errors:
        os.dup2(kept, sys.stderr.fileno())


@contextlib.contextmanager
def joined(
    devices_per_process: int | None, patience_s: float, show: Callable[[HloError], None]
) -> Iterator[World | None]:
    """Run with the other ranks, if a launcher has started some or devices are spoken of.

    Gives None where the process runs alone. show: shows the error that ends all ranks. Raises
    HloError.
    """
    from hlo.mpi.library import launched_ranks

    if launched_ranks()[0] == 1 and devices_per_process is None:
        yield None
        return
    from hlo.mpi.world import World

    def show_anyway(error: HloError) -> None:
        _be_heard()
        show(error)

    world = World(devices_per_process or 1, patience_s=patience_s, show=show_anyway)
    try:
        yield world
    except BaseException:
        # The launcher ends the other ranks, once it sees that this one has not ended well.
        world.abandon()
        raise
    world.close()


def time_for(seconds: float | None) -> float | None:
    """Return when the time of this rank is over, so that the first rank is the one to say so."""
    from hlo.mpi.library import launched_ranks

    return seconds if seconds is None or not launched_ranks()[1] else seconds + _LATER_S


def is_first(world: World | None) -> bool:
    """True where results are shown."""
    return world is None or world.rank == 0


def settled(world: World | None) -> AbstractContextManager[None]:
    """Have what fails on some ranks fail on all."""
    return nullcontext() if world is None else world.settled()


def all_of(world: World | None, values: Sequence[_T]) -> list[_T]:
    """Return the values of all ranks."""
    return list(values) if world is None else [v for own in world.everywhere(values) for v in own]


def source_of(world: World | None, file: str) -> tuple[bytes, str]:
    """Return what is in a file, and what errors are to call it.

    Standard input is that of the first rank.
    """
    if world is None:
        return read_source(file)
    with world.settled():
        found = read_source(file) if file != "-" or world.rank == 0 else None
    return world.from_first(found) if file == "-" else found  # type: ignore[return-value]


def worst(world: World | None, code: int) -> int:
    """Return the exit code of all ranks."""
    return max(all_of(world, [code]))


def collected(outcome: Outcome, world: World) -> Outcome:
    """Return at rank 0 what came of a run on all ranks, elsewhere what came of it there."""
    found = world.gathered(outcome)
    if found is None:
        return outcome
    rejected: dict[str, int] = {}
    whole = replace(outcome, results={}, outfeed={}, checks={}, arguments=[], whole=[],
                    whole_reference=[])  # fmt: skip
    for part in found:
        whole.results |= part.results
        whole.outfeed |= part.outfeed
        rejected |= part.rejected or {}
        for whose, checks in part.checks.items():
            whole.checks.setdefault(whose, {}).update(checks)
        whole.arguments = [*whole.arguments, *part.arguments]
        whole.whole = [*whole.whole, *part.whole]
        whole.whole_reference = [*whole.whole_reference, *part.whole_reference]
    if outcome.rejected is not None:
        whole.rejected = rejected
    return whole
