"""Numbers that say which thread of a launch did something, and when."""

from __future__ import annotations

import numpy as np


class Stamps:
    """The numbers of a launch's threads at each epoch: `base + epoch * threads + thread`."""

    def __init__(self, base: int, threads: int) -> None:
        self.base, self.threads = base, threads

    def thread(self, stamp: np.ndarray) -> np.ndarray:
        return (stamp - self.base) % self.threads

    def after(self, epochs: int) -> int:
        """Return the first number after those of so many epochs."""
        return self.base + (epochs + 1) * self.threads
