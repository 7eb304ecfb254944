"""Nesting of arguments and results in the program that a module was converted from.

Parameters and results of such a module are the leaves, in order. Callers pass the program's
arguments or their leaves, and get the program's result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class Trees(Protocol):
    """The nesting of a program's arguments and of its result; `hlo.from_jax` creates one."""

    # The number of parameters and results of the module.
    parameters: int
    results: int

    def leaves(self, args: Sequence[Any], named: Mapping[str, Any]) -> list[Any] | None:
        """Return a value for each parameter; None if the arguments already are leaves.

        Raises HloError for arguments that are nested differently.
        """
        ...

    def result(self, leaves: Sequence[Any]) -> Any:
        """Return the program's result, from one value for each result of the module."""
        ...


def given_by(trees: Trees | None, value: Any) -> Any:
    """Return the result of a run, nested as in the program."""
    if trees is None:
        return value
    return trees.result(value if isinstance(value, tuple) else (value,))
