"""Numbers and tables as text."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hlo.support.quantities import bytes_text as bytes_text
from hlo.support.quantities import count_text as count_text


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
