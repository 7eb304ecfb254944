"""Codecs and attributes: the base classes; codecs of numbers, keywords and lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hlo.errors import TextError, did_you_mean
from hlo.values.scan import Scanner, escape


@dataclass(frozen=True)
class Codec:
    """How one kind of value is written. `read` moves a scanner past it; `write` is its inverse.

    may_be_empty: there is a value that is written as nothing. words: the values, where they are
    words of a list.
    """

    name: str
    read: Callable[[Scanner], Any]
    write: Callable[[Any], str]
    holds_computations: bool = False
    may_be_empty: bool = False
    words: tuple[str, ...] = ()

    def parse(self, text: str) -> Any:
        """Return the value that `text` spells. Raises TextError."""
        scanner = Scanner(text)
        value = self.read(scanner)
        scanner.end()
        return value


@dataclass(frozen=True)
class Attr:
    """An attribute of an operation: its codec, whether it is required, and what it is when absent.

    A value equal to the default is not printed, unless `always` is set.
    implied: what a text that leaves it out says, from the shapes of the operands.
    settled: what a written value means on operands of these shapes, where XLA takes several for
      one.
    spelled: the text, `key=value`, of values that are written under another key.
    """

    codec: Codec
    required: bool = False
    default: Any = None
    always: bool = False
    implied: Callable[[Sequence[Any]], Any] | None = None
    settled: Callable[[Any, Sequence[Any]], Any] | None = None
    spelled: Mapping[Any, str] = field(default_factory=dict)

    def prints(self, value: Any) -> bool:
        return value is not None and (self.always or self.required or value != self.default)


def need(codec: Codec) -> Attr:
    """Return a required attribute."""
    return Attr(codec, required=True)


# --- scalars ------------------------------------------------------------------------------------


def _write_float(value: float) -> str:
    """Print six digits, as XLA does, where they read back to the same number, and else all."""
    text = f"{value:g}"
    return text if float(text) == value else repr(value)


def shortest(value: float) -> float:
    """Return the number with the fewest digits that is this one in f32."""
    return float(str(np.float32(value)))


def _read_float32(s: Scanner) -> float:
    at = s.pos
    value = s.number()
    if np.isfinite(value) and abs(value) > float(np.finfo(np.float32).max):
        raise TextError(f"{value:g} is not a number of 32 bits", at, code="bad-value")
    return shortest(value)


# The largest of the fields that XLA keeps in 32 bits.
MAX_INT32 = 2**31 - 1
INT = Codec("integer", Scanner.integer, str)
INT32 = Codec("integer of 32 bits", lambda s: s.integer(-MAX_INT32 - 1, MAX_INT32), str)
NATURAL = Codec("integer from 0 on", lambda s: s.integer(0), str)
BOOL = Codec("true or false", Scanner.boolean, lambda v: "true" if v else "false")
FLOAT = Codec("number", Scanner.number, _write_float)
STRING = Codec("string", Scanner.string, lambda v: f'"{escape(v)}"')
FLOAT32 = Codec("number of 32 bits", _read_float32, _write_float)
INTS = Codec("{integers}", Scanner.integers, lambda v: "{" + ",".join(map(str, v)) + "}")


def enum(*names: str, any_case: bool = False) -> Codec:
    """Return the codec of a word out of `names`; the value is the word itself.

    any_case: the text may have it in upper or lower case, as XLA reads many such words.
    """
    by_folded = {name.lower(): name for name in names}

    def read(s: Scanner) -> str:
        at = s.pos
        word = s.ident("one of " + ", ".join(names))
        if any_case:
            word = by_folded.get(word.lower(), word)
        if word not in names:
            hint = did_you_mean(word, names) or "one of " + ", ".join(names)
            raise TextError(f"unknown value {word!r}", at, code="bad-value", hint=hint)
        return word

    return Codec("one of " + "|".join(names), read, str, words=names)


def listed(codec: Codec, separator: str = ",") -> Codec:
    """Return the codec of `{a,b,...}`; the value is a tuple, printed with `separator`."""

    def read(s: Scanner) -> tuple[Any, ...]:
        return tuple(codec.read(s) for _ in s.items())

    return Codec(
        "{" + codec.name + ",...}",
        read,
        lambda v: "{" + separator.join(map(codec.write, v)) + "}",
    )


BOOLS = listed(BOOL)
INT_GROUPS = listed(INTS)
"""`{{0,1},{2,3}}`."""
