"""Explains syntax errors in the terms of HLO."""

from __future__ import annotations

import re

from hlo.errors import Span
from hlo.frontends.text import terminals
from hlo.frontends.text.report import Report

# Names of terminals for users, the most specific first.
_WORDS = {
    "HEADER": "a module (HloModule name)",
    "COMPUTATION": "a computation (name {..})",
    "TABLE": "a table of source positions",
    "DEFINITION": "an instruction (name = shape opcode(..))",
    "PARAMETER": "a parameter (name: shape)",
    "OPERAND": "an operand",
    "SHAPE": "a shape (f32[2,3])",
    "OPCODE": "an opcode with its operands",
    "NAME": "the name of a computation",
    "LPAR": "'('",
    "COMMA": "','",
    "RPAR": "')'",
    "ARROW": "'->'",
    "OPEN": "'{'",
    "ATTRIBUTE": "an attribute (, name=value)",
    "END": "'}'",
    "$END": "the end of the text",
}
# Of a pair, the second is one way to begin the first and is left out.
_IMPLIED = {
    "HEADER": ("SHAPE",),
    "DEFINITION": ("SHAPE", "LPAR", "ATTRIBUTE"),
    "OPERAND": ("SHAPE", "OPCODE", "LPAR"),
    "SHAPE": ("LPAR",),
    "PARAMETER": ("SHAPE",),
    "TABLE": ("TABLE",),
}
_BLANK = re.compile(r"\s*+")
_WORD = re.compile(r"[A-Za-z0-9_.%#-]+|\S")
_KEYWORD = re.compile(rf"(HloModule|ENTRY|ROOT){terminals.WORD_END}({terminals.GAP})", re.S)
_KEY = re.compile(
    rf",{terminals.GAP}(?>(?:(?P<key>[A-Za-z_][A-Za-z0-9_.-]*+){terminals.GAP}"
    rf"(?:(?P<equals>=){terminals.GAP})?)?)", re.S,
)  # fmt: skip
_INSTRUCTION_LINE = re.compile(rf",{terminals.GAP}{terminals.INSTRUCTION}", re.S)
_INSTRUCTION = re.compile(terminals.INSTRUCTION_LINE, re.S)
_PIECE = re.compile(
    rf"""{terminals.STRING}|{terminals.COMMENT}|/\*|[][(){{}}"'/\n]|[^][(){{}}"'/\n]++""", re.S
)
TRUNCATED = "the file ends here; it may be truncated"
_CLOSING = {"{": "}", "(": ")", "[": "]"}


def explain(report: Report, at: int, expected: set[str], opener: int | None) -> None:
    """Report the error at `at`, where one of the `expected` terminals should be.

    opener: where the enclosing parentheses or braces open, if any.
    """
    text = report.source.text
    keyword = _KEYWORD.match(text, at)
    if text.startswith(",", at) and "ATTRIBUTE" in expected:
        _explain_attribute(report, at)
    elif keyword and keyword[1] in _names_after(expected):
        report.error("syntax", f"expected a name after {keyword[1]}, found "
                     f"{_found(text, keyword.end())}", keyword.end())  # fmt: skip
    elif not _explain_brackets(report, _bracket_near(text, at, expected, opener)):
        hint = None
        if text.startswith("/*", at):
            report.error("syntax", "the comment is never closed", at, hint=TRUNCATED)
            return
        if text.startswith("HloModule", at):
            hint = "a text contains one module, and nothing may precede its HloModule"
        elif not text.strip():
            hint = "the text is empty"
        else:
            hint = _at_end(text, at)
        report.error("syntax", f"expected {_listed(expected)}, found {_found(text, at)}", at,
                     hint=hint)  # fmt: skip


def _names_after(expected: set[str]) -> set[str]:
    """Return the keywords that are valid here, and need a name after them."""
    places = {"HloModule": "HEADER", "ENTRY": "COMPUTATION", "ROOT": "DEFINITION"}
    return {word for word, terminal in places.items() if terminal in expected}


def _listed(expected: set[str]) -> str:
    implied = {t for e in expected for t in _IMPLIED.get(e, ())}
    words = [what for name, what in _WORDS.items() if name in expected and name not in implied]
    if "SHAPE" in expected and "OPCODE" in expected and "OPERAND" not in expected:
        return "a shape and an opcode, f32[2] add(..)"
    return ", ".join(words[:-1]) + " or " + words[-1] if len(words) > 1 else words[0]


def _at_end(text: str, at: int) -> str | None:
    """Return a hint where at most one word and white space follow."""
    word = _WORD.match(text, at)
    return TRUNCATED if _BLANK.fullmatch(text, word.end() if word else at) else None


def _found(text: str, at: int) -> str:
    if _BLANK.fullmatch(text, at):
        return "the end of the text"
    m = _WORD.match(text, at)
    word = m[0] if m else text[at]
    return repr(word if len(word) <= 40 else word[:40] + "..")


def _bracket_near(text: str, at: int, expected: set[str], opener: int | None) -> int | None:
    """Return where brackets open that may cause the error: here, after a word, or around."""
    if expected & {"OPERAND", "SHAPE", "OPCODE", "LPAR"}:
        # A shape never begins with a brace; a layout behind one does.
        if text[at : at + 1] in (("(", "[") if "SHAPE" in expected else _CLOSING):
            return at
        m = _WORD.match(text, at)
        if m and text[m.end() : m.end() + 1] in _CLOSING:
            return m.end()
    return opener


def _explain_attribute(report: Report, at: int) -> None:
    """Report a comma without an attribute after it."""
    text = report.source.text
    m = _KEY.match(text, at)
    assert m is not None
    end = m.end()
    if m["key"] is None or _INSTRUCTION_LINE.match(text, at):
        report.error("syntax", "expected an attribute (name=value) after ','", at)
    elif m["equals"] is None:
        message = f"expected '=' after {m['key']!r}, found {_found(text, end)}"
        report.error("syntax", message, end, hint=_at_end(text, end))
    elif not _explain_brackets(report, end):
        message = f"{m['key']}: expected a value, found {_found(text, end)}"
        report.error("syntax", message, end, hint=_at_end(text, end))


def _explain_brackets(report: Report, at: int | None) -> bool:
    """Report unclosed brackets or an unclosed string at `at`; return False if there are none."""
    text = report.source.text
    if at is None or text[at : at + 1] not in ("(", "[", "{", "'", '"'):
        return False
    opened: list[int] = []
    hint: str | None = TRUNCATED
    for m in _PIECE.finditer(text, at):
        piece = m[0]
        if piece in ("'", '"'):
            hint = None if "\n" in text[m.start() :] else TRUNCATED
            report.error("syntax", "the string is not closed on its line", m.start(), hint=hint)
            return True
        if piece == "/*":
            report.error("syntax", "the comment is never closed", m.start(), hint=TRUNCATED)
            return True
        if piece in _CLOSING:
            opened.append(m.start())
        elif piece in ("}", ")", "]"):
            last = opened.pop()
            if _CLOSING[text[last]] != piece:
                place = Span(report.source, m.start(), m.end())
                report.error("syntax", f"{text[last]!r} is never closed", last,
                             note=(f"{piece!r} is here", place))  # fmt: skip
                return True
        elif piece == "\n" and _INSTRUCTION.match(text, m.end()):
            hint = None
            break
        if not opened:
            return False
    report.error("syntax", f"{text[opened[-1]]!r} is never closed", opened[-1], hint=hint)
    return True
