"""What the documentation lists is there, and what is there is listed."""

from __future__ import annotations

import re

import click
import pytest

import docs.commands
import hlo
from hlo.ops import OPS
from hlo.values.types import TYPE_NAMES
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


def test_the_page_of_commands_has_every_option() -> None:
    page = docs.commands.page()
    commands = docs.commands.installed()
    assert len(commands) == 10
    for name, command in commands.items():
        section = page.partition(f"## {name}\n")[2].partition("\n## ")[0]
        rows = [line for line in section.splitlines() if line.startswith("| <a id=")]
        shown = [p for p in command.params if isinstance(p, click.Option) and not p.hidden]
        for option in shown:
            for word in option.opts + option.secondary_opts:
                assert any(re.search(rf"`` .*(?<![\w-]){word}(?![\w-])", r) for r in rows), word
        assert len(rows) == len(shown), name
        assert not [r for r in rows if r.endswith("|  |")]


def test_hlo_in_the_site_has_colours() -> None:
    pytest.importorskip("pygments")
    from pygments.token import Error, Generic, Keyword, Name, Text

    from docs.lexer import ConsoleLexer, HloLexer

    def kinds(lexer: type[HloLexer | ConsoleLexer], text: str) -> dict[str, object]:
        tokens = [(value, kind) for _, kind, value in lexer().get_tokens_unprocessed(text)]
        assert "".join(value for value, _ in tokens) == text
        assert Error not in dict(tokens).values(), text
        return {value: kind for value, kind in tokens if value.strip()}

    for name, spec in OPS.items():
        for example in spec.examples:
            if not example.lstrip().startswith("HloModule"):
                found = kinds(HloLexer, f"ENTRY %e {{\n  ROOT %r = {example}\n}}\n")
                assert found[name] in (Name.Builtin, Name.Attribute), name
    for name in TYPE_NAMES:
        assert kinds(HloLexer, f"  x = {name}[2] parameter(0)")[name] == Keyword.Type
    text = "$ hlo-opt m.hlo \\\n  --stage=flat\nmain:\n  y = f32[2] add(x, x)\n"
    found = kinds(ConsoleLexer, text)
    assert found["$ "] is Generic.Prompt and found["main:\n"] is Generic.Output
    assert found["add"] is Name.Builtin and found["hlo-opt"] is Text
    for path in sorted((ROOT / "examples").glob("*.hlo")):
        kinds(HloLexer, path.read_text())
