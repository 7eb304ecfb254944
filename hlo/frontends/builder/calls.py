"""Calls of a builder: arguments as annotations have them, errors at the caller's line."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ParamSpec, TypeVar

from hlo.errors import HloError, InferError, TextError
from hlo.frontends.builder.call_site import Unnamed, call_site, error_here
from hlo.support.signature import fitted_arguments

_P = ParamSpec("_P")
_R = TypeVar("_R")


def query(method: Callable[_P, _R]) -> Callable[_P, _R]:
    """Mark a method that appends nothing: its errors name the caller's line."""

    @functools.wraps(method)
    def checked(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            given, named = fitted_call(method, args, kwargs)
            return method(*given, **named)
        except Unnamed as e:
            raise e.named(method.__name__) from None
        except (InferError, TextError, HloError) as e:
            raise error_here(e) from None

    return checked


def fitted_call(
    method: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Return all arguments of a method as its annotations have them. Raises Unnamed."""
    try:
        return fitted_arguments(method, args, kwargs)
    except HloError as e:
        (what,), here = e.diagnostics, call_site()
        code, hint = next((v for k, v in _NEEDED.items() if k in what.message), (what.code, None))
        raise Unnamed([replace(what, code=code, span=here, hint=hint)]) from None


# What to say besides where one of these is needed.
_NEEDED = {
    "an XlaOp": ("type-mismatch", "constant() makes one from a number"),
    "XlaComputation": (
        "bad-computation", "a function from handles to a handle, or what build() returns"),
    "a Shape": ("type-mismatch", "a text such as 'f32[2,3]' is one"),
}  # fmt: skip
