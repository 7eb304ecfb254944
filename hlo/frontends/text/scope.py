"""The names of one computation while it is built: resolution of operands."""

from __future__ import annotations

import re
from collections.abc import Set
from functools import cached_property

from hlo.errors import InstructionSpan, Span, TextError, did_you_mean
from hlo.frontends.text import terminals
from hlo.frontends.text.report import Report
from hlo.frontends.text.syntax import InstructionRecord
from hlo.ir import Computation, Instruction
from hlo.values.shape_text import parse_shape
from hlo.values.types import TYPE_NAMES, Shape, compatible

_DEFINITION = re.compile(
    rf"(?>(?P<root>{terminals.ROOT}{terminals.GAP})?)(?P<name>{terminals.NAME})", re.S
)  # fmt: skip
_GAP = re.compile(terminals.GAP, re.S)


def defined_name(definition: str) -> tuple[str, bool, int]:
    """Return the name in the text of a definition, whether it is of the root, and its offset."""
    if definition.endswith(" = "):  # as XLA prints it
        name = definition[:-3]
        is_root = name.startswith("ROOT ")
        if is_root:
            name = name[5:]
        if "/" not in name and name.split() == [name]:  # no comments, no white space
            return name, is_root, 5 * is_root
    m = _DEFINITION.match(definition)
    assert m is not None
    return m["name"], m["root"] is not None, m.start("name")


class Scope:
    """A computation under construction.

    names: its instructions; None for one with an error that is already reported.
    dropped: names on lines with syntax errors, which are already reported too.
    """

    def __init__(
        self, report: Report, comp: Computation, body: list[InstructionRecord], dropped: Set[str]
    ) -> None:
        self.report = report
        self.comp = comp
        self.body = body
        self.dropped = dropped
        self.names: dict[str, Instruction | None] = {}

    @cached_property
    def _definitions(self) -> dict[str, int]:
        """Where each name of the text is defined."""
        found: dict[str, int] = {}
        for record in self.body:
            if record.definition is not None:
                name, _, offset = defined_name(record.definition.value)
                found.setdefault(name.removeprefix("%"), record.definition.start_pos + offset)
        return found

    def definition(self, name: str) -> Span | None:
        """Return where the text defines a name first."""
        start = self._definitions.get(name)
        return None if start is None else self._word(start)

    # --- defining -------------------------------------------------------------------------------

    def check_name(self, name: str, start: int) -> str:
        """Return a defined name without its `%`, after checking that it is valid."""
        if name[0] == "%":
            name = name[1:]
        elif name in terminals.KEYWORDS:
            self.report.error("bad-name", f"{name!r} is a keyword", start, hint=f"write %{name}")
        if name in TYPE_NAMES:
            self.report.error(
                "bad-name", f"an instruction cannot be called {name!r}, the name of a type", start,
                hint=f"rename it, to {name}_ for instance",
            )  # fmt: skip
        if name in self.names:
            before = self.definition(name)
            note = before is not None and before != self._word(start)
            self.report.error(
                "duplicate-name", f"instruction {name!r} is defined twice in {self.comp.name}",
                start,
                note=("previously defined here", before) if note else None,
            )  # fmt: skip
        return name

    def add(self, name: str, inst: Instruction | None) -> None:
        """Bind a name to an instruction, and add that to the computation."""
        if name in self.names:
            return
        self.names[name] = inst
        if inst is not None:
            self.comp.add(inst)

    def free_name(self, base: str) -> str:
        """Return a name derived from `base` that occurs nowhere in the text."""
        name, number = base, 1
        while name in self._definitions or name in self.names:
            name = f"{base}.{number}"
            number += 1
        return name

    # --- finding --------------------------------------------------------------------------------

    def operand(
        self, shape_text: str | None, name: str | None, path: str | None, start: int
    ) -> Instruction | None:
        """Return the instruction that an operand refers to, or None after reporting an error.

        The operand is at `start`, preceded by its shape if given; `path` is `#1#0`.
        """
        at = start
        if shape_text is not None:
            at = _GAP.match(self.report.source.text, start + len(shape_text)).end()  # type: ignore[union-attr]
        if name is None or name not in self.names:
            inst = self.missing(name, shape_text, start, at)
        else:
            inst = self.names[name]
        if inst is not None and path:
            inst = self._element(inst, path, at)
        if inst is None or shape_text is None:
            return inst
        shape = self.shape(shape_text, start)
        if shape is None:
            return None
        if shape is not inst.shape and not compatible(shape, inst.shape):
            self.report.error(
                "operand-shape-mismatch",
                f"operand {inst.name} is declared as {shape.to_string(False)}, "
                f"but it is {inst.shape.to_string(False)}",
                start, start + len(shape_text), note=(f"{inst.name} is defined here", inst.span),
            )  # fmt: skip
            return None
        return inst

    def shape(self, text: str, start: int) -> Shape | None:
        """Parse the shape in `text` at `start`; None after reporting an error."""
        try:
            return parse_shape(text)
        except TextError as e:
            self.report.text_error(e, start)
            return None

    def missing(
        self, name: str | None, shape_text: str | None, start: int, at: int
    ) -> Instruction | None:
        """Report an operand that is not defined so far."""
        if name is None:
            self.report.error("syntax", "the operand has a shape and no name", start, at)
        elif (later := self.definition(name)) is not None:
            self.report.error(
                "use-before-definition", f"{name!r} is used before it is defined", at,
                note=("it is defined here", later),
            )  # fmt: skip
        elif name not in self.dropped:
            self.report.error(
                "undefined-operand", f"{name!r} is not defined in computation {self.comp.name}", at,
                hint=did_you_mean(name, self.names),
            )  # fmt: skip
        return None

    def _element(self, inst: Instruction, path: str, at: int) -> Instruction | None:
        """Return the tuple element `name#1#0`, with one instruction for each level."""
        for part in path[1:].split("#"):
            index = int(part[:18])
            name = f"{inst.name}.{index}"
            try:
                shape = inst.shape.at((index,))
            except IndexError as e:
                self.report.error("index-out-of-range", f"{inst.name}#{index}: {e}", at)
                return None
            for user in inst.users:
                if user.opcode == "get-tuple-element" and user.tuple_index == index:
                    inst = user
                    break
            else:
                inst = Instruction(
                    self.free_name(name), "get-tuple-element", shape, [inst], {"index": index},
                    span=inst.span,
                )  # fmt: skip
                self.add(inst.name, inst)
        return inst

    def _word(self, start: int) -> Span:
        m = re.compile(terminals.NAME).match(self.report.source.text, start)
        return Span(self.report.source, start, m.end() if m else start + 1)


class SingleScope(Scope):
    """The scope of a single-instruction text: operands with a shape become parameters.

    default_shape: the shape of operands without one; set for operations whose operands have the
    shape of the result.
    """

    default_shape: Shape | None = None

    def missing(
        self, name: str | None, shape_text: str | None, start: int, at: int
    ) -> Instruction | None:
        shape = self.default_shape
        if shape_text is not None:
            shape = self.shape(shape_text, start)
            if shape is None:
                return None
        if shape is None:
            self.report.error(
                "missing-shape", f"operand {name!r} of a single instruction needs its shape", at
            )
            return None
        number = len(self.comp.parameters)
        span = InstructionSpan(self.report.source, start, at + len(name or ""))
        if name is None:
            name = self.free_name(f"_{number}")
        else:
            written = self.report.source.text[at : at + 1] == "%"
            self.check_name("%" * written + name, at)
        inst = Instruction(name, "parameter", shape, (), {"number": number}, span=span)
        self.add(name, inst)
        return inst
