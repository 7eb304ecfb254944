"""The language server protocol around `hlo.editor`. Only `hlo-lsp` imports this: it needs pygls."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, lsp_method

import hlo
from hlo.editor import completion
from hlo.editor.actions import actions
from hlo.editor.document import Document, Edit
from hlo.editor.files import OpenFile
from hlo.editor.hover import hover
from hlo.editor.names import Symbol, definition, occurrences, rename, symbol_at
from hlo.editor.outline import (
    LEGEND,
    Outline,
    folds,
    hints,
    joined_tokens,
    outline,
    semantic_tokens,
)
from hlo.editor.positions import Place
from hlo.errors import Diagnostic, HloError, Span
from hlo.frontends.text.format import format_text

_COMPLETION_KINDS = {
    completion.OPCODE: types.CompletionItemKind.Method,
    completion.ATTRIBUTE: types.CompletionItemKind.Property,
    completion.VALUE: types.CompletionItemKind.EnumMember,
    completion.NAME: types.CompletionItemKind.Variable,
    completion.COMPUTATION: types.CompletionItemKind.Function,
    completion.TYPE: types.CompletionItemKind.TypeParameter,
}

# A shape, a word, and a string of several lines.
_MISTAKES = (
    "ENTRY e { x = f32[2] parameter(0) ROOT y = f32[3] negate(x) }",
    "ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] negat(x) }",
    'ENTRY e { ROOT x = f32[2] parameter(0), backend_config="\n" }',
)


class _Protocol(LanguageServerProtocol):
    """The protocol without pygls's copies of the texts.

    To edit its copy pygls splits it at form feeds and Unicode's separators too, and then moves the
    positions of the message into the lines that it has.
    """

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(
        self, params: types.DidChangeTextDocumentParams
    ) -> Iterator[tuple[Callable[..., Any], tuple[Any, ...], None]]:
        yield self.fm.features[types.TEXT_DOCUMENT_DID_CHANGE], (params,), None


class Server(LanguageServer):
    """The documents that an editor has open, by URI."""

    def __init__(self) -> None:
        super().__init__(
            "hlo-lsp", hlo.__version__,
            text_document_sync_kind=types.TextDocumentSyncKind.Incremental,
            protocol_cls=_Protocol,
        )  # fmt: skip
        self.files: dict[str, OpenFile] = {}
        self.is_shut_down = False
        self._is_warm = False

    def file(self, uri: str) -> OpenFile:
        """Return an open file. Raises JsonRpcInvalidParams for another."""
        if uri not in self.files:
            raise JsonRpcInvalidParams(f"{uri} is not open")
        return self.files[uri]

    def document(self, uri: str, position: types.Position) -> Document:
        """Return the document at a position of an open file. Raises JsonRpcInvalidParams."""
        return self.file(uri).at(_place(position))

    def warm_up(self) -> None:
        """Do once what is slow the first time: patterns are compiled, modules imported.

        Somebody who has opened a file looks at it first, and then makes a mistake.
        """
        if not self._is_warm:
            self._is_warm = True
            for text in _MISTAKES:
                Document("", text)

    def publish(self, uri: str, version: int | None) -> None:
        """Tell the editor what is wrong with a document."""
        documents = self.files[uri].documents
        shown = [
            _diagnostic(document, uri, d) for document in documents for d in document.diagnostics
        ]
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, shown, version))


# --- from and to the protocol -------------------------------------------------------------------


def _place(position: types.Position) -> Place:
    return Place(position.line, position.character)


def _position(document: Document, offset: int) -> types.Position:
    return types.Position(*document.lines.place(offset))


def _range(document: Document, start: int, end: int) -> types.Range:
    return types.Range(_position(document, start), _position(document, end))


def _offset(document: Document, position: types.Position) -> int:
    return document.lines.offset(_place(position))


def _offsets(document: Document, range_: types.Range) -> tuple[int, int]:
    return _offset(document, range_.start), _offset(document, range_.end)


def _span(document: Document, span: Span | None) -> types.Range:
    return _range(document, *(document.offsets(span) if span is not None else (0, 0)))


def _diagnostic(document: Document, uri: str, found: Diagnostic) -> types.Diagnostic:
    message = found.message if found.hint is None else f"{found.message}\nhint: {found.hint}"
    related = [
        types.DiagnosticRelatedInformation(types.Location(uri, _span(document, span)), text)
        for text, span in found.notes
        if span is not None
    ]
    return types.Diagnostic(
        _span(document, found.span), message, types.DiagnosticSeverity.Error, found.code,
        source="hlo", related_information=related or None,
    )  # fmt: skip


def _edits(document: Document, edits: Sequence[Edit]) -> list[types.TextEdit]:
    return [types.TextEdit(_range(document, e.start, e.end), e.text) for e in edits]


def _symbol(server: Server, params: Any) -> tuple[Document, Symbol | None]:
    document = server.document(params.text_document.uri, params.position)
    return document, symbol_at(document, _offset(document, params.position))


def _outline(document: Document, item: Outline) -> types.DocumentSymbol:
    kinds = types.SymbolKind
    return types.DocumentSymbol(
        item.name, kinds.Function if item.is_computation else kinds.Variable,
        _range(document, item.start, item.end),
        _range(document, item.name_start, item.name_end), item.detail,
        children=[_outline(document, child) for child in item.children],
    )  # fmt: skip


# --- what an editor says and asks ---------------------------------------------------------------


def _opened(server: Server, params: types.DidOpenTextDocumentParams) -> None:
    item = params.text_document
    server.files[item.uri] = OpenFile(item.uri, item.text)
    server.publish(item.uri, item.version)
    server.warm_up()
    _settle_memory()


def _changed(server: Server, params: types.DidChangeTextDocumentParams) -> None:
    uri = params.text_document.uri
    file = server.file(uri)
    for change in params.content_changes:
        if isinstance(change, types.TextDocumentContentChangePartial):
            start, end = change.range.start, change.range.end
            file.change(_place(start), _place(end), change.text)
        else:
            file.replace(change.text)
    file.update()
    server.publish(uri, params.text_document.version)


def _closed(server: Server, params: types.DidCloseTextDocumentParams) -> None:
    uri = params.text_document.uri
    if server.files.pop(uri, None) is not None:
        server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))
        _settle_memory()


def _shut_down(server: Server, params: None) -> None:
    server.is_shut_down = True


def _settle_memory() -> None:
    """Free the garbage of all documents, and spare the collector those that stay.

    It would walk through all instructions again and again, a noticeable pause while one types.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def _hover(server: Server, params: types.HoverParams) -> types.Hover | None:
    document = server.document(params.text_document.uri, params.position)
    found = hover(document, _offset(document, params.position))
    if found is None:
        return None
    content = types.MarkupContent(types.MarkupKind.Markdown, found.text)
    return types.Hover(content, _range(document, found.start, found.end))


def _definition(server: Server, params: types.DefinitionParams) -> types.Location | None:
    document, symbol = _symbol(server, params)
    place = None if symbol is None else definition(document, symbol)
    if place is None:
        return None
    return types.Location(params.text_document.uri, _range(document, place.start, place.end))


def _references(server: Server, params: types.ReferenceParams) -> list[types.Location]:
    document, symbol = _symbol(server, params)
    if symbol is None:
        return []
    return [
        types.Location(params.text_document.uri, _range(document, place.start, place.end))
        for place in occurrences(document, symbol)
        if params.context.include_declaration or not place.is_definition
    ]


def _highlights(
    server: Server, params: types.DocumentHighlightParams
) -> list[types.DocumentHighlight]:
    document, symbol = _symbol(server, params)
    if symbol is None:
        return []
    kinds = types.DocumentHighlightKind
    return [
        types.DocumentHighlight(
            _range(document, place.start, place.end),
            kinds.Write if place.is_definition else kinds.Read,
        )
        for place in occurrences(document, symbol)
    ]


def _prepare_rename(server: Server, params: types.PrepareRenameParams) -> types.Range | None:
    document, symbol = _symbol(server, params)
    if symbol is None or definition(document, symbol) is None:
        return None
    return _range(document, symbol.start, symbol.end)


def _rename(server: Server, params: types.RenameParams) -> types.WorkspaceEdit | None:
    document, symbol = _symbol(server, params)
    if symbol is None:
        return None
    try:
        edits = rename(document, symbol, params.new_name)
    except HloError as e:
        raise JsonRpcInvalidParams(e.diagnostics[0].message) from None
    return types.WorkspaceEdit({params.text_document.uri: _edits(document, edits)})


def _completion(server: Server, params: types.CompletionParams) -> types.CompletionList:
    document = server.document(params.text_document.uri, params.position)
    offset = _offset(document, params.position)
    found = completion.completions(document, offset)
    items = [
        types.CompletionItem(
            item.label, kind=_COMPLETION_KINDS[item.kind], detail=item.detail,
            sort_text=f"{at:05}", filter_text=item.text,
            text_edit=types.TextEdit(_range(document, item.start, item.end), item.text),
            data=item.label if item.kind == completion.OPCODE else None,
        )
        for at, item in enumerate(found[: completion.MAX_COMPLETIONS])
    ]  # fmt: skip
    return types.CompletionList(len(found) > completion.MAX_COMPLETIONS, items)


def _resolve(server: Server, item: types.CompletionItem) -> types.CompletionItem:
    if isinstance(item.data, str):
        text = completion.documentation(item.data)
        item.documentation = types.MarkupContent(types.MarkupKind.Markdown, text)
    return item


def _symbols(server: Server, params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
    documents = server.file(params.text_document.uri).documents
    return [_outline(document, item) for document in documents for item in outline(document)]


def _folds(server: Server, params: types.FoldingRangeParams) -> list[types.FoldingRange]:
    documents = server.file(params.text_document.uri).documents
    return [types.FoldingRange(*lines) for document in documents for lines in folds(document)]


def _colours(server: Server, params: types.SemanticTokensParams) -> types.SemanticTokens:
    documents = server.file(params.text_document.uri).documents
    return types.SemanticTokens(joined_tokens([semantic_tokens(d) for d in documents]))


def _colours_in(server: Server, params: types.SemanticTokensRangeParams) -> types.SemanticTokens:
    documents = server.file(params.text_document.uri).documents
    colours = [semantic_tokens(d, *_offsets(d, params.range)) for d in documents]
    return types.SemanticTokens(joined_tokens(colours))


def _hints(server: Server, params: types.InlayHintParams) -> list[types.InlayHint]:
    documents = server.file(params.text_document.uri).documents
    return [
        types.InlayHint(
            _position(document, hint.offset), hint.text, types.InlayHintKind.Type,
            padding_right=True,
        )
        for document in documents
        for hint in hints(document, *_offsets(document, params.range))
    ]  # fmt: skip


def _actions(server: Server, params: types.CodeActionParams) -> list[types.CodeAction]:
    uri = params.text_document.uri
    document = server.document(uri, params.range.start)
    found = []
    for action in actions(document, *_offsets(document, params.range)):
        mends = None if action.mends is None else [_diagnostic(document, uri, action.mends)]
        kinds = types.CodeActionKind
        found.append(
            types.CodeAction(
                action.title, kinds.QuickFix if mends else kinds.RefactorRewrite, mends,
                edit=types.WorkspaceEdit({uri: _edits(document, action.edits)}),
            )
        )  # fmt: skip
    return found


def _formatting(
    server: Server, params: types.DocumentFormattingParams
) -> list[types.TextEdit] | None:
    file = server.file(params.text_document.uri)
    if not file.is_module:
        return None
    [document] = file.documents
    try:
        text = format_text(document.text, document.name)
    except HloError:
        return None  # what is wrong is shown already
    if text == document.text:
        return []
    return _edits(document, [Edit(0, len(document.text), text)])


_TOKENS = types.SemanticTokensLegend(LEGEND, ["definition"])
_FEATURES: list[tuple[str, Callable[..., Any], Any]] = [
    (types.SHUTDOWN, _shut_down, None),
    (types.TEXT_DOCUMENT_DID_OPEN, _opened, None),
    (types.TEXT_DOCUMENT_DID_CHANGE, _changed, None),
    (types.TEXT_DOCUMENT_DID_CLOSE, _closed, None),
    (types.TEXT_DOCUMENT_HOVER, _hover, None),
    (types.TEXT_DOCUMENT_DEFINITION, _definition, None),
    (types.TEXT_DOCUMENT_REFERENCES, _references, None),
    (types.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT, _highlights, None),
    (types.TEXT_DOCUMENT_PREPARE_RENAME, _prepare_rename, None),
    (types.TEXT_DOCUMENT_RENAME, _rename, types.RenameOptions(prepare_provider=True)),
    (types.TEXT_DOCUMENT_COMPLETION, _completion,
     types.CompletionOptions(trigger_characters=["%", " ", ",", "=", "("], resolve_provider=True)),
    (types.COMPLETION_ITEM_RESOLVE, _resolve, None),
    (types.TEXT_DOCUMENT_DOCUMENT_SYMBOL, _symbols, None),
    (types.TEXT_DOCUMENT_FOLDING_RANGE, _folds, None),
    (types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, _colours, _TOKENS),
    (types.TEXT_DOCUMENT_SEMANTIC_TOKENS_RANGE, _colours_in, _TOKENS),
    (types.TEXT_DOCUMENT_INLAY_HINT, _hints, None),
    (types.TEXT_DOCUMENT_CODE_ACTION, _actions, types.CodeActionOptions(
        [types.CodeActionKind.QuickFix, types.CodeActionKind.RefactorRewrite])),
    (types.TEXT_DOCUMENT_FORMATTING, _formatting, None),
]  # fmt: skip


def make_server() -> Server:
    """Return a server with all its features, which serves nobody yet."""
    server = Server()
    for name, function, options in _FEATURES:
        server.feature(name, options)(function)
    return server


def serve(log: str | None) -> int:
    """Serve one editor on standard input and output until it says goodbye.

    Returns the exit status of the protocol: 0 if `shutdown` came before the end, else 1.
    """
    if log is not None:
        logging.basicConfig(filename=log, level=logging.INFO)
    else:
        logging.disable(logging.CRITICAL)
    server = make_server()
    server.start_io()
    return 0 if server.is_shut_down else 1
