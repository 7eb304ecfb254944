"""How deep the braces of HLO or MLIR text are nested, without a parser."""

from __future__ import annotations

import re

_QUIET = re.compile(r'"(?>(?:[^"\\\n]++|\\.)*)"|//[^\n]*+|/\*[^*]*+\*/')


def depth_of(text: str) -> int:
    """Return how many more braces a text opens than it closes, strings and comments left out."""
    if '"' in text or "/" in text:
        text = _QUIET.sub("", text)
    return text.count("{") - text.count("}")
