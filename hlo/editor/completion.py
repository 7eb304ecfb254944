"""What may be written at the cursor."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hlo.editor.document import Document
from hlo.editor.hover import operation_text
from hlo.editor.names import statement_at, unit_of
from hlo.frontends.text.annotations import ANNOTATIONS, CONTROL_PREDECESSORS
from hlo.frontends.text.header import MODULE_ATTRS
from hlo.frontends.text.units import defined
from hlo.ops import OPS
from hlo.values.types import TYPE_NAMES

OPCODE, ATTRIBUTE, VALUE, NAME, COMPUTATION, TYPE = (
    "opcode", "attribute", "value", "name", "computation", "type",
)  # fmt: skip

_WORD = re.compile(r"%?[A-Za-z_]?[\w.-]*$")
# What an instruction may look like in front of the cursor, at its end.
_HEAD = r"(?:ROOT\s+)?%?[\w.-]+\s*=\s*"
_OPCODE = re.compile(
    rf"{_HEAD}(?:\(.*\)\s*|[a-z][a-z0-9]*\[[^\]]*\](?:\{{[^{{}}]*\}})?\s+)?$", re.S
)
_SHAPE = re.compile(rf"{_HEAD}(?:\((?:[^()]*,\s*)?)?$", re.S)
_CALLED = re.compile(r"([A-Za-z][\w.-]*)\s*\(")
_VALUE = re.compile(r"[,\s]([A-Za-z_][\w.-]*)=\{?(?:[^{}=()]*,\s*)?$")
_KEY = re.compile(r",\s*$")
_HEADER = re.compile(r"\s*HloModule\b")
_STRINGS = re.compile(r'"(?:[^"\\\n]|\\.)*"')


# More proposals only slow editors down; they ask again as the word grows.
MAX_COMPLETIONS = 500


@dataclass(frozen=True)
class Completion:
    """One proposal.

    kind: what it is. text: what replaces the word `[start, end)` of the document. detail: a line
    beside it.
    """

    kind: str
    label: str
    text: str
    start: int
    end: int
    detail: str = ""


def documentation(opcode: str) -> str:
    """Return what is shown beside the completion of an opcode."""
    return operation_text(opcode)


def completions(document: Document, offset: int) -> list[Completion]:
    """Return what may be written at a character of the document, the likely ones first.

    They contain what has been written of the word. One more than MAX_COMPLETIONS stands for more.
    """
    statement = statement_at(document, offset)
    before = document.text[statement.start : offset]
    m = _WORD.search(before)
    assert m is not None
    start, prefix = statement.start + m.start(), m[0]
    line = _STRINGS.sub('""', _last_instruction(before[: m.start()]))
    found = []
    for kind, label, text, detail in _proposals(document, offset, line, prefix):
        if prefix.removeprefix("%").lower() in label.lower():
            found.append(Completion(kind, label, text, start, offset, detail))
            if len(found) > MAX_COMPLETIONS:
                break
    return found


def _last_instruction(text: str) -> str:
    """Return the text of the instruction that is being written."""
    last = 0
    for m in re.finditer(r"^[ \t]*(?=(?:ROOT\s+)?%?[\w.-]+\s*=[^=])", text, re.M):
        last = m.end()
    return text[last:]


Proposal = tuple[str, str, str, str]


def _proposals(document: Document, offset: int, line: str, prefix: str) -> Iterator[Proposal]:
    if _HEADER.match(line) and _KEY.search(line):
        for key in MODULE_ATTRS:
            yield ATTRIBUTE, key, f"{key}=", "of the module"
        return
    opcode, depth, rest = _opcode_before(line)
    if opcode is not None and depth == 0:
        yield from _attributes(document, offset, opcode, rest, line, prefix)
    elif opcode is not None:
        yield from _operands(document, offset, prefix)
    else:
        if _OPCODE.fullmatch(line):
            for name, spec in OPS.items():
                yield OPCODE, name, name, spec.category.value
        if _SHAPE.fullmatch(line) or re.search(r"[:(,]\s*$|->\s*$", line):
            for name in sorted(TYPE_NAMES):
                yield TYPE, name, name, "element type"


def _opcode_before(line: str) -> tuple[str | None, int, str]:
    """Return the opcode, how deep in its parentheses the end of the line is, and what follows."""
    for m in _CALLED.finditer(line):
        if m[1] not in OPS and not m[1].endswith(("-start", "-done", "-update")):
            continue
        depth = 1
        for at in range(m.end(), len(line)):
            depth += (line[at] == "(") - (line[at] == ")")
            if depth == 0:
                return m[1], 0, line[at + 1 :]
        return m[1], depth, line[m.end() :]
    return None, 0, ""


def _attributes(
    document: Document, offset: int, opcode: str, rest: str, line: str, prefix: str
) -> Iterator[Proposal]:
    spec = OPS.get(opcode)
    attrs = {} if spec is None else {k: a for k, a in spec.attrs.items() if k != spec.payload}
    value = _VALUE.search(rest)
    if value is not None:
        attr = attrs.get(value[1])
        codec = attr.codec if attr is not None else ANNOTATIONS.get(value[1])
        if value[1] == CONTROL_PREDECESSORS:
            yield from _operands(document, offset, prefix)
        elif codec is not None and codec.holds_computations:
            mark = "%" if prefix.startswith("%") or _marks(document) else ""
            here = unit_of(document, statement_at(document, offset))
            for unit in document.parsed.units:
                if unit is not here:
                    signature = unit.comp.signature if unit.comp.has_root else ""
                    yield COMPUTATION, unit.comp.name, mark + unit.comp.name, signature
        elif codec is not None and codec.words:
            for word in codec.words:
                yield VALUE, word, word, value[1]
        elif codec is not None and codec.name == "true or false":
            for word in ("true", "false"):
                yield VALUE, word, word, value[1]
        return
    if not _KEY.search(rest):
        return
    said = set(re.findall(r"([A-Za-z_][\w.-]*)=", rest))
    for key, attr in sorted(attrs.items(), key=lambda item: not item[1].required):
        if key not in said:
            what = "required, " * attr.required + attr.codec.name
            yield ATTRIBUTE, key, f"{key}=", what
    for key, codec in ANNOTATIONS.items():
        if key not in said:
            yield ATTRIBUTE, key, f"{key}=", codec.name


def _operands(document: Document, offset: int, prefix: str) -> Iterator[Proposal]:
    """Yield the instructions that are defined before the cursor, the last one first."""
    statement = statement_at(document, offset)
    unit = unit_of(document, statement)
    if unit is None:
        return
    mark = "%" if prefix.startswith("%") or _marks(document) else ""
    before = []
    for other in unit.statements:
        if other is statement or other.start >= statement.start:
            break
        if other.record is not None:
            name = other.built.name if other.built is not None else defined(other)[0]
            before.append(name)
    for name in reversed(before):
        inst = unit.names.get(name) or unit.last.get(name)
        detail = "" if inst is None else f"{inst.shape} {inst.opcode}"
        yield NAME, name, mark + name, detail


def _marks(document: Document) -> bool:
    """Return whether the text writes names with `%`."""
    for unit in document.parsed.units:
        return unit.head.source.text.removeprefix("ENTRY").lstrip().startswith("%")
    return "%" in document.text
