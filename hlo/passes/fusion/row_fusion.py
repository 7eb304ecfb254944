"""Loops over the same rows, reductions along these among them, as one loop over rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hlo.analysis.effects import Effects
from hlo.ir import Computation, Instruction, Module
from hlo.ops import Trait
from hlo.passes.fusion._siblings import Pair, loop_key, merge_all
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.values.types import ArrayShape, Shape

_MAX_MEMBERS = 16
_MAX_OPERANDS = 20
# What a row may take of each array: several are at work at once, and have to stay in the cache.
_MAX_ROW_BYTES = 1 << 16

# The leading dimensions of arrays whose indices number the rows, but for those of size 1.
_Rows = tuple[int, ...]


@module_pass
def row_fusion(module: Module, rewrites: Rewrites) -> None:
    """Fuse loops over the same rows, such as a row reduction and its users.

    A softmax or a normalization is such a chain: a row is reduced, changed by the result, and
    reduced again. One kernel does all of that to a row while it is in the cache, and then takes the
    next one. Rows are the leading dimensions of row-major arrays, the others are reduced.
    """
    merge_all(
        module, rewrites, "row_fusion", _pairs,
        max_outputs=_MAX_MEMBERS, max_operands=_MAX_OPERANDS,
    )  # fmt: skip


def _pairs(comp: Computation, effects: Effects) -> list[Pair]:
    """Return the loops over rows with those over the same rows that read their results.

    Of two over the same rows, one reads the other's result only in the row that it is at: so it is
    for any two of them, and they may become one in any order.
    """
    rows: dict[Instruction, _Rows] = {}
    order = comp.in_order()
    for inst in order:
        if loop_key(inst, effects) is None:
            continue
        for found in dict.fromkeys([_reduced(inst), *(rows.get(o) for o in inst.operands)]):
            if found is not None and _goes_by(inst, found, rows):
                rows[inst] = found
                break
    return [
        (operand, inst)
        for inst in order
        if inst in rows
        for operand in dict.fromkeys(inst.operands)
        if rows.get(operand) == rows[inst]
    ]


def _body(inst: Instruction) -> list[Instruction]:
    if inst.opcode == "fusion":
        body: Computation = inst.calls
        return [i for i in body.in_order() if i.opcode != "parameter"]
    return [inst]


def _reduced(inst: Instruction) -> _Rows | None:
    """Return the rows that a loop reduces as a whole, by the last such reduction in it."""
    for i in reversed(_body(inst)):
        if i.opcode == "reduce" and isinstance(i.shape, ArrayShape) and i.dimensions:
            rows = _wide(i.shape.dims)
            if _has_rows(i.operands[0].shape, rows) and _keeps_rows(i, rows):
                return rows
    return None


def _goes_by(inst: Instruction, rows: _Rows, others: dict[Instruction, _Rows]) -> bool:
    """True when a loop computes a row from the same row of what loops over rows made.

    What others made, parameters for example, is in memory as a whole, and may be read anywhere.
    """
    if math.prod(rows) < 2 or not _has_rows(inst.shape, rows):
        return False
    # What holds the values of loops over the same rows.
    inside = {o for o in inst.operands if others.get(o) == rows}
    if inst.opcode == "fusion":
        body: Computation = inst.calls
        inside = {p for p, o in zip(body.parameters, inst.operands, strict=True) if o in inside}
    for i in _body(inst):
        needed = [o for o in i.operands if o in inside]
        if needed:
            if not all(_has_rows(x.shape, rows) for x in (i, *needed)) or not _keeps_rows(i, rows):
                return False
            inside.add(i)
    return True


def _has_rows(shape: Shape, rows: _Rows) -> bool:
    """True for a row-major array of these rows, each of which fits the cache."""
    if not isinstance(shape, ArrayShape) or _wide(shape.dims)[: len(rows)] != rows:
        return False
    if shape.layout is not None and list(shape.layout.minor_to_major) != [*range(shape.rank)][::-1]:
        return False
    return shape.byte_size <= _MAX_ROW_BYTES * math.prod(rows)


def _wide(dims: Sequence[int]) -> _Rows:
    return tuple(d for d in dims if d != 1)


def _row_dims(inst: Instruction, rows: _Rows) -> list[int]:
    """Return which dimensions of an array number its rows."""
    return [n for n, size in enumerate(inst.array_shape.dims) if size != 1][: len(rows)]


def _keeps_rows(inst: Instruction, rows: _Rows) -> bool:
    """True when a row of the result depends on the same row of the operands, whose rows these are.

    Reductions are along rows.
    """
    match inst.opcode:
        case "broadcast":
            dims = inst.dimensions
            return [dims[n] for n in _row_dims(inst.operands[0], rows)] == _row_dims(inst, rows)
        case "transpose":
            dims = inst.dimensions
            return [dims[n] for n in _row_dims(inst, rows)] == _row_dims(inst.operands[0], rows)
        case "reduce":
            return not {*inst.dimensions} & {*_row_dims(inst.operands[0], rows)}
        case "reshape":
            return True
    return inst.spec.has(Trait.ELEMENTWISE)
