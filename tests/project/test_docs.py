"""What the documentation lists is there, and what is there is listed."""

from __future__ import annotations

import re

import hlo
from tests.harness.paths import ROOT


def test_the_map_of_kernels_has_every_file_once() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    section = page.partition("\n## Kernels\n")[2].partition("\n## ")[0]
    listed = re.findall(r"^\|[^|]*\| `([^`]+)` \|", section, re.M)
    folder = ROOT / "hlo" / "codegen" / "kernels"
    files = {str(f.relative_to(folder)) for f in folder.rglob("*.py")}
    assert sorted(listed) == sorted(f for f in files if not f.endswith("__init__.py"))


def test_the_reference_has_everything_that_import_hlo_offers() -> None:
    pages = "".join(p.read_text() for p in (ROOT / "docs" / "reference").glob("*.rst"))
    listed = re.findall(r"^\.\. (?:auto\w+|py:data):: (\w+)$", pages, re.M)
    assert set(hlo.__all__) <= set(listed)
    assert len(listed) == len(set(listed))


def test_the_site_has_every_page() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    listed = re.findall(r"^([\w/-]+)$", index, re.M)
    docs = ROOT / "docs"
    pages = {str(p.relative_to(docs).with_suffix("")) for p in docs.rglob("*.md")}
    pages |= {str(p.relative_to(docs).with_suffix("")) for p in docs.rglob("*.rst")}
    assert sorted(listed) == sorted(pages - {"index"})
