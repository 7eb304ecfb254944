"""Parsing of the smaller elements of MLIR text: names, strings, and attributes.

Source: MLIR's language reference.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from hlo.errors import TextError
from hlo.frontends.stablehlo.declarations import COMPLETE_STRUCTURES, STRUCTURES
from hlo.frontends.stablehlo.types import TypeReader, element_type
from hlo.values.scan import from_bytes, to_bytes
from hlo.values.types import ArrayShape, Shape, integer_range

WORD = re.compile(r"[A-Za-z_][\w$.-]*+")
VALUE = re.compile(r"%([\w$.-]++)(?:#(\d++))?")
_SYMBOL = re.compile(r'@(?:([\w$.-]++)|"((?>(?:[^"\\]++|\\.)*))")(?:::@[\w$.-]++)*')
STRING = re.compile(r'"((?>(?:[^"\\\n]++|\\.)*))"')
_NUMBER = re.compile(r"-?(?:0x[0-9a-fA-F]++|\d++(?:\.\d*+)?(?:[eE][+-]?\d++)?)")
_NUMBER_TYPE = re.compile(r"(?:[su]?i\d+|bf16|f\d\w*|index)\b")
_TYPE_START = re.compile(
    r"(?:tensor|tuple|complex)\s*<|!|(?:[su]?i\d+|u?i\d+|bf16|f\d\w*|index|none)\b"
)
_OPENING = {"(": ")", "[": "]", "{": "}", "<": ">"}
_PIECE = re.compile(r'->|>=|[][(){}<>]|"(?>(?:[^"\\]++|\\.)*)"')
# The name of constants whose bytes were left out when the text was printed.
ELIDED = "elided"
_INSIDE = re.compile(r"\s*([A-Za-z_]\w*)\b(.*)", re.S)


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
        # A comma may follow the last one.
        text = re.sub(r",\s*\Z", "", self.text)
        cursor = Cursor("{" + text + "}")
        cursor.takes_words = True
        kind = self.name.partition(".")[2]
        known = STRUCTURES.get(kind)
        try:
            found = cursor.dictionary()
            if known is not None and not found.keys() <= known:
                cursor.fail(f"it has no field {min(found.keys() - known)}", code="bad-value")
            if kind in COMPLETE_STRUCTURES and known != found.keys():
                cursor.fail(f"its fields are {', '.join(sorted(known or ()))}", code="bad-value")
        except TextError as e:
            raise TextError(f"#{self.name}: {e.message}", self.start, code=e.code) from None
        return found


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


class Attributes(dict[str, Any]):
    """Attributes by name. kinds: what each one is, in the words of `Cursor.kind`."""

    __slots__ = ("kinds",)

    def __init__(self) -> None:
        super().__init__()
        self.kinds: dict[str, str] = {}

    def add(self, other: Attributes) -> None:
        self.update(other)
        self.kinds.update(other.kinds)


class Cursor(TypeReader):
    """A position in the text, and parsing of the smaller elements there.

    kind: what the attribute is that was read last: the type of a number, `array<i64>`,
    `elements<s64>`, `stablehlo.gather` of one with this name, or a word such as `string`.
    """

    __slots__ = ("_kinds", "_resources", "kind", "takes_words")

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._resources: dict[str, str] | None = None
        self._kinds: dict[str, str] = {}
        self.kind = ""
        # Whether a bare word is a value: inside of attributes in angle brackets only.
        self.takes_words = False

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
        self.kind = _KINDS.get(text[start : start + 1], "")
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
            return self._hash()
        if self.at(_NUMBER):
            return self._number()
        if first == "(":
            found = self.function_type()
            self.kind = "type"
            return found
        if self.at(_TYPE_START):
            self.kind = "type"
            return self.type()
        return self._named()

    def _hash(self) -> Any:
        """Read an alias, or an attribute of a dialect."""
        name = self.alias_name()
        found, value = self.alias(self.attribute)
        if not found:
            return self._tagged()
        # The definition is read at the first use only.
        self.kind = self._kinds.setdefault(name, self.kind)
        return value

    def _tagged(self) -> Tagged:
        """Read `#dialect.name<..>`, also as `#dialect<name<..>>`, or `#dialect<name word>`."""
        start = self.pos
        self.pos += 1
        name = self.match(WORD, "the name of an attribute")[0]
        text = self.balanced("<") if self.peek("<") else ""
        self.kind = name
        m = _INSIDE.fullmatch(text) if "." not in name else None
        if m is not None:
            dialect, name, text = name, f"{name}.{m[1]}", m[2].strip()
            self.kind = f"{dialect}<{m[1]}>"
            if text.startswith("<") and text.endswith(">"):
                self.kind, text = name, text[1:-1]
        return Tagged(name, self.inlined(text) if name.startswith("sdy.") else text, start)

    def inlined(self, text: str) -> str:
        """Return the text of one of Shardy's attributes with aliases replaced by what they are."""

        def definition(m: re.Match[str]) -> str:
            if m[1] is None:
                return m[0]
            inner = Cursor(self.text)
            with self.nested():
                inner.depth = self.depth
                value = inner.aliased(m[1], self.pos)
            if not isinstance(value, Tagged) or value.name != "sdy.sharding":
                self.fail(f"{m[1]} is not a sharding", code="bad-sharding")
            return f"<{value.text}>"

        text = text.replace("#sdy.sharding<", "<")
        return _ALIAS_INSIDE.sub(definition, text) if "#" in text else text

    def aliased(self, name: str, start: int) -> Any:
        """Return the attribute that an alias names. Raises TextError at `start` without such."""
        m = re.search(rf"^[ \t]*{re.escape(name)}[ \t]*=[ \t]*", self.text, re.M)
        if m is None:
            self.fail(f"there is no alias {name}", start, code="undefined-computation")
        self.pos = m.end()
        self.skip()
        return self.attribute()

    def _number(self) -> int | float:
        start = self.pos
        word = self.match(_NUMBER, "a number")[0]
        is_whole = re.fullmatch(r"-?\d+|-?0x.*", word) is not None
        self.kind = "i64" if is_whole else "f64"
        behind = self.pos
        typed = _NUMBER_TYPE.match(self.text, self.pos) if self.accept(":") else None
        if typed is None:
            self.pos = behind
        else:
            self.pos = typed.end()
            self.skip()
            self.kind = typed[0]
            is_float = self.kind[0] in "bf"
            if is_float == is_whole and "x" not in word:
                self.fail(f"{word} is not a number of type {self.kind}", start, code="bad-value")
        if re.fullmatch(r"-?\d{1,20}", word):
            self._need_fit(int(word), start)
            return int(word)
        return int(word, 16) if "x" in word else float(word)

    def _need_fit(self, value: int, start: int) -> None:
        """Raise TextError unless an integer fits the type that was read behind it."""
        et = element_type(self.kind)
        if et is None or not et.is_integer:
            return
        low, high = integer_range(et)
        if not low <= value <= (2 * high + 1 if low < 0 else high):
            self.fail(f"{value} is not an integer of type {self.kind}", start, code="bad-value")

    def function_type(self) -> tuple[list[Shape], list[Shape]]:
        """Read `(a, b) -> c`, or with several results in parentheses."""
        arguments = self.types_in_parentheses()
        self.expect("->")
        return arguments, self.types_in_parentheses() if self.peek("(") else [self.value_type()]

    def _named(self) -> Any:
        """Read a value that begins with a word: true, `array<..>`, `dense<..> : type`, or
        others."""
        start = self.pos
        word = self.match(WORD, "the value of an attribute")[0]
        if word in ("true", "false"):
            self.kind = "bool"
            return word == "true"
        self.kind = word
        if word == "unit":
            return True
        if word == "loc" and self.peek("("):
            return Tagged(word, self.balanced("("), start)
        if not self.peek("<"):
            if not self.takes_words:
                self.fail(f"{word!r} is not the value of an attribute", start)
            return word
        inside = self.balanced("<")
        if word == "array":
            element, _, rest = inside.partition(":")
            self.kind = f"array<{element.strip()}>"
            words = rest.split(",")
            is_flag = element.strip() == "i1"
            if is_flag and not {w.strip() for w in words} <= {"true", "false", ""}:
                self.fail("elements of i1 are true or false", start, code="bad-value")
            return [self._element_of_array(x.strip(), start) for x in words if x.strip()]
        shape = self.type() if self.accept(":") else None
        if isinstance(shape, ArrayShape):
            self.kind = f"elements<{shape.element_type}>"
        if word == "dense_resource":
            return self._resource(inside.strip(), start, shape)
        return Tagged(word, inside, start, shape)

    def _element_of_array(self, word: str, start: int) -> Any:
        if word in ("true", "false"):
            return word == "true"
        if re.fullmatch(r"-?\d{1,20}", word):
            return int(word)
        if _NUMBER.fullmatch(word) and "x" not in word:
            return float(word)
        self.fail(f"{word!r} is not a number", start)

    def _resource(self, key: str, start: int, shape: Shape | None) -> Tagged:
        """Return a constant whose bytes are at the end of the text; those of some are elided."""
        if self._resources is None:
            section = self.text.rfind("{-#")
            found = _RESOURCE.finditer(self.text, section) if section >= 0 else ()
            self._resources = {m[1].strip('"'): m[2] for m in found}
        digits = self._resources.get(key.strip('"'))
        if digits is None:
            return Tagged(ELIDED, "", start, shape)
        # The first four bytes are the alignment of the rest.
        return Tagged("dense", f'"0x{digits[8:]}"', start, shape)

    def _list(self) -> list[Any]:
        with self.nested():
            found = [self.attribute() for _ in self.items("[", "]")]
        self.kind = "list"
        return found

    def dictionary(self) -> Attributes:
        """Read `{key = value, key}`."""
        found = Attributes()
        with self.nested():
            for _ in self.items():
                self._pair(found)
        self.kind = "dictionary"
        return found

    def _pair(self, found: Attributes) -> None:
        start, at_string = self.pos, self.at(STRING)
        m = self.match(STRING if at_string else WORD, "an attribute")
        key = unescaped(m[1]) if at_string else m[0]
        if key in found:
            self.fail(f"{key!r} is there twice", start, code="duplicate-attribute")
        found[key], self.kind = True, "unit"
        if self.accept("="):
            verbatim = key in _VERBATIM and self.peek("{")
            found[key] = self._verbatim() if verbatim else self.attribute()
        found.kinds[key] = self.kind

    def _verbatim(self) -> str:
        """Read a dictionary with values as verbatim text: HLO text has this form."""
        pairs: list[str] = []
        with self.nested():
            for _ in self.items():
                start = self.pos
                self._pair(Attributes())
                pairs.append(self.text[start : self.pos].rstrip())
        self.kind = "dictionary"
        return f"{{{', '.join(sorted(pairs))}}}"

    def symbol(self) -> str:
        m = self.match(_SYMBOL, "a symbol")
        return m[1] if m[1] is not None else unescaped(m[2])

    def value_type(self) -> Shape:
        """Read the type of a value: an array, a tuple, or one of a dialect."""
        if self.text[self.pos : self.pos + 1] not in ("t", "!"):
            self.fail(f"expected the type of an array, found {self.found()}", code="unknown-type")
        return self.type()

    def types(self) -> list[Shape]:
        """Read the types of values with commas between them."""
        found = [self.value_type()]
        while self.accept(","):
            found.append(self.value_type())
        return found

    def types_in_parentheses(self) -> list[Shape]:
        return [self.value_type() for _ in self.items("(", ")")]


_ALIAS_INSIDE = re.compile(r'"(?>(?:[^"\\\n]++|\\.)*)"|(#[A-Za-z_]\w*+)(?![\w$.<])')
# What an attribute is by its first character.
_KINDS = {'"': "string", "[": "list", "{": "dictionary", "@": "symbol"}
_VERBATIM = ("backend_config", "mhlo.backend_config", "composite_attributes")
_RESOURCE = re.compile(
    r'(?<![\w$.-])("(?>(?:[^"\\\n]++|\\.)*)"|[\w$.-]++)\s*:\s*"0x([0-9a-fA-F]*+)"'
)
