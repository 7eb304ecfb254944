"""IR to text. With the default options the text parses back to the same module.

Source: the forms and the order of attributes are those of XLA's `HloModule::ToString`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from hlo.frontends.text.annotations import ANNOTATIONS, BACKEND_CONFIG, CONTROL_PREDECESSORS
from hlo.frontends.text.as_xla import AsXla
from hlo.frontends.text.header import MODULE_ATTRS, TABLES, ProgramShape, write_table
from hlo.frontends.text.order import instruction_post_order, post_order
from hlo.frontends.text.sugar import single_operation, wrapped_root
from hlo.frontends.text.terminals import KEYWORDS
from hlo.ir import Computation, Instruction, Module, need_module
from hlo.ops import Trait
from hlo.ops.attrs import COMPUTATION, COMPUTATIONS, LITERAL, Attr
from hlo.support.signature import need
from hlo.values.literal import Literal, write_literal
from hlo.values.numerals import MINUS_ZERO
from hlo.values.scan import escape
from hlo.values.sharding import Sharding, TupleSharding
from hlo.values.types import TYPE_NAMES, Shape

_MINUS_ZERO = re.compile(rf"{re.escape(MINUS_ZERO)}(?!\d)")
_TAKEN = KEYWORDS | TYPE_NAMES
# XLA's name of the applied computation of these, where it prints bodies.
_CALLS = ("reduce-scatter", "scan")


@dataclass(frozen=True)
class PrintOptions:
    """Options of the printer. The default is XLA's, but with complete constants.

    Attributes:
        operand_shapes: the long form, `add(f32[2]{0} %a, ..)`.
        percent: `%` before names.
        signatures: `(p: f32[2]) -> f32[2]` after a computation's name.
        constant_limit: arrays of more elements, and all tuples, are printed as `{...}`; None for
            none.
        layouts: layouts in shapes.
        index_comments: `/*index=5*/` before every fifth operand.
        compact_gte: `%t#1` in place of a get-tuple-element, which is not printed itself.
        bodies: called computations inline, in place of their names.
        canonical_names: `tmp_0, tmp_1, ..`.
        names: names of the module and of computations.
        async_sugar: `add-start(..)` for an async-start that calls one `add`.
        program_layout: `entry_computation_layout` even if the module does not specify it.
        graph_order: computations and instructions in XLA's printing order, which depends on the
            graph only.
        as_read_by_xla: with the names, layouts and numbers that XLA assigns when parsing; see
            `hlo.frontends.text.as_xla`.

    >>> module = hlo.parse("HloModule m ENTRY e { ROOT c = f32[4] constant({1,2,3,4}) }")
    >>> print(hlo.print_module(module, hlo.PrintOptions(percent=False, constant_limit=3)))
    HloModule m
    <BLANKLINE>
    ENTRY e () -> f32[4] {
      ROOT c = f32[4]{0} constant({...})
    }
    <BLANKLINE>
    """

    operand_shapes: bool = False
    percent: bool = True
    signatures: bool = True
    constant_limit: int | None = None
    metadata: bool = True
    backend_config: bool = True
    layouts: bool = True
    control_predecessors: bool = True
    index_comments: bool = True
    compact_gte: bool = False
    bodies: bool = False
    canonical_names: bool = False
    names: bool = True
    async_sugar: bool = True
    program_layout: bool = False
    parameter_replication: bool = True
    graph_order: bool = False
    as_read_by_xla: bool = False

    @staticmethod
    def xla() -> PrintOptions:
        """Return the form of XLA's `HloModule::ToString`."""
        return PrintOptions(
            constant_limit=10, program_layout=True, graph_order=True, as_read_by_xla=True
        )

    @staticmethod
    def short_parsable() -> PrintOptions:
        """Return the shortest form that can be parsed: no `%`, signatures, or metadata."""
        return PrintOptions(
            percent=False, signatures=False, metadata=False, control_predecessors=False,
            index_comments=False,
        )  # fmt: skip

    @staticmethod
    def canonical() -> PrintOptions:
        """Return the form that is equal for modules that differ in names only."""
        return PrintOptions(
            operand_shapes=True, percent=False, signatures=False, metadata=False,
            backend_config=False, control_predecessors=False, index_comments=False, bodies=True,
            canonical_names=True, program_layout=True, async_sugar=False, graph_order=True,
        )  # fmt: skip

    @staticmethod
    def fingerprint() -> PrintOptions:
        """Return the form of XLA's fingerprints: canonical, without large constants and names."""
        return replace(
            PrintOptions.canonical(), names=False, constant_limit=1, parameter_replication=False
        )


DEFAULT = PrintOptions()


def print_module(module: Module, options: PrintOptions = DEFAULT) -> str:
    """Return the text of a module; with the default options it parses back to the same module.

    >>> module = hlo.parse("HloModule m ENTRY e { x = f32[] parameter(0) ROOT y = f32[] sqrt(x) }")
    >>> print(hlo.print_module(module, hlo.PrintOptions.short_parsable()))
    HloModule m
    <BLANKLINE>
    ENTRY e {
      x = f32[] parameter(0)
      ROOT y = f32[] sqrt(x)
    }
    <BLANKLINE>
    """
    need_module(module)
    need(options, PrintOptions, "print_module: options")
    printer = _Printer(options)
    if options.as_read_by_xla:
        printer.xla = AsXla(module)
    order = post_order(module) if options.graph_order else _callees_first(module)
    parts = [printer.header(module)]
    for comp in order:
        if not printer.is_hidden(comp):
            parts.append(printer.computation(comp, entry=comp is module.entry))
    return "\n\n".join(parts) + ("\n\n" if options.as_read_by_xla else "\n")


def print_computation(comp: Computation, options: PrintOptions = DEFAULT) -> str:
    """Return the text of a computation."""
    return _Printer(options).computation(comp, entry=False)


def print_instruction(inst: Instruction, options: PrintOptions = DEFAULT) -> str:
    """Return the text of an instruction, on one line unless it has bodies."""
    printer = _Printer(options)
    if options.canonical_names and inst.parent is not None:
        printer.number(inst.parent)
    return printer.instruction(inst)


def _callees_first(module: Module) -> list[Computation]:
    """Return the computations in their own order if XLA can parse that, else callees first."""
    seen: set[Computation] = set()
    for comp in module.computations:
        for inst in comp:
            if inst.spec.computation_attrs and not seen.issuperset(inst.called_computations):
                return module.callees_first()
        seen.add(comp)
    return module.computations


def _without_metadata(value: Sharding) -> Sharding:
    if isinstance(value, TupleSharding):
        return TupleSharding(tuple(map(_without_metadata, value.elements)))
    return replace(value, metadata=())  # type: ignore[type-var]


def _repeats_callee(inst: Instruction) -> bool:
    """True for a link of an asynchronous chain that says again what its start calls."""
    return inst.spec.has(Trait.ASYNC_CHAIN) and inst.opcode != "async-start"


def _word(name: str, mark: str) -> str:
    """Return a name, with `%` if the name alone would be something else."""
    return ("%" if name in _TAKEN else mark) + name


class _Printer:
    def __init__(self, options: PrintOptions) -> None:
        self.options = options
        self.mark = "%" if options.percent else ""
        self.xla: AsXla | None = None
        self._shapes: dict[Shape, str] = {}
        self._numbers: dict[Instruction, int] = {}
        self._callers: dict[Computation, list[Instruction]] = {}

    # --- the header -----------------------------------------------------------------------------

    def header(self, module: Module) -> str:
        options = self.options
        attrs: dict[str, Any] = {}
        for key, value in module.attrs.items():
            if value not in (None, False, ()):
                attrs[key] = value
        if options.program_layout and "entry_computation_layout" not in attrs:
            entry = module.entry
            attrs["entry_computation_layout"] = (
                ProgramShape(tuple(entry.parameter_shapes), entry.result_shape)
                if self.xla is None
                else self.xla.program_shape
            )
        text = f"HloModule {_word(module.name, '') if options.names else ''}"
        for key, codec in MODULE_ATTRS.items():
            if key in attrs:
                text += f", {key}={codec.write(attrs[key])}"
        if options.metadata:
            tables = module.tables if self.xla is None else self.xla.tables
            for name in TABLES:
                if name in tables:
                    text += "\n\n" + write_table(name, tables[name]).rstrip("\n")
            if tables:
                text += "\n"
        return text

    # --- computations ---------------------------------------------------------------------------

    def number(self, comp: Computation, *, inline: bool = False) -> list[Instruction]:
        """Return the instructions in printing order, and number them for canonical names.

        inline: the body is printed at its caller, where XLA ignores schedules.
        """
        if not self.options.graph_order:
            return comp.in_order()
        scheduled = comp.module is not None and comp.module.is_scheduled and not inline
        order = comp.in_order() if scheduled else instruction_post_order(comp)
        self._numbers |= {inst: i for i, inst in enumerate(order)}
        return order

    def computation(self, comp: Computation, *, entry: bool) -> str:
        head = "ENTRY " if entry else ""
        if self.options.names:
            head += _word(comp.name, self.mark) + " "
        if self.options.signatures and comp.has_root:
            head += self.signature(comp) + " "
        tail = ""
        if comp.execution_thread != "main":
            tail = f', execution_thread="{escape(comp.execution_thread)}"'
        if comp.backend_config and self.options.backend_config:
            tail += f", backend_config={BACKEND_CONFIG.write(comp.backend_config)}"
        return head + self.body(self.number(comp), "") + tail

    def signature(self, comp: Computation) -> str:
        parts = [f"{self.bare_name(p)}: {p.shape.to_string(False)}" for p in comp.parameters]
        return f"({', '.join(parts)}) -> {comp.result_shape.to_string(False)}"

    def body(self, instructions: Iterable[Instruction], indent: str) -> str:
        """Return `{ instructions }` with the closing brace at `indent`."""
        lines = ["{"]
        for inst in instructions:
            if not self.is_compact(inst):
                lines.append(f"{indent}  {self.instruction(inst, indent + '  ')}")
        lines.append(indent + "}")
        return "\n".join(lines)

    def is_compact(self, inst: Instruction) -> bool:
        """True for a get-tuple-element that is printed as `tuple#index` in operands."""
        return (
            self.options.compact_gte
            and inst.opcode == "get-tuple-element"
            and inst.num_users > 0
            and not (inst.is_root or inst.annotations)
            and not (inst.control_predecessors or inst.control_successors)
        )

    # --- instructions ---------------------------------------------------------------------------

    def name(self, inst: Instruction) -> str:
        if self.options.canonical_names:
            return f"{self.mark}tmp_{self._numbers[inst]}"
        return _word(self.bare_name(inst), self.mark)

    def bare_name(self, inst: Instruction) -> str:
        return inst.name if self.xla is None else self.xla.names[inst]

    def shape(self, shape: Shape) -> str:
        text = self._shapes.get(shape)
        if text is None:
            text = self._shapes[shape] = shape.to_string(self.options.layouts)
        return text

    def instruction(self, inst: Instruction, indent: str = "") -> str:
        spec = inst.spec
        opcode = spec.name
        if spec.payload is not None:
            attr = spec.attrs[spec.payload]
            value = inst.attrs[spec.payload]
            arguments = self.literal(value) if attr.codec is LITERAL else attr.codec.write(value)
        else:
            arguments = self.operands(inst)
            if self.options.async_sugar and spec.has(Trait.ASYNC_CHAIN):
                opcode = self.async_opcode(inst)
        root = "ROOT " if inst.is_root else ""
        shape = self.shape(inst.shape if self.xla is None else self.xla.shape(inst))
        text = f"{root}{self.name(inst)} = {shape} {opcode}({arguments})"
        return text + "".join(f", {a}" for a in self.attributes(inst, indent))

    def literal(self, value: Literal) -> str:
        text = write_literal(value, self.options.constant_limit)
        return text if self.xla is None else _MINUS_ZERO.sub("-0", text)

    def async_opcode(self, inst: Instruction) -> str:
        """Return `add-start`, `add-update`, `add-done` where the sugar applies."""
        start = inst
        while start.opcode != "async-start" and start.operands:
            start = start.operands[0]
        root = self.wrapped(start)
        return inst.opcode if root is None else root.opcode + inst.opcode.removeprefix("async")

    def wrapped(self, start: Instruction) -> Instruction | None:
        """Return the operation that is printed in place of an async-start's computation."""
        return wrapped_root(start) if self.xla is None else single_operation(start)

    def is_hidden(self, comp: Computation) -> bool:
        """True for a computation that is replaced by async sugar."""
        if not self.options.async_sugar:
            return False
        if self.xla is None and not comp.name.startswith("async_wrapped"):
            return False  # its name would be lost
        if not self._callers and comp.module is not None:
            self._callers = comp.module.callers()
        callers = self._callers.get(comp, [])
        if self.xla is not None:
            callers = [c for c in callers if not _repeats_callee(c)]
        return bool(callers) and all(self.wrapped(c) is not None for c in callers)

    def operands(self, inst: Instruction) -> str:
        options = self.options
        parts = []
        for i, operand in enumerate(inst.operands):
            text = self.operand(operand)
            if options.operand_shapes:
                text = f"{self.shape(operand.shape)} {text}"
            if options.index_comments and i and i % 5 == 0:
                text = f"/*index={i}*/{text}"
            parts.append(text)
        return ", ".join(parts)

    def operand(self, inst: Instruction) -> str:
        path = ""
        while self.is_compact(inst):
            path = f"#{inst.tuple_index}{path}"
            inst = inst.operands[0]
        return self.name(inst) + path

    def attributes(self, inst: Instruction, indent: str) -> Iterable[str]:
        options = self.options
        root = self.wrapped(inst) if options.async_sugar else None
        hides_callee = root is not None or (self.xla is not None and _repeats_callee(inst))
        yield from self.own_attributes(inst, indent, without="calls" if hides_callee else None)
        if root is not None:
            yield from self.own_attributes(root, indent)
        annotations: Mapping[str, Any] = inst.annotations
        for key, codec in ANNOTATIONS.items():
            if key == "statistics" and options.control_predecessors and inst.control_predecessors:
                names = ", ".join(map(self.name, inst.control_predecessors))
                yield f"{CONTROL_PREDECESSORS}={{{names}}}"
            if key not in annotations:
                continue
            if key == "metadata" and not options.metadata:
                continue
            if key == "backend_config" and not options.backend_config:
                continue
            if key == "parameter_replication" and not options.parameter_replication:
                continue
            value = annotations[key]
            if key == "metadata" and self.xla is not None:
                value = self.xla.metadata(value)
                if value is None:
                    continue
            if key == "sharding" and not options.metadata:
                value = _without_metadata(value)
            yield f"{key}={codec.write(value)}"

    def own_attributes(
        self, inst: Instruction, indent: str, without: str | None = None
    ) -> Iterable[str]:
        spec = inst.spec
        for key, attr in spec.attrs.items():
            if key in (spec.payload, without):
                continue
            value = inst.attrs[key]
            if attr.prints(value):
                if self.options.bodies and spec.name in _CALLS and attr.codec is COMPUTATION:
                    key = "calls"
                yield (attr.spelled and attr.spelled.get(value)) or (
                    f"{key}={self.value(attr, value, indent)}"
                )

    def value(self, attr: Attr, value: Any, indent: str) -> str:
        if attr.codec is COMPUTATION:
            return self.callee(value, indent)
        if attr.codec is COMPUTATIONS:
            end = "\n}" if self.options.bodies else "}"
            separator = "," if self.options.bodies else ", "
            return "{" + separator.join(self.callee(c, indent) for c in value) + end
        return attr.codec.write(value)

    def callee(self, comp: Computation, indent: str) -> str:
        if self.options.bodies:
            return f"\n{indent}{self.body(self.number(comp, inline=True), indent)}"
        return _word(comp.name, self.mark)
