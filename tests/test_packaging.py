"""What is shipped runs where it says it does."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_possessive_repetitions_are_of_single_characters() -> None:
    # Of a group, they match wrongly before Python 3.11.5, which Debian 12 has. What ends a group in
    # a pattern: its parenthesis, or what is filled in.
    of_group = re.compile(r"(?:(?<!\\)[)}]|>>)(?:[*+?]|\{\d*,?\d*\})\+")
    assert of_group.search("(?:ab?c)*+") and of_group.search("{GAP}?+")
    assert not of_group.search(r"\)++[^)]*+\}*+")
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for room in ("hlo", "tools")
        for path in sorted((ROOT / room).rglob("*"))
        if path.suffix in (".py", ".lark")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if of_group.search(line)
    ]
    assert not found, "\n".join(found)
