"""Literals from text.

A dense literal nests braces to exactly its rank, `{{1, 2}, {3, 4}}`; a scalar has no braces; a
complex number is `(re, im)`; a tuple is `(literal, literal)`. White space or a comma separates
elements. One number for an array is its first element, the others are zero. XLA prints `{...}` for
a long constant; it is read as an elided literal. Source: the literal rules of
XLA's `hlo_parser.cc`. Stricter here: no stray commas, no wrapped integers but negative ones of u64,
no infinity for a type that has none. `-0` is read as the negative zero that XLA prints it for.
"""

from __future__ import annotations

import functools
import re
from typing import NoReturn

import numpy as np

from hlo.errors import InferError, TextError
from hlo.support.memory import check_memory
from hlo.values.dense import Braces, ChunkReader, complex_from_parts
from hlo.values.literal.value import Literal
from hlo.values.numerals import WORD_LETTERS, BadNumber, Words, decode, join_payloads
from hlo.values.types import UNBOUNDED, ArrayShape, ElementType, Shape, TokenShape, TupleShape

_COMMENT = re.compile(r"/\*.*?\*/|//[^\r\n]*|/", re.S)
_SKIP = re.compile(r"[ \t\r\n\f\v]*")
_ELIDED = re.compile(r"\{\s*\.\.\.\s*\}")
_WORD = re.compile(rf"(?:(?<=nan)\(0x[0-9a-fA-F]*\)|[{re.escape(WORD_LETTERS)}])+")
_BOUNDARY = re.compile(r"[,\s}]")
_COMPLEX_BOUNDARY = re.compile(r"\)(?=[\s,]*[({}])")
# Few different short constants occur, but often: 0, 1, -inf, {0}.
_CACHED_LENGTH = 40
_CHUNK_CHARS = 1 << 22


def read_literal(
    text: str, shape: Shape, start: int = 0, end: int | None = None, *, braces: bool = False
) -> Literal:
    """Return the literal of `shape` that `text[start:end]` spells.

    braces: require all braces of an array; one number for it is an error. Raises TextError at an
    offset from `start`.
    """
    if end is None:
        end = len(text)
    if end - start <= _CACHED_LENGTH:
        return _read_short(text[start:end], shape, braces)
    return _Reader(text, start, end, braces).read(shape)


@functools.lru_cache(maxsize=4096)
def _read_short(text: str, shape: Shape, braces: bool) -> Literal:
    return _Reader(text, 0, len(text), braces).read(shape)


class _Reader:
    """A cursor over the text of one literal."""

    def __init__(self, text: str, start: int, end: int, braces: bool = False) -> None:
        self._base = start
        self._braces = braces
        if text.find("/", start, end) >= 0:
            text, start, end = self._without_comments(text[start:end]), 0, end - start
            self._base = 0
        self._text = text
        self._end = end
        self._pos = start
        self._skip()

    def read(self, shape: Shape) -> Literal:
        """Read the whole text. Tuples use an explicit stack: their depth is not limited."""
        open_tuples: list[tuple[TupleShape, list[Literal]]] = []
        current = shape
        while True:
            if isinstance(current, TupleShape) and not self._at_elided():
                self._expect("(")
                if current.elements:
                    open_tuples.append((current, []))
                    current = current.elements[0]
                    continue
                self._expect(")")
                value = Literal(current, ())
            else:
                value = self._leaf(current)
            while open_tuples:
                of, elements = open_tuples[-1]
                elements.append(value)
                if len(elements) < len(of.elements):
                    self._expect(",")
                    current = of.elements[len(elements)]
                    break
                self._expect(")")
                open_tuples.pop()
                value = Literal(of, elements)
            else:
                if self._pos < self._end:
                    self._fail(f"unexpected {self._found()} after the literal")
                return value

    def _leaf(self, shape: Shape) -> Literal:
        if isinstance(shape, TokenShape):
            self._expect("token")
            return Literal(shape)
        if not isinstance(shape, ArrayShape | TupleShape):
            self._fail(f"there is no literal of shape {shape}", code="type-mismatch")
        if self._at_elided():
            m = _ELIDED.match(self._text, self._pos, self._end)
            if isinstance(shape, ArrayShape) and shape.is_scalar:
                self._fail("a scalar cannot be elided")
            assert m
            self._pos = m.end()
            self._skip()
            return Literal(shape)
        assert isinstance(shape, ArrayShape)
        if UNBOUNDED in shape.dims:
            self._fail(f"a literal of {shape.to_string(False)} has no size", code="type-mismatch")
        if not shape.dims:
            value = self._scalar(shape.element_type)
        elif not self._braces and self._at_first_element(shape):
            value = self._first_element(shape)
        else:
            value = self._dense(shape)
        self._skip()
        return Literal(shape, value)

    def _at_first_element(self, shape: ArrayShape) -> bool:
        """True before one number in place of an array; XLA reads none for complex numbers."""
        at_word = _WORD.match(self._text, self._pos, self._end) is not None
        return at_word and not shape.element_type.is_complex and shape.num_elements > 0

    def _first_element(self, shape: ArrayShape) -> np.ndarray:
        """Read one number as the first element of an array whose others are zero."""
        at, first = self._pos, self._word(shape.element_type)
        try:
            check_memory(shape.num_elements * first.itemsize, f"constant: {shape.to_string(False)}")
        except InferError as e:
            self._pos = at
            self._fail(e.message, code=e.code)
        value = np.zeros(shape.dims, first.dtype)
        value[(0,) * shape.rank] = first[0]
        return value

    def _scalar(self, et: ElementType) -> np.ndarray:
        if not et.is_complex:
            return self._word(et).reshape(())
        self._expect("(")
        re_ = self._word(et)
        self._expect(",")
        im = self._word(et)
        self._expect(")")
        return complex_from_parts(np.concatenate([re_, im]), et).reshape(())

    def _word(self, et: ElementType) -> np.ndarray:
        m = _WORD.match(self._text, self._pos, self._end)
        if m is None:
            self._fail(f"expected a number ({et}), found {self._found()}")
        data = join_payloads(m[0].encode())
        try:
            value = decode(Words(data, np.array([0]), np.array([len(data)])), et)
        except BadNumber as e:
            self._fail(e.message, code=e.code)
        self._pos = m.end()
        self._skip()
        return value

    def _dense(self, shape: ArrayShape) -> np.ndarray:
        """Read nested braces, a chunk of text at a time."""
        et = shape.element_type
        rows = Braces(shape)
        # Each element takes two characters at least, so a shape that is too large for its text
        # allocates little.
        room = min(shape.num_elements, (self._end - self._pos) // 2 + 1)
        out = np.empty(room, et.dtype)
        chunk = ChunkReader(rows, et)
        boundary = _COMPLEX_BOUNDARY if et.is_complex else _BOUNDARY
        while not rows.complete:
            at = self._pos
            if at >= self._end:
                self._fail(rows.missing())
            cut = boundary.search(self._text, min(at + _CHUNK_CHARS, self._end), self._end)
            stop = cut.end() if cut else self._end
            data = self._ascii(at, stop)
            done = rows.values
            try:
                values, used = chunk.read(join_payloads(data))
            except TextError as e:
                self._pos = at + e.offset
                self._fail(e.message, code=e.code)
            out[done : done + len(values)] = values
            self._pos = at + used
        return out.reshape(shape.dims)

    def _ascii(self, start: int, stop: int) -> bytes:
        try:
            return self._text[start:stop].encode("ascii")
        except UnicodeEncodeError as e:
            self._pos = start + e.start
            self._fail(f"unexpected {self._found()}")

    def _without_comments(self, text: str) -> str:
        """Return the text with comments blanked, so that offsets do not change."""

        def blank(m: re.Match[str]) -> str:
            if len(m[0]) == 1:
                raise TextError("a comment is not closed", m.start())
            return " " * len(m[0])

        return _COMMENT.sub(blank, text)

    def _at_elided(self) -> bool:
        return (
            self._text.startswith("{", self._pos)
            and _ELIDED.match(self._text, self._pos, self._end) is not None
        )

    def _skip(self) -> None:
        m = _SKIP.match(self._text, self._pos, self._end)
        assert m
        self._pos = m.end()

    def _expect(self, word: str) -> None:
        if not self._text.startswith(word, self._pos, self._end):
            self._fail(f"expected {word!r}, found {self._found()}")
        self._pos += len(word)
        self._skip()

    def _found(self) -> str:
        rest = self._text[self._pos : min(self._pos + 20, self._end)].split("\n")[0]
        return repr(rest) if rest else "the end of the literal"

    def _fail(self, message: str, *, code: str = "syntax") -> NoReturn:
        raise TextError(message, self._pos - self._base, code=code)
