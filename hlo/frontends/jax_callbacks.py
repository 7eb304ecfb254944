"""The Python functions that a program of JAX calls while it runs: `jax.pure_callback` and others.

The program has a custom call for each, with a number; what JAX lowered has the functions. They have
JAX's checks of results around them already.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hlo.frontends.jax_buffers import on_buffers, takes_buffers
from hlo.ir import Instruction, Module
from hlo.ops.host.callbacks import index_of, is_callback

Function = Callable[..., Any]


class Callback:
    """A function that `hlo.jax.callbacks` gave a number; what JAX lowered keeps it alive."""

    def __init__(self, number: int, function: Function) -> None:
        self.number, self._function = number, function

    def __call__(self, *args: Any) -> Any:
        """Call the function."""
        return self._function(*args)


def give_callbacks(module: Module, functions: Callable[[], Mapping[int, Function]]) -> None:
    """Give a module the functions for its calls of Python, which JAX numbered.

    functions: returns those that JAX has; it is called if the module has such calls. A call without
    a function stays so: running it is an error.
    """
    calls = [
        inst
        for inst in module.instructions()
        if inst.opcode == "custom-call" and is_callback(inst.custom_call_target)
    ]
    if not calls:
        return
    found = functions()
    for call in calls:
        number = index_of(call)
        if number is not None and number in found:
            known = module.custom_calls.setdefault(call.custom_call_target, {})
            made = on_buffers if takes_buffers(call.custom_call_target) else _on_arrays
            known[number] = made(call, found[number])


def functions_of(program: Any) -> Mapping[int, Function]:
    """Return the functions of what JAX lowered or compiled, by number.

    JAX has no public interface to them; without the known private one there are none.
    """
    lowering = getattr(program, "_lowering", None)
    compiled = getattr(getattr(program, "_executable", None), "_unloaded_executable", None)
    found = getattr(lowering, "compile_args", None)
    if found is None:
        found = {k: getattr(compiled, k, None) for k in ("host_callbacks", "keepalive")}
    functions: dict[int, Function] = dict(enumerate(found.get("host_callbacks") or ()))
    kept = [c for c in found.get("keepalive") or () if isinstance(c, Callback)]
    return functions | {c.number: c for c in kept}


def _on_arrays(call: Instruction, function: Function) -> Function:
    """Return a function of JAX without the token that those of ordered effects take and return."""
    is_ordered = any(s.is_token for s in call.operand_shapes)

    def run(*arrays: Any) -> tuple[Any, ...]:
        results = function(None, *arrays)[1:] if is_ordered else function(*arrays)
        return tuple(map(_value, results))

    return run


def _value(result: Any) -> Any:
    """Return a result as the program has it: derivatives of integers, float0, are false."""
    import jax

    array = np.asarray(result)
    return np.zeros(array.shape, bool) if array.dtype == jax.dtypes.float0 else array
