"""Attributes of instructions: decodes `key=value` tokens, once for each distinct text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any, NamedTuple

from hlo.errors import InferError, TextError, did_you_mean
from hlo.frontends.text import terminals
from hlo.frontends.text.annotations import ANNOTATIONS, CONTROL_PREDECESSORS, plain_metadata
from hlo.frontends.text.report import Report
from hlo.frontends.text.syntax import Deep, InlineRecord, InstructionRecord, Token
from hlo.ir import Computation
from hlo.ops import OpSpec
from hlo.ops.attrs import COMPUTATIONS, Attr

_KEY = re.compile(
    rf",{terminals.GAP}([A-Za-z_][A-Za-z0-9_.-]*+){terminals.GAP}(=){terminals.GAP}", re.S
)
_NAME = re.compile(terminals.NAME)
_LISTED_NAME = re.compile(rf"{terminals.GAP}({terminals.NAME}){terminals.GAP}([,}}])", re.S)
_EMPTY_LIST = re.compile(rf"\{{{terminals.GAP}\}}", re.S)


_METADATA = ", metadata={"
# Names of attributes in other versions of XLA.
_RENAMED = {
    "async_thread_name": "async_execution_thread",
    "all_reduce_id": "channel_id",
    "conv_kind": "convolution_kind",
    "order": "type",  # of a comparison, in newer programs
    "opaque": "backend_config",
    "original_value": "origin",
}
# Attributes of older programs that no longer mean anything.
_OBSOLETE = frozenset({"async_group_id", "barrier"})


class Piece(NamedTuple):
    """A decomposed attribute token: its name and its value, each with its offset."""

    key: str
    key_start: int
    text: str
    start: int


def split(item: Token | Deep | InlineRecord, text: str) -> Piece:
    """Decompose an attribute of a file's `text`, without the value of an inline one."""
    token = item.key if isinstance(item, InlineRecord) else item
    if isinstance(token, Deep):
        token = token.token("ATTRIBUTE", text)
    m = _KEY.match(token.value)
    assert m is not None
    at = token.start_pos
    # A missing value is reported right after the `=`, not on a later line.
    start = m.end() if m.end() < len(token.value) else m.end(2)
    return Piece(m[1], at + m.start(1), token.value[m.end() :], at + start)


def read_names(text: str) -> list[tuple[str, int]] | None:
    """Return the names in `{a, %b}` with their offsets, or None for any other text."""
    if _EMPTY_LIST.fullmatch(text):
        return []
    if not text.startswith("{"):
        return None
    found, pos = [], 1
    while m := _LISTED_NAME.match(text, pos):
        found.append((m[1].removeprefix("%"), m.start(1)))
        pos = m.end()
        if m[2] == "}":
            return found if pos == len(text) else None
    return None


@dataclass(frozen=True)
class Schema:
    """The attributes that an operation may have, besides annotations."""

    opcode: str
    attrs: Mapping[str, Attr]
    required: tuple[str, ...]

    @staticmethod
    def of(spec: OpSpec) -> Schema:
        """Return the schema of an operation of the table."""
        attrs = {k: a for k, a in spec.attrs.items() if k != spec.payload}
        return Schema(spec.name, attrs, tuple(k for k, a in attrs.items() if a.required))


class Attributes:
    """The decoded attributes of one instruction. `starts` has the offset of each name.

    is_whole: False if one refers to a computation with errors, which are reported there.
    """

    __slots__ = ("annotations", "is_whole", "own", "predecessors", "starts")

    def __init__(self) -> None:
        self.own: dict[str, Any] = {}
        self.annotations: dict[str, Any] = {}
        self.starts: dict[str, int] = {}
        self.predecessors: Piece | None = None
        self.is_whole = True


class AttributeReader:
    """Decodes the attributes of one file's instructions.

    computations: those of the file by name. inline: those inside records, by the record's id.
    """

    def __init__(
        self,
        report: Report,
        computations: Mapping[str, Computation],
        inline: Mapping[int, list[Computation]],
        dropped: Set[str],
    ) -> None:
        self._report = report
        self._computations = computations
        self._inline = inline
        self._dropped = dropped
        # Keyed by opcode and text: name, value, offset of the name.
        self._known: dict[tuple[str, str], tuple[str, Any, int]] = {}

    def forget(self) -> None:
        """Forget what names of computations have meant so far."""
        self._known.clear()

    def read(self, record: InstructionRecord, schema: Schema) -> Attributes:
        """Decode an instruction's attributes. Invalid ones are reported and left out."""
        found = Attributes()
        own, annotations, starts = found.own, found.annotations, found.starts
        known = self._known
        opcode, allowed = schema.opcode, schema.attrs
        for item in record.attributes:
            if type(item) is InlineRecord:
                key, value, offset = self._inline_value(item, schema)
                start = item.key.start_pos + offset
            else:
                if type(item) is Deep:
                    item = item.token("ATTRIBUTE", self._report.source.text)
                entry = known.get((opcode, item.value))
                if entry is None:
                    entry = self._decode(item, schema, found)
                key, value, offset = entry
                start = item.start_pos + offset
            if key in starts:
                self._report.error("duplicate-attribute", f"{key} is given twice", start)
                continue
            starts[key] = start
            if key in allowed:
                own[key] = value
                if value is None and allowed[key].codec.holds_computations:
                    found.is_whole = False
            elif value is not None:
                annotations[key] = value
        for key in schema.required:
            if key not in starts:
                self._report.error(
                    "missing-attribute", f"{opcode} needs the attribute {key}",
                    record.opcode.start_pos, record.opcode.start_pos + len(record.opcode.rstrip()),
                    hint=f"its form is {key}={allowed[key].codec.name}",
                )  # fmt: skip
        return found

    def _decode(self, token: Token, schema: Schema, found: Attributes) -> tuple[str, Any, int]:
        """Return name, value and offset of the name; the value is None after an error."""
        if token.value.startswith(_METADATA):  # half of a dump, and nearly every one is different
            metadata = plain_metadata(token.value, len(_METADATA) - 1)
            if metadata is not None:
                entry = self._known[schema.opcode, token.value] = "metadata", metadata, 2
                return entry
        piece = split(token, self._report.source.text)
        key, offset = piece.key, piece.key_start - token.start_pos
        attr = schema.attrs.get(key)
        if attr is None and key in _OBSOLETE:
            return key, None, offset
        if attr is None and key in _RENAMED:
            key = _RENAMED[key]
            attr = schema.attrs.get(key)
        if not piece.text and not (attr is not None and attr.codec.may_be_empty):
            self._report.error("syntax", f"{key}: expected a value after '='", piece.start)
            return key, None, offset
        if attr is not None and attr.codec.holds_computations:
            value = self._callees(piece, attr)
        elif attr is None and key == CONTROL_PREDECESSORS:
            found.predecessors = piece
            return key, None, offset
        else:
            codec = attr.codec if attr is not None else ANNOTATIONS.get(key)
            if codec is None:
                self._unknown(key, piece.key_start, schema)
                return key, None, offset
            try:
                value = codec.parse(piece.text)
            except TextError as e:
                self._report.text_error(e, piece.start, key)
                return key, None, offset
            except InferError as e:
                self._report.error(e.code, f"{key}: {e.message}", piece.start, hint=e.hint)
                return key, None, offset
        if value is not None:
            self._known[schema.opcode, token.value] = key, value, offset
        return key, value, offset

    def _unknown(self, key: str, start: int, schema: Schema) -> None:
        allowed = [*schema.attrs, *ANNOTATIONS, CONTROL_PREDECESSORS]
        self._report.error(
            "unknown-attribute", f"{schema.opcode} has no attribute {key!r}", start,
            hint=did_you_mean(key, allowed) or "allowed are " + ", ".join(allowed),
        )  # fmt: skip

    # --- computations ---------------------------------------------------------------------------

    def _callees(self, piece: Piece, attr: Attr) -> Any:
        if attr.codec is not COMPUTATIONS:
            if _NAME.fullmatch(piece.text):
                return self._computation(piece.text.removeprefix("%"), piece.start)
            want = "the name of a computation, or {instructions}"
        else:
            names = read_names(piece.text)
            if names is not None:
                found = [self._computation(name, piece.start + at) for name, at in names]
                return None if None in found else tuple(found)
            want = "names of computations, {a, b}"
        self._report.error("syntax", f"{piece.key}: expected {want}", piece.start)
        return None

    def _computation(self, name: str, start: int) -> Computation | None:
        found = self._computations.get(name)
        if found is None and name not in self._dropped:
            self._report.error(
                "undefined-computation", f"no computation is called {name!r}", start,
                hint=did_you_mean(name, self._computations),
            )  # fmt: skip
        return found

    def _inline_value(self, record: InlineRecord, schema: Schema) -> tuple[str, Any, int]:
        piece = split(record, self._report.source.text)
        key, offset = piece.key, piece.key_start - record.key.start_pos
        attr = schema.attrs.get(key)
        if attr is None:
            self._unknown(key, piece.key_start, schema)
            return key, None, offset
        if not attr.codec.holds_computations or (record.is_list and attr.codec is not COMPUTATIONS):
            self._report.error("syntax", f"{key}: expected {attr.codec.name}", piece.start)
            return key, None, offset
        made = iter(self._inline[id(record)])
        values = [
            self._computation(body.value.removeprefix("%"), body.start_pos)
            if isinstance(body, Token) else next(made)
            for body in record.bodies
        ]  # fmt: skip
        if None in values:
            return key, None, offset
        return key, tuple(values) if attr.codec is COMPUTATIONS else values[0], offset
