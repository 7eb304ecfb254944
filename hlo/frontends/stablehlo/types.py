"""Parsing of MLIR's types as shapes, and of aliases of types and attributes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hlo.errors import TextError, did_you_mean
from hlo.values.scan import Scanner
from hlo.values.shape_text import parse_shape
from hlo.values.types import (
    ELEMENT_TYPES,
    MAX_NESTING,
    TOKEN,
    UNBOUNDED,
    ArrayShape,
    ElementType,
    Layout,
    Shape,
    TupleShape,
    complex_of,
)

_GAP = re.compile(r"(?>(?:\s++|//[^\n]*+)*)")
_DIM = re.compile(r"(\d{1,19}|\?)x")
_ELEMENT = re.compile(r"complex<(\w+)>|(\w+)")
_PLAIN = re.compile(r"tensor<[\w?]+>")
_BOUNDS = re.compile(r"#(?:stablehlo|mhlo)\.(?:bounds|type_extensions)\b")
_BOUND = re.compile(r"\d++|\?")
_ALIAS = re.compile(r"^[ \t]*([#!][A-Za-z_][\w$.]*+)[ \t]*=", re.M)
_ALIAS_NAME = re.compile(r"[#!][A-Za-z_][\w$]*+(?![\w$.<])")
_DIALECT_TYPE = re.compile(r"!?[\w$.]+")
_QUANTIZED = "StableHLO's pass stablehlo-legalize-quant-to-math lowers it to integers"

# The result of an asynchronous start: its structure is defined by HLO.
FUTURE = TupleShape(())


def element_type(word: str) -> ElementType | None:
    """Return the element type with MLIR's name `word` (`i32`, `ui8`, `f8E4M3FN`), or None."""
    m = re.fullmatch(r"(u|s)?i(\d+)", word)
    if m is not None:
        name = "pred" if m[2] == "1" else f"{'u' if m[1] == 'u' else 's'}{m[2]}"
        return ELEMENT_TYPES.get(name)
    return ELEMENT_TYPES.get("s64" if word == "index" else word.lower())


class TypeReader(Scanner):
    """A position in the text, and parsing of types."""

    __slots__ = ("_aliases", "_known", "_shapes", "depth")
    gap = _GAP

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.depth = 0
        self._aliases: dict[str, int] | None = None
        self._known: dict[str, Any] = {}
        self._shapes: dict[str, Shape] = {}

    @contextmanager
    def nested(self) -> Iterator[None]:
        """Count the nesting depth. Raises TextError if it is too deep."""
        self.depth += 1
        if self.depth > MAX_NESTING:
            self.fail(f"nested more than {MAX_NESTING} deep", code="nesting-too-deep")
        yield
        self.depth -= 1

    # --- aliases --------------------------------------------------------------------------------

    def alias_name(self) -> str:
        """Return the name of the alias that is here, or nothing."""
        m = _ALIAS_NAME.match(self.text, self.pos)
        return m[0] if m is not None else ""

    def alias(self, read: Callable[[], Any]) -> tuple[bool, Any]:
        """Read an alias, if there is one here; `read` reads its definition.

        Returns whether there was one, and its value. An alias may be defined after its uses.
        """
        m = _ALIAS_NAME.match(self.text, self.pos)
        if m is None:
            return False, None
        name, after = m[0], m.end()
        if name not in self._known:
            if self._aliases is None:
                self._aliases = {a[1]: a.end() for a in _ALIAS.finditer(self.text)}
            if name not in self._aliases:
                self.fail(f"there is no alias {name}", code="undefined-computation",
                          hint=did_you_mean(name, self._aliases))  # fmt: skip
            if self._aliases[name] > self.pos:
                self.fail(
                    f"{name} is used in front of its definition", code="undefined-computation"
                )
            with self.nested():
                self.pos = self._aliases[name]
                self.skip()
                self._known[name] = read()
        self.pos = after
        self.skip()
        return True, self._known[name]

    # --- types ----------------------------------------------------------------------------------

    def type(self) -> Shape:
        """Read `tensor<2x3xf32>`, a tuple, a token or a bare element type, which is a scalar's."""
        start = self.pos
        plain = _PLAIN.match(self.text, start)
        if plain is None:
            return self._any_type(start)
        # A text has many types, but few different ones.
        shape = self._shapes.get(plain[0])
        if shape is None:
            shape = self._shapes[plain[0]] = self._any_type(start)
            return shape
        self.pos = plain.end()
        self.skip()
        return shape

    def _any_type(self, start: int) -> Shape:
        if self.accept("!stablehlo.token") or self.accept("!mhlo.token"):
            return TOKEN
        if self.accept("!stablehlo.future"):
            self._tuple()
            return FUTURE
        found, shape = self.alias(self.type) if self.peek("!") else (False, None)
        if found:
            assert isinstance(shape, Shape)
            return shape
        if self.accept("tuple"):
            return self._tuple()
        if not self.accept("tensor"):
            return ArrayShape(self._element(start), (), Layout.default(0))
        self.expect("<")
        dims: list[int] = []
        while m := _DIM.match(self.text, self.pos):
            dims.append(UNBOUNDED if m[1] == "?" else int(m[1]))
            self.pos = m.end()
        if self.peek("*"):
            self.fail("an array of unknown rank, which HLO lacks", code="unknown-type")
        et = self._element(start)
        dynamic = tuple(d == UNBOUNDED for d in dims)
        if self.accept(","):
            self._bounds(dims)
        self.expect(">")
        flags = dynamic if any(dynamic) else ()
        try:
            # The shape parser enforces the limits.
            return parse_shape(str(ArrayShape(et, tuple(dims), Layout.default(len(dims)), flags)))
        except TextError as e:
            self.fail(e.message, start, code=e.code)

    def _tuple(self) -> Shape:
        with self.nested():
            return TupleShape(tuple(self.type() for _ in self.items("<", ">")))

    def _element(self, start: int) -> ElementType:
        """Read an element type. start: where its array begins."""
        if self.peek("!quant."):
            self.fail("quantized types have no counterpart in HLO", code="unknown-type",
                      hint=_QUANTIZED)  # fmt: skip
        m = _ELEMENT.match(self.text, self.pos)
        if m is None:
            other = _DIALECT_TYPE.match(self.text, self.pos)
            if other is not None:
                self.fail(f"{other[0]!r} is not a type of HLO", code="unknown-type")
            self.fail(f"expected a type, found {self.found()}", start)
        et = element_type(m[1] or m[2])
        if et is not None and m[1] is not None:
            et = complex_of(et) if et.name in ("f32", "f64") else None
        if et is None:
            self.fail(f"{m[0]!r} is not an element type of HLO", code="unknown-type")
        self.pos = m.end()
        self.skip()
        return et

    def _bounds(self, dims: list[int]) -> None:
        """Read the bounds of dimensions, `#stablehlo.bounds<4, ?>`, into those that are `?`."""
        found, bounds = self.alias(self._bounds_words)
        words = bounds if found else self._bounds_words()
        if len(words) != len(dims):
            self.fail(f"{len(words)} bounds for {len(dims)} dimensions", code="bad-shape")
        for i, word in enumerate(words):
            if word.isdecimal() and len(word) < 20 and dims[i] == UNBOUNDED:
                dims[i] = int(word)
            elif word != "?":
                self.fail(f"{word!r} is not a bound of dimension {i}", code="bad-shape")

    def _bounds_words(self) -> list[str]:
        """Read `#stablehlo.bounds<4, ?>`, also in its longer form."""
        m = self.match(_BOUNDS, "the bounds of dimensions")
        if not m[0].endswith("bounds"):
            for word in ("<", "bounds", "="):
                self.expect(word)
        brackets = ("<", ">") if m[0].endswith("bounds") else ("[", "]")
        words = [self.match(_BOUND, "a bound")[0] for _ in self.items(*brackets)]
        if brackets[0] == "[":
            self.expect(">")
        return words
