"""The regular expressions behind the grammar's terminals.

All are linear in time and constant in memory: every repetition is possessive, so that nothing is
tried twice, and brackets are balanced to a fixed depth. Text nested deeper does not match, and is
reported as such (`syntax.py`).
"""

from __future__ import annotations

import re

# Deep enough for anything that is written by a program; a limit keeps every pattern finite.
MAX_DEPTH = 32

COMMENT = r"/\*(?:[^*]++|\*(?!/))*+\*/|//[^\n]*+"
GAP = rf"\s*+(?:(?:{COMMENT})\s*+)*+"
STRING = r"""(?:"(?:[^"\\]++|\\.)*+"|'(?:[^'\\]++|\\.)*+')"""
NAME = r"(?:%?[A-Za-z_][A-Za-z0-9_.-]*+)"


def balanced(opening: str, closing: str, depth: int = MAX_DEPTH, *, other: str = "") -> str:
    """Return the pattern of text in brackets, with nested pairs, strings and comments inside.

    `other` lists further characters that may not appear.
    """
    o, c = re.escape(opening), re.escape(closing)
    inside = rf"""[^{o}{c}{other}"'/]++|{STRING}|{COMMENT}|/"""
    pattern = rf"{o}(?:{inside})*+{c}"
    for _ in range(depth - 1):
        pattern = rf"{o}(?:{inside}|{pattern})*+{c}"
    return pattern


BRACES = balanced("{", "}")
PARENS = balanced("(", ")")

# A brace after an array shape opens its layout if a number or a colon follows, else a computation.
LAYOUT = rf"\{{(?=\s*+[\d:])(?:[^{{}}]++|\{{[^{{}}]*+\}})*+\}}"
ARRAY = rf"[a-z][a-z0-9]*+\[[^\[\](){{}}%]*+\](?:{LAYOUT})?+"
SHAPE = rf"(?:{ARRAY}|b\({GAP}{ARRAY}{GAP}\)|{PARENS})"
OPERAND = rf"(?:{SHAPE}{GAP})?+{NAME}(?:#\d++)*+{GAP}"

# The start of an instruction inside a computation written in place. A field of an ordinary value
# looks like one up to the `=`, so what follows is looked at too.
INSTRUCTION = (
    rf"{GAP}(?:ROOT\b|(?:{ARRAY}{GAP})?+%{NAME}{GAP}="
    rf"|{NAME}{GAP}={GAP}(?:\(|[a-z][a-z0-9]*+\[|[A-Za-z][A-Za-z0-9_.-]*+{GAP}\())"
)
INLINE_LIST = rf"{GAP}(?:{NAME}{GAP},{GAP})*+\{{(?:{INSTRUCTION})"

# A value without brackets ends at a comma, a brace or white space. Replica groups have blanks
# between a mesh and its axes, conversion arrows are part of dimension labels, literals are in braces
# after their shape.
_WORD = rf"""[^\s,{{}}()\[\]"'/=]++"""
_SQUARES = balanced("[", "]", 4)
VALUE = rf"(?:{BRACES}|{STRING}|(?:{_WORD}|{_SQUARES}|{PARENS}|/(?![/*])|{STRING})++(?:\s*+{BRACES})?+)"

_LITERAL_PARENS = balanced("(", ")", other=r"\[\]")
LITERAL = rf"""(?:[^()"'/\[\]]++|{COMMENT}|/|{_LITERAL_PARENS})*+"""

_LINE = rf"\d++{GAP}(?:{STRING}|\{{[^{{}}]*+\}}){GAP}"
TABLE = rf"(?:FileNames|FunctionNames|FileLocations|StackFrames)\b{GAP}(?:{_LINE})*+"

PATTERNS = {
    "gap": GAP,
    "name": NAME,
    "shape": SHAPE,
    "operand": OPERAND,
    "parens": PARENS,
    "instruction": INSTRUCTION,
    "inline_list": INLINE_LIST,
    "inline": rf"\{{(?:{INSTRUCTION})|\{{(?:{INLINE_LIST})",
    "value": VALUE,
    "literal": LITERAL,
    "table": TABLE,
}


def fill(pattern: str) -> str:
    """Return a terminal's pattern with each `<<name>>` replaced by the pattern of that name."""
    return re.sub(r"<<(\w+)>>", lambda m: PATTERNS[m[1]], pattern)
