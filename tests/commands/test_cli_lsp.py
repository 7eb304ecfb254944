"""`hlo-lsp` as an editor uses it: a client of the protocol over standard input and output."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable

import pytest
from click.testing import CliRunner
from hlo_tools.lsp.command import main

pytest.importorskip("pygls.lsp.client")

from lsprotocol import types

import hlo
from tests.harness.language_client import URI, Change, Editor

_TEXT = """HloModule m

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}

ENTRY %main (x: f32[2,3]) -> f32[2] {
  %x = f32[2,3]{1,0} parameter(0) /* \U0001f600 */
  %zero = f32[] constant(0)
  %n = negate(%x)
  ROOT %r = f32[2]{0} reduce(%n, %zero), dimensions={1}, to_apply=%sum
}
"""


def _at(
    editor: Editor, piece: str, skip: int = 0
) -> tuple[types.TextDocumentIdentifier, types.Position]:
    return editor.at(editor.text.index(piece) + skip)


def _drive(story: Callable[[Editor], Awaitable[None]], text: str = _TEXT) -> None:
    async def run() -> None:
        editor = Editor()
        await editor.start(text)
        try:
            await story(editor)
        finally:
            await editor.stop()

    asyncio.run(asyncio.wait_for(run(), 120))


def test_an_editor_is_served() -> None:
    async def story(editor: Editor) -> None:
        client, document = editor.client, types.TextDocumentIdentifier(URI)
        assert not editor.published[URI].diagnostics

        hover = await client.text_document_hover_async(types.HoverParams(*_at(editor, "%n =", 1)))
        assert "f32[2,3]{1,0} negate" in hover.contents.value
        assert "24 bytes" in hover.contents.value
        assert "6 operations" in hover.contents.value
        hover = await client.text_document_hover_async(types.HoverParams(*_at(editor, "reduce(")))
        assert "`dimensions` (required)" in hover.contents.value
        assert "](https://openxla.org/xla/operation_semantics#reduce)" in hover.contents.value

        place = await client.text_document_definition_async(
            types.DefinitionParams(*_at(editor, "%zero),", 2))
        )
        assert (place.range.start.line, place.range.start.character) == (10, 2)
        found = await client.text_document_references_async(
            types.ReferenceParams(types.ReferenceContext(True), *_at(editor, "%sum\n", 2))
        )
        assert [p.range.start.line for p in found] == [2, 12]

        edit = await client.text_document_rename_async(
            types.RenameParams(*_at(editor, "%a, "), "w")
        )
        assert sorted((e.range.start.line, e.new_text) for e in edit.changes[URI]) == [
            (2, "w"), (3, "%w"), (5, "%w"),
        ]  # fmt: skip
        with pytest.raises(Exception, match="already"):
            await client.text_document_rename_async(types.RenameParams(*_at(editor, "%a, "), "b"))

        hints = await client.text_document_inlay_hint_async(
            types.InlayHintParams(document, editor.everywhere())
        )
        assert [(h.label, h.position.line) for h in hints] == [("f32[2,3]{1,0}", 11)]
        symbols = await client.text_document_document_symbol_async(
            types.DocumentSymbolParams(document)
        )
        assert [(s.name, len(s.children)) for s in symbols] == [("sum", 3), ("main", 4)]
        assert [s.name for s in symbols[1].children] == ["x", "zero", "n", "r"]
        folds = await client.text_document_folding_range_async(types.FoldingRangeParams(document))
        assert [(f.start_line, f.end_line) for f in folds] == [(2, 6), (8, 13)]
        colours = await client.text_document_semantic_tokens_full_async(
            types.SemanticTokensParams(document)
        )
        assert len(colours.data) > 100 and len(colours.data) % 5 == 0

        [wrong] = await editor.replace("reduce(", "reduse(")
        assert wrong.code == "unknown-opcode" and "hint: did you mean 'reduce'?" in wrong.message
        assert (wrong.range.start.line, wrong.range.start.character) == (12, 22)
        assert wrong.range.end.character == 28
        fixes = await client.text_document_code_action_async(
            types.CodeActionParams(document, wrong.range, types.CodeActionContext([wrong]))
        )
        assert fixes[0].edit.changes[URI][0].new_text == "reduce"
        assert await editor.replace("reduse(", "reduce(") == []

        formatted = await client.text_document_formatting_async(
            types.DocumentFormattingParams(document, types.FormattingOptions(2, True))
        )
        assert formatted is not None

    _drive(story)


def test_completion_knows_where_it_is() -> None:
    async def labels(editor: Editor, piece: str) -> list[str]:
        answer = await editor.client.text_document_completion_async(
            types.CompletionParams(*_at(editor, piece, len(piece)))
        )
        return [item.label for item in answer.items]

    async def story(editor: Editor) -> None:
        await editor.replace("ROOT %r", "%c = pred[2,3]{1,0} compa\n  ROOT %r")
        assert await labels(editor, "%c = pred[2,3]{1,0} compa") == ["compare"]
        await editor.replace("{1,0} compa\n", "{1,0} compare(%n, %\n")
        assert await labels(editor, "compare(%n, %") == ["n", "zero", "x"]
        await editor.replace("%n, %\n", "%n, %x), \n")
        found = await labels(editor, "%n, %x), ")
        assert found[0] == "direction" and "metadata" in found
        await editor.replace("%x), \n", "%x), direction=\n")
        assert await labels(editor, "%x), direction=") == ["EQ", "NE", "GE", "GT", "LE", "LT"]
        await editor.replace("to_apply=%sum\n", "to_apply=%\n")
        assert await labels(editor, "to_apply=%") == ["sum"]

    _drive(story)


def test_unknown_requests_and_documents_are_answered_with_errors() -> None:
    async def story(editor: Editor) -> None:
        with pytest.raises(Exception, match=r"not found|Method"):
            await editor.client.protocol.send_request_async("hlo/unknown", {})
        other = types.TextDocumentIdentifier("file:///other.hlo")
        with pytest.raises(Exception, match="not open"):
            await editor.client.text_document_hover_async(
                types.HoverParams(other, types.Position(0, 0))
            )
        assert await editor.replace("ROOT %r", "ROOT %q") == []

    _drive(story)


def test_several_files_are_open_with_any_line_ends_and_characters() -> None:
    line = '\tROOT x = f32[2] constant({1, 2}), metadata={op_name="\U0001f600" source_fil=1}'
    crlf = "\r\n".join(["HloModule m", "", "ENTRY e {", line, "}", ""])

    async def story(editor: Editor) -> None:
        [wrong] = await editor.open("file:///crlf.hlo", crlf)
        column = line.index("source_fil") + 1  # the character before takes two units
        assert (wrong.range.start.line, wrong.range.start.character) == (3, column)
        [wrong] = await editor.open("file:///no.hlo", "\0\ufffd\ufffd\x7fELF")
        assert wrong.code == "syntax"
        assert await editor.replace("ROOT %r", "ROOT %q") == []
        gone = types.TextDocumentIdentifier("file:///crlf.hlo")
        editor.client.text_document_did_close(types.DidCloseTextDocumentParams(gone))
        with pytest.raises(Exception, match="not open"):
            await editor.client.text_document_document_symbol_async(
                types.DocumentSymbolParams(gone)
            )

    _drive(story)


def test_lines_end_where_the_protocol_says() -> None:
    async def story(editor: Editor) -> None:
        for character in ("\u2028", "\u2029", "\x85", "\v", "\f", "\x1c", "\r"):
            comment = f"// a{character}{'// ' * (character == chr(13))}b"
            text = f"HloModule m\n{comment}\nENTRY e {{\n  ROOT x = f32[2] constant(1)\n}}\n"
            await editor.change([Change(0, len(editor.text), text)])
            for old, new in (("(1)", "(12)"), ("[2]", "[3]"), ("constant(12)", "negate(z)")):
                found = await editor.replace(old, new)
            [wrong] = found
            line, column = 3 + (character == "\r"), 25
            start = wrong.range.start
            assert (wrong.code, start.line, start.character) == ("undefined-operand", line, column)
            with pytest.raises(hlo.HloError) as error:
                hlo.parse(editor.text, "x")
            assert str(error.value).startswith(f"x:{line + 1}:{column + 1}: error: 'z' is not")

    _drive(story)


def test_modules_inside_of_other_text_are_served() -> None:
    log = "".join(f"12:0{n % 9} {line}\n" for n, line in enumerate(_TEXT.splitlines()))

    async def story(editor: Editor) -> None:
        document = types.TextDocumentIdentifier(URI)
        assert not editor.published[URI].diagnostics
        at = editor.text.rindex("negate")
        hover = await editor.client.text_document_hover_async(types.HoverParams(*editor.at(at)))
        assert "negate" in hover.contents.value and hover.range.start == editor.place(at)
        symbols = await editor.client.text_document_document_symbol_async(
            types.DocumentSymbolParams(document)
        )
        assert [s.name for s in symbols] == ["sum", "main"] * 2
        [wrong] = await editor.change([Change(at, at + 6, "negat")])
        assert wrong.range.start == editor.place(at)
        fixes = await editor.client.text_document_code_action_async(
            types.CodeActionParams(document, wrong.range, types.CodeActionContext([wrong]))
        )
        [edit] = fixes[0].edit.changes[URI]
        assert (edit.new_text, edit.range.start) == ("negate", editor.place(at))
        formatted = await editor.client.text_document_formatting_async(
            types.DocumentFormattingParams(document, types.FormattingOptions(2, True))
        )
        assert formatted is None

    _drive(story, f"# Title\n```hlo\n{_TEXT}```\n{log}")


@pytest.mark.parametrize(
    ("messages", "status"),
    [(["shutdown", "exit"], 0), (["exit"], 1), (["shutdown"], 0), ([], 1)],
)
def test_the_exit_status_is_the_protocols(messages: list[str], status: int) -> None:
    initialize = {"id": 0, "method": "initialize", "params": {"capabilities": {}}}
    sent = b""
    for message in [initialize, *({"id": 1, "method": m} for m in messages)]:
        if message["method"] == "exit":
            del message["id"]
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        sent += b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    command = [sys.executable, "-m", "hlo_tools.lsp.command"]
    done = subprocess.run(command, input=sent, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (status, b"")


def test_without_pygls_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    result = CliRunner().invoke(main, [])
    assert result.exit_code == 1
    assert "missing-extra" in result.stderr and "hlo-tools[lsp]" in result.stderr
