"""Parsing of the smaller elements of MLIR text: names, strings, and attributes.

Source: MLIR's language reference.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from hlo.errors import TextError
from hlo.frontends.stablehlo.types import TypeReader
from hlo.values.scan import from_bytes, to_bytes
from hlo.values.types import Shape

WORD = re.compile(r"[A-Za-z_][\w$.-]*+")
VALUE = re.compile(r"%([\w$.-]++)(?:#(\d++))?")
_SYMBOL = re.compile(r'@(?:([\w$.-]++)|"((?>(?:[^"\\]++|\\.)*))")(?:::@[\w$.-]++)*')
STRING = re.compile(r'"((?>(?:[^"\\\n]++|\\.)*))"')
_NUMBER = re.compile(r"-?(?:0x[0-9a-fA-F]++|\d++(?:\.\d*+)?(?:[eE][+-]?\d++)?)")
_NUMBER_TYPE = re.compile(r":\s*(?:[su]?i\d+|ui\d+|bf16|f\d\w*|index)\b")
_TYPE_START = re.compile(
    r"(?:tensor|tuple|complex)\s*<|!|(?:[su]?i\d+|u?i\d+|bf16|f\d\w*|index|none)\b"
)
_OPENING = {"(": ")", "[": "]", "{": "}", "<": ">"}
_PIECE = re.compile(r'->|>=|[][(){}<>]|"(?>(?:[^"\\]++|\\.)*)"')
_ELIDED = "__elided__"


@dataclass(frozen=True)
class Tagged:
    """An attribute in angle brackets, `#stablehlo.gather<..>` or `dense<..> : type`, with the text
    inside.

    start: the offset of the attribute; inside: that of its text.
    """

    name: str
    text: str
    start: int
    type: Shape | None = None

    def pairs(self) -> dict[str, Any]:
        """Return the `key = value` pairs inside. Raises TextError at the attribute."""
        cursor = Cursor("{" + self.text + "}")
        try:
            return cursor.dictionary()
        except TextError as e:
            raise TextError(f"#{self.name}: {e.message}", self.start, code=e.code) from None


_ESCAPE = re.compile(r"\\(?:([nt])|([0-9a-fA-F]{2})|(.))")


def unescaped(body: str) -> str:
    """Return the value of a quoted string's body: MLIR's escapes are bytes of two digits."""
    if "\\" not in body:
        return body
    out, pos = bytearray(), 0
    for m in _ESCAPE.finditer(body):
        out += to_bytes(body[pos : m.start()])
        if m[1]:
            out += b"\n" if m[1] == "n" else b"\t"
        else:
            out += bytes([int(m[2], 16)]) if m[2] else to_bytes(m[3])
        pos = m.end()
    return from_bytes(bytes(out) + to_bytes(body[pos:]))


class Cursor(TypeReader):
    """A position in the text, and parsing of the smaller elements there."""

    __slots__ = ("_resources",)

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._resources: dict[str, str] | None = None

    # --- elements -------------------------------------------------------------------------------

    def found(self) -> str:
        rest = self.text[self.pos : self.pos + 20]
        return repr(rest.split("\n")[0]) if rest else "the end"

    def accept(self, word: str) -> bool:
        text, end = self.text, self.pos + len(word)
        if not text.startswith(word, self.pos):
            return False
        if word[-1].isalnum() and (after := text[end : end + 1]):
            if after.isalnum() or after in "_.$":
                return False
        self.pos = end
        self.skip()
        return True

    def at(self, pattern: re.Pattern[str]) -> bool:
        return pattern.match(self.text, self.pos) is not None

    def balanced(self, opening: str) -> str:
        """Consume text in brackets; returns the content."""
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

    # --- attributes -----------------------------------------------------------------------------

    def attribute(self) -> Any:
        """Read the value of an attribute."""
        text, start = self.text, self.pos
        if self.at(STRING):
            return unescaped(self.match(STRING, "a string")[1])
        first = text[start : start + 1]
        if first == "[":
            return self._list()
        if first == "{":
            return self.dictionary()
        if first == "@":
            return self.symbol()
        if first == "<":
            return Tagged("", self.balanced("<"), start)
        if first == "#":
            found, value = self.alias(self.attribute)
            return value if found else self._tagged()
        if self.at(_NUMBER):
            return self._number()
        if first == "(":
            return self._function_type()
        if self.at(_TYPE_START):
            return self.type()
        return self._named()

    def _tagged(self) -> Tagged:
        """Read `#dialect.name<..>`, or `#dialect<name ..>`."""
        start = self.pos
        self.pos += 1
        name = self.match(WORD, "the name of an attribute")[0]
        return Tagged(name, self.balanced("<") if self.peek("<") else "", start)

    def _number(self) -> int | float:
        word = self.match(_NUMBER, "a number")[0]
        typed = _NUMBER_TYPE.match(self.text, self.pos)
        if typed is not None:
            self.pos = typed.end()
            self.skip()
        if re.fullmatch(r"-?\d{1,20}", word):
            return int(word)
        return int(word, 16) if "x" in word else float(word)

    def _function_type(self) -> tuple[list[Shape], list[Shape]]:
        arguments = self.types()
        self.expect("->")
        single = not self.peek("(")
        return arguments, [self.type()] if single else self.types()

    def _named(self) -> Any:
        """Read a value that begins with a word: true, `array<..>`, `dense<..> : type`, or
        others."""
        start = self.pos
        word = self.match(WORD, "the value of an attribute")[0]
        if word in ("true", "false"):
            return word == "true"
        if not self.peek("<"):
            return word
        inside = self.balanced("<")
        if word == "array":
            words = inside.partition(":")[2].split(",")
            return [self._element_of_array(x.strip(), start) for x in words if x.strip()]
        shape = self.type() if self.accept(":") else None
        if word == "dense_resource":
            return Tagged("dense", self._resource(inside.strip(), start), start, shape)
        return Tagged(word, inside, start, shape)

    def _element_of_array(self, word: str, start: int) -> Any:
        if word in ("true", "false"):
            return word == "true"
        if re.fullmatch(r"-?\d{1,20}", word):
            return int(word)
        self.fail(f"{word!r} is not an integer", start)

    def _resource(self, key: str, start: int) -> str:
        """Return the bytes of a resource, which are at the end of the text, as in `dense`."""
        if self._resources is None:
            section = self.text.rfind("{-#")
            found = _RESOURCE.finditer(self.text, section) if section >= 0 else ()
            self._resources = {m[1].strip('"'): m[2] for m in found}
        digits = self._resources.get(key.strip('"'))
        if digits is None:
            if key == _ELIDED:
                self.fail(
                    "the constant was left out when the text was printed", start, code="bad-value",
                    hint="print it without a limit on large elements",
                )  # fmt: skip
            self.fail(f"there is no resource {key}", start, code="bad-value")
        # The first four bytes are the alignment of the rest.
        return f'"0x{digits[8:]}"'

    def _list(self) -> list[Any]:
        with self.nested():
            return [self.attribute() for _ in self.items("[", "]")]

    def dictionary(self) -> dict[str, Any]:
        """Read `{key = value, key}`."""
        found: dict[str, Any] = {}
        with self.nested():
            for _ in self.items():
                self._pair(found)
        return found

    def _pair(self, found: dict[str, Any]) -> None:
        at_string = self.at(STRING)
        m = self.match(STRING if at_string else WORD, "an attribute")
        key = unescaped(m[1]) if at_string else m[0]
        found[key] = True
        if self.accept("="):
            verbatim = key in _VERBATIM and self.peek("{")
            found[key] = self._verbatim() if verbatim else self.attribute()

    def _verbatim(self) -> str:
        """Read a dictionary with values as verbatim text: HLO text has this form."""
        pairs: list[str] = []
        with self.nested():
            for _ in self.items():
                start = self.pos
                self._pair({})
                pairs.append(self.text[start : self.pos].rstrip())
        return f"{{{', '.join(sorted(pairs))}}}"

    def symbol(self) -> str:
        m = self.match(_SYMBOL, "a symbol")
        return m[1] if m[1] is not None else unescaped(m[2])

    def types(self) -> list[Shape]:
        """Read types, in parentheses or not."""
        closing = ")" if self.accept("(") else ""
        if closing and self.accept(closing):
            return []
        found = [self.type()]
        while self.accept(","):
            found.append(self.type())
        if closing:
            self.expect(closing)
        return found


_VERBATIM = ("backend_config", "mhlo.backend_config", "composite_attributes")
_RESOURCE = re.compile(
    r'(?<![\w$.-])("(?>(?:[^"\\\n]++|\\.)*)"|[\w$.-]++)\s*:\s*"0x([0-9a-fA-F]*+)"'
)
