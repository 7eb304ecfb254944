"""Native functions that programs register with `jax.ffi`, and call on the plug-in."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from hlo.jax.private import targets
from hlo.pjrt import calls

if TYPE_CHECKING:
    from hlo.ir import Module

_platforms: set[str] = set()


def install(platform: str) -> None:
    """Have what is compiled for a platform call functions that are registered for it or the CPU."""
    if platform not in _platforms:
        _platforms.add(platform)
        targets.take_cpu_types()
        calls.register_giver(partial(give_functions, platform))


def give_functions(platform: str, module: Module) -> None:
    """Give a module the functions of its custom calls that only JAX knows."""
    for inst in module.instructions():
        name = inst.custom_call_target if inst.opcode == "custom-call" else None
        if name is None or name in module.custom_calls or is_known(name):
            continue
        function = _function(platform, name)
        if function is not None:
            module.custom_calls[name] = function


def is_known(name: str) -> bool:
    """True for targets that need no function: those of this compiler, LAPACK's, and callbacks."""
    from hlo.ops.host.callbacks import is_callback
    from hlo.ops.host.custom_targets import builtin_target
    from hlo.ops.host.lapack_targets import is_lapack

    return builtin_target(name) is not None or is_lapack(name) or is_callback(name)


def _function(platform: str, name: str) -> Callable[..., Any] | None:
    from hlo.host import foreign
    from hlo.host.typed_ffi import TypedFunction

    found = targets.target(platform, name)
    if found is None:
        return None
    return TypedFunction(found) if isinstance(found, dict) else partial(foreign.call, found)
