"""The launch plan: what the host does to run a program on a GPU, as data.

A program is PTX (or another machine's code) with kernels, and steps that launch them. All kernels
take addresses only: scalars lie in memory of the device, where kernels read and write them, so the
host waits for the device only where a loop or a branch asks for a value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from hlo.gpu.work import NOTHING, Work

# Memory begins at a multiple of it: kernels rely on that.
ALIGNMENT = 256


class Region(Enum):
    """Which memory of the device a place is in; `number` tells arguments and results apart."""

    ARGUMENT = "argument"
    RESULT = "result"
    ARENA = "arena"
    CONSTANTS = "constants"
    SCALARS = "scalars"
    COUNTERS = "counters"


@dataclass(frozen=True)
class Place:
    """Memory of the device: `offset` bytes from the beginning of a region."""

    region: Region
    offset: int = 0
    number: int = 0

    def after(self, offset: int) -> Place:
        """Return the place so many bytes further on."""
        return Place(self.region, self.offset + offset, self.number) if offset else self

    def __str__(self) -> str:
        number = self.number if self.region in (Region.ARGUMENT, Region.RESULT) else ""
        return f"{self.region.value}{number}+{self.offset}"


@dataclass(frozen=True)
class Launch:
    """Runs a kernel: a grid of `blocks` blocks of `threads` threads.

    kernel: its name in the code. shared_bytes: dynamic shared memory of a block. places: whose
    addresses it is called with. instruction: the HLO that it computes, by name. work: what that
    takes, for estimates.
    """

    kernel: str
    blocks: int
    threads: int
    places: tuple[Place, ...]
    shared_bytes: int = 0
    instruction: str = ""
    work: Work = NOTHING


@dataclass(frozen=True)
class Copy:
    """Copies memory of the device."""

    target: Place
    source: Place
    size: int


@dataclass(frozen=True)
class While:
    """Runs `condition`, and as long as the byte at `flag` is not 0 then, `body`, then again.

    trips: how many times the body runs, where that is known: then `condition` is not run and the
    host need not wait. never_ends: what is wrong with a loop that would never end, or nothing.
    """

    condition: tuple[Step, ...]
    flag: Place
    body: tuple[Step, ...]
    trips: int | None = None
    never_ends: str = ""


@dataclass(frozen=True)
class Switch:
    """Runs one of several branches, by an integer of 32 bits; the last, if it is out of range."""

    index: Place
    branches: tuple[tuple[Step, ...], ...]


@dataclass(frozen=True)
class HostCall:
    """Runs what cannot run on the device: number `number` of the program's calls of the host.

    operands, results: places and sizes in bytes of the array leaves, one after the other.
    """

    number: int
    operands: tuple[tuple[Place, int], ...]
    results: tuple[tuple[Place, int], ...]


Step = Launch | Copy | While | Switch | HostCall


@dataclass
class LaunchPlan:
    """A program for a GPU, but for its code.

    arguments, results: bytes of each array leaf. constants: pieces of the constants' memory, each
    at its offset, `constant_bytes` in all. aliases: pairs of a result and an argument, by number,
    that share memory: the argument's content is in the result's memory when the program begins.
    counter_bytes: memory that is 0 when a run begins, and that each launch leaves so, unless it
    fails; blocks of a launch count there which of them is the last.
    """

    steps: tuple[Step, ...]
    arguments: tuple[int, ...]
    results: tuple[int, ...]
    arena_bytes: int
    scalar_bytes: int
    constant_bytes: int
    constants: list[tuple[int, np.ndarray]] = field(default_factory=list)
    aliases: tuple[tuple[int, int], ...] = ()
    counter_bytes: int = 0

    @property
    def memory_bytes(self) -> int:
        """Memory of the device that a run takes, for arguments and results, too."""
        arrays = sum(self.arguments) + sum(self.results)
        shared = sum(self.results[result] for result, _ in self.aliases)
        own = self.arena_bytes + self.scalar_bytes + self.constant_bytes + self.counter_bytes
        return arrays - shared + own

    def all_steps(self) -> Iterator[Step]:
        """Yield every step once, those of loops and branches before them."""
        return walk(self.steps)

    @property
    def launches(self) -> list[Launch]:
        """The launches, each once, however often loops run them."""
        return [step for step in self.all_steps() if isinstance(step, Launch)]


def walk(steps: Sequence[Step]) -> Iterator[Step]:
    """Yield every step once, those of loops and branches before them."""
    for step in steps:
        if isinstance(step, While):
            yield from walk(step.condition)
            yield from walk(step.body)
        elif isinstance(step, Switch):
            for branch in step.branches:
                yield from walk(branch)
        yield step


def places_of(step: Step) -> tuple[Place, ...]:
    """Return the places that a step itself names, but for the steps in it."""
    match step:
        case Launch():
            return step.places
        case Copy():
            return step.target, step.source
        case While():
            return (step.flag,)
        case Switch():
            return (step.index,)
        case HostCall():
            return tuple([place for place, _ in (*step.operands, *step.results)])
