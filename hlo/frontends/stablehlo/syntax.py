"""MLIR text to operations: blocks, regions, and the generic form of operations.

The generic form is that of all operations; the short forms are in `short_forms`. What an operation
may have is in `declarations`. Source: MLIR's language reference.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

from hlo.errors import did_you_mean
from hlo.frontends.stablehlo.cursor import STRING, VALUE, WORD, Attributes, Cursor
from hlo.frontends.stablehlo.declarations import Declaration, declarations
from hlo.values.types import Shape

Argument = tuple[str, Shape]


@dataclass
class Block:
    """The block of a region: its arguments with their types and locations, and operations."""

    arguments: list[Argument]
    ops: list[Op] = field(default_factory=list)
    locations: list[str] = field(default_factory=list)


@dataclass
class Op:
    """A parsed operation.

    results: names, each with the number of its values. operands: value names. attrs: values by the
    names of the generic form. operand_types, result_types: as they are written. location: the
    content of `loc(..)`.
    """

    name: str
    start: int
    end: int = 0
    results: list[tuple[str, int]] = field(default_factory=list)
    operands: list[str] = field(default_factory=list)
    operand_starts: list[int] = field(default_factory=list)
    attrs: Attributes = field(default_factory=Attributes)
    regions: list[Block] = field(default_factory=list)
    operand_types: list[Shape] = field(default_factory=list)
    result_types: list[Shape] = field(default_factory=list)
    location: str = ""

    @property
    def kind(self) -> str:
        """The name without its dialect."""
        return self.name.partition(".")[2]


# Operations that contain others, and a mesh: `functions` interprets them.
_CONTAINERS = frozenset({"builtin.module", "func.func", "sdy.mesh"})
# The kinds of values that an attribute of a declared kind may have; any other is its own.
_VALUE_KINDS = {
    "ints": ("array<i64>",),
    "bools": ("array<i1>",),
    "elements": ("elements<s64>",),
    "config": ("string", "dictionary"),
    "groups": (
        "elements<s64>",
        "stablehlo.replica_group_mesh_axes",
        "mhlo.replica_group_mesh_axes",
    ),
}
_ENUMERATIONS = frozenset(
    "comparison_direction comparison_type fft_type rng_algorithm rng_distribution transpose".split()
)
_PLAIN_KINDS = frozenset("i64 i32 f32 bool unit string symbol list dictionary".split())


class OperationReader(Cursor):
    """Reads operations, with their regions.

    refuse: raises the error for an operation that is not known, by its name and position.
    """

    __slots__ = ("_locations", "_refuse", "_scopes")

    def __init__(self, text: str, refuse: Callable[[str, int], NoReturn]) -> None:
        super().__init__(text)
        self._refuse = refuse
        self._locations: set[str] | None = None
        # The names of values that are visible, by region.
        self._scopes: list[set[str]] = [set()]

    def define(self, name: str, start: int) -> None:
        """Make the name of a value known. Raises TextError if another one has it."""
        if any(name in scope for scope in self._scopes):
            self.fail(f"%{name} is defined twice", start, code="duplicate-name")
        self._scopes[-1].add(name)

    def argument(self) -> Argument:
        start = self.pos
        name = self.match(VALUE, "an argument")[1]
        self.define(name, start)
        self.expect(":")
        return name, self.type()

    def location(self) -> str:
        """Read a location if there is one; returns its content."""
        start = self.pos
        if not self.accept("loc"):
            return ""
        content = self.balanced("(")
        if not content.strip():
            self.fail("a location is empty", start)
        if content[0] == "#" and content not in self._location_aliases():
            self.fail(f"there is no location {content}", start, code="undefined-computation")
        return content

    def _location_aliases(self) -> set[str]:
        """Return the names of all locations that the text defines, before or after their uses."""
        if self._locations is None:
            self._locations = {m[1] for m in _LOCATION.finditer(self.text)}
        return self._locations

    def body(self, block: Block) -> None:
        """Read operations up to the closing brace of their region."""
        with self.nested():
            while not self.accept("}"):
                block.ops.append(self.operation())

    def region(self, arguments: list[Argument] | None = None) -> Block:
        """Read a region. arguments: of its block where they are written elsewhere."""
        self._scopes.append({name for name, _ in arguments or ()})
        self.expect("{")
        block = Block(arguments or [])
        if arguments is None and self.accept("^"):
            self.match(WORD, "the name of a block")
            if self.peek("("):
                block.arguments = self.arguments(block.locations)
            self.expect(":")
        self.body(block)
        self._scopes.pop()
        return block

    def arguments(self, locations: list[str]) -> list[Argument]:
        """Read the arguments of a block, in parentheses; appends the location of each, or ""."""
        found: list[Argument] = []
        for _ in self.items("(", ")"):
            found.append(self.argument())
            locations.append(self.location())
        return found

    # --- operations -----------------------------------------------------------------------------

    def operation(self) -> Op:
        results = self._result_names()
        start = self.pos
        if self.peek("^"):
            self.fail(
                "a region of several blocks has no counterpart in HLO", code="bad-computation"
            )
        quoted = self.at(STRING)
        m = self.match(STRING if quoted else WORD, "an operation")
        op = Op(m[1] if quoted else m[0], start, results=results)
        if quoted and "." not in op.name:
            self.fail(f"the name of {op.name}'s dialect is missing", start, code="unknown-opcode")
        declared = declarations().get(op.name)
        if declared is None and not (quoted and op.name in _CONTAINERS):
            self._refuse(op.name, start)
        if quoted:
            self._generic(op, declared)
        else:
            assert declared is not None
            if declared.short is None:
                self.fail(f"{op.name} has only the generic form, in quotes", start)
            self.short_form(op, declared)
        if declared is not None:
            self._check(op, declared)
        op.end = self.pos
        op.location = op.location or self.location()
        for name, _ in results:
            self.define(name, start)
        return op

    def short_form(self, op: Op, declared: Declaration) -> None:
        """Read what follows the name of an operation in its short form."""
        raise NotImplementedError

    def _result_names(self) -> list[tuple[str, int]]:
        results: list[tuple[str, int]] = []
        if not self.peek("%"):
            return results
        while True:
            m = self.match(_RESULT, "a value")
            if m[2] is not None and not int(m[2]):
                self.fail(f"%{m[1]} names no result", code="operand-count")
            results.append((m[1], int(m[2] or 1)))
            if not self.accept(","):
                self.expect("=")
                return results

    def operand(self, op: Op) -> None:
        start = self.pos
        m = self.match(VALUE, "a value")
        name = m[1]
        for scope in reversed(self._scopes):
            if name in scope:
                break
        else:
            known = [f"%{other}" for scope in self._scopes for other in scope]
            self.fail(f"there is no value %{name} here", start, code="undefined-operand",
                      hint=did_you_mean(f"%{name}", known))  # fmt: skip
        op.operands.append(name + (f"#{m[2]}" if m[2] else ""))
        op.operand_starts.append(start)

    def operands(self, op: Op, closing: str = "") -> None:
        """Read operands with commas between them, perhaps none. closing: what follows them."""
        if self.peek("%"):
            self.operand(op)
            while self.accept(","):
                self.operand(op)
        if closing:
            self.expect(closing)

    def _generic(self, op: Op, declared: Declaration | None) -> None:
        """Read `(%a, %b) <{properties}> ({region}, {region}) {attributes} : types`."""
        self.expect("(")
        self.operands(op, ")")
        if self.accept("<"):
            start = self.pos
            properties = self.attribute()
            if not isinstance(properties, Attributes):
                self.fail("properties are a dictionary, <{..}>", start)
            self.expect(">")
            if declared is not None and not declared.attributes:
                self.fail(f"{op.name} has no properties", start, code="unknown-attribute")
            op.attrs.add(properties)
        if self.accept("("):
            op.regions.append(self.region())
            while self.accept(","):
                op.regions.append(self.region())
            self.expect(")")
        if self.peek("{"):
            properties = op.attrs
            op.attrs = self.dictionary()
            op.attrs.add(properties)
        self.expect(":")
        op.operand_types, op.result_types = self.function_type()

    def attributes(self, op: Op) -> None:
        """Read a dictionary of attributes, which go before what the short form says."""
        op.attrs.add(self.dictionary())

    # --- checks ---------------------------------------------------------------------------------

    def _check(self, op: Op, declared: Declaration) -> None:
        """Raise TextError for an operation that is not as it is declared."""
        for what, count, known in (
            ("operands", len(op.operands), declared.operands),
            ("regions", len(op.regions), declared.regions),
            ("results", len(op.result_types), declared.results),
        ):
            if count not in known:
                self.fail(f"{op.name} has {known} {what}, not {count}", op.start,
                          code="operand-count")  # fmt: skip
        if len(op.operands) != len(op.operand_types):
            self.fail(f"{op.name}: {len(op.operands)} operands have {len(op.operand_types)} types",
                      op.start, code="operand-count")  # fmt: skip
        names = sum(n for _, n in op.results)
        if names not in (0, len(op.result_types)):
            self.fail(f"{op.name} has {len(op.result_types)} results, not {names} names", op.start,
                      code="operand-count")  # fmt: skip
        for name, (kind, is_optional) in declared.attributes.items():
            if name not in op.attrs:
                if not is_optional:
                    self.fail(f"{op.name}: {name} is missing", op.start, code="missing-attribute")
            elif kind != "any" and name in op.attrs.kinds:
                self._check_kind(op, name, kind)

    def _check_kind(self, op: Op, name: str, kind: str) -> None:
        dialect = op.name.partition(".")[0]
        of_dialect = f"{dialect}<{kind}>" if kind in _ENUMERATIONS else f"{dialect}.{kind}"
        wanted = _VALUE_KINDS.get(kind) or (kind if kind in _PLAIN_KINDS else of_dialect,)
        found = op.attrs.kinds[name]
        if dialect == "mhlo" and found.startswith("elements"):
            return  # its lists of integers are these
        if found not in wanted:
            self.fail(f"{op.name}: {name} is of kind {' or '.join(wanted)}, not {found}", op.start,
                      code="bad-value")  # fmt: skip


_LOCATION = re.compile(r"(#[A-Za-z_][\w$.]*+)\s*=\s*loc\(")
_RESULT = re.compile(r"%([\w$.-]++)(?::(\d{1,6}))?")


def free_names(block: Block) -> list[str]:
    """Return the values that a region uses and does not define, in the order of their use."""
    defined = {name for name, _ in block.arguments}
    found: dict[str, None] = {}
    for op in block.ops:
        inside = [n.partition("#")[0] for n in op.operands]
        for region in op.regions:
            inside += free_names(region)
        found |= dict.fromkeys(n for n in inside if n not in defined)
        defined |= {name for name, _ in op.results}
    return list(found)
