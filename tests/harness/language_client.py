"""A client of `hlo-lsp` over standard input and output, as an editor is one. Needs pygls."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

from lsprotocol import types
from pygls.lsp.client import LanguageClient

URI = "file:///x.hlo"
_WAIT_S = 60


class Change(NamedTuple):
    """New text for the characters `[start, end)`."""

    start: int
    end: int
    text: str


class Editor:
    """A client with documents open, of which `URI` is the one that is edited.

    seconds: how long the server took for the last diagnostics.
    """

    def __init__(self) -> None:
        self.client = LanguageClient("test", "1")
        self.published: dict[str, types.PublishDiagnosticsParams] = {}
        self.text = ""
        self.version = 0
        self.seconds = 0.0
        self._news: asyncio.Queue[types.PublishDiagnosticsParams] = asyncio.Queue()

        @self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def _(params: types.PublishDiagnosticsParams) -> None:
            self._news.put_nowait(params)

    async def start(self, text: str) -> list[types.Diagnostic]:
        """Start the server and open a text; returns its diagnostics."""
        await self.client.start_io(sys.executable, "-m", "hlo_tools.lsp.command")
        await self.client.initialize_async(types.InitializeParams(types.ClientCapabilities()))
        self.client.initialized(types.InitializedParams())
        self.text = text
        return await self.open(URI, text)

    async def open(self, uri: str, text: str) -> list[types.Diagnostic]:
        """Open a document; returns its diagnostics."""
        item = types.TextDocumentItem(uri, "hlo", 0, text)
        begin = time.perf_counter()
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        return await self._diagnostics(uri, 0, begin)

    async def stop(self) -> None:
        await self.client.shutdown_async(None)
        self.client.exit(None)
        await self.client.stop()

    async def change(self, changes: Sequence[Change]) -> list[types.Diagnostic]:
        """Make changes, one after the other, in one message; returns the diagnostics."""
        told = []
        for start, end, new in changes:
            range_ = types.Range(self.place(start), self.place(end))
            told.append(types.TextDocumentContentChangePartial(range_, new))
            self.text = self.text[:start] + new + self.text[end:]
        self.version += 1
        document = types.VersionedTextDocumentIdentifier(self.version, URI)
        params = types.DidChangeTextDocumentParams(document, told)
        begin = time.perf_counter()
        self.client.text_document_did_change(params)
        return await self._diagnostics(URI, self.version, begin)

    async def replace(self, old: str, new: str) -> list[types.Diagnostic]:
        """Replace a piece of the text; returns the diagnostics."""
        at = self.text.index(old)
        return await self.change([Change(at, at + len(old), new)])

    async def _diagnostics(self, uri: str, version: int, begin: float) -> list[types.Diagnostic]:
        found = await asyncio.wait_for(self._news.get(), _WAIT_S)
        self.seconds = time.perf_counter() - begin
        assert (found.uri, found.version) == (uri, version)
        self.published[uri] = found
        return list(found.diagnostics)

    def place(self, offset: int) -> types.Position:
        *before, last = re.split(r"\r\n|\n|\r", self.text[:offset])
        return types.Position(len(before), len(last.encode("utf-16-le")) // 2)

    def at(self, offset: int) -> tuple[types.TextDocumentIdentifier, types.Position]:
        """Return a character of the text as requests name it."""
        return types.TextDocumentIdentifier(URI), self.place(offset)

    def everywhere(self) -> types.Range:
        return types.Range(types.Position(0, 0), self.place(len(self.text)))
