"""Reads PTX text: lines into statements, statements into instructions and basic blocks.

The texts of whole models are megabytes of short lines that a compiler wrote. They are split by hand
and operands are read once for each text they have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NoReturn

from hlo.errors import HloError, Source, Span
from hlo.gpu.ptx.operands import OperandReader, PtxSyntaxError, Registers, variable
from hlo.gpu.ptx.records import (
    CARRY,
    BasicBlock,
    Function,
    Instruction,
    Location,
    Module,
    Operand,
    Symbol,
    Variable,
    Vector,
)

_LABEL = re.compile(r"([\w$]+)\s*:(?!:)\s*")
_BLOCK_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_FILE = re.compile(r'\s*\.file\s+(\d+)\s+"([^"]*)"')
# What LLVM writes for bytes that are not of ASCII, and for some that are.
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)")
_ESCAPED = {b"n": b"\n", b"t": b"\t"}
_LOCATION = re.compile(r"\.loc\s+(\d+)\s+(\d+)")
_HEADER = re.compile(
    r"\.(entry|func)\s*(?:\(([^)]*)\))?\s*([\w$]+)\s*(?:\(([^)]*)\))?(.*)", re.DOTALL
)
_MOST_THREADS = re.compile(r"\.(?:maxntid|reqntid)\s+(\d+(?:\s*,\s*\d+)*)")
# What ends a basic block, where no next block is reached unless the instruction has a guard.
_LEAVING = frozenset(("bra", "brx", "ret", "exit", "trap"))
# Directives that say nothing about what the code does, and have a line of their own.
_IGNORED_LINES = (".address_size", ".file")


def parse_ptx(text: str, name: str = "<ptx>") -> Module:
    """Return the records of a PTX text. Raises HloError, code `ptx-syntax`, with the line."""
    return _Parser(text, name).module()


class _Parser:
    def __init__(self, text: str, name: str) -> None:
        if "/*" in text:
            text = _BLOCK_COMMENT.sub(lambda m: "\n" * m[0].count("\n"), text)
        self._source = Source(name, text)
        self._lines = enumerate(text.split("\n"), 1)
        self._line = 0
        # What follows the opening brace of a body on its line.
        self._rest = ""
        self._files: dict[str, str] = {}
        self._module = Module("", "", {}, {}, {})
        # Of each function with a body, what names it uses; and declarations without one.
        self._symbols: dict[str, set[str]] = {}
        self._declared: set[str] = set()

    # --- the module -----------------------------------------------------------------------------

    def module(self) -> Module:
        text = self._source.text
        if ".file" in text:
            self._files = {m[1]: _unescaped(m[2]) for m in map(_FILE.match, text.split("\n")) if m}
        try:
            for statement in self._statements():
                self._outer(statement)
            self._finish()
        except PtxSyntaxError as e:
            self._fail(str(e))
        return self._module

    def _statements(self) -> Iterator[str]:
        """Yield what lies outside of functions: directives, declarations, headers of functions."""
        pending = ""
        for number, line in self._lines:
            self._line, line = number, _without_comment(line)
            if not line:
                continue
            if not pending and line.startswith((".version", ".target", *_IGNORED_LINES)):
                yield line
                continue
            pending = f"{pending} {line}" if pending else line
            if pending.startswith(".section"):
                if "}" in line:
                    pending = ""
            elif line.endswith(";") and ("{" not in pending or "=" in pending):
                yield pending[:-1]
                pending = ""
            elif "{" in line and "=" not in pending:
                # What follows the brace is in the body, which is read before the next statement.
                pending, _, self._rest = pending.partition("{")
                yield pending + "{"
                pending = ""
        if pending:
            raise PtxSyntaxError(f"the text ends in {pending[:40]!r}")

    def _outer(self, statement: str) -> None:
        word, _, rest = statement.replace("\t", " ").partition(" ")
        if word == ".version":
            self._module.version = rest.strip()
        elif word == ".target":
            self._module.target = rest.split(",")[0].strip()
        elif word.startswith(_IGNORED_LINES):
            return
        elif statement.endswith("{"):
            self._function(statement[:-1])
        elif ".func" in statement or ".entry" in statement:
            self._declared.add(self._header(statement).name)
        elif statement.startswith("."):
            found = variable(statement)
            known = self._module.variables.get(found.name)
            if known is None or not known.size or found.content:
                self._module.variables[found.name] = found
        else:
            raise PtxSyntaxError(f"unknown statement {statement[:40]!r}")

    def _header(self, text: str) -> Function:
        found = _HEADER.search(text)
        if found is None:
            raise PtxSyntaxError(f"the header of a function is expected, not {text[:40]!r}")
        kind, results, name, parameters, rest = found.groups()
        threads = _MOST_THREADS.search(rest or "")
        count = 1
        for number in threads[1].split(",") if threads else ("0",):
            count *= int(number)
        return Function(
            name, kind == "entry", _parameters(parameters), _parameters(results), threads=count,
            line=self._line,
        )  # fmt: skip

    def _function(self, header: str) -> None:
        function = self._header(header)
        reader = _Body(function, self._files)
        line = self._rest
        while reader.line(line, self._line):
            numbered = next(self._lines, None)
            if numbered is None:
                raise PtxSyntaxError(f"the body of {function.name} has no end")
            self._line, line = numbered
        self._symbols[function.name] = reader.finish()
        kind = self._module.kernels if function.is_kernel else self._module.functions
        kind[function.name] = function

    def _finish(self) -> None:
        """Tell the functions which variables of shared memory they use, with what they call."""
        functions = {**self._module.functions, **self._module.kernels}
        spaces = dict(self._module.variables)
        for function in functions.values():
            spaces.update(function.variables)
        for function in functions.values():
            seen, todo = {function.name}, [function.name]
            while todo:
                for symbol in self._symbols[todo.pop()] - seen:
                    seen.add(symbol)
                    if symbol in self._symbols:
                        todo.append(symbol)
                    elif symbol in self._declared:
                        self._line = function.line
                        raise PtxSyntaxError(f"{symbol}, which is called, has no body")
            found = [v for n, v in spaces.items() if n in seen and v.space == "shared"]
            function.shared = tuple(found)

    def _fail(self, message: str) -> NoReturn:
        start = self._source.line_start(max(1, self._line))
        text = self._source.line(max(1, self._line))
        lead = len(text) - len(text.lstrip())
        raise HloError.at(
            "ptx-syntax", message, Span(self._source, start + lead, start + len(text.rstrip()))
        )


class _Body:
    """Reads the body of a function, line by line."""

    def __init__(self, function: Function, files: dict[str, str]) -> None:
        self._function, self._files = function, files
        self._registers = Registers()
        self._operands = OperandReader(self._registers)
        self._depth = 1
        self._pending = ""
        self._location: Location | None = None
        self._block = BasicBlock("", [])
        self._blocks = [self._block]
        # Lists of labels that `brx` chooses from.
        self._tables: dict[str, str] = {}
        self._label = ""
        self._opcodes: dict[str, tuple[str, tuple[str, ...]]] = {}

    def line(self, text: str, number: int) -> int:
        """Read a line. Returns how many braces are open."""
        text = _without_comment(text)
        if self._pending and text:
            text, self._pending = f"{self._pending} {text}", ""
        while text:
            first = text[0]
            if first == "{":
                self._depth += 1
                self._registers.open()
                text = text[1:].lstrip()
                continue
            if first == "}":
                self._depth -= 1
                text = text[1:].lstrip()
                if not self._depth:
                    return 0
                if self._registers.close():
                    self._operands.known.clear()
                continue
            if ":" in text:
                label = _LABEL.match(text)
                if label is not None:
                    self._open_block(label[1])
                    text = text[label.end() :]
                    continue
            if text.startswith((".loc ", ".loc\t")):
                self._locate(text)
                return self._depth
            end = text.find(";")
            if end < 0:
                self._pending = text
                return self._depth
            if first == ".":
                self._directive(text[:end])
            else:
                self._instruction(text[:end], number)
            text = text[end + 1 :].lstrip()
        return self._depth

    def _open_block(self, label: str) -> None:
        self._label = label
        if not self._block.instructions and not self._block.label:
            self._block.label = label
        else:
            self._block = BasicBlock(label, [])
            self._blocks.append(self._block)

    def _locate(self, text: str) -> None:
        found = _LOCATION.match(text)
        if found is None:
            raise PtxSyntaxError(f"a place in a file is expected, not {text!r}")
        self._location = Location(self._files.get(found[1], found[1]), int(found[2]))

    def _directive(self, text: str) -> None:
        word, _, rest = text.replace("\t", " ").partition(" ")
        rest = rest.strip()
        if word == ".reg":
            type_, _, names = rest.partition(" ")
            self._registers.declare(type_.removeprefix("."), names)
            if self._depth > 1:
                self._operands.known.clear()
        elif word in (".local", ".shared", ".param"):
            found = variable(text)
            known = self._function.variables.get(found.name)
            if known is None or known.size < found.size:
                self._function.variables[found.name] = found
        elif word == ".branchtargets":
            self._tables[self._label] = rest
            # The label names the list, not a place in the code.
            if self._block.label == self._label and not self._block.instructions:
                self._block.label = ""
        elif word not in (".pragma", ".callprototype"):
            raise PtxSyntaxError(f"unknown directive {word!r}")

    def _instruction(self, text: str, number: int) -> None:
        guard, negated = None, False
        words = text.split(None, 1)
        if not words:
            raise PtxSyntaxError("an instruction is expected")
        head = words[0]
        if head[0] == "@":
            name = head[1:]
            negated = name.startswith("!")
            guard = self._registers.find(name[1:] if negated else name)
            if guard is None or len(words) < 2:
                raise PtxSyntaxError(f"unknown register in {head!r}")
            words = words[1].split(None, 1)
            head = words[0]
        names = self._opcodes.get(head)
        if names is None:
            opcode, *modifiers = head.split(".")
            names = self._opcodes[head] = opcode, tuple(modifiers)
            if opcode in ("addc", "subc", "madc") or "cc" in modifiers:
                self._registers.used[CARRY.name] = "pred"
        operands = self._operands.read_list(words[1]) if len(words) > 1 else ()
        self._block.instructions.append(
            Instruction(*names, operands, guard, negated, number, self._location)
        )
        if names[0] in _LEAVING:
            self._block = BasicBlock("", [])
            self._blocks.append(self._block)

    # --- the end --------------------------------------------------------------------------------

    def finish(self) -> set[str]:
        """Connect the blocks. Returns the names that are used."""
        function = self._function
        if len(self._blocks) > 1 and not self._block.instructions and not self._block.label:
            self._blocks.pop()
        function.blocks, function.registers = self._blocks, self._registers.used
        for block in self._blocks:
            last = block.instructions[-1] if block.instructions else None
            if last is not None and last.opcode == "brx":
                last.operands = (*last.operands[:-1], self._table(last.operands[-1]))
        connect(function)
        return self._operands.symbols

    def _table(self, operand: Operand) -> Vector:
        if not isinstance(operand, Symbol) or operand.name not in self._tables:
            raise PtxSyntaxError(f"brx without a list of labels in {self._function.name}")
        return Vector(self._operands.read_list(self._tables[operand.name]))


def connect(function: Function) -> None:
    """Find the labels of a function, and the successors of its blocks. Raises PtxSyntaxError."""
    function.labels = {b.label: n for n, b in enumerate(function.blocks) if b.label}
    for number, block in enumerate(function.blocks):
        block.successors = _successors(function, number, block)


def _successors(function: Function, number: int, block: BasicBlock) -> tuple[int, ...]:
    after = (number + 1,) if number + 1 < len(function.blocks) else ()
    last = block.instructions[-1] if block.instructions else None
    if last is None or last.opcode not in _LEAVING:
        return after
    targets = last.operands if last.opcode == "bra" else ()
    if last.opcode == "brx" and isinstance(last.operands[-1], Vector):
        targets = last.operands[-1].elements
    found = tuple(_target(function, target) for target in targets)
    return (*found, *after) if last.guard is not None else found


def _target(function: Function, operand: Operand) -> int:
    found = function.labels.get(operand.name) if isinstance(operand, Symbol) else None
    if found is None:
        raise PtxSyntaxError(f"a branch to an unknown label in {function.name}")
    return found


def _without_comment(line: str) -> str:
    if "//" in line and not line.lstrip().startswith(".file"):
        line = line[: line.index("//")]
    return line.strip()


def _unescaped(text: str) -> str:
    """Return the name of a file that stands in a text."""

    def byte(found: re.Match[bytes]) -> bytes:
        said = found[1]
        return bytes([int(said, 8) & 255]) if len(said) == 3 else _ESCAPED.get(said, said)

    return _ESCAPE.sub(byte, text.encode()).decode(errors="replace")


def _parameters(text: str | None) -> tuple[Variable, ...]:
    """Return the parameters of a list, `.param .u64 .ptr .align 16 a, .param .b32 b`."""
    parts = (part.strip() for part in (text or "").split(","))
    return tuple(variable(part) for part in parts if part)
