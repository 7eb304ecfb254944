"""The smaller pieces of MLIR text: names, strings, types, and attributes.

Source: MLIR's language reference.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from hlo.errors import TextError
from hlo.scan import Scanner, unescape
from hlo.shape_text import MAX_NESTING
from hlo.stablehlo.types import read_type
from hlo.types import Shape

_GAP = re.compile(r"(?:\s++|//[^\n]*+)*+")
WORD = re.compile(r"[A-Za-z_][\w$.-]*+")
VALUE = re.compile(r"%([\w$.-]++)(?:#(\d++))?")
_SYMBOL = re.compile(r'@(?:([\w$.-]++)|"((?:[^"\\]|\\.)*+)")')
STRING = re.compile(r'"((?:[^"\\\n]|\\.)*+)"')
_NUMBER = re.compile(r"-?(?:0x[0-9a-fA-F]++|\d++(?:\.\d*+)?(?:[eE][+-]?\d++)?)")
_NUMBER_TYPE = re.compile(r":\s*(?:[su]?i\d+|ui\d+|bf16|f\d\w*|index)\b")
_TYPE_START = re.compile(
    r"(?:tensor|tuple|complex)\s*<|!|(?:[su]?i\d+|u?i\d+|bf16|f\d\w*|index|none)\b"
)
_OPENING = {"(": ")", "[": "]", "{": "}", "<": ">"}
_PIECE = re.compile(r'->|>=|[][(){}<>]|"(?:[^"\\]|\\.)*+"')


@dataclass(frozen=True)
class Tagged:
    """An attribute in an angle: `#stablehlo.gather<..>`, `dense<..> : type`, by its text inside."""

    name: str
    text: str
    start: int
    type: Shape | None = None

    def pairs(self) -> dict[str, Any]:
        """Return the `key = value` pairs inside. Raises TextError at their place."""
        cursor = Cursor("{" + self.text + "}")
        try:
            return cursor.dictionary("{", "}")
        except TextError as e:
            raise TextError(f"#{self.name}: {e.message}", self.start, code=e.code) from None


class Cursor(Scanner):
    """A place in the text, and the reading of its smaller pieces."""

    gap = _GAP

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.depth = 0

    # --- pieces ---------------------------------------------------------------------------------

    def found(self) -> str:
        return repr(self.text[self.pos : self.pos + 20]) if not self.at_end() else "the end"

    def accept(self, word: str) -> bool:
        end = self.pos + len(word)
        if word[-1].isalnum() and re.match(r"[\w.$]", self.text[end : end + 1]):
            return False
        return super().accept(word)

    def at(self, pattern: re.Pattern[str]) -> bool:
        return pattern.match(self.text, self.pos) is not None

    def nested(self) -> None:
        self.depth += 1
        if self.depth > MAX_NESTING:
            self.fail(f"nested more than {MAX_NESTING} deep", code="nesting-too-deep")

    def balanced(self, opening: str) -> str:
        """Take text in brackets; returns what is between them."""
        start = self.pos
        self.expect(opening)
        stack = [_OPENING[opening]]
        for m in _PIECE.finditer(self.text, start + 1):
            piece = m[0]
            if piece in _OPENING:
                stack.append(_OPENING[piece])
            elif piece == stack[-1]:
                stack.pop()
                if not stack:
                    self.pos = m.end()
                    self.skip()
                    return self.text[start + 1 : m.start()]
            elif piece in ")]}":
                break
        self.fail(f"{opening!r} is not closed", start)

    def type(self) -> Shape:
        return read_type(self)

    # --- attributes -----------------------------------------------------------------------------

    def attribute(self) -> Any:
        """Read the value of an attribute."""
        text, start = self.text, self.pos
        if self.at(STRING):
            return unescape(self.match(STRING, "a string")[1])
        if text.startswith("[", start):
            self.nested()
            values = self._list("[", "]")
            self.depth -= 1
            return values
        if text.startswith("{", start):
            return self.dictionary("{", "}")
        if text.startswith("@", start):
            return self.symbol()
        if text.startswith("#", start):
            self.pos += 1
            name = self.match(WORD, "the name of an attribute")[0]
            return Tagged(name, self.balanced("<") if self.at(re.compile("<")) else "", start)
        if self.at(_NUMBER):
            word = self.match(_NUMBER, "a number")[0]
            typed = _NUMBER_TYPE.match(text, self.pos)
            if typed is not None:
                self.pos = typed.end()
                self.skip()
            if re.fullmatch(r"-?\d{1,20}", word):
                return int(word)
            return int(word, 16) if "x" in word else float(word)
        if text.startswith("(", start):
            # The type of a function.
            arguments = self.types()
            self.expect("->")
            single = not self.text.startswith("(", self.pos)
            return arguments, [self.type()] if single else self.types()
        if self.at(_TYPE_START):
            return self.type()
        word = self.match(WORD, "the value of an attribute")[0]
        if word in ("true", "false"):
            return word == "true"
        if word == "array":
            inside = self.balanced("<").partition(":")[2]
            return [_element(x.strip(), self, start) for x in inside.split(",") if x.strip()]
        if word in ("dense", "dense_resource") and self.at(re.compile("<")):
            inside = self.balanced("<")
            self.expect(":")
            return Tagged(word, inside, start, self.type())
        return word

    def _list(self, opening: str, closing: str) -> list[Any]:
        self.expect(opening)
        values: list[Any] = []
        while not self.accept(closing):
            if values:
                self.expect(",")
            values.append(self.attribute())
        return values

    def dictionary(self, opening: str, closing: str) -> dict[str, Any]:
        """Read `{key = value, key}`."""
        self.nested()
        self.expect(opening)
        found: dict[str, Any] = {}
        while not self.accept(closing):
            if found:
                self.expect(",")
            at_string = self.at(STRING)
            m = self.match(STRING if at_string else WORD, "an attribute")
            key = unescape(m[1]) if at_string else m[0]
            found[key] = True
            if self.accept("="):
                start = self.pos
                found[key] = self.attribute()
                if key.endswith("backend_config") and isinstance(found[key], dict):
                    # Kept as it is written: HLO text has the same form.
                    found[key] = self.text[start : self.pos].rstrip()
        self.depth -= 1
        return found

    def symbol(self) -> str:
        m = self.match(_SYMBOL, "a symbol")
        return m[1] if m[1] is not None else unescape(m[2])

    def types(self) -> list[Shape]:
        if self.accept("("):
            found: list[Shape] = []
            while not self.accept(")"):
                if found:
                    self.expect(",")
                found.append(self.type())
            return found
        found = [self.type()]
        while self.accept(","):
            found.append(self.type())
        return found


def _element(word: str, cursor: Cursor, start: int) -> Any:
    if word in ("true", "false"):
        return word == "true"
    if re.fullmatch(r"-?\d{1,20}", word):
        return int(word)
    cursor.fail(f"{word!r} is no integer", start)
