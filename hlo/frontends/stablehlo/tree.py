"""A StableHLO program that is to be written: functions and operations, with the text of them.

The text is MLIR's: operations are in their generic form. Bytecode is written in `bytecode.write`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from hlo.frontends.stablehlo.attributes import Attribute, Location, Unit
from hlo.frontends.stablehlo.spelling import dictionary, symbol, type_of
from hlo.ir import Instruction
from hlo.values.types import Shape

Attributes = dict[str, Attribute]
# A value: its name and its shape.
Value = tuple[str, Shape]


@dataclass(slots=True)
class Block:
    """The block of a region: its arguments, operations, and the values that it returns."""

    arguments: list[Value]
    operations: list[Operation] = field(default_factory=list)
    returned: list[Value] = field(default_factory=list)


@dataclass(slots=True)
class Operation:
    """An operation.

    result: the name of its results, empty where there are none. attrs: those of its definition.
    notes: attributes that any operation may have. source: the instruction that errors name.
    """

    name: str
    operands: Sequence[Value]
    result: str
    results: Sequence[Shape]
    attrs: Mapping[str, Attribute]
    regions: list[Block] = field(default_factory=list)
    notes: Mapping[str, Attribute] = field(default_factory=dict)
    location: Location | None = None
    source: Instruction | None = None

    @property
    def result_names(self) -> list[str]:
        """The names of its results, as operands have them."""
        if len(self.results) == 1:
            return [self.result]
        return [f"{self.result}#{i}" for i in range(len(self.results))]


@dataclass(slots=True)
class Function:
    """A function.

    parameters: what its arguments are of, for errors. argument_notes, result_notes: attributes, a
    dictionary for each.
    """

    name: str
    is_public: bool
    body: Block
    parameters: list[Instruction]
    results: list[Shape]
    argument_notes: list[Attributes]
    result_notes: list[Attributes]


@dataclass(slots=True)
class Program:
    """A module."""

    name: str
    attrs: Attributes
    functions: list[Function]


def text_of(program: Program) -> str:
    """Return a program as MLIR text."""
    head = f" attributes {dictionary(program.attrs)}" if program.attrs else ""
    lines = [f"module {symbol(program.name)}{head} {{"]
    for function in program.functions:
        lines += _function_lines(function)
    return "\n".join([*lines, "}", ""])


def _function_lines(function: Function) -> Iterator[str]:
    arguments = ", ".join(
        f"{name}: {type_of(shape)}{_spaced(notes)}"
        for (name, shape), notes in zip(
            function.body.arguments, function.argument_notes, strict=True
        )
    )
    results = ", ".join(
        f"{type_of(shape)}{_spaced(notes)}"
        for shape, notes in zip(function.results, function.result_notes, strict=True)
    )
    word = "public" if function.is_public else "private"
    outs = f" -> ({results})" if results else ""
    yield f"  func.func {word} {symbol(function.name)}({arguments}){outs} {{"
    yield from _body_lines(function.body, "return", "    ")
    yield "  }"


def _body_lines(block: Block, terminator: str, indent: str) -> Iterator[str]:
    for op in block.operations:
        yield from _operation_lines(op, indent)
    types = ", ".join(type_of(s) for _, s in block.returned)
    names = ", ".join(n for n, _ in block.returned)
    yield f"{indent}{terminator} {names} : {types}" if types else f"{indent}{terminator}"


def _operation_lines(op: Operation, indent: str) -> Iterator[str]:
    several = f":{len(op.results)}" if len(op.results) > 1 else ""
    left = f"{op.result}{several} = " if op.results else ""
    line = f'{indent}{left}"{op.name}"({", ".join(n for n, _ in op.operands)})'
    if op.attrs:
        pairs = (k if isinstance(v, Unit) else f"{k} = {v}" for k, v in op.attrs.items())
        line += f" <{{{', '.join(pairs)}}}>"
    for i, region in enumerate(op.regions):
        yield f"{line}, {{" if i else f"{line} ({{"
        if region.arguments:
            pairs = (f"{name}: {type_of(shape)}" for name, shape in region.arguments)
            yield f"{indent}^bb0({', '.join(pairs)}):"
        yield from _body_lines(region, "stablehlo.return", indent + "  ")
        line = f"{indent}}}"
    types = ", ".join(type_of(s) for _, s in op.operands)
    outs = [type_of(s) for s in op.results]
    out = outs[0] if len(outs) == 1 else f"({', '.join(outs)})"
    where = f" loc({op.location})" if op.location is not None else ""
    yield f"{line}{')' * bool(op.regions)}{_spaced(op.notes)} : ({types}) -> {out}{where}"


def _spaced(notes: Mapping[str, Attribute]) -> str:
    return f" {dictionary(notes)}" if notes else ""
