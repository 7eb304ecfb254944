"""Attributes that any operation may have: their parsing, values and printing.

`ANNOTATIONS` lists them in XLA's printing order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, ClassVar

from hlo.errors import TextError
from hlo.frontends.text import terminals
from hlo.frontends.text.origins import read_origin_text
from hlo.ops.attrs import BOOLS, INT32, INTS, Codec
from hlo.values.scan import Scanner, escape
from hlo.values.sharding.text import read_sharding

# --- metadata -----------------------------------------------------------------------------------

_INT_FIELDS = (
    "source_line", "source_end_line", "source_column", "source_end_column", "stack_frame_id",
)  # fmt: skip
_FIELDS = (
    "op_type", "op_name", "source_file", "source_line", "source_end_line", "source_column",
    "source_end_column", "stack_frame_id", "profile_type", "deduplicated_name", "scheduling_name",
    "metadata_payload",
)  # fmt: skip
_STRING_FIELDS = ("op_type", "op_name", "source_file", "deduplicated_name", "scheduling_name")
# As XLA prints it: fields in the order of its proto, each at most once.
_METADATA = re.compile(
    rf"\{{{terminals.GAP}"
    + "".join(
        rf"(?>(?:{name}={r'-?[0-9]{1,9}+' if name in _INT_FIELDS else terminals.STRING}"
        r"(?:[\s,]\s*+|(?=\})))?)"
        for name in _FIELDS
        if name in _INT_FIELDS + _STRING_FIELDS
    )
    + r"\}",
    re.S,
)


class OpMetadata:
    """Where an operation came from. Most of a dump is metadata, so it is decoded lazily.

    fields: values by name, in the order of XLA's proto: `op_name`, `source_line`, ...
    """

    __slots__ = ("_fields", "_text")

    FIELDS: ClassVar[tuple[str, ...]] = _FIELDS

    def __init__(self, fields: Mapping[str, Any] | None = None, *, text: str = "") -> None:
        self._fields: dict[str, Any] | None = None if fields is None else dict(fields)
        self._text = text

    @property
    def fields(self) -> Mapping[str, Any]:
        if self._fields is None:
            self._fields = _read_metadata_fields(Scanner(self._text))
        return MappingProxyType(self._fields)

    @property
    def op_name(self) -> str:
        name: str = self.fields.get("op_name", "")
        return name

    @property
    def op_type(self) -> str:
        name: str = self.fields.get("op_type", "")
        return name

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OpMetadata):
            return NotImplemented
        return self is other or self.fields == other.fields

    def __hash__(self) -> int:
        return hash(tuple(self.fields.items()))

    def __str__(self) -> str:
        known = self.fields
        parts = []
        for name, value in known.items():
            if isinstance(value, str):
                parts.append(f'{name}="{escape(value)}"')
            else:
                parts.append(f"{name}={INTS.write(value) if isinstance(value, tuple) else value}")
        return "{" + " ".join(parts) + "}"

    def __repr__(self) -> str:
        return f"OpMetadata({self})"


def _read_metadata_fields(s: Scanner) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in s.fields("metadata", _FIELDS):
        if name in _INT_FIELDS:
            found[name] = INT32.read(s)
        else:
            # The kinds of profiles that numbers come from.
            found[name] = s.integers() if name == "profile_type" else s.string()
    return {name: found[name] for name in _FIELDS if name in found}


@lru_cache(maxsize=1 << 12)
def _metadata(text: str) -> OpMetadata:
    return OpMetadata(text=text)


def _read_metadata(s: Scanner) -> OpMetadata:
    m = _METADATA.match(s.text, s.pos)
    if m is None:
        return OpMetadata(_read_metadata_fields(s))
    s.pos = m.end()
    s.skip()
    return _metadata(m[0])


def plain_metadata(text: str, start: int) -> OpMetadata | None:
    """Return the metadata that a text ends with, None if it is not written as XLA does."""
    m = _METADATA.fullmatch(text, start)
    return None if m is None else _metadata(m[0])


METADATA = Codec("{op_name=.. source_file=..}", _read_metadata, str)

# --- others -------------------------------------------------------------------------------------

_BRACE_PIECE = re.compile(rf"[{{}}]|{terminals.LONG_STRING}|[^{{}}\"']++|.", re.S)
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*+")


def end_of_braces(text: str, start: int) -> int | None:
    """Return where the braces that open at `start` close, or None."""
    if not text.startswith("{", start):
        return None
    depth = 0
    for m in _BRACE_PIECE.finditer(text, start):
        if m[0] == "{":
            depth += 1
        elif m[0] == "}":
            depth -= 1
            if depth == 0:
                return m.end()
    return None


def _read_braces(s: Scanner) -> str:
    """Read text in balanced braces, verbatim."""
    end = end_of_braces(s.text, s.pos)
    if end is None:
        s.fail(f"expected text in braces, found {s.found()}")
    value = s.text[s.pos : end]
    s.pos = end
    s.skip()
    return value


def _write_string_or_dict(value: str) -> str:
    is_dict = value and end_of_braces(value, 0) == len(value)
    return value if is_dict else f'"{escape(value)}"'


def _read_string_or_dict(s: Scanner) -> str:
    return _read_braces(s) if s.peek("{") else s.string()


BACKEND_CONFIG = Codec('"string" or {json}', _read_string_or_dict, _write_string_or_dict)


def _read_frontend_attributes(s: Scanner) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for _ in s.items():
        at = s.pos
        key = s.string() if s.peek('"') else s.ident("an attribute name")
        if key in found:
            raise TextError(f"{key!r} is given twice", at, code="duplicate-attribute")
        s.expect("=")
        found[key] = _read_string_or_dict(s)
    return MappingProxyType(found)


def _write_frontend_attributes(values: Mapping[str, str]) -> str:
    def key(name: str) -> str:
        return name if _KEY.fullmatch(name) else f'"{escape(name)}"'

    inside = (f"{key(k)}={_write_string_or_dict(v)}" for k, v in sorted(values.items()))
    return "{" + ",".join(inside) + "}"


FRONTEND_ATTRIBUTES = Codec(
    '{name="value",..}', _read_frontend_attributes, _write_frontend_attributes
)


def _read_statistics(s: Scanner) -> tuple[tuple[str, float], ...]:
    found: list[tuple[str, float]] = []
    for _ in s.items():
        name = s.ident("a statistic")
        s.expect("=")
        found.append((name, s.number()))
    return tuple(found)


def _write_statistics(values: tuple[tuple[str, float], ...]) -> str:
    return "{" + ",".join(f"{k}={v:g}" for k, v in values) + "}"


STATISTICS = Codec("{visualizing_index=0,name=1.5}", _read_statistics, _write_statistics)
# Text that is kept verbatim.
BRACES = Codec("{text}", _read_braces, str)
ORIGIN = Codec("{origin}", read_origin_text, str)

ANNOTATIONS: dict[str, Codec] = {
    "parameter_replication": BOOLS,
    "sharding": Codec("{sharding}", read_sharding, str),
    "frontend_attributes": FRONTEND_ATTRIBUTES,
    "statistics": STATISTICS,
    "origin": ORIGIN,
    "metadata": METADATA,
    "backend_config": BACKEND_CONFIG,
}
CONTROL_PREDECESSORS = "control-predecessors"
