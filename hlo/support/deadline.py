"""How long a run may take, and the error of one that takes longer."""

from __future__ import annotations

import time

from hlo.errors import HloError
from hlo.support.signature import need

# A century.
_MOST_SECONDS = 3e9


def check_timeout(timeout: float) -> None:
    """Raise TypeError or ValueError unless these are seconds that a run may take."""
    need(timeout, float | int, "timeout")
    if not 0 < timeout < _MOST_SECONDS:
        raise ValueError(f"timeout: {timeout} seconds, it takes a positive number")


def late(name: str, timeout: float) -> HloError:
    """Return the error of a program, by name, that has taken longer."""
    return HloError.at("timeout", f"{name} had not finished after {timeout:g} s")


class Deadline:
    """A moment, so many seconds from now, at which a program is to have come to its end.

    Raises TypeError or ValueError for seconds that are none.
    """

    __slots__ = ("_end", "_name", "_seconds")

    def __init__(self, name: str, seconds: float) -> None:
        check_timeout(seconds)
        self._name, self._seconds = name, seconds
        self._end = time.monotonic() + seconds

    def check(self) -> None:
        """Raise HloError, code `timeout`, if the moment has passed."""
        if time.monotonic() >= self._end:
            raise late(self._name, self._seconds)
