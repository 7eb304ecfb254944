"""Functions that programs call by the target of a custom call."""

from __future__ import annotations

from typing import Any

_FUNCTIONS: dict[str, Any] = {}


def register(target: str, function: Any) -> None:
    """Have programs that are compiled from now on call a Python function, `f(op, args) -> value`.

    function: as a value of `hlo.Host.custom_calls`: also functions on arrays by number.
    """
    _FUNCTIONS[target] = function


def functions() -> dict[str, Any]:
    """Return the functions that are registered, by target."""
    return dict(_FUNCTIONS)
