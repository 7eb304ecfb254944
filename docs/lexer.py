"""Colours of HLO in the documentation: Pygments lexers, from the TextMate grammar of editors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pygments.lexer import Lexer, RegexLexer
from pygments.lexers.shell import BashLexer
from pygments.token import (
    Comment,
    Generic,
    Keyword,
    Literal,
    Name,
    Number,
    Operator,
    Punctuation,
    String,
    Text,
    Whitespace,
    _TokenType,
)

from editors.generate import textmate

# Kinds of tokens by how scopes of TextMate begin, the longest first.
_KINDS: Mapping[str, _TokenType] = {
    "constant.character.escape": String.Escape,
    "constant.language": Keyword.Constant,
    "constant.numeric": Number,
    "constant": Literal,
    "comment": Comment,
    "entity.name.function": Name.Function,
    "entity.name.namespace": Name.Namespace,
    "entity.name.variable": Name.Variable,
    "keyword.operator": Operator,
    "keyword": Keyword,
    "punctuation": Punctuation,
    "storage.type": Keyword.Type,
    "string": String,
    "support.function": Name.Builtin,
    "variable.other.member": Name.Attribute,
    "variable.other.property": Name.Attribute,
    "variable": Name,
}
_Callback = Callable[[Lexer, re.Match[str], Any], Iterator[tuple[int, _TokenType, str]]]


def kind_of(scope: str) -> _TokenType:
    """Return the kind of token that a scope of the grammar stands for."""
    return next(kind for begin, kind in _KINDS.items() if scope.startswith(begin))


def _captured(captures: Mapping[str, Mapping[str, str]]) -> _Callback:
    """Return what splits a match by its groups; what is between them is white space."""

    def split(
        _: Lexer, match: re.Match[str], context: Any = None
    ) -> Iterator[tuple[int, Any, str]]:
        at = match.start()
        for number, capture in captures.items():
            start, end = match.span(int(number))
            if start < 0:
                continue
            if at < start:
                yield at, Whitespace, match.string[at:start]
            yield start, kind_of(capture["name"]), match.string[start:end]
            at = end
        if at < match.end():
            yield at, Whitespace, match.string[at : match.end()]

    return split


def _token(rule: Mapping[str, Any], captures: str = "captures") -> Any:
    return _captured(rule[captures]) if captures in rule else kind_of(rule["name"])


def _states() -> dict[str, list[Any]]:
    """Return the states of a lexer: one for the grammar, one for each rule with an end."""
    grammar = textmate()
    states: dict[str, list[Any]] = {}

    def add(state: str, patterns: list[dict[str, Any]]) -> None:
        rules = states.setdefault(state, [])
        for pattern in patterns:
            rule = pattern
            if "include" in pattern:
                rule = grammar["repository"][pattern["include"].removeprefix("#")]
            if "match" in rule:
                rules.append((rule["match"], _token(rule)))
            elif "begin" in rule:
                inner = f"inside{len(states)}"
                rules.append((rule["begin"], _token(rule, "beginCaptures"), inner))
                kind = kind_of(rule["name"]) if "name" in rule else Text
                states[inner] = [(rule["end"], kind, "#pop")]
                add(inner, rule.get("patterns", []))
                states[inner].append((r"\s+|.", kind))
            else:
                add(state, rule["patterns"])

    add("root", grammar["patterns"])
    states["root"].append((r"\s+", Whitespace))
    return states


class HloLexer(RegexLexer):
    """HLO text."""

    name = "HLO"
    aliases = ("hlo",)
    filenames = ("*.hlo",)
    flags = re.MULTILINE
    tokens = _states()


# A line of output that is HLO: the header, the head of a computation, or an instruction.
_HLO_LINE = re.compile(r"HloModule |ENTRY |\s*(?:ROOT )?%?[\w.-]+ = [\w(]+\[|%[\w.-]+ \(.*\{$")


class ConsoleLexer(Lexer):
    """Commands behind `$ `, and their output, in which HLO has its colours."""

    name = "HLO console"
    aliases = ("console",)

    def get_tokens_unprocessed(self, text: str) -> Iterator[tuple[int, _TokenType, str]]:
        at, continues = 0, False
        for line in text.splitlines(keepends=True):
            shift = 0
            if continues or line.startswith("$ "):
                shift = 0 if continues else 2
                if shift:
                    yield at, Generic.Prompt, "$ "
                lexer: Lexer | None = BashLexer()
                continues = line.endswith("\\\n")
            else:
                lexer = HloLexer() if _HLO_LINE.match(line) else None
            if lexer is None:
                yield at, Generic.Output, line
            else:
                for start, kind, value in lexer.get_tokens_unprocessed(line[shift:]):
                    yield at + shift + start, kind, value
            at += len(line)
