"""One self-contained HTML file of a title, a body, data and scripts.

The page's policy forbids the network, and every script but those that it was written with: text
of a module that should ever get into the markup unescaped does not run. Scripts and styles are the
files of `static/`, used as they are:

- `page.css`, `page.js`: in every page; colours and fonts for light and dark, `hlo.data(NAME)`, and
  tables: `<table class="sortable">` sorts by a click on a column's head, and
  `<input class="filter" data-table="ID">` shows the rows of the table ID that have its words.
- `dagre/`: @dagrejs/dagre 3.1.3, which lays out graphs, unmodified; its licence comes with it.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import html
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_STATIC = Path(__file__).parent / "static"
_LICENSES = {"dagre/dagre.min.js": "dagre/LICENSE"}


def page(
    title: str,
    body: str,
    *,
    data: Mapping[str, Any] | None = None,
    scripts: Sequence[str] = (),
    styles: Sequence[str] = (),
    whole: bool = False,
) -> str:
    """Return a page.

    title: plain text. body: HTML, in which text of modules is `escaped`. data: values that are
    JSON, which scripts get by `hlo.data(NAME)`; without NaN and infinities. scripts, styles: files
    of `static/`, in their order. whole: the body fills the window, its parts scroll.
    """
    sources = [_script(name) for name in ("page.js", *scripts)]
    css = "\n".join(static(name) for name in ("page.css", *styles))
    hashes = " ".join(f"'sha256-{_digest(source)}'" for source in sources)
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "base-uri 'none'; form-action 'none'"
    )
    parts = [
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n',
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
        '<meta name="color-scheme" content="light dark">\n',
        f"<title>{escaped(title)}</title>\n<style>\n{css}</style>\n</head>\n",
        f'<body class="{"whole" if whole else ""}">\n{body}\n',
        *(_embedded(name, value) for name, value in (data or {}).items()),
        *(f"<script>{source}</script>\n" for source in sources),
        "</body>\n</html>\n",
    ]
    return "".join(parts)


def escaped(text: str) -> str:
    """Return text as HTML spells it, in elements and in quoted attributes."""
    return html.escape(text, quote=True)


@functools.cache
def static(name: str) -> str:
    """Return the content of a file of `static/`."""
    return (_STATIC / name).read_text(encoding="utf-8")


def _script(name: str) -> str:
    """Return a script, after its licence where it is not ours."""
    license_file = _LICENSES.get(name)
    head = f"/*\n{static(license_file)}*/\n" if license_file is not None else "\n"
    return head + static(name)


def _digest(source: str) -> str:
    return base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()


def _embedded(name: str, value: Any) -> str:
    # Nothing that begins with "<" ends the element or begins a comment in it.
    text = json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return f'<script type="application/json" id="data-{escaped(name)}">{text}</script>\n'
