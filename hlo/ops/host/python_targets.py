"""Custom calls of functions in Python: the form `f(op, args)`, and the attributes that `op` has."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from typing import Any

from hlo.errors import InferError
from hlo.ops.host.ffi_attributes import ffi_values
from hlo.ops.spec import OpRecord, OpView
from hlo.support.user_code import definition, takes

FORM = (
    "a function for a custom call is f(op, args) -> result: op.attrs has the attributes, args is "
    "the list of operands as arrays"
)


def wrong_form(name: str, function: Callable[..., Any]) -> str:
    """Return what is wrong with a function that does not take two arguments."""
    form = f"{getattr(function, '__name__', name)}{inspect.signature(function)}"
    return f"{definition(function)}: the function of {name!r}, {form}, does not take (op, args)"


def python_target(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function of a custom call with typed attributes in `op.attrs`, by its own form."""

    def run(op: OpView, args: Sequence[Any]) -> Any:
        try:
            return function(_with_typed_attributes(op), args)
        except TypeError as e:
            name = op.custom_call_target
            if takes(function, 2):
                raise
            raise InferError(
                f"custom-call: {wrong_form(name, function)}",
                attr="custom_call_target", code="custom-call-failed", hint=FORM,
            ) from e  # fmt: skip

    return run


def _with_typed_attributes(op: OpView) -> OpView:
    """Return an operation whose `attrs` also have those in its `backend_config`.

    These are Python values: `backend_config={by = 2 : i32}` gives `attrs["by"] == 2`, unless an
    attribute of HLO has the name; `attrs["backend_config"]` is the dictionary, or the text of what
    is neither MLIR's nor JSON's. Raises InferError for a typed call without a dictionary.
    """
    if "backend_config" not in op.annotations:
        return op
    text = str(op.annotations["backend_config"])
    config: Any = text
    if text.startswith("{"):
        try:
            config = ffi_values(op)
        except InferError:
            config = _json(text)
            if config is None and op.api_version == _TYPED:
                raise
    values = config if isinstance(config, dict) else {}
    attrs = {**values, **op.attrs, "backend_config": text if config is None else config}
    return OpRecord.of(op, op.operand_shapes, attrs)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


_TYPED = "API_VERSION_TYPED_FFI"
