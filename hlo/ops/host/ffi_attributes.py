"""The attributes of a typed custom call: the dictionary in its `backend_config`.

It is written in MLIR's notation: `{uplo = 76 : ui8, name = "x", sizes = array<i64: 2, 3>}`.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from hlo.errors import InferError, TextError
from hlo.ops.spec import OpView
from hlo.values.scan import Scanner, to_bytes

# How element types are numbered in C: as in XLA's `PrimitiveType`.
TYPE_NUMBERS = {
    "pred": 1, "s8": 2, "s16": 3, "s32": 4, "s64": 5, "u8": 6, "u16": 7, "u32": 8, "u64": 9,
    "f16": 10, "f32": 11, "f64": 12, "c64": 15, "bf16": 16, "c128": 18, "f8e5m2": 19,
    "f8e4m3fn": 20, "s4": 21, "u4": 22, "f8e4m3b11fnuz": 23, "f8e5m2fnuz": 24,
    "f8e4m3fnuz": 25, "s2": 26, "u2": 27, "f8e4m3": 28, "f8e3m4": 29, "s1": 30, "u1": 31,
    "f4e2m1fn": 32, "f8e8m0fnu": 33, "f6e3m2fn": 35, "f6e2m3fn": 36,
}  # fmt: skip
API_NUMBERS = {
    "API_VERSION_ORIGINAL": 1,
    "API_VERSION_STATUS_RETURNING": 2,
    "API_VERSION_STATUS_RETURNING_UNIFIED": 3,
    "API_VERSION_TYPED_FFI": 4,
}
# Kinds of attributes in C.
BOOL, INTEGER, FLOAT, STRING, ARRAY, DICTIONARY = range(1, 7)

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_.$]*")
_NUMBER = re.compile(r"0x[0-9A-Fa-f]+|-?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?")
_STRING = re.compile(r'"((?>(?:[^"\\\n]++|\\.)*))"', re.S)
_ESCAPE = re.compile(r"\\([0-9A-Fa-f]{2}|.)", re.S)
_TYPE = re.compile(r"[a-z]+\d*|tensor<(?:\d+x)*[a-z]+\d*>")
_MAX_DEPTH = 32


@dataclass(frozen=True, slots=True)
class FfiAttribute:
    """One attribute. value: bool, int, float, str, a list of numbers or of attributes, or a dict.

    type: MLIR's name of a number's type, or of an array's elements; empty for anything else.
    """

    value: Any
    type: str = ""

    @property
    def type_number(self) -> int:
        """The number of `type`, 0 if it has none."""
        name = {"i1": "pred", "index": "s64"}.get(self.type, self.type)
        if re.fullmatch(r"s?i\d+", name):
            name = f"s{name.lstrip('si')}"
        return TYPE_NUMBERS.get(name.replace("ui", "u", 1), 0)

    def in_c(self) -> tuple[int, int, int | bytes | list[int] | dict[str, FfiAttribute]]:
        """Return kind, count and value as C sees them: a float is the 64 bits of a double."""
        value = self.value
        if isinstance(value, str):
            data = to_bytes(value)
            return STRING, len(data), data
        if isinstance(value, dict):
            return DICTIONARY, len(value), value
        if isinstance(value, list):
            if any(isinstance(v, FfiAttribute) for v in value):
                return DICTIONARY, len(value), {str(n): v for n, v in enumerate(value)}
            return ARRAY, len(value), [_bits(v) for v in value]
        kind = BOOL if isinstance(value, bool) else INTEGER if isinstance(value, int) else FLOAT
        return kind, 0, _bits(value)


def _bits(value: float) -> int:
    """Return a number as a signed integer of 64 bits: integers wrap, floats are their bits."""
    if isinstance(value, float):
        return int(struct.unpack("<q", struct.pack("<d", value))[0])
    return (int(value) + (1 << 63)) % (1 << 64) - (1 << 63)


def ffi_attributes(op: OpView) -> dict[str, FfiAttribute]:
    """Return the attributes of a custom call by name. Raises InferError where they do not read."""
    text = str(op.annotations.get("backend_config", ""))
    if not text.startswith("{"):
        return {}
    try:
        return dict(read_config(text))
    except TextError as e:
        raise InferError(
            f"custom-call: backend_config is not a dictionary of attributes: {e}",
            code="bad-value",
        ) from None


# Reading them again takes as long as LAPACK does on small matrices.
@lru_cache
def read_config(text: str) -> dict[str, FfiAttribute]:
    """Return the attributes that a dictionary spells. Raises TextError."""
    s = Scanner(text)
    value = _read_dict(s, 0)
    s.end()
    return value


def ffi_values(op: OpView) -> dict[str, Any]:
    """Return the attributes of a custom call as plain values. Raises InferError."""
    return {name: _plain(a) for name, a in ffi_attributes(op).items()}


def _plain(a: Any) -> Any:
    if isinstance(a, FfiAttribute):
        return _plain(a.value)
    if isinstance(a, dict):
        return {k: _plain(v) for k, v in a.items()}
    return [_plain(v) for v in a] if isinstance(a, list) else a


def _read_dict(s: Scanner, depth: int) -> dict[str, FfiAttribute]:
    found: dict[str, FfiAttribute] = {}
    for _ in s.items():
        name = _string(s) if s.peek('"') else _match(s, _WORD, "a name")
        # A name alone is true.
        found[name] = _read(s, depth) if s.accept("=") else FfiAttribute(True)
    return found


def _read(s: Scanner, depth: int) -> FfiAttribute:
    if depth > _MAX_DEPTH:
        s.fail("attributes are nested too deep")
    if s.peek("{"):
        return FfiAttribute(_read_dict(s, depth + 1))
    if s.peek('"'):
        return FfiAttribute(_string(s))
    if s.peek("["):
        return FfiAttribute([_read(s, depth + 1) for _ in s.items("[", "]")])
    if s.accept("@"):
        return FfiAttribute(_match(s, _WORD, "a symbol"))
    word = _WORD.match(s.text, s.pos)
    if word is None:
        text = _match(s, _NUMBER, "a value")
        default = "i64" if re.fullmatch(r"-?\d+", text) else "f64"
        kind = _match(s, _TYPE, "a type") if s.accept(":") else default
        return FfiAttribute(_number(s, text, kind), kind)
    _match(s, _WORD, "a value")
    if word[0] in ("true", "false"):
        return FfiAttribute(word[0] == "true", "i1")
    if word[0] == "unit":
        return FfiAttribute(True)
    if word[0] == "array":
        return _read_array(s)
    if word[0] == "dense":
        return _read_dense(s)
    s.fail(f"expected a value, found {word[0]}")


def _read_array(s: Scanner) -> FfiAttribute:
    """Read the rest of `array<i64: 1, 2>`."""
    s.expect("<")
    kind = _match(s, _TYPE, "a type")
    values: list[Any] = []
    if s.accept(":"):
        while not values or s.accept(","):
            values.append(_element(s, kind))
    s.expect(">")
    return FfiAttribute(values, kind)


def _read_dense(s: Scanner) -> FfiAttribute:
    """Read the rest of `dense<[1, 2]> : tensor<2xi64>`; an element alone stands for all."""
    s.expect("<")
    texts: list[str] = []
    while not s.accept(">"):
        if not any(map(s.accept, ("[", "]", ","))):
            found = _WORD if _WORD.match(s.text, s.pos) else _NUMBER
            texts.append(_match(s, found, "a value"))
    s.expect(":")
    *dims, kind = _match(s, _TYPE, "a type")[len("tensor<") : -1].split("x")
    count = 1
    for n in dims:
        count *= int(n)
    if len(texts) == 1 and count <= 1 << 16:
        texts *= count
    if len(texts) != count:
        s.fail(f"{len(texts)} values for {count} elements")
    return FfiAttribute([_number(s, t, kind) for t in texts], kind)


def _element(s: Scanner, kind: str) -> Any:
    return _number(s, _match(s, _WORD if kind == "i1" else _NUMBER, "a value"), kind)


def _number(s: Scanner, text: str, kind: str) -> bool | int | float:
    if text in ("true", "false"):
        return text == "true"
    if not kind.startswith(("f", "bf")):
        if not re.fullmatch(r"-?\d+|0x[0-9A-Fa-f]+", text):
            s.fail(f"{text} is not a valid {kind}")
        return int(text, 0) if len(text) <= 20 else s.fail(f"{text} is not a valid {kind}")
    if not text.startswith("0x"):
        return float(text)
    forms = {"f64": ("<Q", "<d"), "f32": ("<I", "<f"), "f16": ("<H", "<e")}
    if kind not in forms or int(text, 16) >= 1 << int(kind[1:]):
        s.fail(f"{text} is not a valid {kind}")
    raw, form = forms[kind]
    return float(struct.unpack(form, struct.pack(raw, int(text, 16)))[0])


def _string(s: Scanner) -> str:
    body = _match(s, _STRING, "a string")[1:-1]

    def one(m: re.Match[str]) -> str:
        e = m[1]
        if len(e) == 2:
            return chr(int(e, 16))
        return {"n": "\n", "t": "\t"}.get(e, e)

    return _ESCAPE.sub(one, body)


def _match(s: Scanner, pattern: re.Pattern[str], what: str) -> str:
    m = pattern.match(s.text, s.pos)
    if m is None:
        s.fail(f"expected {what}, found {s.found()}")
    s.pos = m.end()
    s.skip()
    return m[0]
