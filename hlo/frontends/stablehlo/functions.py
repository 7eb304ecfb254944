"""Parsing of a whole text: a module with its functions, and their calls.

Source: MLIR's language reference, and its dialects builtin and func.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from hlo.errors import TextError
from hlo.frontends.stablehlo.composites import stands_for
from hlo.frontends.stablehlo.cursor import Tagged
from hlo.frontends.stablehlo.short_forms import ShortFormReader
from hlo.frontends.stablehlo.syntax import Block, Op
from hlo.values.types import Shape

_DEFINITION = re.compile(r"[#!][A-Za-z_][\w$.]*+\s*=\s*")


@dataclass
class Declared:
    """An argument or a result of a function: its type, attributes, position, and `loc(..)`.

    named: whether it has a name; only arguments of functions with a body have.
    """

    shape: Shape
    attrs: dict[str, Any]
    start: int
    end: int
    location: str = ""
    named: bool = False


@dataclass
class Function:
    """A function. block: None for a declaration."""

    name: str
    start: int
    block: Block | None
    arguments: list[Declared]
    results: list[Declared]


@dataclass
class Program:
    """The content of a text: a module's name and attributes, its functions and its meshes."""

    name: str
    attrs: dict[str, Any]
    functions: list[Function] = field(default_factory=list)
    meshes: dict[str, Tagged] = field(default_factory=dict)


class Parser(ShortFormReader):
    """Parses a whole text."""

    __slots__ = ("_defined",)

    def __init__(self, text: str, refuse: Callable[[str, int], NoReturn]) -> None:
        super().__init__(text, refuse)
        # The aliases that were defined so far.
        self._defined: set[str] = set()

    def program(self) -> Program:
        """Parse the text to its end. Raises TextError."""
        self._definitions()
        program = self._generic_module() if self.peek('"') else self._module()
        self._definitions()
        if not self.at_end():
            self.fail(f"expected the end, found {self.found()}")
        return program

    def _module(self) -> Program:
        program = Program("", {})
        wrapped = self.accept("module") or self.accept("builtin.module")
        if wrapped:
            if self.peek("@"):
                program.name = self.symbol()
            if self.accept("attributes"):
                program.attrs = self._of_dialects()
            self.expect("{")
        self._members(program, wrapped)
        self.location()
        return program

    def _members(self, program: Program, wrapped: bool) -> None:
        """Read functions and meshes to the end of their module, which braces may mark."""
        while not (self.accept("}") if wrapped else self.at_end()):
            if self.peek('"'):
                self._add(self.operation(), program)
            elif self.accept("sdy.mesh"):
                name = self.symbol()
                self.expect("=")
                program.meshes[name] = self._mesh()
                self._attributes()
                self.location()
            else:
                program.functions.append(self._function())
            if not wrapped:
                self._definitions()

    def _mesh(self) -> Tagged:
        """Read `<["x"=2]>`, with or without `#sdy.mesh`, or an alias of it."""
        start = self.pos
        if self.peek("<"):
            return Tagged("sdy.mesh", self.balanced("<"), start)
        mesh = self.attribute()
        if not isinstance(mesh, Tagged) or mesh.name != "sdy.mesh":
            self.fail("a mesh is <[..]>", start)
        return mesh

    def _generic_module(self) -> Program:
        """Parse the generic form, in which modules and functions are operations like all others."""
        first = self.operation()
        if first.name != "builtin.module":
            program = Program("", {})
            self._add(first, program)
            self._definitions()
            self._members(program, wrapped=False)
            return program
        program = Program(str(first.attrs.get("sym_name", "")), first.attrs)
        for op in first.regions[0].ops if first.regions else ():
            self._add(op, program)
        return program

    def _add(self, op: Op, program: Program) -> None:
        """Add a mesh or a function in generic form to what was read."""
        if op.name == "sdy.mesh":
            mesh = op.attrs.get("mesh")
            if not isinstance(mesh, Tagged):
                self.fail("sdy.mesh without its axes", op.start)
            program.meshes[str(op.attrs.get("sym_name", ""))] = mesh
        elif op.name == "func.func" and op.regions:
            program.functions.append(self._generic_function(op))
        else:
            self.fail(f"expected a function, found {op.name}", op.start)

    def _generic_function(self, op: Op) -> Function:
        block = op.regions[0]
        if "sym_name" not in op.attrs:
            self.fail("a function has a sym_name", op.start, code="missing-attribute")
        types = op.attrs.get("function_type")
        if not isinstance(types, tuple):
            self.fail("a function has a function_type", op.start, code="missing-attribute")
        shapes, results = types

        def declared(key: str, shapes: list[Shape]) -> list[Declared]:
            listed = op.attrs.get(key)
            notes = listed if isinstance(listed, list) else []
            notes = [n if isinstance(n, dict) else {} for n in notes[: len(shapes)]]
            notes += [{} for _ in range(len(shapes) - len(notes))]
            return [Declared(s, n, op.start, op.end) for s, n in zip(shapes, notes, strict=True)]

        if block.ops and [s for _, s in block.arguments] != shapes:
            self.fail("the function has other arguments than its block", op.start,
                      code="signature-mismatch")  # fmt: skip
        arguments = declared("arg_attrs", shapes)
        for argument, location in zip(arguments, block.locations, strict=False):
            argument.location = location
        return Function(
            str(op.attrs.get("sym_name", "")), op.start, block if block.ops else None,
            arguments, declared("res_attrs", results),
        )  # fmt: skip

    def _definitions(self) -> None:
        """Skip definitions of aliases, which are parsed at their uses, and resources."""
        while m := _DEFINITION.match(self.text, self.pos):
            name = m[0].partition("=")[0].strip()
            if name in self._defined:
                self.fail(f"alias {name} is defined twice", code="duplicate-name")
            self._defined.add(name)
            self.pos = m.end()
            if not self.location():
                if m[0][0] == "#":
                    self.attribute()
                elif self.peek("!quant."):
                    self.quantization()
                else:
                    self.type()
        if self.peek("{-#"):
            end = self.text.find("#-}", self.pos)
            self.pos = end + 3 if end >= 0 else len(self.text)
            self.skip()

    def _function(self) -> Function:
        start = self.pos
        if not (self.accept("func.func") or self.accept("func")):
            self.fail(f"expected a function, found {self.found()}")
        for word in ("public", "private", "nested"):
            if self.accept(word):
                break
        is_private = self.text[start : self.pos].rstrip().endswith("private")
        block = Block([])
        self._scopes = [set()]
        found = Function(self.symbol(), start, block, [], [])
        for _ in self.items("(", ")"):
            at = self.pos
            # A declaration has types only.
            named = self.argument() if self.peek("%") else (str(len(block.arguments)), self.type())
            block.arguments.append(named)
            attrs, end = self._attributes(), self.pos
            location = self.location()
            is_named = self.text[at] == "%"
            found.arguments.append(Declared(named[1], attrs, at, end, location, is_named))
        if self.accept("->"):
            self._results(found)
        if self.accept("attributes"):
            self.dictionary()
        names = {a.named for a in found.arguments}
        if len(names) > 1:
            self.fail("all arguments have names, or none has", start)
        is_declared = True not in names
        if is_declared and not self.peek("{"):
            found.block = None
            if not is_private:
                self.fail(f"function @{found.name} has no body, which only a private one lacks",
                          start, code="no-entry")  # fmt: skip
            return found
        self.expect("{")
        self.body(block)
        self.location()
        return found

    def _results(self, function: Function) -> None:
        several = self.accept("(")
        while not (several and self.accept(")")):
            if function.results:
                self.expect(",")
            at = self.pos
            shape = self.type()
            attrs = self._attributes() if several else {}
            function.results.append(Declared(shape, attrs, at, self.pos))
            if not several:
                return

    def _attributes(self) -> dict[str, Any]:
        return self._of_dialects() if self.peek("{") else {}

    def _of_dialects(self) -> dict[str, Any]:
        """Read attributes, all of which are a dialect's: modules and arguments have no own ones."""
        start, found = self.pos, self.dictionary()
        own = [name for name in found if "." not in name]
        if own:
            self.fail(f"{own[0]} is not an attribute of a dialect, dialect.name", start,
                      code="unknown-attribute")  # fmt: skip
        return found


# --- calls --------------------------------------------------------------------------------------


def callees_first(main: Function, functions: Mapping[str, Function]) -> list[Function]:
    """Return the functions reachable from one, callees first.

    Raises TextError for recursive calls.
    """
    done: list[Function] = []
    open_: dict[str, Iterator[tuple[str, int]]] = {main.name: _calls(main.block)}
    stack = [main]
    finished: set[str] = set()
    while stack:
        function = stack[-1]
        for name, start in open_[function.name]:
            callee = functions.get(name)
            if name in finished or callee is None or callee.block is None:
                continue
            if name in open_:
                raise TextError(f"function @{name} calls itself", start, code="recursive-call")
            open_[name] = _calls(callee.block)
            stack.append(callee)
            break
        else:
            stack.pop()
            del open_[function.name]
            finished.add(function.name)
            done.append(function)
    return done


def _calls(block: Block | None) -> Iterator[tuple[str, int]]:
    """Yield the functions that operations refer to, with positions."""
    for op in block.ops if block is not None else ():
        names = [op.attrs.get("callee")]
        if stands_for(op) is None:
            names.append(op.attrs.get("decomposition"))
        called = op.attrs.get("called_computations")
        for name in [*names, *(called if isinstance(called, list) else ())]:
            if isinstance(name, str):
                yield name, op.start
        for region in op.regions:
            yield from _calls(region)
