"""Arguments of the library's functions, checked against the types that their signatures state.

The annotations of a public function state its argument types; `fitted_arguments` converts to them
before the function runs. Integers become Python's, sequences tuples; anything else is an error that
names function and argument. Python checks the number of arguments.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import reprlib
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from operator import index
from typing import Any, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from hlo.errors import HloError
from hlo.support.interop import array_of

_P = ParamSpec("_P")
_R = TypeVar("_R")
Fit = Callable[[Any], Any]
_MISFIT = object()
_INTEGERS = range(-(2**63), 2**63)


def fitted_arguments(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Convert arguments to the types in the annotations of a function.

    Raises HloError (`type-mismatch`), without a location, for one that does not fit.
    """
    names, hints, rest, any_name = _signature(function)
    if (len(args) > len(names) and not rest) or not (any_name or hints.keys() >= kwargs.keys()):
        return list(args), dict(kwargs)  # Python's own error names the superfluous ones
    given = [_fitted(n, a, hints) for n, a in zip(names, args, strict=False)]
    named = {name: _fitted(name, value, hints) for name, value in kwargs.items()}
    return [*given, *args[len(names) :]], named


def checked(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a function so that arguments that do not fit raise a TypeError."""

    name = function.__qualname__.removesuffix(".__init__")

    @functools.wraps(function)
    def wrapper(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            given, named = fitted_arguments(function, args, kwargs)
        except HloError as e:
            raise TypeError(f"{name}: {e.diagnostics[0].message}") from None
        return function(*given, **named)

    return wrapper


def need(value: Any, hint: Any, name: str) -> None:
    """Raise TypeError unless a value is of a type; `name` names it in the error."""
    try:
        fitted(value, hint, name)
    except HloError as e:
        raise TypeError(e.diagnostics[0].message) from None


@functools.cache
def _signature(function: Callable[..., Any]) -> tuple[list[str], dict[str, Any], bool, bool]:
    """Return positional parameters, the converter of each parameter, whether there is `*args`, and
    whether there is `**kwargs`."""
    parameters = inspect.signature(function).parameters
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    hints = get_type_hints(function)
    names = [name for name, p in parameters.items() if p.kind in positional]
    has_rest = any(p.kind is p.VAR_POSITIONAL for p in parameters.values())
    any_name = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    return names, {name: hints.get(name, Any) for name in parameters}, has_rest, any_name


def need_each(function: str, **arguments: tuple[Any, Any]) -> None:
    """Raise TypeError unless each argument of a function, by name, is of the type beside it."""
    for name, (value, needed) in arguments.items():
        need(value, needed, f"{function}: {name}")


def _fitted(name: str, value: Any, hints: Mapping[str, Any]) -> Any:
    return fitted(value, hints.get(name, Any), name)


def fitted(value: Any, hint: Any, name: str) -> Any:
    """Convert one value to a type. Raises HloError, as for arguments; `name` names it."""
    found = _fit(hint)(value)
    if found is _MISFIT:
        raise HloError.at("type-mismatch", f"{name} is {shown(value)}, {_words(hint)} is needed")
    return found


# --- one value ----------------------------------------------------------------------------------


@functools.cache
def _fit(hint: Any) -> Fit:
    """Return a function that converts a value to a type hint, or returns `_MISFIT`."""
    origin, args = get_origin(hint), get_args(hint)
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    if origin in (Union, types.UnionType):
        return functools.partial(_any_of, tuple(map(_fit, args)))
    if origin is Sequence:
        return functools.partial(_each, _fit(args[0]))
    if origin is tuple and args[-1] is not ...:
        return functools.partial(_tuple, tuple(map(_fit, args)))
    if origin is tuple:
        return functools.partial(_each, _fit(args[0]))
    if origin is Mapping:
        return functools.partial(_mapping, _fit(args[0]), _fit(args[1]))
    if isinstance(hint, TypeVar):
        return _fit(hint.__bound__ if isinstance(hint.__bound__, type) else Any)
    if origin is Callable:
        return lambda value: value if callable(value) else _MISFIT
    if isinstance(hint, type) and is_dataclass(hint) and _is_plain(hint):
        return functools.partial(_record, hint)
    return lambda value: value if isinstance(value, origin or hint) else _MISFIT


def _is_plain(record: Any) -> bool:
    """True for plain records of numbers, which check nothing themselves: not shapes or hosts."""
    is_frozen: bool = record.__dataclass_params__.frozen
    checks_itself = hasattr(record, "__post_init__")
    return is_frozen and not checks_itself and not record.__module__.startswith("hlo.values.types")


def _integer(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.ndim:
        return _MISFIT
    try:
        number = index(value)
    except TypeError:
        return _MISFIT
    return number if number in _INTEGERS else _MISFIT


def _real(value: Any) -> Any:
    is_number = isinstance(value, (int, float, np.integer, np.floating))
    return value if is_number and not isinstance(value, bool) else _MISFIT


def _array(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value
    found = array_of(value, "an array")
    return _MISFIT if found is None else found


def _any_of(arms: Sequence[Fit], value: Any) -> Any:
    return next((found for arm in arms if (found := arm(value)) is not _MISFIT), _MISFIT)


def _elements(value: Any) -> Sequence[Any] | None:
    """Return the elements of a sequence or an array; None for anything else."""
    if isinstance(value, np.ndarray):
        return list(value) if value.ndim else None
    return value if isinstance(value, Sequence) and not isinstance(value, (str, bytes)) else None


def _each(fit: Fit, value: Any) -> Any:
    elements = _elements(value)
    if elements is None:
        return _MISFIT
    found = tuple(map(fit, elements))
    return _MISFIT if any(f is _MISFIT for f in found) else found


def _tuple(fits: Sequence[Fit], value: Any) -> Any:
    """Convert the elements of a tuple; the function itself checks their number."""
    elements = _elements(value)
    if elements is None:
        return _MISFIT
    found = tuple(fit(e) for fit, e in zip(itertools.cycle(fits), elements, strict=False))
    return _MISFIT if any(f is _MISFIT for f in found) else found


def _mapping(key: Fit, value_of: Fit, value: Any) -> Any:
    if not isinstance(value, Mapping):
        return _MISFIT
    found = {key(k): value_of(v) for k, v in value.items()}
    return _MISFIT if _MISFIT in found or any(v is _MISFIT for v in found.values()) else found


def _record(hint: type, value: Any) -> Any:
    """Return an instance of a dataclass with converted fields."""
    if not isinstance(value, hint):
        return _MISFIT
    declared = _fields(hint).items()
    return value if all(fit(getattr(value, n)) is not _MISFIT for n, fit in declared) else _MISFIT


@functools.cache
def _fields(record: type) -> dict[str, Fit]:
    hints = get_type_hints(record)
    return {f.name: _fit(hints[f.name]) for f in fields(record) if f.init}


_SIMPLE: dict[Any, Fit] = {
    Any: lambda value: value,
    types.NoneType: lambda value: value if value is None else _MISFIT,
    np.ndarray: _array,
    int: _integer,
    float: _real,
    bool: lambda value: bool(value) if isinstance(value, (bool, np.bool_)) else _MISFIT,
    str: lambda value: value if isinstance(value, str) else _MISFIT,
}

# --- words --------------------------------------------------------------------------------------

_NAMES = {int: "an integer", float: "a number", bool: "True or False", str: "a string"}
_PLURALS = {int: "integers", float: "numbers", bool: "True and False", str: "strings"}


def _words(hint: Any) -> str:
    """Describe a type hint in words."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(_words(a) for a in args if a is not types.NoneType)
    if origin is Sequence or origin is tuple:
        return f"a sequence of {_plural(args[0])}" if origin is Sequence else _pair(args)
    if origin is Mapping:
        return f"a mapping of {_plural(args[0])} to {_plural(args[1])}"
    if origin is Callable:
        return "a function"
    name = hint.__name__
    return _NAMES.get(hint, f"{'an' if name[0] in 'AEIOX' else 'a'} {name}")


def _plural(hint: Any) -> str:
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(map(_plural, args))
    if origin is Sequence:
        return f"sequences of {_plural(args[0])}"
    if origin is tuple:
        return f"{len(args)} {_plural(args[0])} each"
    if origin is Callable:
        return "functions"
    name = hint.__name__
    return _PLURALS.get(hint, f"{name}{'es' if name.endswith('x') else 's'}")


def _pair(args: Sequence[Any]) -> str:
    return f"a tuple of {'' if args[-1] is ... else f'{len(args)} '}{_plural(args[0])}"


class _Short(reprlib.Repr):
    """The repr of a value, truncated if long or deeply nested."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxother = 3, 60, 60

    def repr_int(self, x: int, level: int) -> str:
        # Converting a huge number to decimal would take minutes.
        return repr(x) if x.bit_length() <= 128 else f"<integer of {x.bit_length()} bits>"


def shown(value: Any) -> str:
    """Return a short repr of any value of any size, for error messages."""
    return " ".join(_SHORT.repr(value).split())


_SHORT = _Short()
