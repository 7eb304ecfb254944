"""Constants that describe what a program calls, as C structs: strings, numbers, shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hlo.codegen.llvm import ModuleBuilder
from hlo.ops.host.ffi_attributes import TYPE_NUMBERS
from hlo.values.types import ArrayShape, Shape


@dataclass(frozen=True)
class Record:
    """A constant of a literal struct type: of each field the type and the value, or a record."""

    fields: Sequence[tuple[str, str] | Record]

    @property
    def type(self) -> str:
        """The type; a field that is a record itself has that of its own."""
        types = (f.type if isinstance(f, Record) else f[0] for f in self.fields)
        return "{ " + ", ".join(types) + " }"

    @property
    def symbols(self) -> list[str]:
        """The constants and functions that it refers to."""
        found = []
        for f in self.fields:
            if isinstance(f, Record):
                found += f.symbols
            elif f[0] == "ptr" and f[1] != "null":
                found.append(f[1][1:])
        return found

    def __str__(self) -> str:
        items = (str(f) if isinstance(f, Record) else " ".join(f) for f in self.fields)
        return f"{self.type} {{ {', '.join(items)} }}"


class Records:
    """Adds constants to a module, under names with a prefix."""

    def __init__(self, module: ModuleBuilder, prefix: str) -> None:
        self.module = module
        self.prefix = prefix
        self._parts = 0

    def constant(self, value: str, parts: Sequence[Record] = ()) -> str:
        """Add a constant; returns its address. parts: of its value that refer to others."""
        self._parts += 1
        symbols = [symbol for part in parts for symbol in part.symbols]
        name = f"{self.prefix}.{self._parts}"
        return self.module.define(name, f"private constant {value}", symbols)

    def string(self, data: bytes) -> str:
        """Add a string that ends with a zero byte."""
        body = "".join(
            chr(c) if 32 <= c < 127 and c not in b'"\\' else f"\\{c:02X}" for c in (*data, 0)
        )
        return self.constant(f'[{len(data) + 1} x i8] c"{body}"')

    def numbers(self, type_: str, values: Sequence[str]) -> str:
        """Add an array of numbers, null for an empty one."""
        if not values:
            return "null"
        items = ", ".join(f"{type_} {v}" for v in values)
        return self.constant(f"[{len(values)} x {type_}] [{items}]")

    def array(self, items: Sequence[Record]) -> str:
        """Add an array of structs of one type, null for an empty one."""
        if not items:
            return "null"
        return self.constant(
            f"[{len(items)} x {items[0].type}] [{', '.join(map(str, items))}]", items
        )

    def shape(self, shape: ArrayShape) -> Record:
        """Return an `hlo_ffi_shape`."""
        order = shape.layout.minor_to_major if shape.layout is not None else ()
        return Record(
            [
                ("i32", str(TYPE_NUMBERS[shape.element_type.name])),
                ("i32", str(shape.rank)),
                ("ptr", self.numbers("i64", [str(n) for n in shape.dims])),
                ("ptr", self.numbers("i64", [str(d) for d in order])),
            ]
        )


def shape_leaves(shapes: Sequence[Shape]) -> list[ArrayShape]:
    """Return the arrays of shapes, those of tuples one by one."""
    return [s for shape in shapes for _, s in shape.leaves() if isinstance(s, ArrayShape)]
