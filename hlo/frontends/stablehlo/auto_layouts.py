"""Layouts that a program leaves open (`mhlo.layout_mode = "auto"`): those that take no copy."""

from __future__ import annotations

from collections.abc import Sequence

from hlo.ir import Instruction
from hlo.values.types import ArrayShape, Layout, Shape

_ANNOTATIONS = ("Sharding", "xla.sdy.FuncResultSharding")


def open_layout(value: Instruction, parameters: Sequence[Shape]) -> Layout | None:
    """Return the layout of a value whose transposes take no copy, None of what is no array.

    parameters: the shapes of the entry's parameters, in the layouts that callers see.
    """
    order = _order(value, parameters)
    return None if order is None else Layout(order[::-1])


def _order(value: Instruction, parameters: Sequence[Shape]) -> tuple[int, ...] | None:
    """Return the dimensions of a value from major to minor."""
    dims: list[int] | None = None
    while (inner := _inside(value)) is not None:
        if value.opcode == "transpose":
            given = list(value.attrs["dimensions"])
            dims = given if dims is None else [given[d] for d in dims]
        value = inner
    shape = value.shape
    if value.opcode == "parameter":
        shape = parameters[value.parameter_number]
    if not isinstance(shape, ArrayShape):
        return None
    own = tuple(range(shape.rank))
    if value.opcode == "parameter" and shape.layout is not None:
        own = shape.layout.minor_to_major[::-1]
    # Result dimension n is dimension dims[n] of the value.
    return own if dims is None else tuple(dims.index(d) for d in own)


def _inside(value: Instruction) -> Instruction | None:
    """Return what a value is another view of, None if it is computed.

    The module is not verified yet: what is no view by its shapes is computed.
    """
    match value.opcode:
        case "transpose" | "copy":
            return _viewed(value)
        case "custom-call" if value.custom_call_target in _ANNOTATIONS:
            return _viewed(value)
        case "get-tuple-element" if value.operands[0].opcode == "tuple":
            found: Instruction = value.operands[0].operands[value.attrs["index"]]
            return found
    return None


def _viewed(value: Instruction) -> Instruction | None:
    """Return the operand that a value is a view of, None if it cannot be one by its shape."""
    if len(value.operands) != 1:
        return None
    (operand,) = value.operands
    shape, inner = value.shape, operand.shape
    if not isinstance(shape, ArrayShape) or not isinstance(inner, ArrayShape):
        return operand if shape == inner else None
    numbers = list(range(shape.rank))
    order = value.attrs["dimensions"] if value.opcode == "transpose" else numbers
    return operand if inner.rank == shape.rank and sorted(order) == numbers else None
