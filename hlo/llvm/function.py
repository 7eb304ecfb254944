"""Functions: linkage, body, and what the body says about callees and loops."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from hlo.llvm.instructions import (
    Branch,
    Call,
    Instruction,
    Label,
    Location,
    LoopMetadata,
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


@dataclass
class Function:
    """A function of an LLVM module.

    result: its type, with attributes. parameters: as LLVM IR writes them, `ptr noalias %x`.
    linkage: `internal`, or empty for one that other objects see. visibility: `hidden`, or empty.
    debug: the number of its subprogram's metadata node, 0 for none. The body does not change once
    it is complete: what is asked about it is computed once.
    """

    name: str
    parameters: Sequence[str]
    attributes: tuple[str, ...] = ("nounwind",)
    result: str = "void"
    linkage: str = ""
    visibility: str = ""
    body: Body = field(default=(), repr=False)
    debug: int = 0

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
            self.visibility, body, debug,
        )  # fmt: skip

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
        return "\n".join(map(str, self.body))

    @property
    def text_without_locations(self) -> str:
        """The text that is equal for functions that do the same, wherever their HLO is."""
        if not any(type(line) is Location for line in self.body):
            return self.text
        lines = [str(line) for line in self.body if type(line) is not Location]
        return "\n".join([self._signature("define", self.attributes), *lines])

    def _signature(self, keyword: str, attributes: Sequence[str]) -> str:
        words = [w for w in (keyword, self.linkage, self.visibility, self.result) if w]
        parameters = ", ".join(self.parameters)
        debug = [f"!dbg !{self.debug}"] if self.debug else []
        return " ".join([*words, f"@{self.name}({parameters})", *attributes, *debug])

    # --- what the body does ---------------------------------------------------------------------

    @cached_property
    def _symbols(self) -> list[tuple[int, str]]:
        """The functions and globals that are named in the body, with positions."""
        found = []
        for at, line in enumerate(self.body):
            if type(line) is Instruction:
                operation = line.operation
                if type(operation) is Call and operation.callee:
                    found.append((at, operation.callee))
                found += [(at, x[1:]) for x in operation.operands if x[:1] == "@"]
        return found

    @cached_property
    def symbols(self) -> frozenset[str]:
        """The functions and globals that the body calls, reads, or passes on."""
        return frozenset(name for _, name in self._symbols)

    def symbols_in(self, loop: Loop) -> frozenset[str]:
        """The functions and globals that are named in a loop."""
        return frozenset(n for at, n in self._symbols if loop.header <= at <= loop.latch)

    @cached_property
    def innermost_loops(self) -> list[Loop]:
        """The loops without loops inside, in order."""
        headers: dict[str, int] = {}
        found: list[Loop] = []
        # Ordered by end: two loops are either nested or disjoint.
        for at, line in enumerate(self.body):
            if type(line) is Label:
                headers[line.name] = at
            elif type(line) is Instruction and type(line.operation) in (Branch, Switch):
                for label in line.operation.labels:  # type: ignore[union-attr]
                    if label in headers:
                        metadata = getattr(line.operation, "loop", None)
                        loop = Loop(headers[label], at, metadata)
                        if not found or not found[-1].is_within(loop):
                            found.append(loop)
        return found

    @cached_property
    def metadata(self) -> frozenset[int]:
        """The numbers of the metadata nodes that the body refers to."""
        found: set[int] = set()
        for line in self.body:
            if type(line) is Instruction:
                if type(line.operation) is Branch and line.operation.loop is not None:
                    found.add(line.operation.loop.number)
                if line.debug:
                    found.add(line.debug)
        return frozenset(found | ({self.debug} if self.debug else set()))


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
