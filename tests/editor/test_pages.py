"""Hover links to the page of an operation, by names that the pages have."""

from __future__ import annotations

import re

import pytest

from hlo.editor.hover import operation_text
from hlo.editor.pages import link_of
from hlo.ops import OPS
from tests.harness.paths import ROOT

# What no page describes, and no file of XLA is named for.
_NO_PAGE = {
    "mulhi", "stochastic-convert", "copy", "bitcast", "scan", "acos", "acosh", "asin", "asinh",
    "atanh", "exp2", "log2", "sinh",
}  # fmt: skip


def _names() -> set[str]:
    """Return the operations of the newest page, as docs/operations.txt lists them."""
    lines = (ROOT / "docs" / "operations.txt").read_text().splitlines()
    rows = [line.split("; ") for line in lines if re.match(r"[A-Z]\w+; ", line)]
    return {name for name, documents, *_ in rows if re.search(r"\b3\b", documents)}


@pytest.mark.parametrize("opcode", OPS)
def test_links_name_operations_of_the_page(opcode: str) -> None:
    link = link_of(OPS[opcode])
    text = operation_text(opcode)
    assert (link is None) == (opcode in _NO_PAGE)
    assert "003" not in text and "source:" not in text
    if link is not None:
        assert text.endswith(link)
        section = re.fullmatch(r"\[OpenXLA operation semantics: (\w+)\]\((\S+)\)", link)
        if section is not None:
            assert section[1] in _names(), link
            assert section[2] == f"https://openxla.org/xla/operation_semantics#{section[1].lower()}"
        else:
            assert "https://github.com/openxla/xla/blob/main/xla/" in link


def test_asynchronous_operations_have_the_page_of_what_they_wrap() -> None:
    assert operation_text("multiply-start").endswith("operation_semantics#mul)")
