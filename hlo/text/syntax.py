"""From text to records: the grammar's callbacks.

A record is a light tuple or list of tokens (strings that know their place). Names and values are not
looked at here; `build.py` makes IR of records.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from lark import Lark, Token
from lark.lexer import TerminalDef

from hlo.text import terminals


class InstructionRecord(NamedTuple):
    """`definition shape opcode arguments attributes`; what the text leaves out is None.

    arguments: an OPERANDS or PAYLOAD token, or a list of OPERAND tokens and records of operations.
    attributes: ATTRIBUTE tokens and inline records. declared: the shape that an older spelling has
    in front of the name as well.
    """

    definition: Token | None
    shape: Token | None
    opcode: Token
    arguments: Any
    attributes: list[Any]
    declared: Token | None = None


class InlineRecord(NamedTuple):
    """Computations written in place of names: `key={instructions}` or `key={{..}, name}`.

    bodies: instruction lists, or NAME tokens.
    """

    key: Token
    bodies: list[Any]
    is_list: bool
    end: Token


class ComputationRecord(NamedTuple):
    head: Token
    body: list[InstructionRecord]
    end: Token
    attributes: list[Any]


@dataclass
class ModuleRecord:
    """A file. `dropped` holds the names that are defined where the text does not follow the grammar."""

    header: Token | None = None
    attributes: list[Any] = field(default_factory=list)
    tables: list[Token] = field(default_factory=list)
    computations: list[ComputationRecord] = field(default_factory=list)
    single: InstructionRecord | None = None
    dropped: set[str] = field(default_factory=set)


class _Records:
    """Callbacks of the grammar's rules, called while the text is read."""

    # Left-recursive lists: an item is appended to the list made before.
    @staticmethod
    def nothing(_: list[Any]) -> list[Any]:
        return []

    @staticmethod
    def one(parts: list[Any]) -> list[Any]:
        return parts

    @staticmethod
    def more(parts: list[Any]) -> list[Any]:
        items: list[Any] = parts[0]
        items.append(parts[1])
        return items

    more_listed = more

    @staticmethod
    def instruction(parts: list[Any]) -> InstructionRecord:
        return InstructionRecord(*parts)

    @staticmethod
    def unshaped(parts: list[Any]) -> InstructionRecord:
        definition, opcode, arguments, attributes = parts
        return InstructionRecord(definition, None, opcode, arguments, attributes)

    @staticmethod
    def unnamed(parts: list[Any]) -> InstructionRecord:
        return InstructionRecord(None, *parts)

    @staticmethod
    def typed(parts: list[Any]) -> InstructionRecord:
        return InstructionRecord(*parts[1:], parts[0])

    @staticmethod
    def operation(parts: list[Any]) -> InstructionRecord:
        return InstructionRecord(None, *parts, [])

    @staticmethod
    def unshaped_operation(parts: list[Any]) -> InstructionRecord:
        return InstructionRecord(None, None, *parts, [])

    @staticmethod
    def arguments(parts: list[Any]) -> Any:
        return parts[0]

    nested = operand = arguments

    @staticmethod
    def inline(parts: list[Any]) -> InlineRecord:
        key, body, end = parts
        return InlineRecord(key, [body], False, end)

    @staticmethod
    def inline_list(parts: list[Any]) -> InlineRecord:
        key, bodies, end = parts
        return InlineRecord(key, bodies, True, end)

    @staticmethod
    def inline_body(parts: list[Any]) -> Any:
        return parts[0] if len(parts) == 1 else parts[1]

    @staticmethod
    def header(parts: list[Any]) -> list[Any]:
        return parts

    @staticmethod
    def computation(parts: list[Any]) -> ComputationRecord:
        return ComputationRecord(*parts)

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


def _fill_terminal(terminal: TerminalDef) -> None:
    terminal.pattern.value = terminals.fill(terminal.pattern.value)


@cache
def grammar() -> Lark:
    """Return the parser of HLO text; built on first use, which takes some 50 ms."""
    text = resources.files("hlo.text").joinpath("grammar.lark").read_text("utf-8")
    return Lark(
        text, parser="lalr", lexer="contextual", transformer=_Records(), maybe_placeholders=False,
        edit_terminals=_fill_terminal, g_regex_flags=re.S,
    )  # fmt: skip

