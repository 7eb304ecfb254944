"""From records to IR: names become edges, the op table decodes attributes.

Every error is kept with its place and the work goes on. What could not be built is remembered by
name, so that its uses are not reported as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lark import Token

from hlo.errors import (
    Diagnostic,
    HloError,
    InferError,
    InstructionSpan,
    Source,
    Span,
    TextError,
    did_you_mean,
)
from hlo.ir import Computation, Instruction, Module
from hlo.ops import OPS, OpSpec, Trait
from hlo.ops.attrs import COMPUTATIONS, LITERAL
from hlo.literal import read_literal
from hlo.shape_text import parse_shape
from hlo.text import terminals
from hlo.text.annotations import ANNOTATIONS, CONTROL_PREDECESSORS
from hlo.text.header import MODULE_ATTRS, read_table
from hlo.text.syntax import (
    MAX_ERRORS,
    ComputationRecord,
    InlineRecord,
    InstructionRecord,
    ModuleRecord,
)
from hlo.types import ELEMENT_TYPES, ArrayShape, Shape, compatible

_OPERAND = re.compile(
    rf"(?:(?P<shape>{terminals.SHAPE}){terminals.GAP})?+"
    rf"(?:%?(?P<name>[A-Za-z_][A-Za-z0-9_.-]*+)(?P<path>(?:#\d++)*+))?+",
    re.S,
)
_GAP = re.compile(terminals.GAP, re.S)
_COMPUTATION = re.compile(
    rf"(?P<entry>ENTRY\b{terminals.GAP})?+(?P<name>{terminals.NAME}){terminals.GAP}"
    rf"(?:\(.*->\s*+(?P<result>{terminals.SHAPE}))?", re.S,
)  # fmt: skip
_DEFINITION = re.compile(rf"(?P<root>ROOT\b{terminals.GAP})?+(?P<name>{terminals.NAME})", re.S)
_KEY = re.compile(
    rf",{terminals.GAP}([A-Za-z_][A-Za-z0-9_.-]*+){terminals.GAP}={terminals.GAP}", re.S
)
_RESERVED = frozenset(ELEMENT_TYPES) | {"token", "opaque"}
_KEYWORDS = frozenset(
    "true false inf nan HloModule ENTRY ROOT maximal replicated manual last_tile_dim_replicate "
    "shard_as shard_like unknown unreduced FileLocations FileNames FunctionNames StackFrames".split()
)
_MAX_NESTED = 64


class _TooMany(Exception):
    """More errors than anybody reads."""


@dataclass
class _Pending:
    """A computation that is to be built."""

    ir: Computation
    body: list[InstructionRecord]
    is_entry: bool
    result: str | None
    result_at: int
    names: dict[str, Instruction | None] = field(default_factory=dict)
    built: bool = False


@dataclass(frozen=True)
class _View:
    """An operation whose shape is still to be inferred, as the op table sees it."""

    opcode: str
    attrs: Mapping[str, Any]
    operand_shapes: list[Shape]
    called_computations: tuple[Computation, ...] = ()

    @property
    def shape(self) -> Shape:
        raise InferError(f"{self.opcode} needs its result shape", code="missing-shape")


def _required(spec: OpSpec) -> tuple[str, ...]:
    return tuple(k for k, a in spec.attrs.items() if a.required and k != spec.payload)


_REQUIRED: dict[str, tuple[str, ...]] = {}


class Builder:
    """Builds the module of one file."""

    def __init__(self, source: Source, record: ModuleRecord) -> None:
        self.source = source
        self.record = record
        self.errors: list[Diagnostic] = list(record.errors)
        # By opcode and text: the attribute's name, its value, and where both start in the text.
        self._attributes: dict[tuple[str, str], tuple[str, Any, int]] = {}
        self._pending: dict[str, _Pending] = {}
        self._inline: dict[int, list[_Pending]] = {}
        self._controls: list[tuple[Instruction, _Pending, Token]] = []

    def module(self) -> Module:
        """Return the module. Raises HloError with everything that is wrong."""
        try:
            module = self._module()
        except _TooMany:
            module = None
        if self.errors:
            self.errors.sort(key=lambda d: d.span.start if d.span else 0)
            raise HloError(self.errors)
        assert module is not None
        return module

    # --- errors ---------------------------------------------------------------------------------

    def _fail(
        self, code: str, message: str, start: int, end: int | None = None, hint: str | None = None,
        notes: tuple[tuple[str, Span | None], ...] = (),
    ) -> None:  # fmt: skip
        span = Span(self.source, start, start + 1 if end is None else max(end, start + 1))
        self.errors.append(Diagnostic(code, message, span, hint, notes))
        if len(self.errors) >= MAX_ERRORS:
            raise _TooMany

    def _fail_at_word(
        self, code: str, message: str, start: int, hint: str | None = None
    ) -> None:
        end = InstructionSpan(self.source, start, len(self.source.text))._word_end(start)
        self._fail(code, message, start, end, hint)

    # --- the module -----------------------------------------------------------------------------

    def _module(self) -> Module | None:
        record = self.record
        name = "_" if record.single else ""
        if record.header is not None:
            name = record.header.value[len("HloModule") :]
            name = name[_GAP.match(name).end() :].lstrip("%")  # type: ignore[union-attr]
        module = Module(name, source=self.source)
        self._read_header(module)
        if record.single is not None:
            self._single(module, record.single)
            return module
        self._declare(module)
        for pending in self._build_order():
            self._build(pending)
        self._resolve_controls()
        entries = [p for p in self._pending.values() if p.is_entry]
        if not self.errors:
            last = list(self._pending.values())[-1]
            module.set_entry((entries[0] if entries else last).ir)
            if record.header is None:
                module.name = f"module_{module.entry.name}"
        return module

    def _read_header(self, module: Module) -> None:
        for token in self.record.attributes:
            if isinstance(token, InlineRecord):
                self._fail("syntax", "a module attribute is not a computation", token.key.start_pos)
                continue
            key, text, at = self._split(token)
            codec = MODULE_ATTRS.get(key)
            place = token.start_pos + self._key_offset(token)
            if codec is None:
                self._fail(
                    "unknown-attribute", f"unknown module attribute {key!r}", place,
                    place + len(key),
                    did_you_mean(key, MODULE_ATTRS) or "allowed are " + ", ".join(MODULE_ATTRS),
                )  # fmt: skip
            elif key in module.attrs:
                self._fail("duplicate-attribute", f"{key} is given twice", place, place + len(key))
            else:
                try:
                    module.attrs[key] = codec.parse(text)
                except TextError as e:
                    self._fail_at_word(e.code, f"{key}: {e.message}", at + e.offset, e.hint)
        for token in self.record.tables:
            try:
                name, lines = read_table(token.value)
            except TextError as e:
                self._fail_at_word(e.code, e.message, token.start_pos + e.offset, e.hint)
                continue
            if name in module.tables:
                self._fail("bad-table", f"{name} is given twice", token.start_pos)
            module.tables[name] = lines

    def _split(self, token: Token) -> tuple[str, str, int]:
        """Return the name of an attribute, the text of its value, and where that starts."""
        m = _KEY.match(token.value)
        assert m is not None
        return m[1], token.value[m.end() :], token.start_pos + m.end()

    @staticmethod
    def _key_offset(token: Token) -> int:
        m = _KEY.match(token.value)
        assert m is not None
        return m.start(1)

    # --- computations ---------------------------------------------------------------------------

    def _declare(self, module: Module) -> None:
        """Make every computation, still empty, so that references find it."""
        entry: Token | None = None
        heads: dict[str, Token] = {}
        inline: list[tuple[InlineRecord, str]] = []
        for record in self.record.computations:
            m = _COMPUTATION.match(record.head.value)
            assert m is not None
            name = m["name"].lstrip("%")
            start = record.head.start_pos
            place = start + m.start("name")
            if name in heads:
                self._fail(
                    "duplicate-name", f"computation {name!r} is defined twice", place,
                    place + len(m["name"]),
                    notes=(("previously defined here", self._token_span(heads[name])),),
                )  # fmt: skip
                continue
            heads[name] = record.head
            if m["entry"]:
                if entry is not None:
                    self._fail(
                        "duplicate-entry", "a module has one ENTRY computation", start, start + 5,
                        notes=(("the first one is here", self._token_span(entry)),),
                    )  # fmt: skip
                entry = entry or record.head
            span = Span(self.source, start, record.end.end_pos)
            comp = Computation(name, span=span)
            self._read_computation_attributes(comp, record)
            result_at = start + m.start("result") if m["result"] else start
            self._pending[name] = _Pending(
                comp, record.body, bool(m["entry"]), m["result"], result_at
            )
        # Inline computations come before the one that holds them, and never take a written name.
        for name in list(self._pending):
            self._declare_inline(module, self._pending[name].body)
            module.add(self._pending[name].ir)

    def _declare_inline(self, module: Module, body: list[InstructionRecord]) -> None:
        stack: list[Iterator[InlineRecord]] = [self._inline_records(body)]
        while stack:
            record = next(stack[-1], None)
            if record is None:
                stack.pop()
                continue
            made: list[_Pending] = []
            for inner in record.bodies:
                if isinstance(inner, Token):
                    continue
                comp = Computation("_", span=Span(self.source, record.key.start_pos, record.end.end_pos))
                pending = _Pending(comp, inner, False, None, record.key.start_pos)
                made.append(pending)
                stack.append(self._inline_records(inner))
            self._inline[id(record)] = made
        # Innermost last on the walk; names are free of the written ones.
        for made in reversed(list(self._inline.values())):
            for pending in made:
                if pending.ir.module is not None:
                    continue
                base, number = "_", 0
                while pending.ir.name in self._pending:
                    pending.ir.name = f"{base}.{number}"
                    number = max(number + 1, len(self._pending))
                self._pending[pending.ir.name] = pending
                module.add(pending.ir)

    @staticmethod
    def _inline_records(body: list[InstructionRecord]) -> Iterator[InlineRecord]:
        for record in body:
            for attribute in record.attributes:
                if type(attribute) is InlineRecord:
                    yield attribute

    def _read_computation_attributes(self, comp: Computation, record: ComputationRecord) -> None:
        seen = False
        for token in record.attributes:
            if isinstance(token, InlineRecord):
                self._fail("syntax", "a computation has no such attribute", token.key.start_pos)
                continue
            key, text, at = self._split(token)
            if key != "execution_thread" or seen:
                what = "given twice" if seen else "not an attribute of a computation"
                self._fail_at_word(
                    "duplicate-attribute" if seen else "unknown-attribute",
                    f"{key} is {what}", token.start_pos + self._key_offset(token),
                    None if seen else "allowed is execution_thread",
                )  # fmt: skip
                continue
            seen = True
            if text[0] not in "\"'":
                self._fail_at_word("syntax", "execution_thread: expected a quoted string", at)
                continue
            comp.execution_thread = text[1:-1]

    def _token_span(self, token: Token) -> Span:
        return Span(self.source, token.start_pos, token.end_pos)

    def _build_order(self) -> list[_Pending]:
        """Return the computations in the order of the text, or callees first where that matters.

        It matters when a shape is left out that depends on what a computation returns.
        """
        everything = list(self._pending.values())
        if not any(
            r.shape is None and r.opcode.value.strip() in OPS
            and OPS[r.opcode.value.strip()].computation_attrs
            for p in everything for r in p.body
        ):  # fmt: skip
            return everything
        order: list[_Pending] = []
        done: set[int] = set()
        for start in everything:
            if id(start) in done:
                continue
            done.add(id(start))
            stack = [(start, self._callees(start))]
            while stack:
                pending, rest = stack[-1]
                for callee in rest:
                    if id(callee) not in done:
                        done.add(id(callee))
                        stack.append((callee, self._callees(callee)))
                        break
                else:
                    order.append(pending)
                    stack.pop()
        return order

    def _callees(self, pending: _Pending) -> Iterator[_Pending]:
        for record in pending.body:
            for attribute in record.attributes:
                if isinstance(attribute, InlineRecord):
                    yield from self._inline[id(attribute)]
                    continue
                _, text, _ = self._split(attribute)
                for m in re.finditer(terminals.NAME, text):
                    found = self._pending.get(m[0].lstrip("%"))
                    if found is not None:
                        yield found

    def _build(self, pending: _Pending) -> None:
        comp, names = pending.ir, pending.names
        root: Instruction | None = None
        root_at = 0
        inst: Instruction | None = None
        if not pending.body:
            span = comp.span
            assert span is not None
            self._fail("empty-computation", f"computation {comp.name} has no instructions", span.start)
        for record in pending.body:
            definition = record.definition
            assert definition is not None
            m = _DEFINITION.match(definition.value)
            assert m is not None
            name = m["name"]
            place = definition.start_pos + m.start("name")
            if name[0] == "%":
                name = name[1:]
            elif name in _KEYWORDS:
                self._fail("bad-name", f"{name!r} is a keyword", place, place + len(name),
                           f"write %{name}")  # fmt: skip
            if name in _RESERVED:
                self._fail("bad-name", f"an instruction cannot be called {name!r}, a type's name",
                           place, place + len(name), f"{name}_ is free")  # fmt: skip
            is_root = m["root"] is not None
            if is_root:
                if root_at:
                    self._fail(
                        "duplicate-root", f"computation {comp.name} has a ROOT already",
                        definition.start_pos, definition.start_pos + 4,
                        notes=(("the first one is here", Span(self.source, root_at, root_at + 4)),),
                    )  # fmt: skip
                else:
                    root_at = definition.start_pos
            inst = self._instruction(pending, record, name, place)
            if name in names:
                before = names[name]
                self._fail(
                    "duplicate-name", f"instruction {name!r} is defined twice in {comp.name}",
                    place, place + len(name),
                    notes=(("previously defined here", before.span if before else None),),
                )  # fmt: skip
                continue
            names[name] = inst
            if inst is not None:
                comp.add(inst)
                if is_root and root is None:
                    root = inst
        if root is None and not root_at and inst is not None:
            root = inst
        if root is None:
            return
        if root.parent is comp:
            comp.set_root(root)
        self._check_parameters(comp)
        if pending.result is not None:
            self._check_result(pending, root)
        pending.built = True

    def _check_parameters(self, comp: Computation) -> None:
        for number, param in enumerate(comp.parameters):
            got = param.attrs["number"]
            if got != number:
                assert param.span is not None
                what = (
                    f"parameter number {got} is used twice" if got < number
                    else f"parameter number {got} is given, {number} is missing"
                )  # fmt: skip
                self._fail("bad-parameter-number", f"{comp.name}: {what}", param.span.start,
                           param.span.end)  # fmt: skip
                return

    def _check_result(self, pending: _Pending, root: Instruction) -> None:
        assert pending.result is not None
        try:
            declared = parse_shape(pending.result)
        except TextError as e:
            self._fail_at_word(e.code, e.message, pending.result_at + e.offset, e.hint)
            return
        if not compatible(declared, root.shape):
            self._fail(
                "signature-mismatch",
                f"computation {pending.ir.name} is declared to return {declared.to_string(False)}, "
                f"its root {root.name} is {root.shape.to_string(False)}",
                pending.result_at, pending.result_at + len(pending.result),
                notes=(("the root is here", root.span),),
            )  # fmt: skip

    # --- instructions ---------------------------------------------------------------------------

    def _instruction(
        self, pending: _Pending, record: InstructionRecord, name: str, start: int, depth: int = 0
    ) -> Instruction | None:
        """Build one instruction, or return None when something about it is wrong."""
        errors = len(self.errors)
        opcode = record.opcode.value
        spec = OPS.get(opcode)
        if spec is None:
            opcode = opcode[: re.match(r"[A-Za-z0-9_.-]*", opcode).end()]  # type: ignore[union-attr]
            spec = OPS.get(opcode)
        if spec is None:
            at = record.opcode.start_pos
            self._fail("unknown-opcode", f"unknown opcode {opcode!r}", at, at + len(opcode),
                       did_you_mean(opcode, OPS))  # fmt: skip
            return None
        shape = self._shape(record.shape) if record.shape is not None else None
        attrs, annotations, starts = self._attributes_of(pending, record, spec)
        operands: list[Instruction] | None = []
        operand_starts: list[int] = []
        arguments = record.arguments
        if spec.payload is not None:
            self._payload(record, spec, shape, attrs)
            end = arguments.end_pos if isinstance(arguments, Token) else record.opcode.end_pos
        else:
            operands, operand_starts, end = self._operands(pending, record, depth)
        if record.attributes:
            last = record.attributes[-1]
            end = last.end.end_pos if type(last) is InlineRecord else last.end_pos
        if len(self.errors) > errors or operands is None:
            return None
        span = InstructionSpan(self.source, start, end, operand_starts, starts)
        if shape is None:
            if record.shape is not None:
                return None
            shape = self._inferred(spec, attrs, operands, span)
            if shape is None:
                return None
        inst = Instruction(
            name, spec.name, shape, operands, attrs, annotations=annotations, span=span
        )
        control = starts.get(CONTROL_PREDECESSORS)
        if control is not None:
            for token in record.attributes:
                if isinstance(token, Token) and self._split(token)[0] == CONTROL_PREDECESSORS:
                    self._controls.append((inst, pending, token))
        return inst

    def _shape(self, token: Token) -> Shape | None:
        try:
            return parse_shape(token.value)
        except TextError as e:
            self._fail_at_word(e.code, e.message, token.start_pos + e.offset, e.hint)
            return None

    def _inferred(
        self, spec: OpSpec, attrs: Mapping[str, Any], operands: list[Instruction],
        span: InstructionSpan,
    ) -> Shape | None:  # fmt: skip
        try:
            if not spec.has(Trait.INFERABLE):
                raise InferError(
                    f"{spec.name} needs its result shape in front of it", code="missing-shape"
                )
            spec.check_arity(len(operands))
            full = spec.defaults | attrs
            for key in spec.computation_attrs:
                callees = full[key] if isinstance(full[key], tuple) else (full[key],)
                if not all(c is None or c.has_root for c in callees):
                    if self.errors:  # the callee's own
                        return None
                    raise InferError(
                        f"{spec.name} calls itself: its result shape has to be written",
                        attr=key, code="missing-shape",
                    )  # fmt: skip
            return spec.infer(_View(spec.name, full, [o.shape for o in operands]))
        except InferError as e:
            place: Span = span
            if e.operand is not None:
                place = span.operand(e.operand)
            elif e.attr is not None:
                place = span.attr(e.attr)
            self._fail(e.code, e.message, place.start, place.end, e.hint)
            return None

    # --- operands -------------------------------------------------------------------------------

    def _payload(
        self, record: InstructionRecord, spec: OpSpec, shape: Shape | None, attrs: dict[str, Any]
    ) -> None:
        assert spec.payload is not None
        arguments = record.arguments
        if not isinstance(arguments, Token):
            self._fail_at_word("syntax", f"{spec.name} has no operands", record.opcode.end_pos)
            return
        codec = spec.attrs[spec.payload].codec
        try:
            if codec is LITERAL:
                if shape is None:
                    if record.shape is None:
                        self._fail_at_word("missing-shape", f"{spec.name} needs its shape in front",
                                           record.opcode.start_pos)  # fmt: skip
                    return
                # Read from the file's text: a constant may be most of it, and is not copied.
                start, end = arguments.start_pos + 1, arguments.end_pos - 1
                attrs[spec.payload] = read_literal(self.source.text, shape, start, end)
            else:
                attrs[spec.payload] = codec.parse(arguments.value[1:-1])
        except TextError as e:
            self._fail_at_word(
                e.code, f"{spec.name}: {e.message}", arguments.start_pos + 1 + e.offset, e.hint
            )

    def _operands(
        self, pending: _Pending, record: InstructionRecord, depth: int
    ) -> tuple[list[Instruction] | None, list[int], int]:
        """Return the operands (None if one is missing), where each starts, and where all end."""
        arguments = record.arguments
        names = pending.names
        found: list[Instruction] = []
        starts: list[int] = []
        complete = True
        if isinstance(arguments, Token):
            text = arguments.value
            if text[1] != "(" and arguments.type == "PAYLOAD":
                self._fail_at_word(
                    "syntax", f"expected an operand, found {text[1:21]!r}", arguments.start_pos + 1
                )
                return None, starts, arguments.end_pos
            base = arguments.start_pos
            pos, last = 1, len(text) - 1
            while pos < last:
                m = _OPERAND.match(text, pos)
                assert m is not None
                if m.end() == pos:
                    pos = _GAP.match(text, pos + (text[pos] == ",")).end()  # type: ignore[union-attr]
                    continue
                start = base + pos
                starts.append(start)
                shape_text, name, path = m.groups()
                operand = names.get(name) if name is not None else None
                if operand is None or shape_text is not None or path:
                    operand = self._operand(pending, shape_text, name, path, start)
                    if operand is None:
                        complete = False
                if operand is not None:
                    found.append(operand)
                pos = m.end()
            return (found if complete else None), starts, arguments.end_pos
        if depth >= _MAX_NESTED:
            self._fail(
                "nesting-too-deep", f"operations are nested more than {_MAX_NESTED} deep",
                record.opcode.start_pos, record.opcode.end_pos,
            )  # fmt: skip
            return None, starts, record.opcode.end_pos
        end = record.opcode.end_pos
        for item in arguments:
            if isinstance(item, Token):
                m = _OPERAND.match(item.value)
                assert m is not None
                starts.append(item.start_pos)
                operand = self._operand(pending, m["shape"], m["name"], m["path"], item.start_pos)
                end = item.end_pos
            else:
                head = item.shape if item.shape is not None else item.opcode
                starts.append(head.start_pos)
                name = self._free_name(pending, item.opcode.value.strip() + ".anon")
                operand = self._instruction(pending, item, name, head.start_pos, depth + 1)
                if operand is not None:
                    pending.names[name] = operand
                    pending.ir.add(operand)
                    assert operand.span is not None
                    end = operand.span.end
            if operand is None:
                complete = False
            else:
                found.append(operand)
        return (found if complete else None), starts, end

    def _free_name(self, pending: _Pending, base: str) -> str:
        written = {
            m["name"].lstrip("%")
            for r in pending.body
            if r.definition is not None and (m := _DEFINITION.match(r.definition.value))
        }
        name, number = base, 1
        while name in written or name in pending.names:
            name = f"{base}.{number}"
            number += 1
        return name

    def _operand(
        self, pending: _Pending, shape_text: str | None, name: str | None, path: str | None,
        start: int,
    ) -> Instruction | None:  # fmt: skip
        """Return the instruction that an operand names, after checking the shape it is given."""
        if name is None:
            self._fail("syntax", "an operand needs a name", start, start + len(shape_text or ""))
            return None
        at = start + len(shape_text or "")
        at = _GAP.match(self.source.text, at).end()  # type: ignore[union-attr]
        if name not in pending.names:
            self._undefined(pending, name, at)
            return None
        operand = pending.names[name]
        if operand is None:
            return None
        if path:
            operand = self._element(pending, operand, path, at)
            if operand is None:
                return None
        if shape_text is not None:
            try:
                shape = parse_shape(shape_text)
            except TextError as e:
                self._fail_at_word(e.code, e.message, start + e.offset, e.hint)
                return None
            if shape is not operand.shape and not compatible(shape, operand.shape):
                self._fail(
                    "operand-shape-mismatch",
                    f"operand {name} is said to be {shape.to_string(False)}, "
                    f"it is {operand.shape.to_string(False)}",
                    start, start + len(shape_text),
                    notes=((f"{name} is defined here", operand.span),),
                )  # fmt: skip
                return None
        return operand

    def _undefined(self, pending: _Pending, name: str, at: int) -> None:
        later = [r for r in pending.body if r.definition is not None]
        for record in later:
            assert record.definition is not None
            m = _DEFINITION.match(record.definition.value)
            assert m is not None
            if m["name"].lstrip("%") == name:
                place = record.definition.start_pos + m.start("name")
                self._fail(
                    "use-before-definition", f"{name!r} is used before it is defined", at,
                    self._word_end(at),
                    notes=(("defined here", Span(self.source, place, place + len(m["name"]))),),
                )  # fmt: skip
                return
        for offset, dropped in self.record.dropped:
            span = pending.ir.span
            if dropped == name and span is not None and span.start <= offset < span.end:
                return
        self._fail(
            "undefined-operand", f"{name!r} is not defined in computation {pending.ir.name}", at,
            self._word_end(at), did_you_mean(name, pending.names),
        )  # fmt: skip

    def _word_end(self, at: int) -> int:
        return InstructionSpan(self.source, at, len(self.source.text))._word_end(at)

    def _element(
        self, pending: _Pending, inst: Instruction, path: str, at: int
    ) -> Instruction | None:
        """Return the element of a tuple that `name#1#0` means."""
        name = inst.name
        for part in path[1:].split("#"):
            try:
                shape = inst.shape.at((int(part[:18]),))
            except IndexError as e:
                self._fail("index-out-of-range", f"{name}#{part}: {e}", at, self._word_end(at))
                return None
            name = f"{name}.{part}"
            element = next(
                (u for u in inst.users
                 if u.opcode == "get-tuple-element" and u.attrs["index"] == int(part)), None,
            )  # fmt: skip
            if element is None:
                element = Instruction(
                    self._free_name(pending, name), "get-tuple-element", shape, [inst],
                    {"index": int(part)}, span=inst.span,
                )  # fmt: skip
                pending.names[element.name] = element
                pending.ir.add(element)
            inst = element
        return inst

    # --- attributes -----------------------------------------------------------------------------

    def _attributes_of(
        self, pending: _Pending, record: InstructionRecord, spec: OpSpec
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, int]]:
        """Return the op's own attributes, the annotations, and where each name starts."""
        attrs: dict[str, Any] = {}
        annotations: dict[str, Any] = {}
        starts: dict[str, int] = {}
        cache = self._attributes
        opcode = spec.name
        for token in record.attributes:
            if type(token) is InlineRecord:
                key, value, offset = self._inline_value(token, spec)
                start = token.key.start_pos
            else:
                text = token.value
                start = token.start_pos
                known = cache.get((opcode, text))
                if known is None:
                    known = self._attribute(token, spec)
                key, value, offset = known
            if key in starts:
                self._fail("duplicate-attribute", f"{key} is given twice", start + offset,
                           start + offset + len(key))  # fmt: skip
                continue
            starts[key] = start + offset
            if key in spec.attrs:
                attrs[key] = value
            elif value is not None:
                annotations[key] = value
        required = _REQUIRED.get(opcode)
        if required is None:
            required = _REQUIRED[opcode] = _required(spec)
        for key in required:
            if key not in starts:
                at = record.opcode.start_pos
                self._fail("missing-attribute", f"{opcode} needs the attribute {key}", at,
                           at + len(opcode))  # fmt: skip
        return attrs, annotations, starts

    def _attribute(self, token: Token, spec: OpSpec) -> tuple[str, Any, int]:
        """Decode an attribute; the value of one with an error is None."""
        key, text, at = self._split(token)
        offset = self._key_offset(token)
        attr = spec.attrs.get(key)
        if attr is None or key == spec.payload:
            codec = ANNOTATIONS.get(key)
            if codec is None:
                if key == CONTROL_PREDECESSORS:
                    return key, None, offset
                self._unknown_attribute(key, spec, token.start_pos + offset)
                return key, None, offset
        else:
            codec = attr.codec
            if codec.holds_computations:
                value = self._computation_value(codec is COMPUTATIONS, key, text, at)
                known = (key, value, offset)
                if value is not None:
                    self._attributes[spec.name, token.value] = known
                return known
        try:
            value = codec.parse(text)
        except TextError as e:
            self._fail_at_word(e.code, f"{key}: {e.message}", at + e.offset, e.hint)
            return key, None, offset
        except InferError as e:
            self._fail_at_word(e.code, f"{key}: {e.message}", at, e.hint)
            return key, None, offset
        known = (key, value, offset)
        self._attributes[spec.name, token.value] = known
        return known

    def _unknown_attribute(self, key: str, spec: OpSpec, at: int) -> None:
        own = [k for k in spec.attrs if k != spec.payload]
        allowed = [*own, *ANNOTATIONS, CONTROL_PREDECESSORS]
        self._fail(
            "unknown-attribute", f"{spec.name} has no attribute {key!r}", at, at + len(key),
            did_you_mean(key, allowed) or "allowed are " + ", ".join(allowed),
        )  # fmt: skip

    def _computation_value(self, is_list: bool, key: str, text: str, at: int) -> Any:
        if not is_list and re.fullmatch(terminals.NAME, text):
            return self._computation(text, at)
        if is_list and text[0] == "{":
            inside = re.compile(rf"{terminals.GAP}({terminals.NAME}){terminals.GAP}([,}}])", re.S)
            found, pos = [], 1
            while m := inside.match(text, pos):
                found.append(self._computation(m[1], at + m.start(1)))
                pos = m.end()
                if m[2] == "}":
                    break
            if pos == len(text) and text[pos - 1] == "}":
                return None if None in found else tuple(found)
            if re.fullmatch(r"\{\s*\}", text):
                return ()
        want = "{name, ..}" if is_list else "the name of a computation or {instructions}"
        self._fail_at_word("syntax", f"{key}: expected {want}", at)
        return None

    def _computation(self, name: str, at: int) -> Computation | None:
        plain = name.lstrip("%")
        found = self._pending.get(plain)
        if found is None:
            if any(dropped == plain for _, dropped in self.record.dropped):
                return None
            self._fail("undefined-computation", f"no computation is called {plain!r}", at,
                       at + len(name), did_you_mean(plain, self._pending))  # fmt: skip
            return None
        return found.ir

    def _inline_value(self, record: InlineRecord, spec: OpSpec) -> tuple[str, Any, int]:
        m = _KEY.match(record.key.value)
        assert m is not None
        key, offset = m[1], m.start(1)
        attr = spec.attrs.get(key)
        if attr is None or not attr.codec.holds_computations:
            at = record.key.start_pos + offset
            if attr is None:
                self._unknown_attribute(key, spec, at)
            else:
                self._fail_at_word("syntax", f"{key}: expected {attr.codec.name}", at)
            return key, None, offset
        made = iter(self._inline[id(record)])
        values = [
            self._computation(b.value, b.start_pos) if isinstance(b, Token) else next(made).ir
            for b in record.bodies
        ]
        is_list = attr.codec is COMPUTATIONS
        if record.is_list and not is_list:
            self._fail_at_word("syntax", f"{key}: expected one computation",
                               record.key.start_pos + offset)  # fmt: skip
            return key, None, offset
        return key, (tuple(values) if is_list else values[0]), offset

    def _resolve_controls(self) -> None:
        names = re.compile(rf"{terminals.GAP}({terminals.NAME}){terminals.GAP}([,}}])", re.S)
        for inst, pending, token in self._controls:
            _, text, at = self._split(token)
            pos = 1 if text[0] == "{" else len(text) + 1
            if re.fullmatch(r"\{\s*\}", text):
                continue
            while m := names.match(text, pos):
                name = m[1].lstrip("%")
                before = pending.names.get(name)
                if before is not None:
                    if inst.parent is not None:
                        inst.add_control_predecessor(before)
                elif name not in pending.names:
                    self._undefined(pending, name, at + m.start(1))
                pos = m.end()
                if m[2] == "}":
                    break
            if pos != len(text):
                self._fail_at_word("syntax", f"{CONTROL_PREDECESSORS}: expected {{name, ..}}", at)

    # --- a single instruction -------------------------------------------------------------------

    def _single(self, module: Module, record: InstructionRecord) -> None:
        raise NotImplementedError
