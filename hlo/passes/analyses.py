"""What passes have found out about a module, kept as long as it stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from hlo.analysis.congruence import Congruence
from hlo.analysis.effects import Effects

T = TypeVar("T")


class Analyses:
    """Results of analyses of one module, found when a pass first asks.

    A pass asks before it changes anything. The runner of pipelines gives the next pass the same
    ones if nothing was changed, and new ones otherwise: most passes of a pipeline that is repeated
    find nothing to do.
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, Any] = {}

    def of(self, key: Hashable, find: Callable[[], T]) -> T:
        """Return the result that a key stands for, by `find` if it is not known."""
        if key not in self._known:
            self._known[key] = find()
        found: T = self._known[key]
        return found

    @property
    def effects(self) -> Effects:
        """The side effects of instructions."""
        return self.of(Effects, Effects)

    @property
    def congruence(self) -> Congruence:
        """Which computations are equal."""
        return self.of(Congruence, Congruence)
