"""What a program for a GPU asks of its host between launches, and its description in C."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hlo.objects.header import c_string
from hlo.values.types import ArrayShape

# C compilers have to take literals of so many characters.
_LONGEST_STRING = 4000


@dataclass(frozen=True)
class SizeCheck:
    """Ends the program unless a size is in its bounds. message: what is wrong then."""

    message: str


@dataclass(frozen=True)
class DeviceId:
    """Asks which replica, or which partition, the program runs as."""

    is_partition: bool


@dataclass(frozen=True)
class Attribute:
    """An `hlo_ffi_attribute`. value: a number's 64 bits, a string, an array, or a dictionary."""

    name: bytes
    kind: int
    type_number: int
    count: int
    value: int | bytes | tuple[int, ...] | tuple[Attribute, ...]


@dataclass(frozen=True)
class Operation:
    """An `hlo_ffi_op`: what a function is told of the operation that calls it.

    operands, results: the array leaves, each with the number of its element type.
    """

    target: bytes
    config: bytes
    api_version: int
    result_is_tuple: bool
    operands: tuple[tuple[int, ArrayShape], ...]
    results: tuple[tuple[int, ArrayShape], ...]
    attributes: tuple[Attribute, ...] = ()


@dataclass(frozen=True)
class FunctionCall:
    """Calls a function of the host by its number in the table.

    in_place: results, by number, that begin with an operand's content, in the same memory.
    """

    function: int
    operation: Operation
    in_place: Mapping[int, int]


HostStep = SizeCheck | DeviceId | FunctionCall


class OperationText:
    """Writes descriptions of operations as constants in C, each once."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._names: dict[Operation, str] = {}

    def address(self, operation: Operation) -> str:
        """Return the address of a description."""
        if operation not in self._names:
            name = self._names[operation] = f"hlo_gpu_operation_{len(self._names)}"
            self._write(name, operation)
        return f"&{self._names[operation]}"

    def _write(self, name: str, op: Operation) -> None:
        attributes = self._attributes(f"{name}_attributes", op.attributes)
        target = self._string(f"{name}_target", op.target)
        config = self._string(f"{name}_config", op.config)
        fields = [
            target, config, len(op.config), op.api_version,
            int(op.result_is_tuple), len(op.operands), self._shapes(f"{name}_in", op.operands),
            len(op.results), self._shapes(f"{name}_out", op.results), len(op.attributes),
            attributes,
        ]  # fmt: skip
        shown = ", ".join(map(str, fields))
        self.lines.append(f"static const struct hlo_ffi_op {name} = {{{shown}}};")

    def _shapes(self, name: str, shapes: Sequence[tuple[int, ArrayShape]]) -> str:
        rows = []
        for n, (type_number, shape) in enumerate(shapes):
            order = shape.layout.minor_to_major if shape.layout is not None else ()
            dims = self._numbers(f"{name}_{n}_dims", shape.dims)
            minor_to_major = self._numbers(f"{name}_{n}_order", order)
            rows.append(f"{{{type_number}, {shape.rank}, {dims}, {minor_to_major}}}")
        return self._array(f"hlo_ffi_shape {name}", name, rows)

    def _attributes(self, name: str, attributes: Sequence[Attribute]) -> str:
        rows = []
        for n, a in enumerate(attributes):
            value = self._value(f"{name}_{n}", a.value)
            said = self._string(f"{name}_{n}_name", a.name)
            rows.append(f"{{{said}, {a.kind}, {a.type_number}, {a.count}, {{{value}}}}}")
        return self._array(f"hlo_ffi_attribute {name}", name, rows)

    def _value(
        self, name: str, value: int | bytes | tuple[int, ...] | tuple[Attribute, ...]
    ) -> str:
        """Return the initializer of the member of the union that holds a value."""
        if isinstance(value, int):
            return f".integer = {_integer(value)}"
        if isinstance(value, bytes):
            return f".string = {self._string(name, value)}"
        attributes = [x for x in value if isinstance(x, Attribute)]
        if attributes:
            return f".attributes = {self._attributes(name, attributes)}"
        # Numbers that are floats are here as their bits.
        return f".integers = {self._numbers(name, [x for x in value if isinstance(x, int)])}"

    def _numbers(self, name: str, values: Sequence[int]) -> str:
        return self._array(f"int64_t {name}", name, list(map(_integer, values)))

    def _string(self, name: str, data: bytes) -> str:
        """Return a string literal, or the name of an array where that would be too long for C."""
        if len(data) <= _LONGEST_STRING:
            return c_string(data)
        return self._array(f"char {name}", name, [f"'\\{c:03o}'" for c in (*data, 0)])

    def _array(self, declaration: str, name: str, items: Sequence[str]) -> str:
        """Write an array; C has none without elements."""
        if not items:
            return "NULL"
        self.lines.append(f"static const {declaration}[] = {{{', '.join(items)}}};")
        return name


def _integer(value: int) -> str:
    """Return a signed integer of 64 bits; C has no literal for the least one."""
    return "INT64_MIN" if value == -(1 << 63) else f"INT64_C({value})"
