"""What the library's functions take for a module: a module, a file's name, a program of JAX."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from hlo.ir import Module

_P = ParamSpec("_P")
_R = TypeVar("_R")


def takes_programs(
    function: Callable[Concatenate[Module, _P], _R],
) -> Callable[Concatenate[Any, _P], _R]:
    """Decorate a function of a module so that it takes what `module_of` does.

    The arguments of a call, if the function has such (`*args`), are those of a function of JAX.
    """
    parameters = inspect.signature(function).parameters
    calls = any(p.kind is p.VAR_POSITIONAL for p in parameters.values())
    (first, *_) = parameters

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> _R:
        if args and not isinstance(args[0], Module):
            given, call = args[0], args[1:] if calls else ()
            named = {k: v for k, v in kwargs.items() if k not in parameters} if calls else {}
            module = module_of(given, call, named, calls=calls)
            if _is_function(given) and (call or named):
                from hlo.frontends.jax import as_jax_reads

                call, named = as_jax_reads((call, named))
                args, kwargs = (given, *call), kwargs | named
            args = (module, *args[1:])
        elif first in kwargs and not isinstance(kwargs[first], Module):
            kwargs[first] = module_of(kwargs[first])
        return function(*args, **kwargs)

    return wrapper


def module_of(
    given: Any, args: Sequence[Any] = (), named: Mapping[str, Any] = {}, *, calls: bool = False
) -> Any:
    """Return the module that is given, in one of these forms; anything else as it is.

    given: a module; the name of a file, as of `hlo.load`; what `trace`, `lower` or `compile` of a
    jitted function of JAX returned, or an exported one; or, where it is called (`calls`), a
    function of JAX with its arguments. Raises HloError, and TypeError for a function without
    arguments that needs some.
    """
    if isinstance(given, Module):
        return given
    if isinstance(given, str | Path) and not _is_text(given):
        from hlo.frontends.sources import read_module
        from hlo.io.module_files import read_file

        return read_module(*read_file(given))
    if _is_stage(given):
        from hlo.frontends.jax import from_jax

        return from_jax(given)
    if not calls or not _is_function(given):
        return given
    if not args and not named and _needs_arguments(given):
        name = getattr(given, "__name__", "the function")
        raise TypeError(
            f"{name} has arguments whose shapes are not known: pass jax.jit({name}).lower(*args)"
        )
    from hlo.frontends.jax import from_jax

    return from_jax(given, *args, **named)


def _is_text(given: str | Path) -> bool:
    """True for a module's text, which `hlo.parse` is for."""
    return isinstance(given, str) and (given.startswith("HloModule") or "\n" in given)


def _is_stage(given: Any) -> bool:
    """True for what JAX makes of a function and its arguments."""
    stages = ("Traced", "Lowered", "Compiled", "Exported")
    return type(given).__module__.startswith("jax.") and type(given).__name__ in stages


def _is_function(given: Any) -> bool:
    return callable(given) and not isinstance(given, type) and not _is_stage(given)


def _needs_arguments(function: Callable[..., Any]) -> bool:
    """True for a function that cannot be called without arguments, as far as Python knows."""
    try:
        inspect.signature(function).bind()
    except TypeError:
        return True
    except ValueError:
        return False
    return False
