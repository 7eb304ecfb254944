"""What notebooks show of programs that are called: their parameters and results."""

from __future__ import annotations

from collections.abc import Sequence

from hlo.io.arguments import Parameter, named_leaves
from hlo.support.notebook import ROWS, block, paragraph, table
from hlo.values.types import Shape


def program_html(title: str, parameters: Sequence[Parameter], result: Shape) -> str:
    """Return a line about a program, and a table of the arrays that it takes and returns."""
    rows = [("parameter", name, str(s)) for p in parameters for _, name, s in p.leaves()]
    results = [("result", name, str(s)) for name, s, _ in named_leaves(result)]
    # Some of both, where there are many.
    most = max(ROWS - len(results), ROWS // 2)
    shown = (rows[:most] + results)[:ROWS]
    content = table(["", "name", "shape"], shown, left=(0, 1, 2), count=len(rows) + len(results))
    return block(paragraph(title), content)
