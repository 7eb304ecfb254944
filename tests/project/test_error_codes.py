"""`docs/errors.md` lists every error code there is, and none that is not."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.harness.paths import ROOT

_CODE = re.compile(r"[a-z]+(?:-[a-z]+)*")
# Calls whose first argument is a code.
_FIRST = {"Diagnostic", "at", "add", "error"}


def strings(path: Path) -> set[str]:
    """Return all string constants of a file that look like a code."""
    tree = ast.parse(path.read_text())
    return {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and _CODE.fullmatch(node.value)
    }


def codes_given(path: Path) -> set[str]:
    """Return the codes that calls in a file pass on."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        values = [k.value for k in node.keywords if k.arg == "code"]
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name in _FIRST and len(node.args) >= 2:
            values.append(node.args[0])
        for value in values:
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                if "-" in value.value or value.value in ("cycle", "syntax"):
                    found.add(value.value)
    return found


def documented() -> dict[str, int]:
    rows = re.findall(r"^\| `([a-z-]+)` \|", (ROOT / "docs/errors.md").read_text(), re.M)
    return {code: rows.count(code) for code in rows}


def test_every_code_is_documented_once() -> None:
    given: dict[str, Path] = {}
    for folder in ("hlo", "tools"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for code in codes_given(path):
                given[code] = path
    rows = documented()
    assert not {c: str(p) for c, p in given.items() if c not in rows}
    assert not [c for c, times in rows.items() if times > 1]


def test_every_documented_code_is_in_the_source() -> None:
    known: set[str] = set()
    for folder in ("hlo", "tools"):
        for path in (ROOT / folder).rglob("*.py"):
            known |= strings(path)
    assert not set(documented()) - known
