"""Python functions that programs of JAX call while they run on the plug-in.

JAX emits such calls for platforms that it knows, numbers their functions in each module, and hands
them to XLA. Here numbers are unique in the process. What JAX lowered keeps a function alive, and so
does what is compiled from that: `give_functions` puts it into the module.
"""

from __future__ import annotations

import dataclasses
import itertools
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hlo.jax.private.callbacks import Emit, replace_buffer_rule, replace_emitter
from hlo.pjrt import calls

# A program without calls needs neither.
if TYPE_CHECKING:
    from hlo.frontends.jax_callbacks import Callback
    from hlo.ir import Module

_numbers = itertools.count()
_known: weakref.WeakValueDictionary[int, Callback] = weakref.WeakValueDictionary()
_platforms: set[str] = set()


def install(platform: str) -> None:
    """Have JAX lower calls of Python for a platform, and what is compiled there call them."""
    if platform not in _platforms:
        _platforms.add(platform)
        replace_emitter(lambda emit: emitter(emit, platform))
        replace_buffer_rule(lambda rule: emitter(rule, platform))
        calls.register_giver(give_functions)


def emitter(emit: Emit, platform: str) -> Emit:
    """Return what emits calls of Python for a platform, and for others does what `emit` does.

    emit: JAX's own function. For the CPU it emits what is needed here: a call with tokens and
    shardings, and a function that checks results.
    """

    def emit_call(ctx: Any, *args: Any, **options: Any) -> tuple[Any, Any, Any]:
        context = ctx.module_context
        if tuple(context.platforms) != (platform,):
            return emit(ctx, *args, **options)
        return emit(dataclasses.replace(ctx, module_context=_AsCpu(context)), *args, **options)

    return emit_call


def give_functions(module: Module) -> None:
    """Give a module the functions that it calls. It keeps them alive, and so does its code.

    A call whose number is another process's gets none: running it is an error.
    """
    from hlo.frontends.jax_callbacks import give_callbacks

    give_callbacks(module, lambda: _known)


class _AsCpu:
    """The context of a module that JAX lowers, as if it were for the CPU."""

    platforms = ("cpu",)

    def __init__(self, context: Any) -> None:
        self._context = context
        # JAX takes the number of the last function from their count.
        self.host_callbacks = range(0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def get_backend(self, optional: bool = False) -> None:
        """Return no client: only the calls of other platforms need one."""

    def add_host_callback(self, function: Callable[..., Any]) -> None:
        """Number a function, and have what is lowered keep it alive."""
        from hlo.frontends.jax_callbacks import Callback

        callback = Callback(next(_numbers), function)
        _known[callback.number] = callback
        self._context.add_keepalive(callback)
        self.host_callbacks = range(callback.number + 1)
