"""From records to a module: its header, its computations, and their calls.

Errors are collected with their locations. Instructions that could not be built are remembered by
name, so that their uses are not reported as well.
"""

from __future__ import annotations

import bisect
import contextlib
import re
import sys
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import Any

from hlo.errors import HloError, Source, Span, TextError, did_you_mean
from hlo.frontends.text import terminals
from hlo.frontends.text.annotations import BACKEND_CONFIG
from hlo.frontends.text.attributes import AttributeReader, read_names, split
from hlo.frontends.text.header import MODULE_ATTRS, read_table
from hlo.frontends.text.instructions import InstructionBuilder
from hlo.frontends.text.report import Report, TooManyErrors
from hlo.frontends.text.scope import Scope, SingleScope, defined_name
from hlo.frontends.text.syntax import (
    ComputationRecord,
    Deep,
    InlineRecord,
    InstructionRecord,
    ModuleRecord,
    Token,
    with_nested,
)
from hlo.ir import Computation, Instruction, Module
from hlo.ops import OPS, Trait
from hlo.ops.attrs import STRING, Codec
from hlo.values.shape_text import parse_shape
from hlo.values.types import compatible

_GAP = re.compile(terminals.GAP, re.S)
_COMPUTATION = re.compile(
    rf"(?>(?P<entry>{terminals.ENTRY}{terminals.GAP}(?=[%\w]))?)(?P<name>{terminals.NAME})",
    re.S,
)

COMPUTATION_ATTRS: dict[str, Codec] = {
    "execution_thread": STRING,
    "backend_config": BACKEND_CONFIG,
}


@dataclass
class Draft:
    """A computation and its record."""

    comp: Computation
    body: list[InstructionRecord]
    is_entry: bool = False
    result: Token | None = None


class Builder:
    """Builds the module of one file."""

    def __init__(self, report: Report, record: ModuleRecord) -> None:
        self._report = report
        self._record = record
        self._dropped: Set[str] = record.dropped
        self._drafts: dict[str, Draft] = {}
        self._computations: dict[str, Computation] = {}
        self._inline: dict[int, list[Computation]] = {}
        # Where computations and the entry are named in the text.
        self._heads: dict[str, Span] = {}
        self._entry: Span | None = None
        # By caller: the wrappers of its async operations, which are not in the text.
        self._wrappers: dict[Computation, list[Computation]] = {}
        self._attributes = AttributeReader(report, self._computations, self._inline, self._dropped)
        # It does not refer back to this object: tokens and records go when both do.
        add_wrapper = partial(_add_wrapper, self._computations, self._wrappers)
        self._instructions = InstructionBuilder(report, self._attributes, add_wrapper)

    @property
    def _source(self) -> Source:
        return self._report.source

    def module(self) -> Module:
        """Return the module. Raises HloError with all errors."""
        module = Module("", source=self._source)
        with contextlib.suppress(TooManyErrors):
            self._build_module(module)
        if len(self._report):
            with contextlib.suppress(TooManyErrors):
                self._check_rules()
            raise HloError(
                sorted(self._report.diagnostics, key=lambda d: d.span.start if d.span else 0)
            )
        return module

    def _check_rules(self) -> None:
        """Report the instructions that break the rule of their operation, beside other errors.

        Those that depend on something unknown are left out: they could not be built, or call a
        computation that has errors.
        """
        from hlo.verifier.incremental import RuleChecker

        heads = [record.head.start_pos for record in self._record.computations]
        # A syntax error at a head is of the computation before, which is not closed.
        errors = sorted(
            d.span.start
            for d in self._report.diagnostics
            if d.span is not None and (d.code == "syntax" or d.span.start not in heads)
        )
        checker = RuleChecker()
        for draft in self._drafts.values():
            for inst in draft.comp:
                if all(_is_whole(callee, errors, heads) for callee in inst.called_computations):
                    for diagnostic in checker.check(inst):
                        self._report.add(diagnostic)

    # --- the module -----------------------------------------------------------------------------

    def _build_module(self, module: Module) -> None:
        record = self._record
        self._read_name(module)
        self._read_header(module)
        if record.single is not None:
            self._build_single(module, record.single)
            return
        self._declare()
        for draft in self._build_order():
            self._build_computation(draft)
        self._instructions.connect_control()
        if len(self._report):
            return
        self._fill(module)
        if record.header is None:
            module.name = f"module_{module.entry.name}"

    def _fill(self, module: Module) -> None:
        """Add the computations in the order of the text, wrappers before their callers."""
        drafts = list(self._drafts.values())
        for draft in drafts:
            for comp in (*self._wrappers.get(draft.comp, ()), draft.comp):
                module.add(comp)
        # Without ENTRY it is the last one.
        module.set_entry(next((d for d in drafts if d.is_entry), drafts[-1]).comp)

    def _read_name(self, module: Module) -> None:
        header = self._record.header
        if header is not None:
            head = header.value.removeprefix("HloModule")
            gap = _GAP.match(head)
            assert gap is not None
            module.name = head[gap.end() :].removeprefix("%").removesuffix(":")

    def _read_header(self, module: Module) -> None:
        report = self._report
        for token in self._record.attributes:
            piece = split(token, self._source.text)
            key = piece.key
            codec = MODULE_ATTRS.get(key)
            allowed = "allowed are " + ", ".join(MODULE_ATTRS)
            if codec is None or isinstance(token, InlineRecord):
                report.error(
                    "unknown-attribute", f"a module has no attribute {key!r}", piece.key_start,
                    hint=did_you_mean(key, MODULE_ATTRS) or allowed,
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
        """Build the module of a single-instruction text. Its operands become parameters."""
        module.name = "_"
        module.attrs["is_scheduled"] = True
        draft = Draft(Computation("_"), [record], is_entry=True)
        scope = SingleScope(self._report, draft.comp, draft.body, self._dropped)
        self._declare_inline([draft])
        for inner in self._drafts.values():
            if inner is not draft:
                self._build_computation(inner)
        spec = OPS.get(_GAP.sub("", record.opcode.value))
        if spec is not None and spec.has(Trait.ELEMENTWISE) and record.shape is not None:
            token = record.shape
            if isinstance(token, Token):
                scope.default_shape = scope.shape(token.value, token.start_pos)
        head = record.shape or record.opcode
        start = head.start if isinstance(head, Deep) else head.start_pos
        if record.definition is None:
            name = scope.free_name("_")
        else:
            word, _, offset = defined_name(record.definition.value)
            start = record.definition.start_pos + offset
            name = scope.check_name(word, start)
        inst = self._instructions.build(scope, record, name, start)
        if inst is not None:
            draft.comp.add(inst, root=True)
            self._instructions.connect_control()
            self._fill(module)

    # --- computations ---------------------------------------------------------------------------

    def _declare(self) -> None:
        """Create every computation, still empty, so that references resolve."""
        drafts: list[Draft] = []
        for record in self._record.computations:
            head = self._head(record)
            if head is None:
                continue
            name, is_entry = head
            start = record.head.start_pos
            comp = Computation(name, span=Span(self._source, start, record.end.end_pos))
            self._read_attributes(comp, record.attributes)
            drafts.append(Draft(comp, record.body, is_entry, self._result(record)))
        self._declare_inline(drafts)

    def _head(self, record: ComputationRecord) -> tuple[str, bool] | None:
        """Return the name of a computation, and whether it is the entry.

        None after reporting that there is one of the name already.
        """
        report = self._report
        m = _COMPUTATION.match(record.head.value)
        assert m is not None
        start = record.head.start_pos
        name = m["name"].removeprefix("%")
        place = Span(self._source, start + m.start("name"), start + m.end("name"))
        if name in self._heads:
            report.error(
                "duplicate-name", f"computation {name!r} is defined twice", place.start,
                note=("previously defined here", self._heads[name]),
            )  # fmt: skip
            return None
        self._heads[name] = place
        if m["entry"] and self._entry is not None:
            report.error("duplicate-entry", "a module has one ENTRY computation", start,
                         note=("the first one is here", self._entry))  # fmt: skip
        elif m["entry"]:
            self._entry = Span(self._source, start, start + len("ENTRY"))
        return name, bool(m["entry"])

    def _result(self, record: ComputationRecord) -> Token | None:
        """Check the shapes of a signature; returns that of the result."""
        for shape in record.parameters:
            self._check_shape(shape)
        result = record.result
        return result.token("SHAPE", self._source.text) if isinstance(result, Deep) else result

    def _declare_inline(self, drafts: list[Draft]) -> None:
        """Add all computations, inline ones before the ones they are in."""
        for draft in drafts:
            self._computations[draft.comp.name] = draft.comp
        for draft in drafts:
            stack = [(draft, _inline_records(draft.body))]
            while stack:
                outer, records = stack[-1]
                record = next(records, None)
                if record is None:
                    stack.pop()
                    comp = outer.comp
                    if outer is not draft:
                        comp.name = _free_name("_", self._computations)
                    self._drafts[comp.name] = outer
                    self._computations[comp.name] = comp
                    continue
                span = Span(self._source, record.key.start_pos, record.end.end_pos)
                inner = [
                    Draft(Computation("_", span=span), body)
                    for body in record.bodies
                    if not isinstance(body, Token)
                ]
                self._inline[id(record)] = [d.comp for d in inner]
                # The first one is on top of the stack.
                stack.extend((d, _inline_records(d.body)) for d in reversed(inner))

    def _read_attributes(self, comp: Computation, attributes: list[Any]) -> None:
        """Decode the attributes of a computation."""
        found: dict[str, str] = {}
        for item in attributes:
            piece = split(item, self._source.text)
            codec = COMPUTATION_ATTRS.get(piece.key)
            if codec is None or isinstance(item, InlineRecord):
                self._report.error(
                    "unknown-attribute", f"a computation has no attribute {piece.key!r}",
                    piece.key_start, hint="allowed are " + ", ".join(COMPUTATION_ATTRS),
                )  # fmt: skip
            elif piece.key in found:
                self._report.error("duplicate-attribute", f"{piece.key} is given twice",
                                   piece.key_start)  # fmt: skip
            else:
                try:
                    found[piece.key] = codec.parse(piece.text)
                except TextError as e:
                    self._report.text_error(e, piece.start, piece.key)
        comp.execution_thread = found.get("execution_thread") or "main"
        comp.backend_config = found.get("backend_config", "")

    def _build_order(self) -> list[Draft]:
        """Return the computations in the order of the text, or callees first where that matters.

        That matters if a missing shape depends on the result of a computation.
        """
        drafts = list(self._drafts.values())
        records = (record for d in drafts for record in with_nested(d.body))
        if not any(record.shape is None and record.attributes for record in records):
            return drafts
        order: list[Draft] = []
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

    def _callees(self, draft: Draft) -> Iterator[Draft]:
        """Yield the computations that the attributes of a body may name."""
        for record in with_nested(draft.body):
            for item in record.attributes:
                if type(item) is InlineRecord:
                    for comp in self._inline[id(item)]:
                        yield self._drafts[comp.name]
                    continue
                piece = split(item, self._source.text)
                names = read_names(piece.text) or [(piece.text.removeprefix("%"), 0)]
                yield from (self._drafts[name] for name, _ in names if name in self._drafts)

    def _build_computation(self, draft: Draft) -> None:
        report, comp = self._report, draft.comp
        scope = Scope(report, comp, draft.body, self._dropped)
        root: Instruction | None = None
        root_start = -1
        inst: Instruction | None = None
        for record in draft.body:
            definition = record.definition
            assert definition is not None, "only the single instruction may have no name"
            word, is_root, offset = defined_name(definition.value)
            start = definition.start_pos + offset
            name = scope.check_name(word, start)
            inst = self._instructions.build(scope, record, name, start)
            scope.add(name, inst)
            if is_root:
                if root_start >= 0:
                    first = Span(self._source, root_start, root_start + len("ROOT"))
                    report.error(
                        "duplicate-root", f"computation {comp.name} has a ROOT already",
                        definition.start_pos, note=("the first one is here", first),
                    )  # fmt: skip
                else:
                    root, root_start = inst, definition.start_pos
        if not draft.body:
            self._check_not_empty(comp)
        if root_start < 0:
            root = inst
        if root is None or root.parent is not comp:
            return
        comp.set_root(root)
        if None not in scope.names.values() and not self._dropped:
            self._check_parameters(comp)
        # If the root's line was dropped, the last instruction need not be the root.
        if root_start >= 0 or not self._dropped:
            self._check_result(scope, draft, root)

    def _check_not_empty(self, comp: Computation) -> None:
        if not self._dropped:
            assert comp.span is not None
            self._report.error(
                "empty-computation", f"computation {comp.name} has no instructions", comp.span.start
            )

    def _check_shape(self, item: Token | Deep) -> None:
        """Check that a parameter of a signature has a shape; as in XLA, any shape will do."""
        token = item.token("SHAPE", self._source.text) if isinstance(item, Deep) else item
        try:
            parse_shape(token.value)
        except TextError as e:
            self._report.text_error(e, token.start_pos)

    def _check_parameters(self, comp: Computation) -> None:
        for number, param in enumerate(comp.parameters):
            got = param.parameter_number
            if got != number:
                what = f"{number} is missing" if got > number else "it is defined twice"
                assert param.span is not None
                message = f"{comp.name}: parameter({got}) is given, but {what}"
                self._report.error_at("bad-parameter-number", message, param.span)
                return

    def _check_result(self, scope: Scope, draft: Draft, root: Instruction) -> None:
        result = draft.result
        if result is None:
            return
        declared = scope.shape(result.value, result.start_pos)
        if declared is not None and not compatible(declared, root.shape):
            self._report.error(
                "signature-mismatch",
                f"computation {draft.comp.name} is declared to return {declared.to_string(False)}, "
                f"its root {root.name} is {root.shape.to_string(False)}",
                result.start_pos, result.start_pos + len(result.rstrip()),
                note=("the root is here", root.span),
            )  # fmt: skip


def _is_whole(comp: Computation, errors: Sequence[int], heads: Sequence[int]) -> bool:
    """True for a computation without errors, as far as the head of the next; by sorted offsets."""
    if not comp.has_root:
        return False
    if comp.span is None:
        return True  # the wrapper of an async operation, which is not in the text
    at = bisect.bisect_right(errors, comp.span.start)
    until = comp.span.end
    head = bisect.bisect_right(heads, comp.span.start)
    if head and heads[head - 1] == comp.span.start:
        until = heads[head] if head < len(heads) else sys.maxsize
    return at == len(errors) or errors[at] > until


def _add_wrapper(
    computations: dict[str, Computation],
    wrappers: dict[Computation, list[Computation]],
    comp: Computation,
    caller: Computation,
) -> None:
    """Add the wrapper of an async operation."""
    comp.name = _free_name(comp.name, computations)
    computations[comp.name] = comp
    wrappers.setdefault(caller, []).append(comp)


def _free_name(base: str, computations: Mapping[str, Computation]) -> str:
    """Return a name derived from `base` for a computation, unused in the file."""
    name, number = base, len(computations)
    while name in computations:
        name = f"{base}.{number}"
        number += 1
    return name


def _inline_records(body: list[InstructionRecord]) -> Iterator[InlineRecord]:
    for record in with_nested(body):
        for item in record.attributes:
            if type(item) is InlineRecord:
                yield item
