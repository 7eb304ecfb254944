"""Where names are defined and used: definitions, references, renaming."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hlo.editor.document import Document, Edit
from hlo.editor.words import COMPUTATION, NAME, PARAMETER, Word, word_at, words
from hlo.errors import HloError
from hlo.frontends.text import terminals
from hlo.frontends.text.reading import Statement
from hlo.frontends.text.units import Unit
from hlo.ir import Instruction
from hlo.values.types import TYPE_NAMES

_VALID = re.compile(terminals.BARE_NAME)


@dataclass(frozen=True)
class Symbol:
    """A name in the text: of a computation, or of an instruction of the computation `unit`.

    start, end: the characters of the document where it is, its `%` included.
    """

    name: str
    unit: Unit | None
    start: int
    end: int

    @property
    def is_computation(self) -> bool:
        return self.unit is None


@dataclass(frozen=True)
class Occurrence:
    """A place where a symbol is."""

    start: int
    end: int
    is_definition: bool


def unit_of(document: Document, statement: Statement) -> Unit | None:
    """Return the computation that a statement is in."""
    for unit in document.parsed.units:
        last = (unit.statements or [unit.head])[-1]
        if unit.head.start <= statement.start <= last.start:
            return unit
    return None


def statement_at(document: Document, offset: int) -> Statement:
    text = document.parsed.text
    return text.statements[text.index(offset)]


def symbol_at(document: Document, offset: int) -> Symbol | None:
    """Return the name at a character of the document."""
    statement = statement_at(document, offset)
    word = word_at(statement, offset - statement.start)
    return None if word is None else _symbol(document, statement, word)


def _symbol(document: Document, statement: Statement, word: Word) -> Symbol | None:
    place = statement.start + word.start, statement.start + word.end
    if word.kind == COMPUTATION:
        return Symbol(word.name, None, *place)
    if word.kind in (NAME, PARAMETER):
        unit = unit_of(document, statement)
        return None if unit is None else Symbol(word.name, unit, *place)
    return None


def instruction_of(symbol: Symbol) -> Instruction | None:
    """Return the instruction of a symbol, as it was when it was last valid."""
    unit = symbol.unit
    if unit is None:
        return None
    return unit.names.get(symbol.name) or unit.last.get(symbol.name)


def occurrences(document: Document, symbol: Symbol) -> Iterator[Occurrence]:
    """Yield all places of a symbol, in the order of the text."""
    if symbol.unit is None:
        statements = document.parsed.text.statements
    else:
        statements = [symbol.unit.head, *symbol.unit.statements]
    # As a word: a letter alone is part of nearly every statement.
    named = re.compile(rf"(?<![\w.-]){re.escape(symbol.name)}(?![\w.-])", re.A)
    for statement in statements:
        if named.search(statement.source.text) is None:
            continue
        for word in words(statement):
            if word.name != symbol.name:
                continue
            is_computation = word.kind == COMPUTATION
            if is_computation != symbol.is_computation or (
                not is_computation and word.kind not in (NAME, PARAMETER)
            ):
                continue
            base = statement.start
            defines = word.is_definition and word.kind != PARAMETER
            yield Occurrence(base + word.start, base + word.end, defines)


def definition(document: Document, symbol: Symbol) -> Occurrence | None:
    """Return where a symbol is defined."""
    return next((o for o in occurrences(document, symbol) if o.is_definition), None)


def rename(document: Document, symbol: Symbol, new: str) -> list[Edit]:
    """Return the edits that give a symbol another name. Raises HloError for an invalid one.

    A `%` is kept where it is.
    """
    bare = new.removeprefix("%")
    if not _VALID.fullmatch(bare):
        raise HloError.at("bad-name", f"{new!r} is not a name", hint="letters, digits, _ . -")
    if bare in TYPE_NAMES or bare in terminals.KEYWORDS:
        raise HloError.at("bad-name", f"{bare!r} is a word of HLO, not a name")
    if symbol.unit is None:
        taken = {unit.comp.name for unit in document.parsed.units}
    else:
        taken = set(symbol.unit.names)
    if bare != symbol.name and bare in taken:
        raise HloError.at("duplicate-name", f"there is a {bare!r} already")
    edits = []
    for place in occurrences(document, symbol):
        mark = "%" if document.text.startswith("%", place.start) else ""
        edits.append(Edit(place.start, place.end, mark + bare))
    return edits
