"""Functions: linkage, body, and what the body says about callees and loops."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from hlo.llvm.compiled import Origin
from hlo.llvm.instructions import (
    AtomicUpdate,
    Branch,
    Call,
    Cast,
    Compare,
    GetElementPtr,
    Instruction,
    Label,
    Load,
    Location,
    LoopMetadata,
    Phi,
    Return,
    Select,
    Store,
    Switch,
)

# Labels begin blocks; a location holds for the instructions up to the next.
Line = Instruction | Label | Location
Body = Sequence[Line]


class Loop(NamedTuple):
    """A loop in the body of a function: the positions of its header and of the branch back."""

    header: int
    latch: int
    metadata: LoopMetadata | None

    def is_within(self, other: Loop) -> bool:
        return self is not other and other.header <= self.header and self.latch <= other.latch


class _Facts(NamedTuple):
    """What a body names, at which position; its innermost loops; its metadata nodes, likewise."""

    symbols: list[tuple[int, str]]
    loops: list[Loop]
    metadata: list[tuple[int, int]]


# What has addresses among its operands.
_ADDRESSING = frozenset(
    {AtomicUpdate, Call, GetElementPtr, Load, Store, Cast, Compare, Select, Phi, Return}
)


@dataclass
class Function:
    """A function of an LLVM module.

    result: its type, with attributes. parameters: as LLVM IR writes them, `ptr noalias %x`.
    linkage: `internal`, or empty for one that other objects see. visibility: `hidden`, or empty.
    debug: the number of its subprogram's metadata node, 0 for none. is_general: its name says all
    that it does, and modules that have little in common may have it. is_light: a turn of its loops
    takes so little time that ten cycles more matter. is_final: a few clean-up passes are enough.
    origin: what it was made from, if its object code may be kept. The body does not change once it
    is complete: what is asked about it is computed once.
    """

    name: str
    parameters: Sequence[str]
    attributes: tuple[str, ...] = ("nounwind",)
    result: str = "void"
    linkage: str = ""
    visibility: str = ""
    body: Body = field(default=(), repr=False)
    debug: int = 0
    is_general: bool = False
    is_light: bool = False
    is_final: bool = False
    origin: Origin | None = None

    def replace(
        self, *, linkage: str | None = None, visibility: str = "",
        attributes: tuple[str, ...] | None = None,
    ) -> Function:  # fmt: skip
        """Return the function with the same body and other properties."""
        found = copy.copy(self)
        found.linkage = self.linkage if linkage is None else linkage
        found.visibility = visibility or self.visibility
        found.attributes = self.attributes if attributes is None else attributes
        return found

    def with_body(self, body: Body, *, debug: int) -> Function:
        """Return the function with another body and the metadata node of its subprogram."""
        return Function(
            self.name, self.parameters, self.attributes, self.result, self.linkage,
            self.visibility, body, debug, self.is_general, self.is_light, self.is_final,
        )  # fmt: skip

    @property
    def named_parameters(self) -> dict[str, list[str]]:
        """What is said of each parameter, its type first, by its name."""
        return {name: said for *said, name in (p.split() for p in self.parameters)}

    # --- text -----------------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """The function as LLVM IR."""
        return f"{self._signature('define', self.attributes)} {{\n{self.body_text}\n}}"

    @property
    def declaration(self) -> str:
        """Its declaration for other modules, with what callers may rely on."""
        effects = [a for a in self.attributes if a.startswith("memory(")]
        return self._signature("declare", effects)

    @cached_property
    def body_text(self) -> str:
        """The text between the braces."""
        return "\n".join(self._lines)

    @cached_property
    def _lines(self) -> Sequence[str]:
        return [str(line) for line in self.body]

    @property
    def text_without_locations(self) -> str:
        """The text that is equal for functions that do the same, wherever their HLO is."""
        lines = [str(line) for line in self.body if type(line) is not Location]
        return "\n".join([self._signature("define", self.attributes), *lines])

    def _signature(self, keyword: str, attributes: Sequence[str]) -> str:
        linkage = self.linkage if keyword == "define" else ""
        words = [w for w in (keyword, linkage, self.visibility, self.result) if w]
        parameters = ", ".join(self.parameters)
        debug = [f"!dbg !{self.debug}"] if self.debug else []
        return " ".join([*words, f"@{self.name}({parameters})", *attributes, *debug])

    # --- what the body does ---------------------------------------------------------------------

    @cached_property
    def _facts(self) -> _Facts:
        """What one look through the body finds."""
        symbols: list[tuple[int, str]] = []
        loops: list[Loop] = []
        metadata: list[tuple[int, int]] = []
        headers: dict[str, int] = {}
        for at, line in enumerate(self.body):
            if not isinstance(line, Instruction):
                if isinstance(line, Label):
                    headers[line.name] = at
                continue
            _, operation, debug = line
            if debug:
                metadata.append((at, debug))
            if type(operation) in _ADDRESSING:
                if isinstance(operation, Call) and operation.callee:
                    symbols.append((at, operation.callee))
                symbols += [(at, x[1:]) for x in operation.operands if x[0] == "@"]
            elif isinstance(operation, Branch | Switch):
                told = operation.loop if isinstance(operation, Branch) else None
                if told is not None:
                    metadata.append((at, told.number))
                # Ordered by end: two loops are either nested or disjoint.
                for label in operation.labels:
                    loop = Loop(headers[label], at, told) if label in headers else None
                    if loop is not None and not (loops and loops[-1].is_within(loop)):
                        loops.append(loop)
        return _Facts(symbols, loops, metadata)

    @cached_property
    def symbols(self) -> frozenset[str]:
        """The functions and globals that the body calls, reads, or passes on."""
        return frozenset(self.references)

    @property
    def references(self) -> list[str]:
        """The functions and globals that are named in the body, each time they are."""
        return [name for _, name in self._facts.symbols]

    def symbols_in(self, loop: Loop) -> frozenset[str]:
        """The functions and globals that are named in a loop."""
        return frozenset([n for at, n in self._facts.symbols if loop.header <= at <= loop.latch])

    @property
    def innermost_loops(self) -> list[Loop]:
        """The loops without loops inside, in order."""
        return self._facts.loops

    @property
    def metadata(self) -> list[int]:
        """The numbers of the metadata nodes that the function refers to, each time it does."""
        return [*([self.debug] if self.debug else []), *(n for _, n in self._facts.metadata)]

    def renamed(self, symbols: Mapping[str, str], nodes: Mapping[int, int]) -> Function:
        """Return the function with other names for functions and globals, and for itself.

        nodes: other numbers for metadata nodes, from 1 on.
        """
        body, lines, facts, nodes = [*self.body], [*self._lines], self._facts, {**nodes, 0: 0}
        names = {f"@{old}": f"@{new}" for old, new in symbols.items()}
        for at in {at for at, _ in facts.symbols}:
            line = body[at]
            assert isinstance(line, Instruction)
            operation = line.operation
            operands = tuple([names.get(x, x) for x in operation.operands])
            operation = operation._replace(operands=operands)
            if isinstance(operation, Call) and operation.function in names:
                operation = operation._replace(function=names[operation.function])
            body[at] = line._replace(operation=operation)
        for at in {at for at, _ in facts.metadata}:
            line = body[at]
            assert isinstance(line, Instruction)
            debug, operation = nodes.get(line.debug, line.debug), line.operation
            if isinstance(operation, Branch) and operation.loop is not None:
                number = nodes.get(operation.loop.number, operation.loop.number)
                operation = operation._replace(loop=operation.loop._replace(number=number))
            body[at] = line._replace(operation=operation, debug=debug)
        # Printing takes longer than all the rest: most lines stay as they are.
        for at in {at for at, _ in (*facts.symbols, *facts.metadata)}:
            lines[at] = str(body[at])
        found = self.with_body(body, debug=nodes.get(self.debug, self.debug))
        found.name = symbols.get(self.name, self.name)
        found.__dict__["_lines"] = lines
        return found


def with_operands(body: Body, values: Mapping[str, str]) -> Body:
    """Return a body in which values, by name, are replaced by others."""
    found: list[Line] = []
    for line in body:
        if type(line) is Instruction:
            operation = line.operation
            if not values.keys().isdisjoint(operation.operands):
                operands = tuple([values.get(x, x) for x in operation.operands])
                line = line._replace(operation=operation._replace(operands=operands))
        found.append(line)
    return found
