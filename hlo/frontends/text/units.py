"""The parts of a module that is being edited: its computations, and what statements have become."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from hlo.errors import Diagnostic, Span
from hlo.frontends.text.instructions import Control
from hlo.frontends.text.reading import Statement
from hlo.frontends.text.report import Report
from hlo.frontends.text.scope import Scope, defined_name
from hlo.frontends.text.syntax import InstructionRecord, Token
from hlo.ir import Computation, Instruction
from hlo.values.types import Shape

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
# Attributes that hold most of the text and never a name.
_NAMELESS = (", metadata=", ", backend_config=", ", frontend_attributes=", ", sharding=")
Signature = tuple[list[Shape], Shape | None]


@dataclass(eq=False, slots=True)
class Built:
    """What the statement of an instruction has become.

    Attributes:
        unit: the computation that it is in.
        name: what it defines.
        is_root: whether the text says so.
        uses: the words of the text that may be names of operands and computations.
        is_simple: its operands are nothing but names, with or without shapes.
        inst: the instruction; None if there are errors, or if operands have some.
        made: all instructions of the statement, of which `inst` is the last.
        inner: computations written inside of the statement.
        control: of one with control predecessors, what is needed to resolve them.
        errors: what is wrong with the statement itself.
        is_valid: whether `inst` is there, and so are its operands.
        rule: what the verifier says of `inst`; None until it is asked.
        is_constrained: whether the verifier looks at it together with others.
    """

    unit: Unit
    name: str
    is_root: bool
    uses: frozenset[str]
    is_simple: bool
    inst: Instruction | None = None
    made: list[Instruction] = field(default_factory=list)
    inner: list[Computation] = field(default_factory=list)
    control: Control | None = None
    errors: list[Diagnostic] = field(default_factory=list)
    is_valid: bool = False
    rule: list[Diagnostic] | None = None
    is_constrained: bool = False


@dataclass(eq=False)
class Unit:
    """A computation of the text: its head, and the statements of its instructions.

    Attributes:
        names: what each name means; None for an instruction with errors.
        last: what each name meant when it last meant something.
        head_errors, errors: what is wrong with the head, and with the computation as a whole.
        is_duplicate: whether there is one of its name before.
        is_dirty: whether it has to be built.
        is_unchecked: whether names that syntax errors hide prevented checks of the whole.
        changed: names whose meaning may be another than when it was built.
        signature: the shapes of parameters and result.
        calls: the words in the statements that refer to computations.
        controlled: statements with control predecessors.
    """

    comp: Computation
    head: Statement
    statements: list[Statement] = field(default_factory=list)
    names: dict[str, Instruction | None] = field(default_factory=dict)
    last: dict[str, Instruction] = field(default_factory=dict)
    head_errors: list[Diagnostic] = field(default_factory=list)
    errors: list[Diagnostic] = field(default_factory=list)
    is_entry: bool = False
    is_duplicate: bool = False
    is_dirty: bool = True
    is_unchecked: bool = False
    changed: set[str] = field(default_factory=set)
    signature: Signature | None = None
    calls: set[str] = field(default_factory=set)
    controlled: list[Statement] = field(default_factory=list)


class UnitScope(Scope):
    """The names of a computation before one of its statements."""

    def __init__(self, report: Report, unit: Unit, dropped: set[str]) -> None:
        super().__init__(report, unit.comp, [], dropped)
        self._unit = unit
        self.names = unit.names
        self.made: list[Instruction] = []

    def add(self, name: str, inst: Instruction | None) -> None:
        if inst is not None:
            self.made.append(inst)
        self.names.setdefault(name, inst)

    def definition(self, name: str) -> Span | None:
        for statement in self._unit.statements:
            if statement.record is not None:
                built = statement.built
                if (built.name if built is not None else defined(statement)[0]) == name:
                    return name_span(statement)
        return None

    def free_name(self, base: str) -> str:
        name, number = base, 1
        while name in self.names or self.definition(name) is not None:
            name = f"{base}.{number}"
            number += 1
        return name


def name_span(statement: Statement) -> Span:
    """Return where a statement names its instruction, with the `%`."""
    token = _definition(statement)
    name, _, offset = defined_name(token.value)
    start = token.start_pos + offset
    return Span(statement.source, start, start + len(name))


def defined(statement: Statement) -> tuple[str, bool]:
    """Return the name that a statement defines, and whether it says ROOT."""
    name, is_root, _ = defined_name(_definition(statement).value)
    return name.removeprefix("%"), is_root


def _definition(statement: Statement) -> Token:
    assert statement.record is not None and statement.record.definition is not None
    return statement.record.definition


def groups(statements: list[Statement]) -> Iterator[tuple[Statement, list[Statement]]]:
    """Yield the computations of a text: the head of each, and the rest of it.

    One that ends in a syntax error is left out: as in a file, all of it is unknown.
    """
    head: Statement | None = None
    begin = 0
    for at, statement in enumerate(statements):
        if statement.is_head:
            head, begin = statement, at + 1
        if statement.closing is not None and head is not None and head.heading is not None:
            yield head, statements[begin : at + 1]
            head = None


def bind(unit: Unit, built: Built) -> None:
    """Give the names of a statement their meaning."""
    if not built.is_valid:
        unit.names.setdefault(built.name, None)
        return
    for inst in built.made:
        unit.names.setdefault(inst.name, inst)


def is_simple(record: InstructionRecord) -> bool:
    arguments = record.arguments
    return isinstance(arguments, Token) and "#" not in arguments.value


def uses_of(statement: Statement, record: InstructionRecord) -> frozenset[str]:
    """Return all words of a statement that may be names which others define."""
    arguments, pieces = record.arguments, []
    if isinstance(arguments, Token):
        pieces.append(arguments.value)
    for item in record.attributes:
        if not isinstance(item, Token):
            return frozenset(_WORD.findall(statement.source.text))
        if not item.value.startswith(_NAMELESS):
            pieces.append(item.value)
    if not isinstance(arguments, Token):
        return frozenset(_WORD.findall(statement.source.text))
    return frozenset(_WORD.findall(" ".join(pieces)))
