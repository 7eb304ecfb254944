"""How `hlo-run` shows results: literals, a table of what is in large ones, and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# Results of more elements are shown by what is in them.
_SHOWN_ELEMENTS = 16
# JSON has the literals of results of up to so many elements, unless all are asked for.
_JSON_ELEMENTS = 100


def shown(results: Mapping[str, Any]) -> str:
    """Return a line for each small result, and a table of the others."""
    from hlo.io.files import literal_text

    small = {name: value for name, value in results.items() if _is_short(value, _SHOWN_ELEMENTS)}
    lines = [f"{name} = {literal_text(value)}\n" for name, value in small.items()]
    large = {name: value for name, value in results.items() if name not in small}
    return "".join(lines) + (_table(large) if large else "")


def _is_short(value: Any, most: int) -> bool:
    """True for a result of few elements, and of few braces around none."""
    from hlo.values.literal import brace_pairs

    return (value.size or brace_pairs(value.shape)) <= most


def _table(results: Mapping[str, Any]) -> str:
    """Return what is in results, a line for each."""
    from hlo.testing.summary import summarize

    rows = [["name", "shape", "min", "max", "mean", "NaN", "inf"]]
    for name, value in results.items():
        found = summarize(value)
        numbers = ["-" if n is None else f"{n:.6g}" for n in (found.low, found.high, found.mean)]
        rows.append([name, found.shape, *numbers, str(found.nans), str(found.infinities)])
    # Names and shapes begin, numbers end in a column.
    return "".join(line + "\n" for line in aligned(rows, begin=2))


def aligned(rows: Sequence[Sequence[str]], begin: int) -> list[str]:
    """Return the lines of a table. Its first `begin` columns are aligned left, the others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            text.ljust(width) if n < begin else text.rjust(width)
            for n, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


def entries(results: Mapping[str, Any], literals: bool | None) -> list[dict[str, Any]]:
    """Return a JSON object for each result.

    literals: whether their elements are in it; None for those of small ones.
    """
    from hlo.io.files import literal_text
    from hlo.testing.summary import summarize

    found = []
    for name, value in results.items():
        s = summarize(value)
        entry = {
            "name": name, "shape": s.shape, "dtype": str(value.dtype), "dims": list(value.shape),
            "min": s.low, "max": s.high, "mean": s.mean, "nan": s.nans, "inf": s.infinities,
        }  # fmt: skip
        if literals or (literals is None and _is_short(value, _JSON_ELEMENTS)):
            entry["literal"] = literal_text(value)
        found.append(entry)
    return found
