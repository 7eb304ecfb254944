"""A recorded session of edits to a file of 10,000 instructions, by a client of the protocol."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("pygls.lsp.client")

from tests.generators.editing import program, session
from tests.harness.language_client import Change, Editor


def test_after_each_edit_the_diagnostics_are_those_of_the_text() -> None:
    async def run() -> None:
        editor, text = Editor(), program()
        assert await editor.start(text) == []
        try:
            for step in session():
                found = {
                    (d.code, d.range.start.line, d.range.start.character)
                    for d in await editor.change([Change(*c) for c in step.changes])
                }
                expected = set(step.expected)
                assert expected <= found if step.hidden else expected == found, step
        finally:
            await editor.stop()
        assert editor.text == text and editor.published

    asyncio.run(run())
