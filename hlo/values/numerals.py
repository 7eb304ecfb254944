"""Numbers of a literal's text to array elements and back, a whole array at a time.

Text becomes an element as in XLA: decimal -> double -> element type, rounding to nearest even at
each step (f16 and bf16 by way of f32). Elements are printed with XLA's digits, which read back to
the same bits. A constant may have tens of millions of elements, so nothing here creates a Python
object per number.
"""

from __future__ import annotations

import re
from typing import NoReturn

import ml_dtypes
import numpy as np

from hlo.values.types import FINITE_TYPES, ElementType, complex_part, element_type_of, integer_range

# --- characters ---------------------------------------------------------------------------------

# `nan(0x1)` is one number: its parentheses are replaced by these before others are interpreted.
# They are not ASCII, so no number contains them.
_PAYLOAD_OPEN, _PAYLOAD_CLOSE = b"\x80", b"\x81"
_PAYLOAD = re.compile(rb"nan\((0x[0-9a-fA-F]{1,16})\)")

WORD_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.+-"
WORD_CHARS = WORD_LETTERS.encode() + _PAYLOAD_OPEN + _PAYLOAD_CLOSE
# XLA prints -0, and parses it as an integer, which loses the sign.
MINUS_ZERO = "-0.0"
_TO_SPACE = bytes(c if c in WORD_CHARS else 32 for c in range(256))


def _table(chars: bytes) -> np.ndarray:
    table = np.zeros(256, bool)
    table[list(chars)] = True
    return table


_NOT_IN_DECIMAL = _table(bytes(set(WORD_CHARS) - set(b"0123456789eE.+-")))
_NOT_IN_INTEGER = _table(bytes(set(WORD_CHARS) - set(b"0123456789-")))
_FLOAT = re.compile(
    rb"-?(?:inf|nan(?:\x80(0x[0-9a-fA-F]+)\x81)?|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
)
_INTEGER = re.compile(rb"-?0*(\d+)")


def join_payloads(data: bytes) -> bytes:
    """Return the text with each `nan(0x..)` made one word, at unchanged offsets."""
    if b"nan(" not in data:
        return data
    return _PAYLOAD.sub(rb"nan" + _PAYLOAD_OPEN + rb"\1" + _PAYLOAD_CLOSE, data)


class BadNumber(Exception):
    """A number that is not a valid element: which one, and why."""

    def __init__(self, index: int, message: str, code: str = "bad-value") -> None:
        super().__init__(message)
        self.index = index
        self.message = message
        self.code = code


class Words:
    """The numbers of a piece of text, as ranges `[starts[i], ends[i])` of its bytes."""

    def __init__(self, data: bytes, starts: np.ndarray, ends: np.ndarray) -> None:
        self.data = data
        self.chars = np.frombuffer(data, np.uint8)
        self.starts = starts
        self.ends = ends

    def __len__(self) -> int:
        return len(self.starts)

    def word(self, i: int) -> bytes:
        return self.data[self.starts[i] : self.ends[i]]

    def shown(self, i: int) -> str:
        """Return a number as in the source, for an error message."""
        word = self.word(i).replace(_PAYLOAD_OPEN, b"(").replace(_PAYLOAD_CLOSE, b")").decode()
        return word if len(word) <= 40 else word[:37] + "..."

    def equal(self, which: np.ndarray, word: bytes) -> np.ndarray:
        """Return the indices in `which` of words equal to `word`."""
        starts = self.starts[which]
        same = self.ends[which] - starts == len(word)
        which, starts = which[same], starts[same]
        for i, c in enumerate(word):
            same = self.chars[starts + i] == c
            which, starts = which[same], starts[same]
        return which

    def containing(self, table: np.ndarray) -> np.ndarray:
        """Return the indices of the words that have a character of `table`."""
        at = np.flatnonzero(table[self.chars])
        return np.unique(np.searchsorted(self.starts, at, side="right") - 1)

    def parse(self, dtype: type, without: np.ndarray) -> np.ndarray | None:
        """Return all words as numbers, 1 for those in `without`; None if one is malformed."""
        if not len(self):
            return np.zeros(0, dtype)
        data: bytes | bytearray = self.data.translate(_TO_SPACE)
        if len(without):
            starts, lengths = self.starts[without], (self.ends - self.starts)[without]
            data = bytearray(data)
            chars = np.frombuffer(data, np.uint8)
            within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
            chars[np.repeat(starts, lengths) + within] = ord(" ")
            chars[starts] = ord("1")
        try:
            values: np.ndarray = np.fromstring(bytes(data), dtype, sep=" ")
        except ValueError:
            return None
        return values if len(values) == len(self) else None


# --- element types ------------------------------------------------------------------------------

# Bits below the exponent, for the types whose NaNs carry a payload.
_PAYLOAD_BITS = {
    "f64": 52, "f32": 23, "f16": 10, "bf16": 7, "f8e5m2": 2, "f8e4m3": 3, "f8e3m4": 4,
}  # fmt: skip
_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_HAS_INF = set(_PAYLOAD_BITS)
_EXPONENT = _table(b"eE")


def bits_of(array: np.ndarray) -> np.ndarray:
    """Return the bits of the elements as unsigned integers; two for a complex number."""
    array = np.ascontiguousarray(array)
    if array.dtype.kind == "c":
        return array.view(np.uint32 if array.itemsize == 8 else np.uint64)
    bits = array.view(_UNSIGNED[array.itemsize])
    # The unused bits of numpy's sub-byte elements are unspecified.
    width = element_type_of(array.dtype).bits
    return bits & np.uint8((1 << width) - 1) if width < 8 else bits


def from_double(values: np.ndarray, et: ElementType) -> np.ndarray:
    """Round doubles to a float type as XLA rounds the numbers of a literal."""
    with np.errstate(all="ignore"):
        if et.name in ("f16", "bf16"):
            values = values.astype(np.float32)
        return values.astype(et.dtype)


def decode(words: Words, et: ElementType) -> np.ndarray:
    """Parse words as elements (of the real type if `et` is complex).

    Raises BadNumber for the first that is malformed or out of range.
    """
    if et.is_pred:
        return _decode_pred(words)
    return _decode_integers(words, et) if et.is_integer else _decode_floats(words, complex_part(et))


def _decode_pred(words: Words) -> np.ndarray:
    everything = np.arange(len(words))
    values = np.zeros(len(words), bool)
    known = np.zeros(len(words), bool)
    for word, value in ((b"1", True), (b"0", False), (b"true", True), (b"false", False)):
        at = words.equal(everything, word)
        values[at], known[at] = value, True
    for i in np.flatnonzero(~known).tolist():
        # As in XLA, any number but 0 is true.
        if not _INTEGER.fullmatch(words.word(i)):
            raise BadNumber(i, f"{words.shown(i)!r} is not a pred: true, false, 1 or 0")
        values[i] = bool(words.word(i).strip(b"-0"))
    return values


def _decode_integers(words: Words, et: ElementType) -> np.ndarray:
    lo, hi = integer_range(et)
    wide = np.uint64 if et.name == "u64" else np.int64
    # The parser of unsigned numbers accepts no sign, except that of -0.
    negative = np.flatnonzero(words.chars[words.starts] == ord("-")) if lo == 0 else np.arange(0)
    values = None if len(words.containing(_NOT_IN_INTEGER)) else words.parse(wide, negative)
    if values is None:
        _raise_malformed(words, _INTEGER, f"an integer ({et})")
    outside = (values < lo) | (values > hi)
    doubtful = [np.setdiff1d(negative, words.equal(negative, b"-0"), assume_unique=True)]
    if et.bits == 64:
        # Parsing saturates, so the extremes are valid only if the text says exactly that.
        for limit in {lo, hi} - {0}:
            at = np.flatnonzero(values == limit)
            doubtful.append(np.setdiff1d(at, words.equal(at, b"%d" % limit), assume_unique=True))
    values[negative] = 0
    for i in np.concatenate(doubtful):
        value = _integer(words.word(i))
        if value is None:
            _raise_malformed(words, _INTEGER, f"an integer ({et})")
        if et.name == "u64" and -(2**63) <= value < 0:
            value += 2**64  # or as the signed number of the same bits
            values[i] = value
        outside[i] = not lo <= value <= hi
    if outside.any():
        i = int(np.argmax(outside))
        raise BadNumber(
            i, f"{words.shown(i)} is out of range for {et}: [{lo}, {hi}]", "literal-range"
        )
    return values.astype(et.dtype)


def _integer(word: bytes) -> int | None:
    """Return the value of an integer's text, clamped to far more than 64 bits."""
    m = _INTEGER.fullmatch(word)
    return int(m[1][:40]) * (-1 if word.startswith(b"-") else 1) if m else None


def _decode_floats(words: Words, et: ElementType) -> np.ndarray:
    special = words.containing(_NOT_IN_DECIMAL)
    values = words.parse(np.float64, special)
    plus = np.flatnonzero(words.chars == ord("+"))
    if values is None or not _EXPONENT[words.chars[plus - 1]].all():
        _raise_malformed(words, _FLOAT, f"a number ({et})")
    result = from_double(values, et)
    bad = _out_of_range(values, result, et)
    if len(bad):
        i = int(bad[0])
        raise BadNumber(
            i, f"{words.shown(i)} is out of range for {et}: {_finite_range(et)}", "literal-range"
        )
    if len(special):
        _set_special(words, special, result, et)
    return result


def _out_of_range(values: np.ndarray, result: np.ndarray, et: ElementType) -> np.ndarray:
    if et.name == "f8e8m0fnu":
        return np.flatnonzero((values <= 0) | ~np.isfinite(result))
    return np.flatnonzero(~np.isfinite(result))


def _finite_range(et: ElementType) -> str:
    info = ml_dtypes.finfo(et.dtype)
    most = float(info.max)
    least = float(info.smallest_normal) if et.name == "f8e8m0fnu" else -most
    return f"[{least:.9g}, {most:.9g}]"


def _set_special(words: Words, special: np.ndarray, out: np.ndarray, et: ElementType) -> None:
    """Fill in inf, nan and NaNs with payloads."""
    rest = special
    for word in (b"inf", b"-inf", b"nan", b"-nan"):
        at = words.equal(special, word)
        if not len(at):
            continue
        name, negative = word.decode().lstrip("-"), word.startswith(b"-")
        if et.name in FINITE_TYPES or (name == "inf" and et.name not in _HAS_INF):
            raise BadNumber(int(at[0]), f"{et} has no {name}", "literal-range")
        value = _nan(et, negative) if name == "nan" else from_double(np.array(float(word)), et)
        out[at] = value
        rest = np.setdiff1d(rest, at, assume_unique=True)
    for i in rest:
        m = _FLOAT.fullmatch(words.word(i))
        if m is None or m[1] is None:
            _raise_malformed(words, _FLOAT, f"a number ({et})")
        most = (1 << _PAYLOAD_BITS.get(et.name, 0)) - 1
        payload = int(m[1], 16)
        if not 1 <= payload <= most:
            allowed = f"in [0x1, {most:#x}]" if most else "not possible"
            raise BadNumber(
                int(i), f"{words.shown(i)}: a NaN payload of {et} is {allowed}", "literal-range"
            )
        out[i] = _nan(et, words.word(i).startswith(b"-"), payload)


def _nan(et: ElementType, negative: bool, payload: int = 0) -> np.ndarray:
    """Return a NaN by its bits; the quiet one by default."""
    bits = _PAYLOAD_BITS.get(et.name)
    if bits is None:
        return from_double(np.copysign(np.nan, -1.0 if negative else 1.0)[None], et)[0]
    sign = 1 << (et.byte_width * 8 - 1)
    value = (sign if negative else 0) | (sign - (1 << bits)) | (payload or 1 << (bits - 1))
    return np.array(value, _UNSIGNED[et.byte_width]).view(et.dtype)


def _raise_malformed(words: Words, pattern: re.Pattern[bytes], what: str) -> NoReturn:
    """Raise BadNumber for the first word that does not follow `pattern`."""
    for i in range(len(words)):
        if not pattern.fullmatch(words.word(i)):
            raise BadNumber(i, f"expected {what}, found {words.shown(i)!r}", "syntax")
    raise AssertionError("every word is well-formed")


# --- elements to text ---------------------------------------------------------------------------

# Decimal digits that XLA prints, and those it prints if the first do not read back. With two digits
# XLA reads the smallest f8e8m0fnu as the next one, so that one gets more.
_DIGITS = {
    "f64": (15, 17), "f32": (6, 9), "f16": (5, 5), "bf16": (4, 4), "f8e5m2": (2, 2),
    "f8e5m2fnuz": (2, 2), "f8e4m3": (3, 3), "f8e4m3fn": (3, 3), "f8e4m3fnuz": (3, 3),
    "f8e4m3b11fnuz": (3, 3), "f8e3m4": (3, 3), "f4e2m1fn": (2, 2),
    "f6e2m3fn": (3, 3), "f6e3m2fn": (2, 2), "f8e8m0fnu": (2, 17),
}  # fmt: skip


def encode(array: np.ndarray, et: ElementType) -> list[str]:
    """Return the text of each element, in row-major order."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if et.is_pred:
        return ["1" if v else "0" for v in flat.tolist()]
    if et.is_integer:
        return list(map(str, flat.astype(np.int64 if et.name != "u64" else np.uint64).tolist()))
    if et.is_complex:
        parts = _encode_floats(flat.view(complex_part(et).dtype), complex_part(et))
        return [f"({re}, {im})" for re, im in zip(parts[::2], parts[1::2], strict=True)]
    return _encode_floats(flat, et)


def _encode_floats(flat: np.ndarray, et: ElementType) -> list[str]:
    with np.errstate(all="ignore"):
        doubles = flat.astype(np.float64)
    special = ~np.isfinite(doubles)
    doubles[special] = 0
    few, most = _DIGITS[et.name]
    out = _with_digits(doubles, few)
    if few < most:
        with np.errstate(all="ignore"):
            back = from_double(np.array(list(map(float, out)), np.float64), et)
        differ = np.flatnonzero(back.astype(np.float64) != doubles)
        for i, text in zip(differ.tolist(), _with_digits(doubles[differ], most), strict=True):
            out[i] = text
    for i in np.flatnonzero((doubles == 0) & np.signbit(doubles)).tolist():
        out[i] = MINUS_ZERO
    for i in np.flatnonzero(special).tolist():
        out[i] = _special_text(flat[i], et)
    return out


def _with_digits(doubles: np.ndarray, digits: int) -> list[str]:
    form = f"%.{digits}g"
    return [form % v for v in doubles.tolist()]


def _special_text(value: np.generic, et: ElementType) -> str:
    array = np.asarray(value)
    with np.errstate(invalid="ignore"):  # a signalling NaN
        sign = "-" if np.signbit(array.astype(np.float64)) else ""
        if not np.isnan(array):
            return sign + "inf"
    bits = _PAYLOAD_BITS.get(et.name)
    if bits is None:
        return sign + "nan"
    payload = int(array.view(_UNSIGNED[et.byte_width])[()]) & ((1 << bits) - 1)
    return sign + ("nan" if payload == 1 << (bits - 1) else f"nan({payload:#x})")
