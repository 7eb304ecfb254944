"""The difference of two modules as data: changes, their patterns, and what they cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hlo.analysis.cost import Cost
from hlo.analysis.matching import Matching
from hlo.analysis.simulation.machine import Machine
from hlo.debug.difference.changes import KINDS, Change
from hlo.debug.difference.costs import Costs
from hlo.debug.difference.details import Detail
from hlo.ir import Module


@dataclass(frozen=True)
class Pattern:
    """The same thing that happened in several places.

    words: what happened. places: the changes of each place. cost, seconds: what all of them cost
    more on the right in a run.
    """

    words: str
    places: Sequence[Sequence[Change]]
    cost: Cost
    seconds: float

    @property
    def weight(self) -> tuple[float, int, int, int]:
        """What patterns are sorted by: estimated time, then operations, bytes and places."""
        work = self.cost.operations + self.cost.transcendentals
        return abs(self.seconds), abs(work), abs(self.cost.bytes), len(self.places)


@dataclass(frozen=True)
class Record:
    """What changed from one module to another. False if nothing did.

    Names, and the order of instructions and computations, are no difference; nor is a computation
    that several instructions share on one side and each have a copy of on the other.

    Attributes:
        left, right: the modules. names: what reports call them. matching: which of their
            instructions are the same.
        header: what differs between the headers, but for the module's name.
        changes: the differences, an instruction each.
        patterns: the changes, those of one rewrite together, and those that repeat, as one; what
            costs or saves most first.
        costs: what the instructions of both cost.
    """

    left: Module
    right: Module
    names: tuple[str, str]
    matching: Matching
    header: Sequence[Detail]
    changes: Sequence[Change]
    patterns: Sequence[Pattern]
    costs: Costs

    def __bool__(self) -> bool:
        return bool(self.header or self.changes)

    @property
    def machine(self) -> Machine:
        """What times are estimated for."""
        return self.costs.machine

    @property
    def totals(self) -> tuple[Cost, Cost]:
        """The costs of a run of each module."""
        return self.costs.totals

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of changes of each kind."""
        return {kind: sum(c.kind == kind for c in self.changes) for kind in KINDS}

    @property
    def summary(self) -> str:
        """The number of changes of each kind in words."""
        parts = [f"{n} {kind}" for kind, n in self.counts.items() if n]
        if self.header:
            parts.append(f"{len(self.header)} in the header")
        return ", ".join(parts) or "no difference"

    @property
    def more(self) -> Cost:
        """What a run costs more on the right."""
        return self.totals[1] + self.totals[0].times(-1)

    @property
    def seconds(self) -> float:
        """An estimate of how much longer a run takes on the right, by the changed instructions."""
        return sum(p.seconds for p in self.patterns)

    @property
    def elsewhere(self) -> Cost:
        """The part of `more` that is not of changed instructions: of loops that run more often, and
        of fusions that access more memory because of what is inside."""
        total = self.more
        for change in self.changes:
            total += change.cost.times(-1)
        return total
