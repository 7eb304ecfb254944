"""The regular expressions of the grammar's terminals.

All are linear in time: every repetition is possessive or in an atomic group, so that there is no
backtracking. Only single characters are repeated possessively: of a group, Python before 3.11.5
does not restore the position of the last attempt (cpython issues 100061 and 106052). An atomic
group around the repetition, `(?>(?:...)*)`, is equivalent and correct in all versions. Brackets are
balanced to a small fixed depth; the grammar has rules for deeper text.
"""

from __future__ import annotations

import re
import string

# The usual depth and more. Patterns, and the time to compile them, grow with it.
DEPTH = 4

COMMENT = r"/\*[^*]*+\*++(?>(?:[^/*][^*]*+\*++)*)/|//[^\r\n]*+"
GAP = rf"\s*+(?>(?:(?:{COMMENT})\s*+)*)"
STRING = r"""(?:"(?>(?:[^"\\\n]++|\\.)*)"|'(?>(?:[^'\\\n]++|\\.)*)')"""
# A string may span several lines: XLA prints a program inside an attribute that way. That is
# accepted only if the whole text is valid then, since a missing quote is more likely.
LONG_STRING = STRING.replace(r"\n", "")
BARE_NAME = r"[A-Za-z_][A-Za-z0-9_.-]*+"
NAME = rf"(?:%?{BARE_NAME})"
# The end of a keyword: followed by more of these it is a longer name, `ROOT.1`.
WORD_END = r"(?![A-Za-z0-9_.-])"
ROOT, ENTRY = rf"ROOT{WORD_END}", rf"ENTRY{WORD_END}"


# Words that are names only with a `%`.
KEYWORDS = frozenset(
    "true false inf nan HloModule ENTRY ROOT FileLocations FileNames FunctionNames StackFrames "
    "maximal replicated manual last_tile_dim_replicate shard_as shard_like unknown "
    "unreduced".split()
)


def balanced(opening: str, closing: str, inside: str, depth: int = DEPTH) -> str:
    """Return the pattern of text in brackets; `inside` are the alternatives of the content."""
    o, c = re.escape(opening), re.escape(closing)
    pattern = rf"{o}(?>(?:{inside})*){c}"
    for _ in range(depth - 1):
        pattern = rf"{o}(?>(?:{inside}|{pattern})*){c}"
    return pattern


# A brace after an array shape opens its layout if a number or a colon follows, else a computation.
# One that is not closed ends before the next instruction, not with the computation.
_NAMED = rf"[^\S\n]*+(?:ROOT |%|{NAME} = )"
LAYOUT = rf"\{{(?=\s*+[\d:])(?>(?:[^{{}}\n]++|\n(?!{_NAMED})|\{{[^{{}}]*+\}})*)\}}"
ARRAY = rf"[a-z][a-z0-9]*+{GAP}\[[^\[\](){{}}%]*+\](?:{LAYOUT})?"

# The start of an instruction. The text after the `=` distinguishes it from a field of a value, `n =
# 1`.
INSTRUCTION = (
    rf"(?:{ROOT}|(?>(?:{ARRAY}{GAP})?)%{NAME}{GAP}="
    rf"|{NAME}(?=[\s/]){GAP}={GAP}(?:\(|[a-z][a-z0-9]*+{GAP}\[|[A-Za-z][A-Za-z0-9_.-]*+{GAP}\())"
)
# An inline computation: instructions in braces, or a list with at least one such.
INLINE_LIST = rf"{GAP}(?>(?:{NAME}{GAP},{GAP})*)\{{{GAP}{INSTRUCTION}"

# Braces end before a line that begins an instruction: the closing one is missing there. These
# patterns are repeated many times, so this one covers only lines as XLA prints them.
INSTRUCTION_LINE = rf"[^\S\n]*+(?:ROOT |%|{NAME} = (?:\(|[a-z0-9]++\[|[a-z-]++\())"
# An unclosed comment does not match: searching for the end of many would be quadratic.
_SLASH = r"/(?!\*)"
_IN_BRACES = rf"""[^{{}}"'/\n]++|{STRING}|\n(?!{INSTRUCTION_LINE})|{COMMENT}|{_SLASH}"""
BRACES = balanced("{", "}", _IN_BRACES)
PARENS = balanced("(", ")", rf"[^()/]++|{COMMENT}|{_SLASH}")
SHAPE = rf"(?:{ARRAY}(?:{GAP}{LAYOUT})?|b\({GAP}{ARRAY}{GAP}\)|{PARENS})"
# A single instruction may have operands without names.
_ELEMENT = rf"{NAME}(?!\[)(?>(?:#\d++)*){GAP}"
OPERAND = rf"(?:{SHAPE}{GAP}(?>(?:{_ELEMENT})?)|{_ELEMENT})"

# A value without braces ends at a comma, a brace or white space. Replica groups have a blank
# between mesh and axes; the literal of a custom call follows its shape, on the same line.
_WORD = r"""[^\s,{}()\[\]"'/=<]++"""
_SQUARES = balanced("[", "]", rf"""[^\[\]"']++|{STRING}""")
WORDS = rf"(?>(?:{_WORD}|<=|{_SQUARES}|{PARENS}|/(?![/*])|{STRING})+)"
_SCALAR = r"-?(?:[\d.][\w.+-]*+|(?:inf|nan|true|false)\b)"
_DEVICE_IDS = rf",{GAP}device_ids{GAP}={GAP}{PARENS}{GAP}"
_MESH = rf"mesh{_SQUARES}{GAP}(?>(?:{_DEVICE_IDS})?)(?>(?:,{GAP})?)"
VALUE = (
    rf"(?:(?>(?:(?:{ARRAY}[ \t]++|{_MESH}|{WORDS}\s*+)(?=\{{))?){BRACES}"
    rf"|{ARRAY}[ \t]++(?:{_SCALAR}|{PARENS})|{WORDS})"
)

# Literals contain neither square brackets nor strings.
_IN_LITERAL = rf"""[^()"'/\[\]]++|{COMMENT}|{_SLASH}"""
LITERAL = rf"""(?>(?:{_IN_LITERAL}|{balanced("(", ")", _IN_LITERAL, 8)})*)"""

_LINE = rf"\d++{GAP}(?:{STRING}|\{{[^{{}}]*+\}}){GAP}"
TABLE = rf"(?:FileNames|FunctionNames|FileLocations|StackFrames){WORD_END}{GAP}(?>(?:{_LINE})*)"

PATTERNS = {
    "gap": GAP,
    "word_end": WORD_END,
    "blank": rf"(?:\s|{COMMENT}){GAP}",
    "name": NAME,
    "shape": SHAPE,
    "operand": OPERAND,
    "key": rf"[A-Za-z_][A-Za-z0-9_.-]*+{GAP}={GAP}",
    "words": WORDS,
    "text": rf"(?>(?:{_IN_BRACES})+)",
    "instruction": INSTRUCTION,
    "inline_list": INLINE_LIST,
    "inline": rf"\{{{GAP}(?>(?:{NAME}{GAP},{GAP})*)(?>(?:\{{{GAP})?){INSTRUCTION}",
    "value": VALUE,
    "literal": LITERAL,
    "table": TABLE,
}

# For most terminals, patterns of the usual forms. These are tried first, in this order, since they
# compile quickly. If one matches valid text, its terminal is the intended one, and would match the
# same text.
_KEY = rf", (?!{ROOT})[A-Za-z_][A-Za-z0-9_.-]*+="
_PLAIN_STRING = r'"(?>(?:[^"\\\n]++|\\.)*)"'
_PLAIN_COMMENT = r"/\*[^*]*+\*/"
# Text with an equals sign and a parenthesis may be a computation.
_PLAIN_BRACES = "|".join(
    balanced("{", "}", rf"""[^{{}}"'/\n{other}]++|{_PLAIN_STRING}|{_PLAIN_COMMENT}""", 3)
    for other in ("=", "()")
)
_NUMBERS = balanced("{", "}", r"""[^{}"'/\n=]++""", 2)
_AFTER_VALUE = r"""(?=,|\s*+(?:[^\s{,(\[\]"'/=<]|\Z))"""
_PLAIN_VALUE = rf"(?:{_WORD}|{_PLAIN_STRING}){_AFTER_VALUE}"
# The shape of a tuple, which the terminal's own pattern covers.
PLAIN_TUPLE_SHAPE = (
    rf"\((?>(?:[^()/\n]++|{_PLAIN_COMMENT}|\((?>(?:[^()/\n]++|{_PLAIN_COMMENT})*)\))*)\) (?![\s/])"
)
USUAL = (
    ("GAP", r"\s++(?!/)"),
    ("END", r"\}"),
    ("ATTRIBUTE", rf"{_KEY}(?:{_NUMBERS}|{_WORD}{_AFTER_VALUE})"),
    ("ATTRIBUTE", rf"{_KEY}(?:{_PLAIN_BRACES}|{_PLAIN_VALUE})"),
    ("OPERANDS", rf"\((?>(?:{NAME}(?>(?:, (?>(?:{_PLAIN_COMMENT})?){NAME})*))?)\)"),
    ("PAYLOAD", r"""\((?:[-.\d][\w.+-]*+|\{[^(){}"'/\[\]]*+\})\)"""),
    ("HEADER", rf"HloModule {NAME}:?+(?!\s)"),
    ("DEFINITION", rf"(?>(?:ROOT )?){NAME} = (?!\s)"),
    ("SHAPE", r"[a-z][a-z0-9]*+\[[\d,]*+\](?>(?:\{[\d,]++\})?) (?![\s/]|\{[\s\d:])"),
    ("OPCODE", r"(?!b\()[a-z][a-z-]*+(?=\()"),
    ("COMPUTATION", rf"(?>(?:ENTRY )?){NAME} (?=[({{])"),
)

_SPACES, _CAPITALS, _LETTERS = " \t\n\r\v\f", string.ascii_uppercase, string.ascii_lowercase
_IN_NAMES = frozenset("%_" + _CAPITALS + _LETTERS)
# First characters of terminals; any character if not listed.
FIRST = {
    "GAP": frozenset("/" + _SPACES),
    "HEADER": frozenset("H"),
    "TABLE": frozenset("FS"),
    "SHAPE": frozenset("(" + _LETTERS),
    "OPCODE": frozenset(_CAPITALS + _LETTERS),
    "PARAMETER": _IN_NAMES,
    "COMPUTATION": _IN_NAMES,
    "DEFINITION": _IN_NAMES,
    "NAME": _IN_NAMES,
    "OPERANDS": frozenset("("),
    "PAYLOAD": frozenset("("),
    "ATTRIBUTE": frozenset(","),
    "INLINE": frozenset(","),
    "INLINE_LIST": frozenset(","),
    "DEEP_ATTRIBUTE": frozenset(","),
}


def fill(pattern: str, *, long_strings: bool = False) -> str:
    """Return a terminal's pattern with each `<<name>>` replaced by the pattern of that name.

    long_strings: strings may hold line breaks.
    """
    pattern = re.sub(r"<<(\w+)>>", lambda m: PATTERNS[m[1]], pattern)
    return pattern.replace(STRING, LONG_STRING) if long_strings else pattern
