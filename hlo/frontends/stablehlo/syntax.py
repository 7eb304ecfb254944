"""MLIR text to operations, in the generic and in StableHLO's own forms.

Each operation has an assembly format of its own, few of which are known here: between its name and
its types there are values, words, `key = value` pairs, brackets and regions, which the conversion
of the operation interprets. Source: MLIR's language reference, and the forms in StableHLO's
specification.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from hlo.frontends.stablehlo.cursor import STRING, VALUE, WORD, Cursor, Tagged
from hlo.values.types import Shape

Argument = tuple[str, Shape]


@dataclass
class Block:
    """The block of a region: its arguments with their types, and operations."""

    arguments: list[Argument]
    ops: list[Op] = field(default_factory=list)


@dataclass
class Op:
    """A parsed operation.

    results: names, each with the number of its values. operands: value names. words: bare words and
    strings, in order. attrs: values by key; "[" is a list without one, "<" text in angle brackets,
    and "@" a symbol. state: the names of a loop's state inside its regions. operand_types: None if
    not written. groups: how many operands each pair of parentheses has. location: the content of
    `loc(..)`.
    """

    name: str
    start: int
    end: int = 0
    results: list[tuple[str, int]] = field(default_factory=list)
    operands: list[str] = field(default_factory=list)
    operand_starts: list[int] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    attrs: dict[str, Any] = field(default_factory=dict)
    regions: list[Block] = field(default_factory=list)
    operand_types: list[Shape] | None = None
    result_types: list[Shape] = field(default_factory=list)
    state: list[str] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)
    location: str = ""

    @property
    def kind(self) -> str:
        """The name without its dialect."""
        return self.name.partition(".")[2]


class OperationReader(Cursor):
    """Reads operations, with their regions."""

    def argument(self) -> Argument:
        name = self.match(VALUE, "an argument")[1]
        self.expect(":")
        return name, self.type()

    def location(self) -> str:
        """Read a location if there is one; returns its content."""
        return self.balanced("(") if self.accept("loc") else ""

    def body(self, block: Block) -> None:
        """Read operations up to the closing brace of their region."""
        with self.nested():
            while not self.accept("}"):
                block.ops.append(self.operation())

    def _region(self) -> Block:
        self.expect("{")
        block = Block([])
        if self.accept("^"):
            self.match(WORD, "the name of a block")
            if self.accept("("):
                block.arguments = self._arguments()
            self.expect(":")
        self.body(block)
        return block

    def _arguments(self) -> list[Argument]:
        found: list[Argument] = []
        while not self.accept(")"):
            if found:
                self.expect(",")
            found.append(self.argument())
            self.location()
        return found

    def operation(self) -> Op:
        results: list[tuple[str, int]] = []
        while self.peek("%"):
            m = self.match(_RESULT, "a value")
            results.append((m[1], int(m[2] or 1)))
            if not self.accept(","):
                self.expect("=")
                break
        start = self.pos
        if self.peek("^"):
            self.fail(
                "a region of several blocks has no counterpart in HLO", code="bad-computation"
            )
        quoted = self.at(STRING)
        m = self.match(STRING if quoted else WORD, "an operation")
        op = Op(m[1] if quoted else m[0], start, results=results)
        self._items(op, "")
        if op.kind == "reduce" and not op.regions:
            # Here each operand is next to its initial value; elsewhere all operands come first.
            op.operands = [*op.operands[::2], *op.operands[1::2]]
            op.operand_starts = [*op.operand_starts[::2], *op.operand_starts[1::2]]
        if self.accept(":"):
            self._signature(op)
        self._trailing_regions(op)
        op.end = self.pos
        op.location = self.location()
        return op

    def _items(self, op: Op, closing: str) -> None:
        """Read everything between an operation's name and its types, or in brackets."""
        while True:
            text, pos = self.text, self.pos
            if closing and self.accept(closing):
                return
            first = text[pos : pos + 1]
            if first == "%":
                self._operand(op)
            elif first == "@":
                op.attrs["@"] = self.symbol()
            elif first == '"':
                op.words.append(self.attribute())
            elif self.accept("("):
                self._bracket(op)
            elif text.startswith("<{", pos):
                self.pos += 1
                op.attrs |= self.dictionary()
                self.expect(">")
            elif first == "<":
                op.attrs["<"] = Tagged("", self.balanced("<"), pos)
            elif first == "{":
                if _REGION.match(text, pos):
                    op.regions.append(self._region())
                else:
                    op.attrs |= self.dictionary()
            elif first == "[":
                op.attrs["["] = self.balanced("[")
            elif op.name.endswith(".constant") and not closing and "value" not in op.attrs:
                op.attrs["value"] = value = self.attribute()
                if isinstance(value, Tagged) and value.type is not None:
                    op.result_types = [value.type]
                return
            elif self.peek("loc("):
                return
            elif self.at(WORD):
                self._word(op)
            elif not self.accept(","):
                if closing:
                    self.fail(f"expected {closing!r}, found {self.found()}")
                return

    def _bracket(self, op: Op) -> None:
        """Read the content of parentheses: regions, a region with its arguments, or operands."""
        with self.nested():
            if self.peek("{"):
                while not self.accept(")"):
                    if op.regions:
                        self.accept(",")
                    op.regions.append(self._region())
            elif _ARGUMENT.match(self.text, self.pos):
                arguments = self._arguments()
                block = self._region()
                block.arguments = arguments
                op.regions.append(block)
            elif "manual_axes" in op.attrs and self.accept(")"):
                # The region of a computation without operands.
                op.regions.append(self._region())
            else:
                before = len(op.operands)
                self._items(op, ")")
                op.groups.append(len(op.operands) - before)

    def _operand(self, op: Op) -> None:
        start = self.pos
        m = self.match(VALUE, "a value")
        if self.accept("="):
            # `%state = %start` of a loop.
            op.state.append(m[1])
            start = self.pos
            m = self.match(VALUE, "a value")
        op.operands.append(m[1] + (f"#{m[2]}" if m[2] else ""))
        op.operand_starts.append(start)

    def _word(self, op: Op) -> None:
        """Read a word, with its value if it has one."""
        word = self.match(WORD, "a word")[0]
        if self.accept("="):
            if word == "dim_numbers":
                op.attrs[word] = self.match(re.compile(r"[^=]*?(?=,\s*window)"), "labels")[0]
                return
            if word in _SHARDY and self.text[self.pos : self.pos + 1] in ("[", "{", "<"):
                # Shardy's lists contain names of axes in braces.
                start = self.pos
                op.attrs[word] = Tagged("", self.balanced(self.text[start : start + 1]), start)
                return
            op.attrs[word] = self.attribute()
            if self.accept("x"):
                op.attrs[word] = (op.attrs[word], self.attribute())
        elif word != "init" or not self.accept(":"):
            op.words.append(word)

    def _signature(self, op: Op) -> None:
        """Read types: `(a, b) -> c`, `a, b`, or `a -> b`."""
        types = self.types()
        if self.accept("->"):
            op.operand_types, op.result_types = types, self.types()
        else:
            op.result_types = types

    def _trailing_regions(self, op: Op) -> None:
        """Read the regions that follow the types of loops and reductions."""
        if op.kind == "while" and not op.regions:
            if self.accept("attributes"):
                op.attrs |= self.dictionary()
            self.expect("cond")
            op.regions.append(self._region())
            self.expect("do")
            op.regions.append(self._region())
        elif op.kind == "reduce" and self.accept("reducer"):
            pairs: list[list[Argument]] = []
            while self.accept("("):
                pairs.append(self._arguments())
            block = self._region()
            # The left sides of all pairs come first.
            block.arguments = [p[i] for i in range(2) for p in pairs if len(p) == 2]
            op.regions.append(block)


_RESULT = re.compile(r"%([\w$.-]++)(?::(\d{1,6}))?")
_ARGUMENT = re.compile(r"%[\w$.-]++\s*:")
# A dictionary begins with a key; a region with a block, a value, or its terminator.
_REGION = re.compile(r"\{\s*(?:\^|%|[\w.]*\breturn\b)")
_SHARDY = ("in_shardings", "out_shardings", "manual_axes", "out_sharding")


def free_names(block: Block) -> list[str]:
    """Return the values that a region uses and does not define, in the order of their use."""
    defined = {name for name, _ in block.arguments}
    found: dict[str, None] = {}
    for op in block.ops:
        inside = [n.partition("#")[0] for n in op.operands]
        for region in op.regions:
            inside += [n for n in free_names(region) if n not in op.state]
        found |= dict.fromkeys(n for n in inside if n not in defined)
        defined |= {name for name, _ in op.results}
    return list(found)
