"""Where the arguments of a call are nested differently than those of the program, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# Keys of a dictionary that are listed.
_KEYS = 6


class _Array:
    """Stands for an array in the nesting of a program's arguments."""


ARRAY = _Array()


def mismatch(
    given: tuple[Sequence[Any], Mapping[str, Any]],
    needed: tuple[Sequence[Any], Mapping[str, Any]],
    names: Sequence[str] = (),
) -> str:
    """Return the first difference of two calls: their positional arguments, and those by name.

    needed: with ARRAY for each array. names: of the positional arguments, as far as known.
    """
    (ours, named), (theirs, other_named) = given, needed
    if len(ours) != len(theirs) or named.keys() != other_named.keys():
        wanted = [*(names or map(str, range(len(theirs))))][: len(theirs)]
        return (
            f"the call has {_call(len(ours), named)}; "
            f"the function was lowered for {_call(len(theirs), other_named)}"
            + (f" ({', '.join(wanted)})" if names and len(ours) != len(theirs) else "")
        )
    for n, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if found := _difference(a, b, names[n] if n < len(names) else f"argument {n}"):
            return found
    for name, value in named.items():
        if found := _difference(value, other_named[name], name):
            return found
    return "the arguments are nested differently than those the function was lowered for"


def _call(count: int, named: Mapping[str, Any]) -> str:
    text = f"{count} argument{'' if count == 1 else 's'} by position"
    return f"{text} and {', '.join(named)} by name" if named else text


def _difference(given: Any, needed: Any, path: str) -> str:
    """Return where two values differ in their nesting, or nothing."""
    if isinstance(needed, dict) and isinstance(given, dict):
        if given.keys() == needed.keys():
            pairs = [(given[k], needed[k], f"{path}[{k!r}]") for k in needed]
            return next(filter(None, (_difference(*p) for p in pairs)), "")
    elif isinstance(needed, tuple | list) and type(given) is type(needed):
        if len(given) == len(needed):
            each = enumerate(zip(given, needed, strict=True))
            names = getattr(needed, "_fields", None)
            pairs = [
                (a, b, f"{path}.{names[n]}" if names else f"{path}[{n}]") for n, (a, b) in each
            ]
            return next(filter(None, (_difference(*p) for p in pairs)), "")
    elif needed is ARRAY and not isinstance(given, dict | tuple | list | None):
        return ""
    elif needed is None and given is None:
        return ""
    elif type(given) is type(needed):
        return ""  # of a type that only JAX can look into
    return f"{path} is {_words(given)}, {_words(needed)} is needed"


def _words(value: Any) -> str:
    if value is None:
        return "None"
    if isinstance(value, dict):
        keys = [repr(k) for k in value]
        more = [f"and {len(keys) - _KEYS} more"] if len(keys) > _KEYS else []
        return f"a dictionary of {', '.join([*keys[:_KEYS], *more]) or 'nothing'}"
    if isinstance(value, tuple | list):
        kind = type(value).__name__
        article = "an" if kind[0].lower() in "aeiou" else "a"
        return f"{article} {kind} of {len(value)}"
    if value is ARRAY or hasattr(value, "dtype") or isinstance(value, int | float | complex):
        return "an array"
    kind = type(value).__name__
    return f"{'an' if kind[0].lower() in 'aeiou' else 'a'} {kind}"
