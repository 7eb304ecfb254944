"""From text to records: the grammar's callbacks.

A record is a light tuple or list of tokens (strings with offsets). Names and values are not
interpreted here; `build.py` turns records into IR.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from lark import Lark
from lark.lexer import TerminalDef

from hlo.frontends.text import terminals
from hlo.frontends.text.lexer import Lexer
from hlo.frontends.text.tokens import Token
from hlo.support.imports import lasting


class Deep(NamedTuple):
    """A piece of text between two tokens whose brackets nest too deeply for a terminal."""

    start: int
    end: int

    def token(self, kind: str, text: str) -> Token:
        """Return the piece as a token of the terminal."""
        return Token(kind, text[self.start : self.end], self.start, end_pos=self.end)


class InstructionRecord(NamedTuple):
    """`definition shape opcode arguments attributes`; absent parts are None.

    arguments: an OPERANDS or PAYLOAD token, or a list of OPERAND tokens and records of operations.
    attributes: ATTRIBUTE tokens and inline records. declared: the shape that older texts have
    before the name as well. `Deep` pieces may replace tokens.
    """

    definition: Token | None
    shape: Token | Deep | None
    opcode: Token
    arguments: Any
    attributes: list[Any]
    declared: Token | Deep | None = None


def with_nested(body: Iterable[InstructionRecord]) -> Iterator[InstructionRecord]:
    """Yield the records of a body, and those of operations in place of operands before theirs."""
    for record in body:
        if type(record.arguments) is not list:
            yield record
            continue
        found, todo = [], [record]
        while todo:
            found.append(todo.pop())
            if type(found[-1].arguments) is list:
                todo += [item for item in found[-1].arguments if type(item) is InstructionRecord]
        yield from reversed(found)


class InlineRecord(NamedTuple):
    """Inline computations in place of names: `key={instructions}` or `key={{..}, name}`.

    bodies: instruction lists, or NAME tokens.
    """

    key: Token
    bodies: list[Any]
    is_list: bool
    end: Token


class ComputationRecord(NamedTuple):
    """`name (parameters) -> result { body }, attributes`; parameters: their shapes."""

    head: Token
    parameters: list[Token | Deep]
    result: Token | Deep | None
    body: list[InstructionRecord]
    end: Token
    attributes: list[Any]


@dataclass
class ModuleRecord:
    """A file. `dropped` contains the names defined on lines with syntax errors."""

    header: Token | None = None
    attributes: list[Any] = field(default_factory=list)
    tables: list[Token] = field(default_factory=list)
    computations: list[ComputationRecord] = field(default_factory=list)
    single: InstructionRecord | None = None
    dropped: set[str] = field(default_factory=set)


def _item(parts: list[Any]) -> Any:
    return parts[0]


def _between(parts: list[Any]) -> Deep:
    return Deep(parts[0].start_pos, parts[-1].end_pos)


class _Records:
    """The callbacks of the grammar's rules."""

    shape = operand = arguments = inline_name = staticmethod(_item)
    deep_shape = deep_attribute = staticmethod(_between)

    # Left-recursive lists: an item is appended to the existing list.
    @staticmethod
    def nothing(_: list[Any]) -> list[Any]:
        return []

    @staticmethod
    def first(parts: list[Any]) -> list[Any]:
        return [parts[-1]]

    @staticmethod
    def more(parts: list[Any]) -> list[Any]:
        items: list[Any] = parts[0]
        items.append(parts[-1])
        return items

    more_listed = more

    @staticmethod
    def ignored(_: list[Any]) -> None:
        return None

    @staticmethod
    def instruction(parts: list[Any]) -> InstructionRecord:
        return InstructionRecord(*parts)

    @staticmethod
    def without_shape(parts: list[Any]) -> InstructionRecord:
        definition, opcode, arguments, attributes = parts
        return InstructionRecord(definition, None, opcode, arguments, attributes)

    @staticmethod
    def with_two_shapes(parts: list[Any]) -> InstructionRecord:
        declared, definition, shape, opcode, arguments, attributes = parts
        return InstructionRecord(definition, shape, opcode, arguments, attributes, declared)

    @staticmethod
    def unnamed(parts: list[Any]) -> InstructionRecord:
        return InstructionRecord(None, *parts)

    @staticmethod
    def nested(parts: list[Any]) -> list[Any]:
        operands: list[Any] = parts[1]
        return operands

    @staticmethod
    def operation(parts: list[Any]) -> InstructionRecord:
        return InstructionRecord(None, *parts)

    @staticmethod
    def operation_without_shape(parts: list[Any]) -> InstructionRecord:
        return InstructionRecord(None, None, *parts)

    @staticmethod
    def deep_operand(parts: list[Any]) -> Deep:
        shape, name = parts
        return Deep(shape.start, name.end_pos)

    @staticmethod
    def inline(parts: list[Any]) -> InlineRecord:
        key, body, end = parts
        return InlineRecord(key, [body], False, end)

    @staticmethod
    def inline_list(parts: list[Any]) -> InlineRecord:
        key, bodies, end = parts
        return InlineRecord(key, bodies, True, end)

    @staticmethod
    def inline_body(parts: list[Any]) -> list[Any]:
        body: list[Any] = parts[1]
        return body

    @staticmethod
    def computation(parts: list[Any]) -> ComputationRecord:
        head, _, body, end, attributes = parts
        return ComputationRecord(head, [], None, body, end, attributes)

    @staticmethod
    def with_signature(parts: list[Any]) -> ComputationRecord:
        head, _, parameters, _, _, result, _, body, end, attributes = parts
        return ComputationRecord(head, parameters, result, body, end, attributes)

    @staticmethod
    def no_parameters(parts: list[Any]) -> ComputationRecord:
        head, _, _, _, result, _, body, end, attributes = parts
        return ComputationRecord(head, [], result, body, end, attributes)

    @staticmethod
    def header(parts: list[Any]) -> list[Any]:
        return parts

    @staticmethod
    def module(parts: list[Any]) -> ModuleRecord:
        (header, attributes), tables, computations = parts
        return ModuleRecord(header, attributes, tables, computations)

    @staticmethod
    def headless(parts: list[Any]) -> ModuleRecord:
        return ModuleRecord(computations=parts[0])

    @staticmethod
    def single(parts: list[Any]) -> ModuleRecord:
        return ModuleRecord(single=parts[0])


@cache
def grammar(*, long_strings: bool = False) -> Lark:
    """Return the parser of HLO text, built on first use, which takes about 50 ms.

    long_strings: strings may contain line breaks.
    """

    def fill(terminal: TerminalDef) -> None:
        pattern = terminal.pattern
        pattern.value = terminals.fill(pattern.value, long_strings=long_strings)

    text = resources.files("hlo.frontends.text").joinpath("grammar.lark").read_text("utf-8")
    with lasting():
        return Lark(
            text, parser="lalr", lexer=Lexer, transformer=_Records(), maybe_placeholders=False,
            edit_terminals=fill, g_regex_flags=re.S | re.A,
        )  # fmt: skip
