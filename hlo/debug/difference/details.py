"""What differs between two matched instructions, in words."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hlo.analysis.matching import Matching, comparable, comparable_annotation, is_note
from hlo.debug.difference.sites import Sites
from hlo.frontends.text.annotations import ANNOTATIONS
from hlo.ir import Computation, Instruction
from hlo.ops import Trait
from hlo.ops.attrs import LITERAL, Attr
from hlo.values.literal import write_literal
from hlo.values.types import ArrayShape, Shape, without_layout

# Elements of a constant that are shown, and characters of any other value.
_SHOWN_ELEMENTS, _SHOWN = 8, 160
# Instructions whose operands are the arguments of a computation.
_PASSES_ARGUMENTS = frozenset({"fusion", "call", "while", "conditional", "async-start"})
OPERANDS, SWAPPED = "operands", "operands swapped"


@dataclass(frozen=True)
class Detail:
    """One difference of two instructions.

    what: `opcode`, `shape`, `element type`, `layout`, `value` of a constant, `operands`, `operands
    swapped`, `control-predecessors`, `result`, or the name of an attribute. left, right: the texts;
    empty for what one side does not have.
    """

    what: str
    left: str
    right: str

    def __str__(self) -> str:
        return f"{self.what}: {self.left or 'none'} -> {self.right or 'none'}"


def details_of(
    matching: Matching, sites: Sites, a: Instruction, b: Instruction, *, metadata: bool = False
) -> list[Detail]:
    """Return what differs between a left instruction and its partner.

    An operand without a partner is a difference of its own, and none of its users.
    """
    found: list[Detail] = []
    if metadata or not matching.same_by_itself(a, b):
        if a.opcode != b.opcode:
            found.append(Detail("opcode", a.opcode, b.opcode))
        found.extend(_shapes(a.shape, b.shape))
        if a.opcode == b.opcode:
            found.extend(_attributes(a, b))
        found.extend(_annotations(a, b, metadata))
    found.extend(_callees(matching, a, b))
    found.extend(_operands(matching, sites, a, b))
    found.extend(_control(matching, a, b))
    return found


def _shapes(a: Shape, b: Shape) -> Iterator[Detail]:
    if a == b:
        return
    if without_layout(a) == without_layout(b):
        yield Detail("layout", str(a), str(b))
    elif isinstance(a, ArrayShape) and isinstance(b, ArrayShape) and a.dims == b.dims:
        yield Detail("element type", a.element_type.name, b.element_type.name)
    else:
        yield Detail("shape", str(a), str(b))


def _attributes(a: Instruction, b: Instruction) -> Iterator[Detail]:
    for key, attr in a.spec.attrs.items():
        ours, theirs = a.attrs[key], b.attrs[key]
        if comparable(ours) == comparable(theirs):
            continue
        if attr.codec is LITERAL and a.shape != b.shape:
            continue  # it has the shape that is said to differ already
        name = {"constant": "value", "parameter": "number"}.get(a.opcode, key)
        yield Detail(name, _text(attr, ours), _text(attr, theirs))


def _text(attr: Attr, value: Any) -> str:
    if value is None:
        return ""
    if attr.codec is LITERAL:
        return write_literal(value, _SHOWN_ELEMENTS)
    if isinstance(value, Computation):
        return value.name
    if isinstance(value, tuple) and any(isinstance(v, Computation) for v in value):
        return ", ".join(c.name for c in value)
    return _short(attr.codec.write(value))


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def _annotations(a: Instruction, b: Instruction, metadata: bool) -> Iterator[Detail]:
    for key, codec in ANNOTATIONS.items():
        if is_note(key) and not metadata:
            continue
        ours, theirs = a.annotations.get(key), b.annotations.get(key)
        if comparable_annotation(key, ours) != comparable_annotation(key, theirs):
            if key == "backend_config":
                ours, theirs = different_keys(ours, theirs)
            texts = ["" if v is None else _short(codec.write(v)) for v in (ours, theirs)]
            yield Detail(key, *texts)


def different_keys(left: str | None, right: str | None) -> tuple[str | None, str | None]:
    """Return two values of `backend_config` without the keys of JSON that have the same value."""
    try:
        ours, theirs = json.loads(left or "{}"), json.loads(right or "{}")
    except (ValueError, RecursionError):
        return left, right
    if not isinstance(ours, dict) or not isinstance(theirs, dict):
        return left, right
    same = {k for k in ours.keys() & theirs.keys() if _json(ours[k]) == _json(theirs[k])}
    left, right = (_json({k: v for k, v in d.items() if k not in same}) for d in (ours, theirs))
    return left, right


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def _callees(matching: Matching, a: Instruction, b: Instruction) -> Iterator[Detail]:
    ours, theirs = a.called_computations, b.called_computations
    if a.opcode != b.opcode and (not ours or not theirs):
        return
    if len(ours) != len(theirs) or not all(map(matching.same_computation, ours, theirs)):
        yield Detail("calls", ", ".join(c.name for c in ours), ", ".join(c.name for c in theirs))


def _operands(matching: Matching, sites: Sites, a: Instruction, b: Instruction) -> Iterator[Detail]:
    ours, theirs = list(a.operands), list(b.operands)
    if [matching.of(o) for o in ours] == theirs:
        return
    assert a.parent is not None and b.parent is not None
    if not matching.same_computation(a.parent, b.parent):
        ours, theirs = [sites.value(o) for o in ours], [sites.value(o) for o in theirs]
    partners = [matching.of(o) for o in ours]
    if partners == theirs:
        return
    if a.spec.has(Trait.COMMUTATIVE) and a.opcode == b.opcode:
        if None not in partners and Counter(partners) == Counter(theirs):
            yield Detail(SWAPPED, _names(a.operands), _names(b.operands))
            return
    if len(ours) == len(theirs):
        # What has no partner is a difference of its own.
        rewired = any(
            partner is not other and partner is not None and matching.of(other) is not None
            for partner, other in zip(partners, theirs, strict=True)
        )
    else:
        # What is passed to a computation is seen at its parameters.
        kept = [p for p in partners if p is not None]
        known = [o for o in theirs if matching.of(o) is not None]
        rewired = a.opcode == b.opcode and a.opcode not in _PASSES_ARGUMENTS and kept != known
    if rewired:
        yield Detail(OPERANDS, _names(a.operands), _names(b.operands))


def _control(matching: Matching, a: Instruction, b: Instruction) -> Iterator[Detail]:
    ours, theirs = a.control_predecessors, b.control_predecessors
    if not ours and not theirs:
        return
    lost = any((p := matching.of(o)) is not None and p not in theirs for o in ours)
    got = any((p := matching.of(o)) is not None and p not in ours for o in theirs)
    if lost or got:
        yield Detail("control-predecessors", _names(ours), _names(theirs))


def _names(instructions: Sequence[Instruction]) -> str:
    return _short(", ".join(f"%{i.name}" for i in instructions))
