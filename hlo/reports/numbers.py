"""Numbers and tables as text."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hlo.support.quantities import bytes_text as bytes_text
from hlo.support.quantities import count_text as count_text


def percent_text(share: float) -> str:
    """Return a share as text; what is more than nothing is not 0 %."""
    return "< 1 %" if 0 < share < 0.005 else f"{100 * share:.0f} %"


def microseconds_text(seconds: float) -> str:
    """Return a time in microseconds, without the unit."""
    return f"{1e6 * seconds:.4g}" if seconds < 1e-2 else f"{1e6 * seconds:,.0f}"


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
