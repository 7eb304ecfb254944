"""Quantities with units, and settings `name=value,...`, as command lines spell them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from hlo.errors import HloError, did_you_mean

_NUMBER = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([A-Za-z/]*)$")
# Beyond any machine; within, products and quotients with counts of 64 bits stay finite.
_MOST = 1e30
_PREFIXES = {
    "n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
    "P": 1e15, "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40,
}  # fmt: skip


def read_settings(text: str, flag: str, known: Mapping[str, object]) -> dict[str, str]:
    """Return the values of `name=value,name=value`, by name with underscores for dashes.

    flag: what the text is of, in errors. Raises HloError for a name that is not known, or given
    twice.
    """
    found: dict[str, str] = {}
    for part in text.split(","):
        if not part.strip():
            continue
        name, sign, value = (p.strip() for p in part.partition("="))
        key = name.replace("-", "_")
        if not sign or not value:
            raise HloError.at("bad-value", f"{flag}: {part.strip()!r} is not NAME=VALUE")
        if key not in known:
            names = [k.replace("_", "-") for k in known]
            hint = did_you_mean(name, names) or f"one of {', '.join(names)}"
            raise HloError.at("bad-value", f"{flag}: unknown setting {name}", None, hint)
        if key in found:
            raise HloError.at("bad-value", f"{flag}: {name} is given twice")
        found[key] = value
    return found


def read_quantity(text: str, unit: str, what: str) -> float:
    """Return a number in a unit such as `B/s`; `50GB/s`, `50G` and `50e9` are equal.

    what: what has this value, in errors. Raises HloError for what is no finite number of at least
    0, in another unit, or beyond any machine: above 1e30, or between 0 and 1e-30.
    """
    m = _NUMBER.match(text.strip())
    if m is not None:
        prefix = m[2].removesuffix(unit) if m[2].endswith(unit) else m[2]
        value = float(m[1]) * _PREFIXES[prefix] if prefix in _PREFIXES else math.nan
        if value > _MOST or 0 < value < 1 / _MOST:
            raise HloError.at(
                "bad-value", f"{what}: {text!r} is beyond any machine",
                hint=f"numbers are 0, or between {1 / _MOST:g} and {_MOST:g}",
            )  # fmt: skip
        if value >= 0:
            return value
    kind = f"a number of {unit}" if unit else "a number"
    hint = f"for example 20{'u' if unit == 's' else 'G'}{unit}" if unit else None
    raise HloError.at("bad-value", f"{what}: {text!r} is not {kind}", None, hint)


def read_positive(text: str, unit: str, what: str) -> float:
    """Return a number in a unit as `read_quantity` does; raises HloError for 0 as well."""
    value = read_quantity(text, unit, what)
    if not value:
        raise HloError.at("bad-value", f"{what} must be more than 0 {unit}".rstrip())
    return value


def read_count(text: str, least: int, most: int, what: str) -> int:
    """Return a whole number in a range; raises HloError for all else."""
    if not text.isdecimal() or not least <= int(text) <= most:
        raise HloError.at(
            "bad-value", f"{what}: {text!r} is not a whole number from {least} to {most}"
        )
    return int(text)


def quantity_text(value: float, unit: str) -> str:
    """Return a number of at most four digits with a decimal prefix and its unit."""
    if not value:
        return f"0 {unit}"
    steps = ("n", "u", "m", "", "k", "M", "G", "T", "P")
    at = min(max(math.floor(math.log10(abs(value)) / 3) + 3, 0), len(steps) - 1)
    number = f"{value / 1000.0 ** (at - 3):.4g}"
    # 999.96 in one unit is 1 in the next.
    if number == "1000" and at + 1 < len(steps):
        at, number = at + 1, "1"
    return f"{number} {steps[at]}{unit}"


def count_text(n: int) -> str:
    """Return a count of at most four digits with its unit."""
    return _scaled(n, 1000, ("", "k", "M", "G", "T", "P"))


def bytes_text(n: int) -> str:
    """Return a number of bytes with its unit."""
    return _scaled(n, 1024, (" B", " KiB", " MiB", " GiB", " TiB", " PiB"))


def _scaled(n: int, step: int, units: tuple[str, ...]) -> str:
    value, at = float(n), 0
    while value >= step and at < len(units) - 1:
        value /= step
        at += 1
    return f"{value:.4g}{units[at]}" if at else f"{n}{units[0]}"
