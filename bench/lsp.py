"""Times the language server as an editor meets it: from an edit to the diagnostics of the text.

    python bench/lsp.py [--instructions 10000] [FILE]

Starts `hlo-lsp`, opens a generated module (or FILE), types at its beginning, in its middle and at
its end, by a client of the protocol over standard input and output, and prints the times from each
`didChange` to its `publishDiagnostics`, in milliseconds, and those of the requests that follow.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from pathlib import Path

from lsprotocol import types
from pygls.lsp.client import LanguageClient

_URI = "file:///bench.hlo"
_SHAPE = "f32[64,64]{1,0}"


def program(count: int) -> str:
    """Return a module of about `count` instructions: most in the entry, some in computations."""
    lines = ["HloModule bench", "", "sum {", "  a = f32[] parameter(0)", "  b = f32[] parameter(1)",
             "  ROOT s = f32[] add(a, b)", "}", ""]  # fmt: skip
    inside = 8
    bodies = count // 40
    for number in range(bodies):
        lines += [f"body.{number} {{", f"  p = {_SHAPE} parameter(0)"]
        previous = "p"
        for step in range(inside - 1):
            root = "ROOT " if step == inside - 2 else ""
            lines.append(f"  {root}v.{step} = {_SHAPE} tanh({previous})")
            previous = f"v.{step}"
        lines += ["}", ""]
    lines += ["ENTRY main {", f"  x.0 = {_SHAPE} parameter(0)", "  zero = f32[] constant(0)"]
    left = count - bodies * inside - 5
    for at in range(1, left):
        operands = f"x.{at - 1}, x.{max(0, at - 7)}"
        origin = f'metadata={{op_name="jit(step)/layer_{at // 50}/op" source_line={at}}}'
        if bodies and at % 31 == 0:
            line = f"x.{at} = {_SHAPE} call(x.{at - 1}), to_apply=body.{at % bodies}"
        else:
            opcode = ("add", "multiply", "subtract")[at % 3]
            line = f"x.{at} = {_SHAPE} {opcode}({operands}), {origin}"
        lines.append("  " + line)
    lines.append(f"  ROOT r = f32[64] reduce(x.{left - 1}, zero), dimensions={{1}}, to_apply=sum")
    return "\n".join([*lines, "}", ""])


class Editor:
    """A client with a document open."""

    def __init__(self, text: str) -> None:
        self.text, self.version = text, 0
        self.client = LanguageClient("bench", "1")
        self.times: dict[str, list[float]] = {}
        self._news: asyncio.Queue[types.PublishDiagnosticsParams] = asyncio.Queue()

        @self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def _(params: types.PublishDiagnosticsParams) -> None:
            self._news.put_nowait(params)

    async def start(self) -> None:
        await self.client.start_io(sys.executable, "-m", "hlo_tools.lsp.command")
        await self.client.initialize_async(types.InitializeParams(types.ClientCapabilities()))
        item = types.TextDocumentItem(_URI, "hlo", 0, self.text)
        begin = time.perf_counter()
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        found = await self._news.get()
        self._note("open", begin)
        assert not found.diagnostics, found.diagnostics[0]

    def _note(self, what: str, begin: float) -> None:
        self.times.setdefault(what, []).append(1e3 * (time.perf_counter() - begin))

    def place(self, offset: int) -> types.Position:
        line = self.text.count("\n", 0, offset)
        return types.Position(line, offset - self.text.rfind("\n", 0, offset) - 1)

    async def edit(self, what: str, start: int, end: int, new: str) -> int:
        """Replace `[start, end)`; returns how many diagnostics there are."""
        range_ = types.Range(self.place(start), self.place(end))
        self.text = self.text[:start] + new + self.text[end:]
        self.version += 1
        document = types.VersionedTextDocumentIdentifier(self.version, _URI)
        change = types.TextDocumentContentChangePartial(range_, new)
        begin = time.perf_counter()
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))
        found = await self._news.get()
        self._note(what, begin)
        assert found.version == self.version
        return len(found.diagnostics)

    async def ask(self, offset: int) -> None:
        document, place = types.TextDocumentIdentifier(_URI), self.place(offset)
        begin = time.perf_counter()
        await self.client.text_document_hover_async(types.HoverParams(document, place))
        self._note("hover", begin)
        begin = time.perf_counter()
        await self.client.text_document_completion_async(types.CompletionParams(document, place))
        self._note("completion", begin)
        begin = time.perf_counter()
        await self.client.text_document_definition_async(types.DefinitionParams(document, place))
        self._note("definition", begin)


async def session(text: str) -> dict[str, list[float]]:
    """Type into a text; returns the times of each kind of edit."""
    editor = Editor(text)
    await editor.start()
    lines = [at for at in range(len(text)) if text.startswith("\n  ", at)]
    for share in (0.02, 0.25, 0.5, 0.75, 0.98):
        at = lines[int(share * len(lines))] + 3
        name = editor.text[at : editor.text.index(" = ", at)]
        operand = editor.text.index("(", at) + 1
        for count, letter in enumerate("wxyz"):
            await editor.edit("type in an operand", operand + count, operand + count, letter)
            await editor.ask(operand + count + 1)
        await editor.edit("back to valid", operand, operand + 4, "")
        line = f"extra.{at} = "
        end = editor.text.index("\n", at) + 1
        written = 0
        for piece in ("  ", line, "f32[64,64]{1,0} ", "tanh", "(", name, ")", "\n"):
            await editor.edit("type a line", end + written, end + written, piece)
            written += len(piece)
        await editor.edit("delete a line", end, end + written, "")
        await editor.edit("rename a definition", at, at, "q")
        await editor.edit("back to valid", at, at + 1, "")
        brace = editor.text.index("[", at)
        await editor.edit("open a bracket", brace, brace, "(")
        await editor.edit("back to valid", brace, brace + 1, "")
        number = editor.text.index("64", at)
        await editor.edit("a wrong shape", number, number + 2, "63")
        assert await editor.edit("back to valid", number, number + 2, "64") == 0
    await editor.client.shutdown_async(None)
    editor.client.exit(None)
    await editor.client.stop()
    return editor.times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("file", nargs="?")
    parser.add_argument("--instructions", type=int, default=10_000)
    given = parser.parse_args()
    text = Path(given.file).read_text() if given.file else program(given.instructions)
    times = asyncio.run(session(text))
    print(f"{text.count(' = '):,} instructions, {len(text):,} characters; milliseconds")
    print(f"{'':22}{'times':>6}{'median':>9}{'largest':>9}")
    for what, found in times.items():
        print(f"{what:22}{len(found):6}{statistics.median(found):9.1f}{max(found):9.1f}")


if __name__ == "__main__":
    main()
