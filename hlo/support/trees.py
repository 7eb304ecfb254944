"""How a program that a module was made of nests what it takes and gives.

Parameters and results of such a module are the leaves, in order. Who runs it may give either the
arguments of the program or its leaves, and gets the program's result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class Trees(Protocol):
    """The nesting of a program's arguments and of its result; `hlo.from_jax` makes one."""

    # How many parameters and results the module has to have.
    parameters: int
    results: int

    def leaves(self, args: Sequence[Any], named: Mapping[str, Any]) -> list[Any] | None:
        """Return a value for each parameter; None if the arguments are leaves already.

        Raises HloError for arguments that are nested in another way.
        """
        ...

    def result(self, leaves: Sequence[Any]) -> Any:
        """Return the program's result, of a value for each result of the module."""
        ...


def given_by(trees: Trees | None, value: Any) -> Any:
    """Return what a run gives, nested as the program does."""
    if trees is None:
        return value
    return trees.result(value if isinstance(value, tuple) else (value,))
