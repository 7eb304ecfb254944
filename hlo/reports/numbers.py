"""Numbers and tables as text."""

from __future__ import annotations

from collections.abc import Collection, Sequence


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


def table(rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> list[str]:
    """Return rows of cells as lines with aligned columns, indented by two.

    left: the numbers of the columns that are aligned to the left.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  "
        + "  ".join(
            cell.ljust(width) if n in left else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
