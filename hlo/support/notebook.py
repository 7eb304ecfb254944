"""HTML that notebooks show of objects: `_repr_html_`.

Notebooks strip scripts and style sheets from it, so all style is inline. What comes from modules
is escaped here, by each function that takes text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape

# Lines of text and rows of tables that are shown; the rest is a count.
LINES = 60
ROWS = 20
_WIDTH = 200


def block(*parts: str) -> str:
    """Return HTML parts, one below the other."""
    return f"<div>{''.join(parts)}</div>"


def paragraph(text: str) -> str:
    """Return a line of text."""
    return f"<p>{escape(cut(text, 4 * _WIDTH))}</p>"


def fold(summary: str, content: str) -> str:
    """Return HTML that opens by a click on a line of text."""
    return f"<details><summary>{escape(cut(summary))}</summary>{content}</details>"


def listing(lines: Iterable[str], more: str = "") -> str:
    """Return lines of code; more: a line of what was left out."""
    shown = [*map(cut, lines), *([more] if more else [])]
    text = escape("\n".join(shown))
    return f'<pre style="overflow-x:auto;max-height:40em">{text}</pre>'


def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, left: Collection[int] = (0,),
    count: int | None = None,
) -> str:  # fmt: skip
    """Return a table, without the columns that are empty in all rows; "" without rows.

    left: the numbers of the columns that are text; the others are numbers. count: of rows, if there
    are more than `rows` has.
    """
    shown = list(rows)
    if not shown:
        return ""
    kept = [n for n in range(len(head)) if any(row[n] for row in shown)]
    styles = {n: f"text-align:{'left' if n in left else 'right'}" for n in kept}

    def line(tag: str, cells: Sequence[str]) -> str:
        inner = (f'<{tag} style="{styles[n]}">{escape(cut(cells[n]))}</{tag}>' for n in kept)
        return f"<tr>{''.join(inner)}</tr>"

    body = "".join(line("td", row) for row in shown)
    rest = 0 if count is None else count - len(shown)
    if rest > 0:
        body += f'<tr><td colspan="{len(kept)}" style="text-align:left">and {rest} more</td></tr>'
    return f"<table><thead>{line('th', head)}</thead><tbody>{body}</tbody></table>"


def cut(text: str, most: int = _WIDTH) -> str:
    """Return a text, the end of a long one as a count of characters."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text) - most} more characters)"
