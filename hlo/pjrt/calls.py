"""Functions that programs call by the target of a custom call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hlo.host import Host
    from hlo.ir import Module

_FUNCTIONS: dict[str, Any] = {}
_GIVERS: list[Callable[[Module], None]] = []


def register(target: str, function: Any) -> None:
    """Have programs that are compiled from now on call a Python function, `f(op, args) -> value`.

    function: as a value of `hlo.Host.custom_calls`: also functions on arrays by number.
    """
    _FUNCTIONS[target] = function


def register_giver(give: Callable[[Module], None]) -> None:
    """Have `give(module)` called for each module before it is compiled from now on.

    It may set functions in `module.custom_calls`, which live as long as what is compiled.
    """
    _GIVERS.append(give)


def give_functions(module: Module) -> None:
    """Have those that are registered give a module its own functions."""
    for give in _GIVERS:
        give(module)


def functions() -> dict[str, Any]:
    """Return the functions that are registered, by target."""
    return dict(_FUNCTIONS)


def host() -> Host:
    """Return a host with the functions that are registered."""
    from hlo.host import Host

    return Host(custom_calls=functions())
