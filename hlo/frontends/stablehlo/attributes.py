"""Attributes of MLIR operations as values; `str` is their text.

The writer of StableHLO makes them; they are printed as text, or encoded in bytecode.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hlo.frontends.stablehlo import spelling
from hlo.values.literal import Literal


class Attribute:
    """An attribute."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Unit(Attribute):
    """An attribute without a value: that it is there says all."""

    def __str__(self) -> str:
        return "unit"


@dataclass(frozen=True, slots=True)
class Boolean(Attribute):
    """A truth value."""

    value: bool

    def __str__(self) -> str:
        return spelling.flag(self.value)


@dataclass(frozen=True, slots=True)
class Integer(Attribute):
    """An integer. kind: MLIR's name of its type."""

    value: int
    kind: str = "i64"

    def __str__(self) -> str:
        return f"{self.value} : {self.kind}"


@dataclass(frozen=True, slots=True)
class Float(Attribute):
    """A number, which has the precision of its type. kind: MLIR's name of the type."""

    value: np.generic
    kind: str

    def __str__(self) -> str:
        return f"{spelling.number(self.value)} : {self.kind}"


@dataclass(frozen=True, slots=True)
class String(Attribute):
    """A string."""

    value: str

    def __str__(self) -> str:
        return spelling.string(self.value)


@dataclass(frozen=True, slots=True)
class Symbol(Attribute):
    """A reference to a function."""

    name: str

    def __str__(self) -> str:
        return spelling.symbol(self.name)


@dataclass(frozen=True, slots=True)
class TypeAttribute(Attribute):
    """A type that is an attribute: the name of an element type, or another type."""

    type: Hashable

    def __str__(self) -> str:
        return str(self.type)


@dataclass(frozen=True, slots=True)
class Array(Attribute):
    """A list of integers, or of truth values with the kind `i1`."""

    values: tuple[int, ...]
    kind: str = "i64"

    def __str__(self) -> str:
        is_flags = self.kind == "i1"
        words = (spelling.flag(bool(v)) if is_flags else str(v) for v in self.values)
        inside = ", ".join(words)
        return f"array<{self.kind}: {inside}>" if inside else f"array<{self.kind}>"


def integers(values: Iterable[int]) -> Array:
    """Return a list of integers."""
    return Array(tuple(values))


@dataclass(frozen=True, slots=True)
class Numbers(Attribute):
    """A tensor of integers with one or two dimensions, for what is not data.

    values: in row-major order. kind: MLIR's name of the element type.
    """

    values: tuple[int, ...]
    dims: tuple[int, ...]
    kind: str = "i64"

    def __str__(self) -> str:
        inside = spelling.nested(list(map(str, self.values)), self.dims)
        sizes = "".join(f"{n}x" for n in self.dims)
        return f"dense<{inside}> : tensor<{sizes}{self.kind}>"


def matrix(rows: Sequence[Sequence[int]], width: int) -> Numbers:
    """Return rows of integers as a tensor of two dimensions."""
    return Numbers(tuple(n for row in rows for n in row), (len(rows), width))


@dataclass(frozen=True, slots=True)
class Elements(Attribute):
    """A constant, which is an array and not elided."""

    literal: Literal

    def __str__(self) -> str:
        return spelling.dense(self.literal)


@dataclass(frozen=True, slots=True)
class List(Attribute):
    """A list of attributes."""

    items: tuple[Attribute, ...]

    def __str__(self) -> str:
        return spelling.listed(self.items)


def listed(items: Iterable[Attribute]) -> List:
    """Return a list of attributes."""
    return List(tuple(items))


@dataclass(frozen=True, slots=True)
class Dictionary(Attribute):
    """Attributes by name."""

    fields: Mapping[str, Attribute]

    def __str__(self) -> str:
        return spelling.dictionary(self.fields)


@dataclass(frozen=True, slots=True)
class Verbatim(Attribute):
    """A dictionary as MLIR text, which HLO text has in this form."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Enumeration(Attribute):
    """A word of an enumeration, whose name is `kind`."""

    kind: str
    word: str
    dialect: str = "stablehlo"

    def __str__(self) -> str:
        return f"#{self.dialect}<{self.kind} {self.word}>"


@dataclass(frozen=True, slots=True)
class Record(Attribute):
    """An attribute with fields, which are integers, lists of integers, or attributes.

    is_complete: its text has the fields that are empty lists too.
    """

    kind: str
    fields: Mapping[str, Any]
    dialect: str = "stablehlo"
    is_complete: bool = False

    def __str__(self) -> str:
        shown = {k: v for k, v in self.fields.items() if self.is_complete or v != ()}
        parts = (
            f"{key} = {spelling.listed(value) if isinstance(value, tuple) else value}"
            for key, value in shown.items()
        )
        return f"#{self.dialect}.{self.kind}<{', '.join(parts)}>"


def output_operand_alias(output: tuple[int, ...], operand: int, inside: tuple[int, ...]) -> Record:
    """Return which result of a custom call shares the memory of which operand."""
    return Record("output_operand_alias", {
        "output_tuple_indices": output, "operand_index": operand, "operand_tuple_indices": inside,
    }, is_complete=True)  # fmt: skip


def channel_handle(handle: int, kind: int) -> Record:
    """Return the number of a channel and its kind."""
    return Record("channel_handle", {"handle": handle, "type": kind})


@dataclass(frozen=True, slots=True)
class Convolution(Attribute):
    """The roles of the dimensions of input, kernel and output.

    Each dimension is a letter, b, f, i or o, or the number of a spatial dimension.
    """

    labels: tuple[Sequence[str], Sequence[str], Sequence[str]]

    def __str__(self) -> str:
        lhs, rhs, out = map(spelling.listed, self.labels)
        return f"#stablehlo.conv<{lhs}x{rhs}->{out}>"


@dataclass(frozen=True, slots=True)
class Accuracy(Attribute):
    """How exact a result is."""

    atol: float
    rtol: float
    ulps: int
    mode: str

    def __str__(self) -> str:
        atol, rtol = (spelling.number(np.float64(x)) for x in (self.atol, self.rtol))
        mode = f"#stablehlo.result_accuracy_mode<{self.mode}>"
        return (
            f"#stablehlo.result_accuracy<atol = {atol}, rtol = {rtol}, ulps = {self.ulps}, "
            f"mode = {mode}>"
        )


@dataclass(frozen=True, slots=True)
class Location:
    """Where an instruction comes from: a name, a file with line and column, or both."""

    name: str = ""
    file: str = ""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        where = f"{spelling.string(self.file)}:{self.line}:{self.column}" if self.file else ""
        name = spelling.string(self.name) if self.name else ""
        return f"{name}({where})" if name and where else name or where
