"""Arrays as nested braces, `{ { 1, 2 }, { 3, 4 } }`: reading and writing, a chunk at a time.

Neither direction allocates more than a chunk's worth of Python objects or index arrays, so a
constant of tens of millions of elements costs little more than its text and its array.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from hlo.errors import TextError
from hlo.values.numerals import WORD_CHARS, BadNumber, Words, decode, encode
from hlo.values.types import ArrayShape, ElementType, complex_part

# --- tokens -------------------------------------------------------------------------------------

# Classes of characters, and of tokens: a word has the class of its first character.
_SPACES, _WORDS, _COMMA, _OPEN, _CLOSE, _OPEN_PAIR, _CLOSE_PAIR, _INVALID = range(8)
_CLASS = np.full(256, _INVALID, np.uint8)
_CLASS[list(b" \t\r\n\f\v")] = _SPACES
_CLASS[list(WORD_CHARS)] = _WORDS
_SIGNS = {_COMMA: ",", _OPEN: "{", _CLOSE: "}", _OPEN_PAIR: "(", _CLOSE_PAIR: ")"}
for _kind, _sign in _SIGNS.items():
    _CLASS[ord(_sign)] = _kind


def _followers(*pairs: tuple[int, Sequence[int]]) -> np.ndarray:
    table = np.zeros((8, 8), bool)
    for before, after in pairs:
        table[before, list(after)] = True
    return table


# Which token may follow which, by token class; brackets are also counted.
_REAL_ORDER = _followers(
    (_OPEN, (_OPEN, _CLOSE, _WORDS)),
    (_WORDS, (_WORDS, _COMMA, _CLOSE)),
    (_COMMA, (_WORDS, _OPEN)),
    (_CLOSE, (_CLOSE, _COMMA, _OPEN)),
)
_COMPLEX_ORDER = _followers(
    (_OPEN, (_OPEN, _CLOSE, _OPEN_PAIR)),
    (_OPEN_PAIR, (_WORDS,)),
    (_WORDS, (_COMMA, _CLOSE_PAIR)),
    (_COMMA, (_WORDS, _OPEN, _OPEN_PAIR)),
    (_CLOSE_PAIR, (_COMMA, _OPEN_PAIR, _CLOSE)),
    (_CLOSE, (_CLOSE, _COMMA, _OPEN)),
)


def complex_from_parts(parts: np.ndarray, et: ElementType) -> np.ndarray:
    """Return complex numbers from alternating real and imaginary parts."""
    return np.ascontiguousarray(parts.astype(complex_part(et).dtype, copy=False)).view(et.dtype)


def brace_pairs(dims: Sequence[int]) -> int:
    """Return how many pairs of braces an array has in text: there may be many without elements."""
    if 0 in dims:
        dims = dims[: dims.index(0) + 1]
    return sum(math.prod(dims[:i]) for i in range(len(dims)))


class Braces:
    """The brackets that a dense literal of a shape has to have, in order.

    A row is an innermost brace pair; with a dimension of size 0 that is the innermost pair present.
    A bracket is described by its kind and the number of elements before it.
    """

    def __init__(self, shape: ArrayShape) -> None:
        dims = shape.dims
        if 0 in dims:
            dims = dims[: dims.index(0) + 1]
        self.shape = shape
        self.dims = dims
        self.inner = dims[-1]
        self.rows = math.prod(dims[:-1])
        # Braces between two openings of each level, innermost level first, without the innermost.
        self.strides = [math.prod(dims[i:-1]) for i in range(len(dims) - 2, 0, -1)]
        self.total = 2 * brace_pairs(dims)
        self.brackets = 0  # seen so far
        self.values = 0
        self._made_rows = 0
        self._ready = (np.zeros(0, np.uint8), np.zeros(0, np.int64))

    @property
    def complete(self) -> bool:
        return self.brackets == self.total

    def peek(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return kinds and element counts of the next `count` brackets, or of all that remain."""
        kinds, before = self._ready
        if len(kinds) < count and self._made_rows < self.rows:
            first = self._made_rows
            last = min(first + count, self.rows)
            row = np.arange(first, last + 1)
            opens = np.ones(len(row), np.int64)
            for stride in self.strides:
                opens += row % stride == 0
            if len(self.dims) > 1:
                opens += (row == 0) | (row == self.rows)
            closes = opens[1:].copy()
            if last == self.rows:
                closes[-1] = len(self.dims)
            repeat = np.stack([opens[:-1], closes], axis=1).reshape(-1)
            edges = np.stack([row[:-1], row[1:]], axis=1).reshape(-1) * self.inner
            pair = np.tile(np.array([_OPEN, _CLOSE], np.uint8), len(row) - 1)
            kinds = np.concatenate([kinds, np.repeat(pair, repeat)])
            before = np.concatenate([before, np.repeat(edges, repeat)])
            self._ready, self._made_rows = (kinds, before), last
        return kinds[:count], before[:count]

    def advance(self, brackets: int, values: int) -> None:
        """Advance past the brackets of a chunk."""
        self.brackets += brackets
        self.values += values
        self._ready = (self._ready[0][brackets:].copy(), self._ready[1][brackets:].copy())

    def missing(self) -> str:
        """Describe what is missing at the end of the literal's text."""
        kinds, before = self.peek(1)
        what = "a value" if before[0] > self.values else "'{'" if kinds[0] == _OPEN else "'}'"
        return f"the literal of {self._named()} ends too early: expected {what}"

    def mismatch(self, kind: int, seen: int, want_kind: int, want: int) -> str:
        """Describe a bracket after `seen` elements; it is expected after `want`."""
        if seen > want:
            if want_kind == _OPEN:
                return f"expected '{{' for {self._named()}, found a value"
            return f"expected {self.inner} values in this row of {self._named()}, found more"
        if seen < want:
            if kind == _OPEN:
                return f"expected a value for {self._named()}, found '{{'"
            have = self.inner - (want - seen)
            return f"expected {self.inner} values in this row of {self._named()}, found {have}"
        if want_kind == _OPEN:
            return f"too few parts for {self._named()}: expected '{{', found '}}'"
        return f"too many parts for {self._named()}: expected '}}', found '{{'"

    def _named(self) -> str:
        return self.shape.to_string(False)


class ChunkReader:
    """Reads a dense literal in chunks that end between elements."""

    def __init__(self, rows: Braces, et: ElementType) -> None:
        self._rows = rows
        self._et = et
        self._order = _COMPLEX_ORDER if et.is_complex else _REAL_ORDER
        self._last = _OPEN  # class of the last token; whatever may follow '{' may start a literal

    def read(self, data: bytes) -> tuple[np.ndarray, int]:
        """Return the elements in `data` and how much of it belongs to the literal.

        Raises TextError for the first error.
        """
        rows = self._rows
        classes = _CLASS[np.frombuffer(data, np.uint8)]
        brackets = np.flatnonzero((classes == _OPEN) | (classes == _CLOSE))
        left = rows.total - rows.brackets
        if len(brackets) >= left:
            brackets = brackets[:left]
            data = data[: brackets[-1] + 1]
            classes = classes[: len(data)]
        is_word = np.zeros(len(data) + 2, np.int8)
        is_word[1:-1] = classes == _WORDS
        edges = np.diff(is_word)
        starts = np.flatnonzero(edges == 1)
        words = Words(data, starts, np.flatnonzero(edges == -1))
        # A word is one token, at its start.
        per_token = classes != _SPACES
        per_token &= (classes != _WORDS) | (edges[:-1] == 1)
        tokens = np.flatnonzero(per_token)
        problems = [
            self._check_order(classes, tokens),
            self._check_brackets(classes, brackets, starts),
        ]
        try:
            values = decode(words, self._et)
        except BadNumber as e:
            problems.append(TextError(e.message, int(starts[e.index]), code=e.code))
        found = [p for p in problems if p is not None]
        if found:
            raise min(found, key=lambda p: p.offset)
        if self._et.is_complex:
            values = complex_from_parts(values, self._et)
        rows.advance(len(brackets), len(values))
        if len(tokens):
            self._last = int(classes[tokens[-1]])
        return values, len(data)

    def _check_order(self, classes: np.ndarray, tokens: np.ndarray) -> TextError | None:
        kinds = classes[tokens]
        before = np.concatenate([np.array([self._last], np.uint8), kinds])[:-1]
        wrong = ~self._order[before, kinds]
        if self._et.is_complex:
            wrong |= _outside_pairs(kinds)
        if not wrong.any():
            opens, closes = (np.count_nonzero(kinds == k) for k in (_OPEN_PAIR, _CLOSE_PAIR))
            if opens == closes:
                return None
            # Chunks end only after pairs, so what follows is outside of one.
            return TextError("expected (real, imaginary): the number ends too early", len(classes))
        first = int(tokens[np.argmax(wrong)])
        return TextError(_unexpected(int(classes[first]), self._et), first)

    def _check_brackets(
        self, classes: np.ndarray, brackets: np.ndarray, starts: np.ndarray
    ) -> TextError | None:
        rows = self._rows
        per_value = 2 if self._et.is_complex else 1
        seen = rows.values + np.searchsorted(starts, brackets) // per_value
        # One more, to check the number of elements after the chunk's last bracket as well.
        kinds, before = rows.peek(len(brackets) + 1)
        after = None
        if len(kinds) > len(brackets):
            after = (int(kinds[-1]), int(before[-1]))
            kinds, before = kinds[:-1], before[:-1]
        wrong = (classes[brackets] != kinds) | (seen != before)
        if wrong.any():
            i = int(np.argmax(wrong))
            kind, have, want_kind, want = (
                int(classes[brackets[i]]), int(seen[i]), int(kinds[i]), int(before[i])
            )  # fmt: skip
            at = int(brackets[i])
        else:
            have = rows.values + len(starts) // per_value
            if after is None or have <= after[1]:
                return None
            kind, (want_kind, want), at = _CLOSE, after, 0
        if have > want:
            at = int(starts[(want - rows.values) * per_value])
        return TextError(rows.mismatch(kind, have, want_kind, want), at, code="literal-shape")


def _outside_pairs(kinds: np.ndarray) -> np.ndarray:
    """Return which tokens violate `(word, word)`. No pair may span chunks."""
    place = np.arange(len(kinds))
    since_open = place - np.maximum.accumulate(np.where(kinds == _OPEN_PAIR, place, -9))
    due = np.array([_OPEN_PAIR, _WORDS, _COMMA, _WORDS, _CLOSE_PAIR], np.uint8)
    inside = since_open < len(due)
    stray = (kinds == _WORDS) | (kinds == _CLOSE_PAIR)
    return np.where(inside, kinds != due[np.where(inside, since_open, 0)], stray)


def _unexpected(kind: int, et: ElementType) -> str:
    """Describe a token that is not allowed after the one before it."""
    if kind == _WORDS:
        return (
            "expected (real, imaginary), found a bare number"
            if et.is_complex
            else "unexpected number"
        )
    if kind in (_OPEN_PAIR, _CLOSE_PAIR) and not et.is_complex:
        return f"unexpected parenthesis: only complex numbers have them, this literal is {et}"
    if kind == _INVALID:
        return "unexpected character"
    return f"unexpected {_SIGNS[kind]!r}"


# --- writing ------------------------------------------------------------------------------------

_CHUNK_VALUES = 1 << 16


def dense_pieces(values: np.ndarray, shape: ArrayShape) -> Iterator[str]:
    """Yield the text of an array of rank 1 or more in pieces, spaced as by XLA."""
    rows = Braces(shape)
    flat = values.reshape(-1)
    numbers = itertools.chain.from_iterable(
        encode(flat[i : i + _CHUNK_VALUES], shape.element_type)
        for i in range(0, len(flat), _CHUNK_VALUES)
    )
    depth = len(rows.dims)
    space = " " if depth > 1 and rows.inner > 1 else ""
    opens = [""] + ["{ " * i + "{" + space for i in range(depth)]
    closes = [""] + [space + "}" + " }" * i for i in range(depth)]
    yield opens[depth]
    for row in range(rows.rows):
        if row:
            level = 1 + sum(row % stride == 0 for stride in rows.strides)
            yield f"{closes[level]}, {opens[level]}"
        for i in range(0, rows.inner, _CHUNK_VALUES):
            if i:
                yield ", "
            yield ", ".join(itertools.islice(numbers, min(_CHUNK_VALUES, rows.inner - i)))
    yield closes[depth]
