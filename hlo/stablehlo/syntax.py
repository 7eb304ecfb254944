"""MLIR text to operations, in the generic and in StableHLO's own forms.

Each operation has a spelling of its own, so hardly any is known here: between its name and its
types there are values, words, `key = value` pairs, brackets and regions, and what they mean is for
whoever reads the operation. Source: MLIR's language reference, and the forms in StableHLO's
specification.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, NoReturn

from hlo.errors import TextError
from hlo.scan import unescape
from hlo.shape_text import MAX_NESTING
from hlo.stablehlo.types import read_type
from hlo.types import Shape

_GAP = re.compile(r"(?:\s++|//[^\n]*+)*+")
_WORD = re.compile(r"[A-Za-z_][\w$.-]*+")
_VALUE = re.compile(r"%([\w$.-]++)(?:#(\d++))?")
_SYMBOL = re.compile(r'@(?:([\w$.-]++)|"((?:[^"\\]|\\.)*+)")')
_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*+)"')
_NUMBER = re.compile(r"-?(?:0x[0-9a-fA-F]++|\d++(?:\.\d*+)?(?:[eE][+-]?\d++)?)")
_NUMBER_TYPE = re.compile(r":\s*(?:[su]?i\d+|ui\d+|bf16|f\d\w*|index)\b")
_TYPE_START = re.compile(
    r"(?:tensor|tuple|complex)\s*<|!|(?:[su]?i\d+|u?i\d+|bf16|f\d\w*|index|none)\b"
)
_OPENING = {"(": ")", "[": "]", "{": "}", "<": ">"}
_PIECE = re.compile(r'->|>=|[][(){}<>]|"(?:[^"\\]|\\.)*+"')


@dataclass(frozen=True)
class Tagged:
    """An attribute in an angle: `#stablehlo.gather<..>`, `dense<..> : type`, by its text inside."""

    name: str
    text: str
    start: int
    type: Shape | None = None

    def pairs(self) -> dict[str, Any]:
        """Return the `key = value` pairs inside. Raises TextError at their place."""
        parser = Parser("{" + self.text + "}")
        try:
            return parser.dictionary("{", "}")
        except TextError as e:
            raise TextError(f"#{self.name}: {e.message}", self.start, code=e.code) from None


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


class Parser:
    """A cursor over the text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.pos = 0
        self._depth = 0
        self.skip()

    # --- pieces ---------------------------------------------------------------------------------

    def skip(self) -> None:
        self.pos = _GAP.match(self.text, self.pos).end()  # type: ignore[union-attr]

    def fail(self, message: str, start: int | None = None, code: str = "syntax") -> NoReturn:
        raise TextError(message, self.pos if start is None else start, code=code)

    def found(self) -> str:
        return repr(self.text[self.pos : self.pos + 20]) if self.pos < len(self.text) else "the end"

    def accept(self, word: str) -> bool:
        if not self.text.startswith(word, self.pos):
            return False
        end = self.pos + len(word)
        if word[-1].isalnum() and end < len(self.text) and re.match(r"[\w.$]", self.text[end]):
            return False
        self.pos = end
        self.skip()
        return True

    def expect(self, word: str) -> None:
        if not self.accept(word):
            self.fail(f"expected {word!r}, found {self.found()}")

    def match(self, pattern: re.Pattern[str], what: str) -> re.Match[str]:
        m = pattern.match(self.text, self.pos)
        if m is None:
            self.fail(f"expected {what}, found {self.found()}")
        self.pos = m.end()
        self.skip()
        return m

    def _at(self, pattern: re.Pattern[str]) -> bool:
        return pattern.match(self.text, self.pos) is not None

    def _nested(self) -> None:
        self._depth += 1
        if self._depth > MAX_NESTING:
            self.fail(f"nested more than {MAX_NESTING} deep", code="nesting-too-deep")

    def _balanced(self, opening: str) -> str:
        """Take text in brackets; returns what is between them."""
        start = self.pos
        self.expect(opening)
        stack = [_OPENING[opening]]
        for m in _PIECE.finditer(self.text, start + 1):
            piece = m[0]
            if piece in _OPENING:
                stack.append(_OPENING[piece])
            elif piece == stack[-1]:
                stack.pop()
                if not stack:
                    self.pos = m.end()
                    self.skip()
                    return self.text[start + 1 : m.start()]
            elif piece in ")]}":
                break
        self.fail(f"{opening!r} is not closed", start)

    def type(self) -> Shape:
        return read_type(self)

    # --- attributes -----------------------------------------------------------------------------

    def attribute(self) -> Any:
        """Read the value of an attribute."""
        text, start = self.text, self.pos
        if self._at(_STRING):
            return unescape(self.match(_STRING, "a string")[1])
        if text.startswith("[", start):
            self._nested()
            values = self._list("[", "]")
            self._depth -= 1
            return values
        if text.startswith("{", start):
            return self.dictionary("{", "}")
        if text.startswith("@", start):
            return self.symbol()
        if text.startswith("#", start):
            self.pos += 1
            name = self.match(_WORD, "the name of an attribute")[0]
            return Tagged(name, self._balanced("<") if self._at(re.compile("<")) else "", start)
        if self._at(_NUMBER):
            word = self.match(_NUMBER, "a number")[0]
            typed = _NUMBER_TYPE.match(text, self.pos)
            if typed is not None:
                self.pos = typed.end()
                self.skip()
            if re.fullmatch(r"-?\d{1,20}", word):
                return int(word)
            return int(word, 16) if "x" in word else float(word)
        if text.startswith("(", start):
            # The type of a function.
            arguments = self._types()
            self.expect("->")
            single = not self.text.startswith("(", self.pos)
            return arguments, [self.type()] if single else self._types()
        if self._at(_TYPE_START):
            return self.type()
        word = self.match(_WORD, "the value of an attribute")[0]
        if word in ("true", "false"):
            return word == "true"
        if word == "array":
            inside = self._balanced("<").partition(":")[2]
            return [_element(x.strip(), self, start) for x in inside.split(",") if x.strip()]
        if word in ("dense", "dense_resource") and self._at(re.compile("<")):
            inside = self._balanced("<")
            self.expect(":")
            return Tagged(word, inside, start, self.type())
        return word

    def _list(self, opening: str, closing: str) -> list[Any]:
        self.expect(opening)
        values: list[Any] = []
        while not self.accept(closing):
            if values:
                self.expect(",")
            values.append(self.attribute())
        return values

    def dictionary(self, opening: str, closing: str) -> dict[str, Any]:
        """Read `{key = value, key}`."""
        self._nested()
        self.expect(opening)
        found: dict[str, Any] = {}
        while not self.accept(closing):
            if found:
                self.expect(",")
            at_string = self._at(_STRING)
            m = self.match(_STRING if at_string else _WORD, "an attribute")
            key = unescape(m[1]) if at_string else m[0]
            found[key] = True
            if self.accept("="):
                start = self.pos
                found[key] = self.attribute()
                if key.endswith("backend_config") and isinstance(found[key], dict):
                    # Kept as it is written: HLO text has the same form.
                    found[key] = self.text[start : self.pos].rstrip()
        self._depth -= 1
        return found

    def symbol(self) -> str:
        m = self.match(_SYMBOL, "a symbol")
        return m[1] if m[1] is not None else unescape(m[2])

    # --- operations -----------------------------------------------------------------------------

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
                self._balanced("<")
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
        name = self.match(_VALUE, "an argument")[1]
        self.expect(":")
        return name, self.type()

    def _location(self) -> None:
        if self.accept("loc"):
            self._balanced("(")

    def _body(self, block: Block) -> None:
        """Read operations up to the closing brace of their region."""
        self._nested()
        while not self.accept("}"):
            block.ops.append(self._operation())
        self._depth -= 1

    def _region(self) -> Block:
        self.expect("{")
        block = Block([])
        if self.accept("^"):
            self.match(_WORD, "the name of a block")
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
        quoted = self._at(_STRING)
        m = self.match(_STRING if quoted else _WORD, "an operation")
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
                self._nested()
                if self.text.startswith("{", self.pos):
                    while not self.accept(")"):
                        if op.regions:
                            self.accept(",")
                        op.regions.append(self._region())
                else:
                    self._items(op, ")")
                self._depth -= 1
            elif text.startswith("<{", pos):
                self.pos += 1
                op.attrs |= self.dictionary("{", "}")
                self.expect(">")
            elif text.startswith("{", pos):
                op.attrs |= self.dictionary("{", "}")
            elif text.startswith("[", pos):
                op.attrs["["] = self._balanced("[")
            elif op.name.endswith("constant") and not closing and "value" not in op.attrs:
                op.attrs["value"] = value = self.attribute()
                if isinstance(value, Tagged) and value.type is not None:
                    op.result_types = [value.type]
                return
            elif self._at(_WORD):
                self._word(op)
            elif not self.accept(","):
                if closing:
                    self.fail(f"expected {closing!r}, found {self.found()}")
                return

    def _operand(self, op: Op) -> None:
        start = self.pos
        m = self.match(_VALUE, "a value")
        if self.accept("="):
            # `%state = %start` of a loop.
            op.state.append(m[1])
            start = self.pos
            m = self.match(_VALUE, "a value")
        op.operands.append(m[1] + (f"#{m[2]}" if m[2] else ""))
        op.operand_starts.append(start)

    def _word(self, op: Op) -> None:
        """Read a word, with its value where it has one."""
        word = self.match(_WORD, "a word")[0]
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
        types = self._types()
        if self.accept("->"):
            op.operand_types, op.result_types = types, self._types()
        else:
            op.result_types = types

    def _types(self) -> list[Shape]:
        if self.accept("("):
            found: list[Shape] = []
            while not self.accept(")"):
                if found:
                    self.expect(",")
                found.append(self.type())
            return found
        found = [self.type()]
        while self.accept(","):
            found.append(self.type())
        return found

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


def _element(word: str, parser: Parser, start: int) -> Any:
    if word in ("true", "false"):
        return word == "true"
    if re.fullmatch(r"-?\d{1,20}", word):
        return int(word)
    parser.fail(f"{word!r} is no integer", start)


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
