"""Functions that programs call by the target of a custom call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_FUNCTIONS: dict[str, Callable[..., Any]] = {}


def register(target: str, function: Callable[..., Any]) -> None:
    """Have programs that are compiled from now on call a Python function: `f(op, args) -> value`.

    It is called as of `hlo.Host.custom_calls`.
    """
    _FUNCTIONS[target] = function


def functions() -> dict[str, Callable[..., Any]]:
    """Return the functions that are registered, by target."""
    return dict(_FUNCTIONS)
