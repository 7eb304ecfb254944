"""A file that an editor has open: a module, or other text with modules inside."""

from __future__ import annotations

from hlo.editor.document import Document
from hlo.editor.positions import ExcerptLines, Lines, Place
from hlo.errors import Source
from hlo.io.excerpts import Excerpt, modules_in
from hlo.io.formats import is_stablehlo

# Of larger files it is decided once, when they are opened, whether modules are inside.
_RECONSIDERED = 1 << 16


class OpenFile:
    """The documents of a file.

    Attributes:
        name: what errors call it.
        documents: its modules in order, one where the file is a module.
        is_module: whether it is a module, and nothing else.
    """

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.documents: list[Document] = []
        self.is_module = True
        self._text, self._lines = text, Lines(text)
        self._read()

    @property
    def text(self) -> str:
        return self.documents[0].text if self.is_module else self._text

    def change(self, start: Place, end: Place, new: str) -> None:
        """Replace what is between two places; after the last of several changes call `update`."""
        if self.is_module:
            self.documents[0].change(start, end, new)
            return
        begin, until = self._lines.offset(start), self._lines.offset(end)
        self._set(self._text[:begin] + new + self._text[until:])

    def replace(self, text: str) -> None:
        """Replace the whole text by one of which most is the same."""
        if self.is_module:
            self.documents[0].replace(text)
        else:
            self._set(text)

    def update(self) -> None:
        """Bring the documents up to date with the text."""
        if self.is_module:
            self.documents[0].update()
            if len(self.text) > _RECONSIDERED:
                return
            self._set(self.text)
        self._read()

    def at(self, place: Place) -> Document:
        """Return the document at a place, or the last one before it."""
        begun = [d for d in self.documents if d.lines.place(0) <= place]
        return (begun or self.documents or [Document(self.name, "")])[-1 if begun else 0]

    def _set(self, text: str) -> None:
        self._text, self._lines = text, Lines(text)

    def _read(self) -> None:
        """Find the modules in the text."""
        found = [m.source for m in modules_in(Source(self.name, self._text))]
        inside = [s for s in found if isinstance(s, Excerpt) and not is_stablehlo(s.text)]
        if not found:
            if not (self.is_module and self.documents):
                self.is_module, self.documents = True, [Document(self.name, self._text)]
            return
        del self.documents[len(inside) :]
        for number, excerpt in enumerate(inside):
            if number == len(self.documents):
                self.documents.append(Document(self.name, excerpt.text))
            document = self.documents[number]
            if document.text != excerpt.text:
                document.replace(excerpt.text)
                document.update()
            document.lines = ExcerptLines(self._lines, excerpt)
        self.is_module = False
