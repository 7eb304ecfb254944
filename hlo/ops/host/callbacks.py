"""Calls of Python functions that JAX puts into a program, each with a number.

Such a call, of `jax.pure_callback` for example, names one target for all functions, and the
function by `index` in its configuration: the functions themselves stay in the process that made the
program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from hlo.errors import HloError, InferError
from hlo.ops.host.ffi_attributes import ffi_attributes
from hlo.ops.spec import OpView
from hlo.support.user_code import definition, located, takes
from hlo.values.arrays import TOKEN_VALUE, actual
from hlo.values.types import TupleShape

# XLA's targets for CPUs and GPUs.
_NAMES = ("python_cpu_callback", "python_gpu_callback")
# In front of the names of JAX's modules: where an exception passed through them says nothing.
_JAX = "jax."

Functions = Mapping[int, Callable[..., Any]]
_NONE: Functions = MappingProxyType({})


def is_callback(target: str) -> bool:
    """Return whether a target of custom calls stands for functions in Python."""
    return any(name in target for name in _NAMES)


def is_callback_on_shards(target: str) -> bool:
    """Return whether a target stands for functions that each device calls on its shards."""
    return is_callback(target) and "partitioned" in target


def index_of(op: OpView) -> int | None:
    """Return the number of the function that a call is of, None for a call without one."""
    try:
        index = ffi_attributes(op).get("index")
    except InferError:
        return None
    return index.value if index is not None and isinstance(index.value, int) else None


def callback_target(op: OpView, functions: Functions) -> Callable[..., Any]:
    """Return the function `f(op, args)` of a call, from functions on arrays by number.

    functions: `f(*arrays)`, without the call's tokens, which returns an array, or a tuple where the
    call has another number of results; None stands for an empty one. Their exceptions become
    InferErrors that have them as their cause. Raises InferError if there is none for the call.
    """
    function = functions.get(index_of(op))  # type: ignore[arg-type]
    if function is None:
        raise missing_callback(op, functions)

    def run(op: OpView, args: Sequence[Any]) -> Any:
        arrays = [_read_only(a) for a in args if a is not TOKEN_VALUE]
        try:
            value = function(*arrays)
        except (HloError, InferError, MemoryError):
            raise
        except (Exception, SystemExit) as e:
            reason = f"failed: {located(e, skipped=_JAX)}"
            if isinstance(e, TypeError) and not takes(function, len(arrays)):
                reason = f"is called with {len(arrays)} arrays: {definition(function)}: {e}"
            raise InferError(f"custom-call: {_said(op)} {reason}", code="custom-call-failed") from e
        return _with_tokens(op, value)

    return run


def _read_only(value: Any) -> Any:
    """Return a view of an array through which the program's memory cannot be changed."""
    view = np.asarray(actual(value)).view()
    view.flags.writeable = False
    return view


def missing_callback(op: OpView, functions: Functions = _NONE) -> InferError:
    """Return the error of a call whose function is not among those that are known."""
    target = op.custom_call_target
    index = index_of(op)
    if index is None:
        form = f"{{{target!r}: f}}, where f(op, args) returns the results"
    else:
        form = f"{{{target!r}: {{{index}: f}}}}, where f(*arrays) returns the results"
    known = ", ".join(map(str, functions))
    return InferError(
        f"custom-call: {_said(op)} is a Python function of the process that made the module"
        + (f", and those of numbers {known} are given" if known else ""),
        attr="custom_call_target", code="unknown-custom-call",
        hint=f"give it: hlo-run --load FILE.py, in which custom_calls = {form}; or "
        "Host(custom_calls=...) in Python",
    )  # fmt: skip


def _said(op: OpView) -> str:
    """Return what names a call's function: `callback 2 of jit(f)/pure_callback`."""
    index, metadata = index_of(op), op.annotations.get("metadata")
    said = f"the function of {op.custom_call_target!r}" if index is None else f"callback {index}"
    return f"{said} of {metadata.op_name}" if metadata is not None and metadata.op_name else said


def _with_tokens(op: OpView, value: Any) -> Any:
    """Return what a function returned as the value of its call, which may have tokens."""
    shapes = op.shape.elements if isinstance(op.shape, TupleShape) else (op.shape,)
    count = sum(not s.is_token for s in shapes)
    if value is None:
        value = ()
    elif not isinstance(value, tuple) and (count == 1 or not isinstance(value, list)):
        value = (value,)
    if len(value) != count:
        raise InferError(
            f"custom-call: {_said(op)} returned {len(value)} results, the call has {count}",
            code="bad-value",
        )
    results = iter(value)
    values = tuple(TOKEN_VALUE if s.is_token else next(results) for s in shapes)
    return values if isinstance(op.shape, TupleShape) else values[0]
