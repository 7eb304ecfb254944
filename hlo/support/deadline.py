"""Time limits of runs, and their error."""

from __future__ import annotations

import time

from hlo.errors import HloError
from hlo.support.signature import need

# About a century.
_MOST_SECONDS = 3e9


def check_timeout(timeout: float) -> None:
    """Raise TypeError or ValueError for an invalid time limit in seconds."""
    need(timeout, float | int, "timeout")
    if not 0 < timeout < _MOST_SECONDS:
        raise ValueError(f"timeout: {timeout} seconds, it takes a positive number")


def late(name: str, timeout: float) -> HloError:
    """Return the error of a program, by name, that exceeded its time limit."""
    return HloError.at("timeout", f"{name} had not finished after {timeout:g} s")


class Deadline:
    """The time, so many seconds from now, by which a program has to finish.

    Raises TypeError or ValueError for an invalid number of seconds.
    """

    __slots__ = ("_end", "_name", "_seconds")

    def __init__(self, name: str, seconds: float) -> None:
        check_timeout(seconds)
        self._name, self._seconds = name, seconds
        self._end = time.monotonic() + seconds

    def check(self) -> None:
        """Raise HloError, code `timeout`, if the time has passed."""
        if time.monotonic() >= self._end:
            raise late(self._name, self._seconds)
