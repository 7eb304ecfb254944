"""Builds an instruction from its record: resolves operands and attributes, infers the shape."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hlo.errors import InferError, InstructionSpan, Source, TextError
from hlo.frontends.text import terminals
from hlo.frontends.text.attributes import AttributeReader, Attributes, Piece, Schema, read_names
from hlo.frontends.text.report import Report
from hlo.frontends.text.scope import Scope
from hlo.frontends.text.sugar import AsyncOpcode, wrap
from hlo.frontends.text.syntax import Deep, InlineRecord, InstructionRecord, Token
from hlo.ir import Computation, Instruction
from hlo.ops import OPS, OpSpec, Trait
from hlo.ops.aliases import opcode_hint
from hlo.ops.attrs import LITERAL
from hlo.ops.spec import OpRecord
from hlo.values.literal import read_literal
from hlo.values.scan import Scanner
from hlo.values.shape_text import read_shape
from hlo.values.sharding import for_leaves
from hlo.values.types import MAX_PARTS, OPAQUE, Shape, TupleShape, compatible, size_problem

_GAP = re.compile(terminals.GAP, re.S)
_OPERAND = re.compile(
    rf"(?:(?P<shape>{terminals.SHAPE}){terminals.GAP})?"
    rf"(?>(?:%?(?P<name>[A-Za-z_][A-Za-z0-9_.-]*+)(?P<path>(?>(?:#\d++)*)))?)"
    rf"{terminals.GAP},?{terminals.GAP}",
    re.S,
)
# Nested operations in place of operands are built recursively.
_MAX_NESTED = 64


class _Operands(NamedTuple):
    """The operands (None for one with an error), the start of each, and the end of all."""

    found: list[Instruction] | None
    starts: list[int]
    end: int


@dataclass
class Control:
    """The control predecessors of an instruction, by name."""

    inst: Instruction
    scope: Scope
    piece: Piece


def _complete(
    spec: OpSpec, shape: Shape, operands: Sequence[Instruction], attributes: Attributes
) -> None:
    """Add defaults for missing attributes, as XLA's parser does."""
    if spec.implied_attrs:
        for key, implied in spec.implied_attrs.items():
            if key not in attributes.own and operands:
                attributes.own[key] = implied([o.shape for o in operands])
    if spec.settled_attrs:
        for key, settled in spec.settled_attrs.items():
            if key in attributes.own:
                attributes.own[key] = settled(attributes.own[key], [o.shape for o in operands])
    sharding = attributes.annotations.get("sharding")
    if sharding is not None:
        attributes.annotations["sharding"] = for_leaves(sharding, shape)


class InstructionBuilder:
    """Builds the instructions of one file.

    new_computation: called with the wrapper that an async operation needs and its caller.
    """

    def __init__(
        self,
        report: Report,
        attributes: AttributeReader,
        new_computation: Callable[[Computation, Computation], None],
    ) -> None:
        self._report = report
        self._attributes = attributes
        self._new_computation = new_computation
        self._schemas: dict[str, Schema] = {}
        # What still has to be connected.
        self.control: list[Control] = []
        # Number of words used by elided constants so far.
        self._elided_words = 0
        # Total number of parts of the tuple shapes inferred so far.
        self._inferred_parts = 0

    def build(
        self, scope: Scope, record: InstructionRecord, name: str, start: int, depth: int = 0
    ) -> Instruction | None:
        """Build an instruction, or return None after reporting errors."""
        errors = len(self._report)
        opcode = record.opcode.value
        spec = OPS.get(opcode)
        if spec is None:
            opcode = _GAP.sub("", opcode)
            spec = OPS.get(opcode)
        wrapped = AsyncOpcode.of(opcode) if spec is None else None
        if wrapped is not None:
            spec = wrapped.spec
        if spec is None:
            self._report.error("unknown-opcode", f"unknown opcode {opcode!r}",
                               record.opcode.start_pos, hint=opcode_hint(opcode))  # fmt: skip
            return None
        shape = None if record.shape is None else self._shape(scope, record.shape)
        if record.declared is not None and shape is not None:
            self._check_declared(scope, record.declared, shape, name)
        schema = self._schemas.get(opcode)
        if schema is None:
            schema = self._schemas[opcode] = wrapped.schema() if wrapped else Schema.of(spec)
        attributes = self._attributes.read(record, schema)
        if spec.payload is not None:
            operands = self._payload(record, spec, shape, attributes)
        else:
            operands = self._operands(scope, record, depth)
        if len(self._report) > errors or operands.found is None or not attributes.is_whole:
            return None
        end = _end(record.attributes[-1]) if record.attributes else operands.end
        span = InstructionSpan(self._source, start, end, operands.starts, attributes.starts)
        try:
            if wrapped is not None:
                comp = wrap(wrapped, shape, operands.found, attributes, span)
                if comp is not None:
                    self._new_computation(comp, scope.comp)
            if shape is None:
                shape = self._inferred(spec, attributes, operands.found)
        except InferError as e:
            self._report.infer_error(e, span)
            return None
        if shape is None:
            return None
        _complete(spec, shape, operands.found, attributes)
        inst = Instruction(
            name, spec.name, shape, operands.found, attributes.own,
            annotations=attributes.annotations, span=span,
        )  # fmt: skip
        if attributes.predecessors is not None:
            self.control.append(Control(inst, scope, attributes.predecessors))
        return inst

    def connect_control(self) -> None:
        """Resolve the control predecessors of all instructions, which may be defined later."""
        for control in self.control:
            self.connect(control)

    def connect(self, control: Control) -> None:
        """Resolve the control predecessors of one instruction."""
        inst, scope, piece = control.inst, control.scope, control.piece
        names = read_names(piece.text)
        if names is None:
            self._report.error("syntax", f"{piece.key}: expected names, {{a, b}}", piece.start)
            return
        for name, offset in names:
            before = scope.names.get(name)
            if before is not None:
                inst.add_control_predecessor(before)
            elif name not in scope.names:
                scope.missing(name, None, piece.start + offset, piece.start + offset)

    @property
    def _source(self) -> Source:
        return self._report.source  # of an edited text, each statement has its own

    # --- shapes ---------------------------------------------------------------------------------

    def _shape(self, scope: Scope, item: Token | Deep) -> Shape | None:
        token = item.token("SHAPE", self._source.text) if isinstance(item, Deep) else item
        return scope.shape(token.value, token.start_pos)

    def _check_declared(self, scope: Scope, item: Token | Deep, shape: Shape, name: str) -> None:
        """Check the shape that older texts have before the name as well."""
        declared = self._shape(scope, item)
        if declared is not None and not compatible(declared, shape):
            self._report.error(
                "shape-mismatch",
                f"{name} is {declared.to_string(False)} before its name and "
                f"{shape.to_string(False)} after it", _start(item),
            )  # fmt: skip

    def _inferred(
        self, spec: OpSpec, attributes: Attributes, operands: list[Instruction]
    ) -> Shape | None:
        """Infer a shape missing in the text; None if a callee has errors."""
        if not spec.has(Trait.INFERABLE):
            raise InferError(f"{spec.name} needs its shape in front of it", code="missing-shape")
        spec.check_arity(len(operands))
        attrs = spec.defaults | attributes.own
        for key in spec.computation_attrs:
            callees = attrs[key] if isinstance(attrs[key], tuple) else (attrs[key],)
            if None in callees and spec.attrs[key].required:
                return None  # it refers to one with errors
            if any(c is not None and not c.has_root for c in callees):
                if self._report.has_errors:
                    return None
                raise InferError(
                    f"{spec.name} is part of a call cycle, its shape has to be written",
                    attr=key, code="missing-shape",
                )  # fmt: skip
        shapes = [o.shape for o in operands]
        # The result's shape is not known: an opaque value for now.
        op = OpRecord("?", spec.name, OPAQUE, attrs, shapes, attributes.annotations)
        shape = spec.infer(op)
        self._count_inferred(shape)
        return shape

    def _count_inferred(self, shape: Shape) -> None:
        """Reject nested tuples that grow exponentially because a short text leaves shapes out."""
        if not isinstance(shape, TupleShape):
            return
        problem = size_problem(shape)
        if problem is not None:
            raise InferError(problem[1], code=problem[0])
        self._inferred_parts += shape.num_parts
        if self._inferred_parts > MAX_PARTS:
            raise InferError(
                f"the tuples whose shapes are left out are of more than {MAX_PARTS} parts in all",
                code="bad-shape", hint="a tuple of tuples has all the parts of each",
            )  # fmt: skip

    # --- operands -------------------------------------------------------------------------------

    def _payload(
        self,
        record: InstructionRecord,
        spec: OpSpec,
        shape: Shape | None,
        attributes: Attributes,
    ) -> _Operands:
        """Decode the payload in place of operands."""
        assert spec.payload is not None
        token = record.arguments
        if not isinstance(token, Token):
            self._report.error("syntax", f"{spec.name} takes no operands", record.opcode.end_pos)
            return _Operands(None, [], record.opcode.end_pos)
        start, end = token.start_pos + 1, token.end_pos - 1
        codec = spec.attrs[spec.payload].codec
        try:
            if codec is not LITERAL:
                attributes.own[spec.payload] = codec.parse(token.value[1:-1])
            elif shape is not None:
                # Read from the file's text, not from a copy: a constant may be most of a file.
                literal = read_literal(self._source.text, shape, start, end)
                literal, self._elided_words = literal.filled_from(self._elided_words)
                attributes.own[spec.payload] = literal
            elif record.shape is None:
                self._report.error("missing-shape", f"{spec.name} needs its shape in front of it",
                                   record.opcode.start_pos)  # fmt: skip
        except TextError as e:
            self._report.text_error(e, start, spec.name)
        return _Operands([], [], token.end_pos)

    def _operands(self, scope: Scope, record: InstructionRecord, depth: int) -> _Operands:
        token = record.arguments
        if not isinstance(token, Token):
            return self._nested_operands(scope, record, depth)
        text, base = token.value, token.start_pos
        if token.type == "PAYLOAD":
            at = _GAP.match(text, 1).end()  # type: ignore[union-attr]
            message = f"expected an operand, found {text[at : at + 20]!r}"
            self._report.error("syntax", message, base + at)
            return _Operands(None, [], token.end_pos)
        names = scope.names
        found: list[Instruction] = []
        starts: list[int] = []
        # As XLA prints them: names alone. Whatever else is none that there is.
        start = base + 1
        for word in text[1:-1].split(", "):
            operand = names.get(word[1:] if word[:1] == "%" else word)
            if operand is None:
                break
            found.append(operand)
            starts.append(start)
            start += len(word) + 2
        else:
            return _Operands(found, starts, token.end_pos)
        found, starts = [], []
        count = 0
        pos, last = _GAP.match(text, 1).end(), len(text) - 1  # type: ignore[union-attr]
        while pos < last:
            m = _OPERAND.match(text, pos)
            assert m is not None and m.end() > pos
            shape_text, name, path = m.groups()
            start = base + pos
            starts.append(start)
            operand = names.get(name)
            if operand is None or shape_text is not None or path:
                operand = scope.operand(shape_text, name, path, start)
            if operand is not None:
                found.append(operand)
            count += 1
            pos = m.end()
        return _Operands(found if len(found) == count else None, starts, token.end_pos)

    def _nested_operands(self, scope: Scope, record: InstructionRecord, depth: int) -> _Operands:
        """Build operands of which at least one is a nested operation."""
        end = record.opcode.end_pos
        if depth >= _MAX_NESTED:
            self._report.error(
                "nesting-too-deep", f"operations are nested more than {_MAX_NESTED} deep",
                record.opcode.start_pos,
            )  # fmt: skip
            return _Operands(None, [], end)
        found: list[Instruction | None] = []
        starts: list[int] = []
        for item in record.arguments:
            if isinstance(item, Deep):
                item = item.token("OPERAND", self._source.text)
            if isinstance(item, Token):
                token = item
                starts.append(token.start_pos)
                found.append(self._listed_operand(scope, token))
                end = token.end_pos
            else:
                start = _start(item.shape or item.opcode)
                starts.append(start)
                base = _GAP.sub("", item.opcode.value) + ".anon"
                inst = self.build(scope, item, base, start, depth + 1)
                if inst is not None:
                    # Named last: the nested operations need names too.
                    inst.name = scope.free_name(base)
                    scope.add(inst.name, inst)
                found.append(inst)
                end = inst.span.end if inst is not None and inst.span is not None else end
        whole = [inst for inst in found if inst is not None]
        return _Operands(whole if len(whole) == len(found) else None, starts, end)

    def _listed_operand(self, scope: Scope, token: Token) -> Instruction | None:
        """Return the instruction that one operand refers to."""
        text = token.value
        m = _OPERAND.match(text)
        assert m is not None
        if m.end() == len(text):
            return scope.operand(m["shape"], m["name"], m["path"], token.start_pos)
        # The shape nests too deeply for a pattern.
        scanner = Scanner(text)
        try:
            read_shape(scanner)
        except TextError as e:
            self._report.text_error(e, token.start_pos)
            return None
        m = _OPERAND.match(text, scanner.pos)
        assert m is not None
        return scope.operand(text[: scanner.pos].rstrip(), m["name"], m["path"], token.start_pos)


def _start(item: Token | Deep) -> int:
    return item.start if isinstance(item, Deep) else item.start_pos


def _end(item: Token | Deep | InlineRecord) -> int:
    if isinstance(item, Deep):
        return item.end
    return (item.end if isinstance(item, InlineRecord) else item).end_pos
