"""A contextual lexer: tokens by what the parser can accept next."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import lark
import lark.lexer
from lark.common import LexerConf
from lark.exceptions import UnexpectedCharacters
from lark.lexer import LexerState, PatternStr, TerminalDef
from lark.parsers.lalr_parser_state import ParserState

from hlo.frontends.text import terminals
from hlo.frontends.text.tokens import Token


class Pattern:
    """A pattern of a terminal, compiled on first use."""

    def __init__(self, terminal: str, pattern: str, flags: int) -> None:
        self.terminal, self._pattern, self._flags = terminal, pattern, flags

    @cached_property
    def match(self) -> Callable[[str, int], re.Match[str] | None]:
        return re.compile(self._pattern, self._flags).match

    def can_begin_with(self, character: str) -> bool:
        first = terminals.FIRST.get(self.terminal)
        return first is None or character in first


class Lexer(lark.lexer.Lexer):
    """Lark's contextual lexer, with a separate pattern for every terminal.

    One pattern for all terminals of a parser state would have to be compiled for each set of
    terminals, which takes longer than reading a typical file.
    """

    __future_interface__ = 2

    def __init__(self, conf: LexerConf) -> None:
        flags = conf.g_regex_flags
        defined = {t.name: t.pattern.to_regexp() for t in sorted(conf.terminals, key=_rank)}
        patterns = (*terminals.USUAL, *defined.items())
        self._patterns = [Pattern(name, pattern, flags) for name, pattern in patterns]
        self._ignored = frozenset(conf.ignore)
        # Keyed by the parser's state and the next character.
        self._candidates: dict[tuple[Any, str], list[Pattern]] = {}

    def lex(self, lexer_state: LexerState, parser_state: ParserState[Any]) -> Iterator[Token]:
        """Yield tokens, each by the current state of the parser.

        Raises UnexpectedCharacters where no acceptable terminal matches.
        """
        text: str = lexer_state.text.text
        size = len(text)
        place = lexer_state.line_ctr
        candidates, ignored, states = self._candidates, self._ignored, parser_state.state_stack
        while (at := place.char_pos) < size:
            key = states[-1], text[at]
            if key not in candidates:
                candidates[key] = self._beginning(text[at], parser_state)
            for pattern in candidates[key]:
                if m := pattern.match(text, at):
                    place.char_pos = end = m.end()
                    if pattern.terminal not in ignored:
                        yield Token(pattern.terminal, m[0], at, end_pos=end)
                    break
            else:
                raise UnexpectedCharacters(text, at, 0, 0)

    def _beginning(self, character: str, parser_state: ParserState[Any]) -> list[Pattern]:
        """Return patterns of acceptable and ignored terminals that may begin like this."""
        wanted = self._ignored | parser_state.parse_conf.states[parser_state.position].keys()
        found = (p for p in self._patterns if p.terminal in wanted)
        return [p for p in found if p.can_begin_with(character)]


def _rank(terminal: TerminalDef) -> tuple[int, bool, int, str]:
    # Of two that match, the one with the longer pattern takes precedence.
    is_text, length = isinstance(terminal.pattern, PatternStr), len(terminal.pattern.value)
    return -terminal.priority, is_text, -length, terminal.name
