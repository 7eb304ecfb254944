"""What the documentation lists is there, and what is there is listed."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_the_map_of_kernels_has_every_file_once() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    section = page.partition("\n## Kernels\n")[2].partition("\n## ")[0]
    listed = re.findall(r"^\|[^|]*\| `([^`]+)` \|", section, re.M)
    folder = ROOT / "hlo" / "codegen" / "kernels"
    files = {str(f.relative_to(folder)) for f in folder.rglob("*.py")}
    assert sorted(listed) == sorted(f for f in files if not f.endswith("__init__.py"))
