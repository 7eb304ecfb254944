"""Numbers that say which thread of a launch did something, and when."""

from __future__ import annotations

import numpy as np


class Stamps:
    """The numbers of a launch's threads at each epoch: `base + epoch * threads + thread`.

    numbers: of blocks, in the order in which they run; None for 0, 1, 2, ...
    """

    def __init__(self, base: int, threads: int, numbers: np.ndarray | None = None) -> None:
        self.base, self.threads, self._numbers = base, threads, numbers

    def thread(self, stamp: np.ndarray) -> np.ndarray:
        return (stamp - self.base) % self.threads

    def epoch(self, stamp: np.ndarray) -> np.ndarray:
        return (stamp - self.base) // self.threads

    def block(self, position: int) -> int:
        """Return the number of a block, by its position in the order in which blocks run."""
        return position if self._numbers is None else int(self._numbers[position])

    def blocks(self, positions: np.ndarray) -> np.ndarray:
        """Return the numbers of blocks at positions."""
        return positions if self._numbers is None else self._numbers[positions]

    def after(self, epochs: int) -> int:
        """Return the first number after those of so many epochs."""
        return self.base + (epochs + 1) * self.threads
