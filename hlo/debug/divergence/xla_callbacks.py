"""The Python functions that a program calls on XLA: XLA ends the process where one is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hlo.errors import InferError
from hlo.eval.interpreter import error_at
from hlo.host import Host
from hlo.ir import Instruction, Module
from hlo.ops.host.callbacks import index_of, is_callback
from hlo.ops.host.custom import find_target
from hlo.values.arrays import TOKEN_VALUE


def callbacks_of(module: Module, host: Host) -> list[Callable[..., Any]]:
    """Return the functions of a module's callbacks by number, as XLA takes them.

    Raises HloError for a call without a function.
    """
    found: dict[int, Callable[..., Any]] = {}
    for inst in module.instructions():
        if inst.opcode == "custom-call" and is_callback(inst.custom_call_target):
            try:
                target = find_target(inst, host, lambda op: None)
            except InferError as e:
                raise error_at(inst, e) from None
            found[index_of(inst) or 0] = _in_xla(inst, target)
    return [found.get(n, _not_called) for n in range(max(found, default=-1) + 1)]


def _not_called(*_: Any) -> Any:
    raise AssertionError("no call has this number")


def _in_xla(inst: Instruction, target: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that takes and returns the values of a call, flat, tokens as None."""

    def run(*values: Any) -> tuple[Any, ...]:
        try:
            result = target(inst, [TOKEN_VALUE if v is None else v for v in values])
        except InferError as e:
            raise error_at(inst, e) from e.__cause__
        results = result if isinstance(result, tuple) else (result,)
        return tuple(None if v is TOKEN_VALUE else v for v in results)

    return run
