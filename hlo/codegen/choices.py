"""Where code generation may go several ways to the same results, and which it is told to go.

An estimate decides, as long as nobody has measured. A site is such a decision, under a key that
says what it depends on, so that equal sites of other modules are decided alike; its ways are named
by what they do. No way may change a result, not even by rounding: a sum is taken in one order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

Way = TypeVar("Way")


@dataclass
class Site:
    """A decision that was made: the names of its ways, the estimated best first, and who asked."""

    ways: tuple[str, ...]
    instructions: set[str] = field(default_factory=set)


class Choices:
    """The ways to go by site, and the sites at which there was a choice.

    Part of a target. Two are equal only if they are the same, since planning leaves sites behind.
    """

    def __init__(self, taken: Mapping[str, str] | None = None) -> None:
        """taken: the name of the way by the key of the site; others go the estimated best way."""
        self.taken = dict(taken or {})
        self.sites: dict[str, Site] = {}
        self._instruction = ""

    @contextmanager
    def of(self, instruction: str) -> Iterator[None]:
        """Note that what is chosen in this context is for an instruction, by name."""
        outer, self._instruction = self._instruction, instruction
        yield
        self._instruction = outer

    def choose(self, key: str, ways: Mapping[str, Way]) -> Way:
        """Return the way to go at a site. ways: by name, the estimated best first."""
        site = self.sites.setdefault(key, Site(tuple(ways)))
        site.instructions.add(self._instruction)
        first = next(iter(ways))
        return ways.get(self.taken.get(key, first), ways[first])
