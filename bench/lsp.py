"""Times the language server as an editor meets it: from an edit to the diagnostics of the text.

    python -m bench.lsp [--times 3]

Starts `hlo-lsp`, opens a module of 10,000 instructions and plays the recorded session of the tests
(`tests/editor/session.json`) by a client of the protocol over standard input and output. Prints the
times from each `didChange` to its `publishDiagnostics` in milliseconds, by scene, and those of the
requests that an editor sends after an edit.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections import defaultdict
from collections.abc import Awaitable

from lsprotocol import types

from tests.generators.editing import program, session
from tests.harness.language_client import Change, Editor

Times = defaultdict[str, list[float]]
# Somebody looks at what was opened before typing.
_LOOK_S = 1.0
# How many lines an editor shows.
_VISIBLE = 60


async def play(text: str, times: Times) -> None:
    """Open a text and play the session."""
    editor = Editor()
    await editor.start(text)
    times["open"].append(editor.seconds)
    await asyncio.sleep(_LOOK_S)
    for step in session():
        await editor.change([Change(*c) for c in step.changes])
        times[step.scene].append(editor.seconds)
        start, _, new = step.changes[-1]
        await ask(editor, start + len(new), times)
    await editor.stop()


async def ask(editor: Editor, offset: int, times: Times) -> None:
    """Ask what an editor asks after an edit."""

    async def timed(what: str, answer: Awaitable[object]) -> None:
        begin = time.perf_counter()
        await answer
        times[f"({what})"].append(time.perf_counter() - begin)

    client, (document, place) = editor.client, editor.at(offset)
    first = types.Position(max(0, place.line - _VISIBLE // 2), 0)
    shown = types.Range(first, types.Position(first.line + _VISIBLE, 0))
    where = types.HoverParams(document, place)
    await timed("hover", client.text_document_hover_async(where))
    completion = types.CompletionParams(document, place)
    await timed("completion", client.text_document_completion_async(completion))
    definition = types.DefinitionParams(document, place)
    await timed("definition", client.text_document_definition_async(definition))
    colours = types.SemanticTokensRangeParams(document, shown)
    await timed("visible colours", client.text_document_semantic_tokens_range_async(colours))
    hints = types.InlayHintParams(document, shown)
    await timed("visible hints", client.text_document_inlay_hint_async(hints))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--times", type=int, default=1, help="how often the session is played")
    given = parser.parse_args()
    text, times = program(), Times(list)
    for _ in range(given.times):
        asyncio.run(play(text, times))
    print(f"{text.count(' = '):,} instructions, {len(text):,} characters; milliseconds")
    print(f"{'':24}{'times':>6}{'median':>9}{'largest':>9}")
    for what, found in times.items():
        print(
            f"{what:24}{len(found):6}{1e3 * statistics.median(found):9.1f}{1e3 * max(found):9.1f}"
        )


if __name__ == "__main__":
    main()
