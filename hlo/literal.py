"""Constant values: text to numpy and back, exact to the bit.

A dense literal nests braces to exactly its rank, `{{1, 2}, {3, 4}}`; a scalar stands bare; a
complex number is `(re, im)`; a tuple is `(literal, literal)`. White space or a comma separates
elements. XLA prints `{...}` for a constant it finds too long to print; it is read as an elided
literal. Source: the literal rules of XLA's `hlo_parser.cc`. Stricter here: no stray commas, no
wrapped integers but negative ones of u64, no infinity for a type that has none. `-0` is read as the
negative zero that XLA prints it for.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import numpy as np

from hlo.dense import ChunkReader, Rows, complex_from_parts, dense_pieces
from hlo.errors import HloError, TextError
from hlo.numerals import (
    WORD_LETTERS,
    BadNumber,
    Words,
    bits_of,
    decode,
    encode,
    join_payloads,
)
from hlo.types import (
    TOKEN,
    UNBOUNDED,
    ArrayShape,
    ElementType,
    Shape,
    TokenShape,
    TupleShape,
    array,
    element_type_of,
)
from hlo.values import TOKEN_VALUE

# --- values -------------------------------------------------------------------------------------


class Literal:
    """A constant of a shape: an array, a tuple of literals, or a token. Immutable.

    An elided literal has no value in its text and stands for `elision_fill`; its array is made when
    it is first asked for, since the shapes of elided constants can be huge. Two literals are equal
    when shape and bits are, so a NaN equals itself and -0 differs from 0.
    """

    __slots__ = ("_fill_start", "_value", "elided", "shape")

    def __init__(self, shape: Shape, value: np.ndarray | Sequence[Literal] | None = None) -> None:
        """Hold an array of the shape's dimensions and dtype, which the caller gives up, or the
        elements of a tuple. A value of None elides an array or a tuple."""
        self.shape = shape
        self.elided = value is None and not isinstance(shape, TokenShape)
        self._fill_start = 0
        self._value: Any = value
        if isinstance(value, np.ndarray):
            assert isinstance(shape, ArrayShape)
            assert value.shape == shape.dims and value.dtype == shape.element_type.dtype
            self._value = value.view()
            self._value.flags.writeable = False
        elif value is not None:
            assert isinstance(shape, TupleShape)
            self._value = tuple(value)

    @classmethod
    def of(cls, value: Any) -> Literal:
        """Return the literal of a numpy array or scalar, of a token, or of a tuple of such.

        Numbers and lists are what numpy makes of them. Raises HloError, code `type-mismatch`, for
        what is no array of an element type.
        """
        if value is TOKEN_VALUE:
            return cls(TOKEN)
        if isinstance(value, tuple):
            parts = [cls.of(v) for v in value]
            return cls(TupleShape(tuple(p.shape for p in parts)), parts)
        try:
            copy = np.array(value, order="C")
        except ValueError as e:
            raise HloError.at("type-mismatch", f"a literal of lists: {e}") from None
        copy = copy.astype(copy.dtype.newbyteorder("="), copy=False)
        try:
            et = element_type_of(copy.dtype)
        except KeyError:
            what = f"no element type holds the dtype {copy.dtype} of {repr(value)[:40]}"
            raise HloError.at("type-mismatch", f"there is no such literal: {what}") from None
        return cls(array(et, copy.shape), copy)

    @property
    def array(self) -> np.ndarray:
        """The elements in logical order, read-only. Only for an array literal."""
        assert isinstance(self.shape, ArrayShape)
        if self._value is None:
            self._value = elision_fill(self.shape, self._fill_start)
            self._value.flags.writeable = False
        return self._value

    @property
    def elements(self) -> tuple[Literal, ...]:
        """The elements of a tuple literal."""
        assert isinstance(self.shape, TupleShape)
        if self._value is None:
            parts, start = [], self._fill_start
            for shape in self.shape.elements:
                part, start = Literal(shape).filled_from(start)
                parts.append(part)
            self._value = tuple(parts)
        return self._value

    @property
    def value(self) -> Any:
        """The run-time value: a numpy array, a tuple of values, or the token."""
        if isinstance(self.shape, TupleShape):
            return tuple(e.value for e in self.elements)
        return TOKEN_VALUE if isinstance(self.shape, TokenShape) else self.array

    def with_shape(self, shape: Shape) -> Literal:
        """Return the same value under a shape that differs in layout only."""
        copy = Literal(shape)
        copy._value, copy.elided = self._value, self.elided
        copy._fill_start = self._fill_start
        return copy

    def filled_from(self, start: int) -> tuple[Literal, int]:
        """Return this literal with elided parts filled from word `start` on, and the next word.

        A module's elided constants are filled one after the other, so that no two are alike.
        """
        if not self.elided and not isinstance(self.shape, TupleShape):
            return self, start
        if self.elided:
            copy = Literal(self.shape)
            copy._fill_start = start
            for _, leaf in self.shape.leaves():
                if isinstance(leaf, ArrayShape):
                    start += leaf.byte_size // 4
            return copy, start
        parts = []
        for element in self.elements:
            part, start = element.filled_from(start)
            parts.append(part)
        return Literal(self.shape, parts), start

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Literal):
            return NotImplemented
        if self is other:
            return True
        if self.shape != other.shape or self.elided != other.elided:
            return False
        if self.elided or isinstance(self.shape, TokenShape):
            return self._fill_start == other._fill_start
        if isinstance(self.shape, TupleShape):
            return self.elements == other.elements
        return np.array_equal(bits_of(self.array), bits_of(other.array))

    def __hash__(self) -> int:
        if self.elided or not isinstance(self.shape, ArrayShape):
            return hash((self.shape, self.elided, self._fill_start))
        return hash((self.shape, bits_of(self.array.reshape(-1)[:16]).tobytes()))

    def __repr__(self) -> str:
        return f"Literal({self.shape.to_string(False)} {write_literal(self, 10)})"


def elision_fill(shape: ArrayShape, start: int = 0) -> np.ndarray:
    """Return what an elided constant stands for: 32-bit words that count up from `start`.

    The words fill the array's memory in its layout, whatever its element type; for pred each byte
    keeps its lowest bit. That is what XLA's parser does, so a dump with elided constants gives the
    same results here and there.
    """
    words = np.arange(start, start + shape.byte_size // 4, dtype=np.uint64).astype(np.uint32)
    if shape.element_type.is_pred:
        words &= np.uint32(0x01010101)
    # What is left of the last word counts in bytes from 0.
    rest = np.arange(shape.byte_size % 4, dtype=np.uint8)
    raw = np.concatenate([words.view(np.uint8), rest])
    if shape.element_type.bits < 8:
        raw &= np.uint8((1 << shape.element_type.bits) - 1)
    order = shape.layout.minor_to_major[::-1] if shape.layout else range(shape.rank)
    physical = raw.view(shape.element_type.dtype).reshape([shape.dims[d] for d in order])
    return np.ascontiguousarray(physical.transpose(np.argsort(order))).reshape(shape.dims)


# --- reading ------------------------------------------------------------------------------------

_COMMENT = re.compile(r"/\*.*?\*/|//[^\r\n]*|/", re.S)
_SKIP = re.compile(r"[ \t\r\n\f\v]*")
_ELIDED = re.compile(r"\{\s*\.\.\.\s*\}")
_WORD = re.compile(rf"(?:(?<=nan)\(0x[0-9a-fA-F]*\)|[{re.escape(WORD_LETTERS)}])+")
_BOUNDARY = re.compile(r"[,\s}]")
_COMPLEX_BOUNDARY = re.compile(r"\)(?=[\s,]*[({}])")
# Short constants are few and come often: 0, 1, -inf, {0}.
_CACHED_LENGTH = 40
_CHUNK_CHARS = 1 << 22


def read_literal(text: str, shape: Shape, start: int = 0, end: int | None = None) -> Literal:
    """Return the literal of `shape` that `text[start:end]` spells.

    Raises TextError at an offset from `start`.
    """
    if end is None:
        end = len(text)
    if end - start <= _CACHED_LENGTH:
        return _read_short(text[start:end], shape)
    return _Reader(text, start, end).read(shape)


@functools.lru_cache(maxsize=4096)
def _read_short(text: str, shape: Shape) -> Literal:
    return _Reader(text, 0, len(text)).read(shape)


class _Reader:
    """A cursor over the text of one literal."""

    def __init__(self, text: str, start: int, end: int) -> None:
        self._base = start
        if text.find("/", start, end) >= 0:
            text, start, end = self._without_comments(text[start:end]), 0, end - start
            self._base = 0
        self._text = text
        self._end = end
        self._pos = start
        self._skip()

    def read(self, shape: Shape) -> Literal:
        """Read the whole text. Tuples are kept on a stack of our own: they nest without bound."""
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
            if _is_scalar(shape):
                self._fail("a scalar cannot be elided")
            assert m
            self._pos = m.end()
            self._skip()
            return Literal(shape)
        assert isinstance(shape, ArrayShape)
        if UNBOUNDED in shape.dims:
            self._fail(f"a literal of {shape.to_string(False)} has no size", code="type-mismatch")
        value = self._scalar(shape.element_type) if not shape.dims else self._dense(shape)
        self._skip()
        return Literal(shape, value)

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
        rows = Rows(shape)
        # Each element takes two characters at least, so a lying shape allocates little.
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
        """Return the text with comments blanked, so that offsets stay."""

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


# --- writing ------------------------------------------------------------------------------------


def write_literal(literal: Literal, limit: int | None = None) -> str:
    """Return the text of a literal, as XLA prints it on one line.

    limit: arrays of more elements, and all tuples, are elided as `{...}`, as in XLA's short form.
    """
    out: list[str] = []
    todo: list[Literal | str] = [literal]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            out.append(item)
        elif isinstance(item.shape, TokenShape):
            out.append("token")
        elif not _is_scalar(item.shape) and (item.elided or _is_long(item.shape, limit)):
            out.append("{...}")
        elif isinstance(item.shape, TupleShape):
            out.append("( " if item.elements else "(")
            todo.append(" )" if item.elements else ")")
            for i, element in reversed(list(enumerate(item.elements))):
                todo.append(element)
                if i:
                    todo.append(", ")
        else:
            out.extend(_array_pieces(item.array, item.shape))
    return "".join(out)


def _is_scalar(shape: Shape) -> bool:
    return isinstance(shape, ArrayShape) and not shape.dims


def _is_long(shape: Shape, limit: int | None) -> bool:
    return limit is not None and not (isinstance(shape, ArrayShape) and shape.num_elements <= limit)


def _array_pieces(values: np.ndarray, shape: Shape) -> Iterable[str]:
    assert isinstance(shape, ArrayShape)
    if shape.dims:
        return dense_pieces(values, shape)
    et = shape.element_type
    return ("true" if values else "false") if et.is_pred else encode(values, et)
