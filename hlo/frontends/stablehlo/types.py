"""Parsing of MLIR's types as shapes, and of aliases of types and attributes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from hlo.errors import TextError, did_you_mean
from hlo.frontends.stablehlo.quantized_types import Quantization, QuantizedShape
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
    integer_range,
)

_GAP = re.compile(r"(?>(?:\s++|//[^\n]*+)*)")
_DIM = re.compile(r"(\d{1,19}|\?)\s*x\s*")
_ELEMENT = re.compile(r"complex<(\w+)>|(\w+)")
_PLAIN = re.compile(r"tensor<[\w?]+>")
_BOUNDS = re.compile(r"#(?:stablehlo|mhlo)\.(?:bounds|type_extensions)\b")
_BOUND = re.compile(r"\d++|\?")
_ALIAS = re.compile(r"(?:^|(?<=\s))[ \t]*([#!][A-Za-z_][\w$.]*+)[ \t]*=(?!=)", re.M)
_ALIAS_NAME = re.compile(r"[#!][A-Za-z_][\w$]*+(?![\w$.<])")
_DIALECT_TYPE = re.compile(r"!?[\w$.]+")
_STORAGE = re.compile(r"(?:s?i|(ui?))(\d{1,2})\b")
_WORD = re.compile(r"\w++")
_SCALE = re.compile(r"-?\d++(?:\.\d*+)?(?:[eE][+-]?\d++)?")

# The result of an asynchronous start: its structure is defined by HLO.
FUTURE = TupleShape(())


def element_type(word: str) -> ElementType | None:
    """Return the element type with MLIR's name `word` (`i32`, `ui8`, `f8E4M3FN`), or None."""
    m = re.fullmatch(r"(u?)i(\d+)", word)
    if m is not None:
        return ELEMENT_TYPES.get("pred" if m[2] == "1" else f"{m[1] or 's'}{m[2]}")
    if word == "index":
        return ELEMENT_TYPES["s64"]
    et = ELEMENT_TYPES.get(word.lower())
    if et is None or not et.is_float:
        return None
    # `bf16`, `f32`, but `f8E4M3FN`.
    return et if word == re.sub(r"(?<=\d)e\d.*", lambda m: m[0].upper(), et.name) else None


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

    def alias(self, read: Callable[[], Any], use: str = "") -> tuple[bool, Any]:
        """Read an alias, if there is one here; `read` reads its definition.

        use: what it is read as, where a definition may be read in two ways.

        Returns whether there was one, and its value. Its definition is in front of its uses.
        """
        m = _ALIAS_NAME.match(self.text, self.pos)
        if m is None:
            return False, None
        name, after = m[0], m.end()
        key = name + use
        if key not in self._known:
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
                self._known[key] = read()
        self.pos = after
        self.skip()
        return True, self._known[key]

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
        element = self._element_or_alias(dims, start)
        quantization = element if isinstance(element, Quantization) else None
        et = element.storage if isinstance(element, Quantization) else element
        dynamic = tuple(d == UNBOUNDED for d in dims)
        if self.accept(","):
            self._bounds(dims)
        self.expect(">")
        flags = dynamic if any(dynamic) else ()
        try:
            # The shape parser enforces the limits.
            shape = parse_shape(str(ArrayShape(et, tuple(dims), Layout.default(len(dims)), flags)))
        except TextError as e:
            self.fail(e.message, start, code=e.code)
        if quantization is None:
            return shape
        assert isinstance(shape, ArrayShape)
        return QuantizedShape(et, shape.dims, shape.layout, shape.dynamic, quantization)

    # --- quantized types ------------------------------------------------------------------------

    def _element_or_alias(self, dims: Sequence[int], start: int) -> Quantization | ElementType:
        """Read the element type of an array that begins at `start`."""

        def read() -> Quantization | ElementType:
            return self.quantization() if self.peek("!") else self._element(start)

        at = self.pos
        found, value = self.alias(read, "element") if self.peek("!") else (False, None)
        value = value if found else read()
        if isinstance(value, ElementType):
            return value
        assert isinstance(value, Quantization)
        count, axis = len(value.scales), value.axis
        if axis is not None and (axis >= len(dims) or dims[axis] not in (count, UNBOUNDED)):
            self.fail(f"{count} scales do not fit dimension {axis} of {list(dims)}", at,
                      code="bad-shape")  # fmt: skip
        return value

    def quantization(self) -> Quantization:
        """Read `!quant.uniform<i8<-127:127>:f32:1, {0.5:3, 0.25}>`, per tensor or per axis."""
        start = self.pos
        if not self.accept("!quant.uniform"):
            self.fail(f"expected !quant.uniform<..>, found {self.found()}", code="unknown-type")
        self.expect("<")
        storage, low, high = self._storage()
        self.expect(":")
        expressed = element_type(self.match(_WORD, "the expressed type")[0])
        if expressed is None or not expressed.is_float:
            self.fail("the expressed type is one of floating point", start, code="unknown-type")
        axis = self.integer(0) if self.accept(":") else None
        self.expect(",")
        pairs = [self._scale() for _ in self.items()] if self.peek("{") else [self._scale()]
        self.expect(">")
        scales, zeros = zip(*pairs, strict=True) if pairs else ((), ())
        with np.errstate(over="ignore", under="ignore"):
            stored = [float(expressed.dtype.type(s)) for s in scales]
        if not pairs or not all(math.isfinite(s) and s > 0 for s in stored):
            self.fail(f"scales are positive numbers of {expressed}", start, code="bad-value")
        if not all(low <= z <= high for z in zeros):
            self.fail(f"zero points are from {low} to {high}", start, code="bad-value")
        if (axis is None) != (len(pairs) == 1 and self._is_one(start)):
            self.fail("there is one scale for a tensor, and a list for an axis", start,
                      code="bad-value")  # fmt: skip
        return Quantization(storage, low, high, expressed, axis, tuple(scales), tuple(zeros))

    def _is_one(self, start: int) -> bool:
        """Whether the type that begins at `start` has one scale, not a list."""
        return "{" not in self.text[start : self.pos]

    def _storage(self) -> tuple[ElementType, int, int]:
        """Read `i8`, `u8` or `i8<-127:127>`: a type, and the least and the greatest integer."""
        start = self.pos
        m = self.match(_STORAGE, "the storage type")
        name = f"{'u' if m[1] else 's'}{m[2]}"
        et = ELEMENT_TYPES.get(name)
        if et is None or et.bits not in (2, 4, 8, 16, 32):
            self.fail(f"{m[0]} is not a storage type", start, code="unknown-type")
        low, high = least, greatest = integer_range(et)
        if self.accept("<"):
            low = self.integer()
            self.expect(":")
            high = self.integer()
            self.expect(">")
        if not least <= low < high <= greatest:
            self.fail(f"{low}:{high} is not a range of {m[0]}", start, code="bad-value")
        return et, low, high

    def _scale(self) -> tuple[float, int]:
        scale = float(self.match(_SCALE, "a scale")[0])
        return scale, self.integer() if self.accept(":") else 0

    def _tuple(self) -> Shape:
        with self.nested():
            return TupleShape(tuple(self.type() for _ in self.items("<", ">")))

    def _element(self, start: int) -> ElementType:
        """Read an element type. start: where its array begins."""
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
