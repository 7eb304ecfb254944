"""How JAX emits calls of Python functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Emit = Callable[..., tuple[Any, Any, Any]]


def replace_emitter(made: Callable[[Emit], Emit]) -> None:
    """Have JAX emit calls of Python by what `made` makes of its own function for that.

    `emit_python_callback` refuses platforms that it does not know. It is public as
    `jax.interpreters.mlir.emit_python_callback`, but nothing registers another one, and JAX's rules
    look it up in the module `jax._src.callback`.
    """
    import jax._src.callback
    import jax.interpreters.mlir

    emit = made(jax._src.callback.emit_python_callback)
    jax._src.callback.emit_python_callback = emit
    jax.interpreters.mlir.emit_python_callback = emit


def replace_buffer_rule(made: Callable[[Emit], Emit]) -> None:
    """Have JAX lower `buffer_callback` by what `made` makes of its own rule for that.

    `mlir.register_lowering` is public; the primitive and its rule, which knows XLA's platforms
    alone, are not.
    """
    import jax._src.buffer_callback
    from jax.interpreters import mlir

    own = jax._src.buffer_callback
    mlir.register_lowering(own.buffer_callback_p, made(own._buffer_callback_lowering))
