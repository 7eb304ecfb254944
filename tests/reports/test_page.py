"""Pages: one file, no network, and text that is never markup."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from hlo.reports.page import escaped, page, static
from tests.harness.paths import ROOT

STATIC = ROOT / "hlo" / "reports" / "page" / "static"
HOSTILE = "</script><img src=x onerror='alert(1)'><!--<script>\"&\u2028\x00\ud800"


class _Reader(HTMLParser):
    """Collects elements, and the content of those with an id."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.content: dict[str, str] = {}
        self._inside: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = dict(attrs).get("id")

    def handle_endtag(self, tag: str) -> None:
        self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside is not None:
            self.content[self._inside] = self.content.get(self._inside, "") + data


def _read(text: str) -> _Reader:
    reader = _Reader()
    reader.feed(text)
    return reader


def test_hostile_text_stays_text() -> None:
    body = f"<p title='{escaped(HOSTILE)}'>{escaped(HOSTILE)}</p>"
    read = _read(page(HOSTILE, body, data={"names": [HOSTILE]}))
    assert [tag for tag, _ in read.tags if tag in ("img", "p")] == ["p"]
    assert json.loads(read.content["data-names"]) == [HOSTILE]


def test_the_policy_allows_the_page_s_own_scripts_and_no_other() -> None:
    text = page("m", "<p></p>", scripts=["dagre/dagre.min.js"])
    read = _read(text)
    (policy,) = (a["content"] for t, a in read.tags if a.get("http-equiv"))
    assert policy is not None and policy.startswith("default-src 'none'; ")
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert len(scripts) == 2
    for source in scripts:
        digest = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert "unsafe-inline" not in policy.partition("style-src")[0] and "http" not in policy


def test_nothing_is_loaded_from_elsewhere() -> None:
    text = page("m", "", scripts=["dagre/dagre.min.js"])
    assert not [a for _, a in _read(text).tags if "src" in a or "href" in a]
    assert "@import" not in text and "url(" not in text


def test_the_library_comes_with_its_licence() -> None:
    licence = static("dagre/LICENSE")
    assert "Permission is hereby granted" in licence and "Pettitt" in licence
    assert licence in page("m", "", scripts=["dagre/dagre.min.js"])


@pytest.mark.parametrize("path", sorted(STATIC.rglob("*.js")), ids=lambda p: p.name)
def test_scripts_are_javascript(path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    subprocess.run([node, "--check", str(path)], check=True)
