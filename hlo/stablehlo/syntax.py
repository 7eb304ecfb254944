"""MLIR text to operations, in the generic and in StableHLO's own forms.

Each operation has a spelling of its own, so hardly any is known here: between its name and its
types there are values, words, `key = value` pairs, brackets and regions, and what they mean is for
whoever reads the operation. Source: MLIR's language reference, and the forms in StableHLO's
specification.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from hlo.stablehlo.cursor import STRING, VALUE, WORD, Cursor, Tagged
from hlo.types import Shape


@dataclass
class Block:
    """What a region holds: its arguments with their types, and operations."""

    arguments: list[tuple[str, Shape]]
    ops: list[Op] = field(default_factory=list)


@dataclass
class Op:
    """An operation as it is written.

    results: names, each with the number of values it stands for. operands: value names. words: bare
    words, in order. attrs: what has a key; "[" is a list without one, and "@" a symbol. state: the
    names that a loop gives its values inside. operand_types: None where they are not written.
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


@dataclass
class Function:
    """A function: its name, arguments with their attributes, attributes of results, and body."""

    name: str
    start: int
    block: Block
    argument_attrs: list[dict[str, Any]]
    result_attrs: list[dict[str, Any]]


class Parser(Cursor):
    """Reads functions and operations."""

    def module(self) -> tuple[str, list[Function]]:
        """Read a whole text: the name of the module, and its functions."""
        self._definitions()
        if self.text.startswith('"', self.pos):
            return self._generic_module()
        name = ""
        wrapped = self.accept("module")
        if wrapped:
            if self.text.startswith("@", self.pos):
                name = self.symbol()
            if self.accept("attributes"):
                self.dictionary("{", "}")
            self.expect("{")
        functions: list[Function] = []
        while not (self.accept("}") if wrapped else self.pos >= len(self.text)):
            if self.accept("sdy.mesh"):
                self.symbol()
                self.expect("=")
                self.balanced("<")
                continue
            functions.append(self._function())
        self._definitions()
        if self.pos < len(self.text):
            self.fail(f"expected the end, found {self.found()}")
        return name, functions

    def _generic_module(self) -> tuple[str, list[Function]]:
        """Read a text in which modules and functions are operations like all others."""
        whole = self._operation()
        ops = whole.regions[0].ops if whole.regions else []
        functions = []
        for op in ops if whole.name == "builtin.module" else [whole]:
            if op.name == "sdy.mesh":
                continue
            if op.name != "func.func" or not op.regions:
                self.fail(f"expected a function, found {op.name}", op.start)
            block = op.regions[0]
            notes = op.attrs.get("arg_attrs") or [{}] * len(block.arguments)
            functions.append(Function(str(op.attrs.get("sym_name", "")), op.start, block, notes,
                                      op.attrs.get("res_attrs") or []))  # fmt: skip
        self._definitions()
        if self.pos < len(self.text):
            self.fail(f"expected the end, found {self.found()}")
        return str(whole.attrs.get("sym_name", "")), functions

    def _definitions(self) -> None:
        """Pass over `#loc = ...` lines, which say where things come from."""
        while self.text.startswith("#", self.pos):
            end = self.text.find("\n", self.pos)
            self.pos = end if end >= 0 else len(self.text)
            self.skip()

    def _function(self) -> Function:
        start = self.pos
        if not (self.accept("func.func") or self.accept("func")):
            self.fail(f"expected a function, found {self.found()}")
        if not self.accept("public"):
            self.accept("private")
        name = self.symbol()
        arguments: list[tuple[str, Shape]] = []
        notes: list[dict[str, Any]] = []
        self.expect("(")
        while not self.accept(")"):
            if arguments:
                self.expect(",")
            argument = self._argument()
            arguments.append(argument)
            notes.append(self.dictionary("{", "}") if self.text.startswith("{", self.pos) else {})
            self._location()
        results: list[dict[str, Any]] = []
        if self.accept("->"):
            if self.accept("("):
                while not self.accept(")"):
                    if results:
                        self.expect(",")
                    self.type()
                    has = self.text.startswith("{", self.pos)
                    results.append(self.dictionary("{", "}") if has else {})
            else:
                self.type()
                results.append({})
        if self.accept("attributes"):
            self.dictionary("{", "}")
        block = Block(arguments)
        self.expect("{")
        self._body(block)
        self._location()
        return Function(name, start, block, notes, results)

    def _argument(self) -> tuple[str, Shape]:
        name = self.match(VALUE, "an argument")[1]
        self.expect(":")
        return name, self.type()

    def _location(self) -> None:
        if self.accept("loc"):
            self.balanced("(")

    def _body(self, block: Block) -> None:
        """Read operations up to the closing brace of their region."""
        self.nested()
        while not self.accept("}"):
            block.ops.append(self._operation())
        self.depth -= 1

    def _region(self) -> Block:
        self.expect("{")
        block = Block([])
        if self.accept("^"):
            self.match(WORD, "the name of a block")
            if self.accept("("):
                block.arguments = self._arguments()
            self.expect(":")
        self._body(block)
        return block

    def _arguments(self) -> list[tuple[str, Shape]]:
        found: list[tuple[str, Shape]] = []
        while not self.accept(")"):
            if found:
                self.expect(",")
            found.append(self._argument())
            self._location()
        return found

    def _operation(self) -> Op:
        results: list[tuple[str, int]] = []
        while self.text.startswith("%", self.pos):
            m = self.match(re.compile(r"%([\w$.-]++)(?::(\d{1,6}))?"), "a value")
            results.append((m[1], int(m[2] or 1)))
            if not self.accept(","):
                self.expect("=")
                break
        start = self.pos
        quoted = self.at(STRING)
        m = self.match(STRING if quoted else WORD, "an operation")
        op = Op(m[1] if quoted else m[0], start, results=results)
        self._items(op, "")
        if op.name == "stablehlo.reduce" and not op.regions:
            # Each operand is next to its start; all operands come first elsewhere.
            op.operands = [*op.operands[::2], *op.operands[1::2]]
            op.operand_starts = [*op.operand_starts[::2], *op.operand_starts[1::2]]
        if self.accept(":"):
            self._signature(op)
        self._trailing_regions(op)
        op.end = self.pos
        self._location()
        return op

    def _items(self, op: Op, closing: str) -> None:
        """Read what stands between an operation's name and its types, or in brackets."""
        while True:
            text, pos = self.text, self.pos
            if closing and self.accept(closing):
                return
            if text.startswith("%", pos):
                self._operand(op)
            elif text.startswith("@", pos):
                op.attrs["@"] = self.symbol()
            elif self.accept("("):
                self.nested()
                if self.text.startswith("{", self.pos):
                    while not self.accept(")"):
                        if op.regions:
                            self.accept(",")
                        op.regions.append(self._region())
                else:
                    self._items(op, ")")
                self.depth -= 1
            elif text.startswith("<{", pos):
                self.pos += 1
                op.attrs |= self.dictionary("{", "}")
                self.expect(">")
            elif text.startswith("{", pos):
                op.attrs |= self.dictionary("{", "}")
            elif text.startswith("[", pos):
                op.attrs["["] = self.balanced("[")
            elif op.name.endswith("constant") and not closing and "value" not in op.attrs:
                op.attrs["value"] = value = self.attribute()
                if isinstance(value, Tagged) and value.type is not None:
                    op.result_types = [value.type]
                return
            elif self.at(WORD):
                self._word(op)
            elif not self.accept(","):
                if closing:
                    self.fail(f"expected {closing!r}, found {self.found()}")
                return

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
        """Read a word, with its value where it has one."""
        word = self.match(WORD, "a word")[0]
        if self.accept("="):
            if word == "dim_numbers":
                op.attrs[word] = self.match(re.compile(r"[^=]*?(?=,\s*window)"), "labels")[0]
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
        """Read the regions that loops and reductions have behind their types."""
        if op.name == "stablehlo.while" and not op.regions:
            if self.accept("attributes"):
                op.attrs |= self.dictionary("{", "}")
            self.expect("cond")
            op.regions.append(self._region())
            self.expect("do")
            op.regions.append(self._region())
        elif op.name == "stablehlo.reduce" and self.accept("reducer"):
            pairs: list[list[tuple[str, Shape]]] = []
            while self.accept("("):
                pairs.append(self._arguments())
            block = self._region()
            # The left sides of all pairs come first.
            block.arguments = [p[i] for i in range(2) for p in pairs if len(p) == 2]
            op.regions.append(block)


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
