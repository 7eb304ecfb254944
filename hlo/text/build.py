"""From records to IR: names become edges, the op table decodes attributes and infers shapes.

Every error is kept with its place and the work goes on. What could not be built is remembered by
name, so that its uses are not reported as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lark import Token

from hlo.errors import (
    HloError,
    InferError,
    InstructionSpan,
    Span,
    TextError,
    did_you_mean,
)
from hlo.ir import Computation, Instruction, Module
from hlo.literal import read_literal
from hlo.ops import OPS, OpSpec, Trait
from hlo.ops.attrs import LITERAL, STRING
from hlo.scan import Scanner
from hlo.shape_text import parse_shape, read_shape
from hlo.text import terminals
from hlo.text.attributes import AttributeReader, Attributes, Schema, read_names, split
from hlo.text.header import MODULE_ATTRS, read_table
from hlo.text.report import Report, TooManyErrors
from hlo.text.scope import DEFINITION, Scope, SingleScope
from hlo.text.sugar import AsyncOpcode, wrap
from hlo.text.syntax import (
    ComputationRecord,
    Deep,
    InlineRecord,
    InstructionRecord,
    ModuleRecord,
)
from hlo.types import Shape, compatible

_GAP = re.compile(terminals.GAP, re.S)
_OPERAND = re.compile(
    rf"(?:(?P<shape>{terminals.SHAPE}){terminals.GAP})?+"
    rf"(?:%?(?P<name>[A-Za-z_][A-Za-z0-9_.-]*+)(?P<path>(?:#\d++)*+))?+{terminals.GAP},?{terminals.GAP}",
    re.S,
)
_COMPUTATION = re.compile(
    rf"(?P<entry>ENTRY\b{terminals.GAP})?+(?P<name>{terminals.NAME})", re.S
)
# Operations in place of operands are built by recursion.
_MAX_NESTED = 64


@dataclass
class _Draft:
    """A computation and what it is built from."""

    comp: Computation
    body: list[InstructionRecord]
    is_entry: bool = False
    result: Token | None = None


@dataclass(frozen=True)
class _View:
    """An operation without its shape, as inference sees it."""

    opcode: str
    attrs: Mapping[str, Any]
    operand_shapes: Sequence[Shape]

    @property
    def shape(self) -> Shape:
        raise InferError(f"{self.opcode} needs its result shape", code="missing-shape")


class _Operands(NamedTuple):
    """The operands (None where one has an error), where each starts, and where all end."""

    found: list[Instruction] | None
    starts: list[int]
    end: int


class Builder:
    """Builds the module of one file."""

    def __init__(self, report: Report, record: ModuleRecord) -> None:
        self._report = report
        self._record = record
        self._source = report.source
        self._dropped = frozenset(record.dropped)
        self._drafts: dict[str, _Draft] = {}
        self._computations: dict[str, Computation] = {}
        self._inline: dict[int, list[Computation]] = {}
        self._attributes = AttributeReader(
            report, self._computations, self._inline, self._dropped
        )
        self._schemas: dict[str, Schema] = {}
        self._control: list[tuple[Instruction, Scope, Attributes]] = []

    def module(self) -> Module:
        """Return the module. Raises HloError with everything that is wrong."""
        module = Module("", source=self._source)
        try:
            self._build_module(module)
        except TooManyErrors:
            pass
        if len(self._report):
            raise HloError(
                sorted(self._report.diagnostics, key=lambda d: d.span.start if d.span else 0)
            )
        return module

    # --- the module -----------------------------------------------------------------------------

    def _build_module(self, module: Module) -> None:
        record = self._record
        if record.header is not None:
            head = record.header.value.removeprefix("HloModule")
            module.name = head[_GAP.match(head).end() :].removeprefix("%")  # type: ignore[union-attr]
        self._read_header(module)
        if record.single is not None:
            self._build_single(module, record.single)
            return
        self._declare(module)
        for draft in self._build_order():
            self._build_computation(draft)
        self._connect_control()
        if len(self._report):
            return
        # Without ENTRY it is the last one, which stands behind all that are written in place.
        drafts = list(self._drafts.values())
        module.set_entry(next((d for d in drafts if d.is_entry), drafts[-1]).comp)
        if record.header is None:
            module.name = f"module_{module.entry.name}"

    def _read_header(self, module: Module) -> None:
        report = self._report
        for token in self._record.attributes:
            piece = split(token, self._source.text)
            key = piece.key
            codec = MODULE_ATTRS.get(key)
            if codec is None or isinstance(token, InlineRecord):
                report.error(
                    "unknown-attribute", f"a module has no attribute {key!r}", piece.key_start,
                    hint=did_you_mean(key, MODULE_ATTRS) or "allowed are " + ", ".join(MODULE_ATTRS),
                )  # fmt: skip
            elif key in module.attrs:
                report.error("duplicate-attribute", f"{key} is given twice", piece.key_start)
            else:
                try:
                    module.attrs[key] = codec.parse(piece.text)
                except TextError as e:
                    report.text_error(e, piece.start, key)
        for token in self._record.tables:
            try:
                name, lines = read_table(token.value)
            except TextError as e:
                report.text_error(e, token.start_pos)
                continue
            if name in module.tables:
                report.error("bad-table", f"{name} is given twice", token.start_pos)
            module.tables[name] = lines

    def _build_single(self, module: Module, record: InstructionRecord) -> None:
        """Build the module of a text that is one instruction. Its operands become parameters."""
        module.name = "_"
        module.attrs["is_scheduled"] = True
        draft = _Draft(Computation("_"), [record], is_entry=True)
        scope = SingleScope(self._report, draft.comp, draft.body, self._dropped)
        self._declare_inline([draft], module)
        for inner in self._drafts.values():
            if inner is not draft:
                self._build_computation(inner)
        spec = OPS.get(_GAP.sub("", record.opcode.value))
        if spec is not None and spec.has(Trait.ELEMENTWISE) and record.shape is not None:
            scope.default_shape = self._shape(record.shape)
        start = _start(record)
        if record.definition is None:
            name = scope.free_name("_")
        else:
            m = DEFINITION.match(record.definition.value)
            assert m is not None
            start = record.definition.start_pos + m.start("name")
            name = scope.check_name(m["name"], start)
        inst = self._build_instruction(scope, record, name, start)
        if inst is not None:
            draft.comp.add(inst, root=True)
            module.set_entry(draft.comp)
            self._connect_control()

    # --- computations ---------------------------------------------------------------------------

    def _declare(self, module: Module) -> None:
        """Make every computation, still empty, so that references find it."""
        report = self._report
        heads: dict[str, Span] = {}
        entry: Span | None = None
        drafts: list[_Draft] = []
        for record in self._record.computations:
            m = _COMPUTATION.match(record.head.value)
            assert m is not None
            start = record.head.start_pos
            name = m["name"].removeprefix("%")
            place = Span(self._source, start + m.start("name"), start + m.end("name"))
            if name in heads:
                report.error(
                    "duplicate-name", f"computation {name!r} is defined twice", place.start,
                    note=("previously defined here", heads[name]),
                )  # fmt: skip
                continue
            heads[name] = place
            if m["entry"] and entry is not None:
                report.error("duplicate-entry", "a module has one ENTRY computation", start,
                             note=("the first one is here", entry))  # fmt: skip
            elif m["entry"]:
                entry = Span(self._source, start, start + len("ENTRY"))
            comp = Computation(name, span=Span(self._source, start, record.end.end_pos))
            comp.execution_thread = self._execution_thread(record)
            result = None if record.result is None else self._token(record.result, "SHAPE")
            drafts.append(_Draft(comp, record.body, bool(m["entry"]), result))
        self._declare_inline(drafts, module)

    def _declare_inline(self, drafts: list[_Draft], module: Module) -> None:
        """Make the computations written in place of names, and add all to the module in order.

        Each comes before the one that holds it, under a name that the text does not define.
        """
        taken = {draft.comp.name for draft in drafts}
        for draft in drafts:
            stack = [(draft, _inline_records(draft.body))]
            while stack:
                outer, records = stack[-1]
                record = next(records, None)
                if record is None:
                    stack.pop()
                    comp = outer.comp
                    if outer is not draft:
                        number = len(taken)
                        while comp.name in taken:
                            comp.name = f"_.{number}"
                            number += 1
                        taken.add(comp.name)
                    self._drafts[comp.name] = outer
                    self._computations[comp.name] = module.add(comp)
                    continue
                made = self._inline[id(record)] = []
                for body in record.bodies:
                    if not isinstance(body, Token):
                        span = Span(self._source, record.key.start_pos, record.end.end_pos)
                        inner = _Draft(Computation("_", span=span), body)
                        made.append(inner.comp)
                        stack.append((inner, _inline_records(body)))

    def _execution_thread(self, record: ComputationRecord) -> str:
        thread: str | None = None
        for item in record.attributes:
            piece = split(item, self._source.text)
            if piece.key != "execution_thread" or isinstance(item, InlineRecord):
                self._report.error(
                    "unknown-attribute", f"a computation has no attribute {piece.key!r}",
                    piece.key_start, hint="allowed is execution_thread",
                )  # fmt: skip
            elif thread is not None:
                self._report.error("duplicate-attribute", "execution_thread is given twice",
                                   piece.key_start)  # fmt: skip
            else:
                try:
                    thread = STRING.parse(piece.text)
                except TextError as e:
                    self._report.text_error(e, piece.start, piece.key)
        return thread or "main"

    def _build_order(self) -> list[_Draft]:
        """Return the computations in the order of the text, or callees first where that matters.

        It matters where a shape is left out that depends on what a computation returns.
        """
        drafts = list(self._drafts.values())
        if not any(
            record.shape is None and record.attributes for d in drafts for record in d.body
        ):
            return drafts
        order: list[_Draft] = []
        seen: set[int] = set()
        for start in drafts:
            if id(start) in seen:
                continue
            seen.add(id(start))
            stack = [(start, self._callees(start))]
            while stack:
                draft, rest = stack[-1]
                for callee in rest:
                    if id(callee) not in seen:
                        seen.add(id(callee))
                        stack.append((callee, self._callees(callee)))
                        break
                else:
                    order.append(draft)
                    stack.pop()
        return order

    def _callees(self, draft: _Draft) -> Iterator[_Draft]:
        """Yield the computations that the attributes of a body may name."""
        for record in draft.body:
            for item in record.attributes:
                if type(item) is InlineRecord:
                    for comp in self._inline[id(item)]:
                        yield self._drafts[comp.name]
                    continue
                piece = split(item, self._source.text)
                names = read_names(piece.text) or [(piece.text.removeprefix("%"), 0)]
                yield from (self._drafts[name] for name, _ in names if name in self._drafts)

    def _build_computation(self, draft: _Draft) -> None:
        report, comp = self._report, draft.comp
        scope = Scope(report, comp, draft.body, self._dropped)
        root: Instruction | None = None
        root_start = -1
        inst: Instruction | None = None
        for record in draft.body:
            definition = record.definition
            assert definition is not None, "only the single instruction may have no name"
            m = DEFINITION.match(definition.value)
            assert m is not None
            start = definition.start_pos + m.start("name")
            name = scope.check_name(m["name"], start)
            inst = self._build_instruction(scope, record, name, start)
            scope.add(name, inst)
            if m["root"]:
                if root_start >= 0:
                    first = Span(self._source, root_start, root_start + len("ROOT"))
                    report.error("duplicate-root", f"computation {comp.name} has a ROOT already",
                                 definition.start_pos, note=("the first one is here", first))  # fmt: skip
                else:
                    root, root_start = inst, definition.start_pos
        if not draft.body:
            assert comp.span is not None
            report.error("empty-computation", f"computation {comp.name} has no instructions",
                         comp.span.start)  # fmt: skip
        if root_start < 0:
            root = inst
        if root is None or root.parent is not comp:
            return
        comp.set_root(root)
        if None not in scope.names.values() and not self._dropped:
            self._check_parameters(comp)
        self._check_result(draft, root)

    def _check_parameters(self, comp: Computation) -> None:
        for number, param in enumerate(comp.parameters):
            got = param.attrs["number"]
            if got != number:
                what = f"{number} is missing" if got > number else "it is there twice"
                assert param.span is not None
                self._report.error(
                    "bad-parameter-number", f"{comp.name}: parameter({got}) is given, but {what}",
                    param.span.start, param.span.end,
                )  # fmt: skip
                return

    def _check_result(self, draft: _Draft, root: Instruction) -> None:
        result = draft.result
        declared = None if result is None else self._shape(result)
        if result is not None and declared is not None and not compatible(declared, root.shape):
            self._report.error(
                "signature-mismatch",
                f"computation {draft.comp.name} is declared to return {declared.to_string(False)}, "
                f"its root {root.name} is {root.shape.to_string(False)}",
                result.start_pos, result.start_pos + len(result.rstrip()),
                note=("the root is here", root.span),
            )  # fmt: skip

    def _connect_control(self) -> None:
        for inst, scope, attributes in self._control:
            piece = attributes.predecessors
            assert piece is not None
            names = read_names(piece.text)
            if names is None:
                self._report.error("syntax", f"{piece.key}: expected names, {{a, b}}", piece.start)
                continue
            for name, offset in names:
                before = scope.names.get(name)
                if before is not None:
                    inst.add_control_predecessor(before)
                elif name not in scope.names:
                    scope.missing(name, None, piece.start + offset, piece.start + offset)

    # --- instructions ---------------------------------------------------------------------------

    def _build_instruction(
        self, scope: Scope, record: InstructionRecord, name: str, start: int, depth: int = 0
    ) -> Instruction | None:
        """Build an instruction, or return None when there is something wrong with it."""
        errors = len(self._report)
        opcode = record.opcode.value
        spec = OPS.get(opcode) or OPS.get(_GAP.sub("", opcode))
        wrapped: AsyncOpcode | None = None
        if spec is None:
            wrapped = AsyncOpcode.of(_GAP.sub("", opcode))
            if wrapped is None:
                self._report.error(
                    "unknown-opcode", f"unknown opcode {_GAP.sub('', opcode)!r}",
                    record.opcode.start_pos, hint=did_you_mean(_GAP.sub("", opcode), OPS),
                )  # fmt: skip
                return None
            spec = wrapped.spec
        shape = None if record.shape is None else self._shape(record.shape)
        if record.declared is not None and shape is not None:
            declared = self._shape(record.declared)
            if declared is not None and not compatible(declared, shape):
                self._report.error(
                    "shape-mismatch",
                    f"{name} is declared {declared.to_string(False)} before its name, "
                    f"{shape.to_string(False)} after it", start,
                )  # fmt: skip
        schema = self._schemas.get(opcode)
        if schema is None:
            schema = self._schemas[opcode] = wrapped.schema() if wrapped else Schema.of(spec)
        attributes = self._attributes.read(record, schema)
        if spec.payload is not None:
            operands = self._payload(scope, record, spec, shape, attributes)
        else:
            operands = self._operands(scope, record, depth)
        if len(self._report) > errors or operands.found is None:
            return None
        end = operands.end
        if record.attributes:
            last = record.attributes[-1]
            end = last.end_pos if type(last) is Token else _end(last)
        span = InstructionSpan(self._source, start, end, operands.starts, attributes.starts)
        try:
            if wrapped is not None:
                comp = wrap(wrapped, shape, operands.found, attributes)
                if comp is not None and scope.comp.module is not None:
                    scope.comp.module.add(comp)
            if shape is None:
                shape = self._inferred(spec, attributes.own, operands.found)
        except InferError as e:
            self._report.infer_error(e, span)
            return None
        if shape is None:
            return None
        inst = Instruction(
            name, spec.name, shape, operands.found, attributes.own,
            annotations=attributes.annotations, span=span,
        )  # fmt: skip
        if attributes.predecessors is not None:
            self._control.append((inst, scope, attributes))
        return inst

    def _token(self, item: Token | Deep, kind: str) -> Token:
        return item.token(kind, self._source.text) if isinstance(item, Deep) else item

    def _shape(self, item: Token | Deep) -> Shape | None:
        """Return the shape that a token spells, or None after reporting an error."""
        token = self._token(item, "SHAPE")
        try:
            return parse_shape(token.value)
        except TextError as e:
            self._report.text_error(e, token.start_pos)
            return None

    def _inferred(
        self, spec: OpSpec, attrs: dict[str, Any], operands: list[Instruction]
    ) -> Shape | None:
        """Return the shape that the text leaves out, or None where a callee has errors."""
        if not spec.has(Trait.INFERABLE):
            raise InferError(f"{spec.name} needs its shape in front of it", code="missing-shape")
        spec.check_arity(len(operands))
        attrs = spec.defaults | attrs
        for key in spec.computation_attrs:
            callees = attrs[key] if isinstance(attrs[key], tuple) else (attrs[key],)
            if any(c is not None and not c.has_root for c in callees):
                if len(self._report):
                    return None
                raise InferError(
                    f"{spec.name} is part of a call cycle, its shape has to be written",
                    attr=key, code="missing-shape",
                )  # fmt: skip
        return spec.infer(_View(spec.name, attrs, [o.shape for o in operands]))

    def _payload(
        self,
        scope: Scope,
        record: InstructionRecord,
        spec: OpSpec,
        shape: Shape | None,
        attributes: Attributes,
    ) -> _Operands:
        """Decode what stands in place of operands."""
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
                attributes.own[spec.payload] = read_literal(self._source.text, shape, start, end)
            elif record.shape is None:
                self._report.error("missing-shape", f"{spec.name} needs its shape in front of it",
                                   record.opcode.start_pos)  # fmt: skip
        except TextError as e:
            self._report.text_error(e, start, spec.name)
        return _Operands([], [], token.end_pos)

    # --- operands -------------------------------------------------------------------------------

    def _operands(self, scope: Scope, record: InstructionRecord, depth: int) -> _Operands:
        token = record.arguments
        if not isinstance(token, Token):
            return self._nested_operands(scope, record, depth)
        text, base = token.value, token.start_pos
        if token.type == "PAYLOAD":
            at = _GAP.match(text, 1).end()  # type: ignore[union-attr]
            self._report.error("syntax", f"expected an operand, found {text[at:at + 20]!r}", base + at)
            return _Operands(None, [], token.end_pos)
        names = scope.names
        found: list[Instruction] = []
        starts: list[int] = []
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
        """Build operands of which one at least is an operation itself."""
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
            if isinstance(item, Token | Deep):
                token = self._token(item, "OPERAND")
                starts.append(token.start_pos)
                found.append(self._listed_operand(scope, token))
                end = token.end_pos
            else:
                start = _start(item)
                starts.append(start)
                name = scope.free_name(_GAP.sub("", item.opcode.value) + ".anon")
                inst = self._build_instruction(scope, item, name, start, depth + 1)
                scope.add(name, inst)
                found.append(inst)
                end = inst.span.end if inst is not None and inst.span is not None else end
        whole = [inst for inst in found if inst is not None]
        return _Operands(whole if len(whole) == len(found) else None, starts, end)

    def _listed_operand(self, scope: Scope, token: Token) -> Instruction | None:
        """Return the instruction that one operand means."""
        text = token.value
        m = _OPERAND.match(text)
        assert m is not None
        if m.end() == len(text):
            return scope.operand(*m.groups(), token.start_pos)
        # The shape nests too deep for a pattern.
        scanner = Scanner(text)
        try:
            read_shape(scanner)
        except TextError as e:
            self._report.text_error(e, token.start_pos)
            return None
        m = _OPERAND.match(text, scanner.pos)
        assert m is not None
        return scope.operand(text[: scanner.pos].rstrip(), m["name"], m["path"], token.start_pos)


def _start(record: InstructionRecord) -> int:
    """Return where an instruction without a name begins."""
    shape = record.shape
    if shape is None:
        return record.opcode.start_pos
    return shape.start if isinstance(shape, Deep) else shape.start_pos


def _end(item: InlineRecord | Deep) -> int:
    return item.end if isinstance(item, Deep) else item.end.end_pos


def _inline_records(body: list[InstructionRecord]) -> Iterator[InlineRecord]:
    for record in body:
        for item in record.attributes:
            if type(item) is InlineRecord:
                yield item
