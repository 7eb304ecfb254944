"""Options that need others, or cannot be combined with some."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

import click
from click.core import ParameterSource


class Option(click.Option):
    """An option that says which others it requires or excludes.

    requires: options of which one has to be given. excludes: options that must not be. Each is a
    name, or a name and a value: `--backend gpu-emulated`.
    """

    def __init__(
        self, *args: Any, requires: str | Sequence[str] = (), excludes: Sequence[str] = (),
        **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(*args, **settings)
        self.requires = (requires,) if isinstance(requires, str) else tuple(requires)
        self.excludes = tuple(excludes)

    @property
    def long_name(self) -> str:
        """The name that messages have."""
        return max(self.opts, key=len)


class Choice(click.Choice):
    """One of some words; the error for another word suggests the closest.

    lists: the option that lists the words, where they are too many for an error.
    """

    def __init__(self, choices: Sequence[str], lists: str = "", **settings: Any) -> None:
        super().__init__(choices, **settings)
        self._lists = lists

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as e:
            close = difflib.get_close_matches(str(value).lower(), self.choices, n=1)
            message = e.message
            if self._lists:
                message = f"{value!r} is unknown; {self._lists} shows all."
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise click.BadParameter(message + hint, ctx, param) from None


def check_combinations(ctx: click.Context, params: Sequence[click.Parameter]) -> None:
    """Raise UsageError for an option without one that it requires, or with one it excludes."""
    for option in params:
        if isinstance(option, Option) and _is_given(ctx, option):
            name, required = option.long_name, option.requires
            if required and not any(_holds(ctx, params, other) for other in required):
                raise click.UsageError(f"{name} requires {_one_of(required)}.", ctx)
            for other in option.excludes:
                if _holds(ctx, params, other):
                    raise click.UsageError(f"{name} excludes {other}.", ctx)


def _one_of(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _holds(ctx: click.Context, params: Sequence[click.Parameter], condition: str) -> bool:
    """Return whether an option was given, or has the value of a condition."""
    name, _, value = condition.partition(" ")
    option = next(p for p in params if isinstance(p, click.Option) and name in p.opts)
    if not value:
        return _is_given(ctx, option)
    actual = ctx.params.get(option.name or "")
    return value in actual if isinstance(actual, tuple) else value == actual


def _is_given(ctx: click.Context, option: click.Option) -> bool:
    name = option.name or ""
    if ctx.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
        return False
    value = ctx.params.get(name)
    if not option.is_flag:
        return value not in (None, ())
    # Several flags may have one name, each with a value of its own.
    return value is True if option.is_bool_flag else value == option.flag_value
