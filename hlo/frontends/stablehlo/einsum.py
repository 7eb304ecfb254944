"""Products by a formula, `ab,bc->ac`. StableHLO's specification does not have them: the meaning is
that of XLA's conversion."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from hlo.errors import InferError
from hlo.frontends.stablehlo.context import Context
from hlo.frontends.stablehlo.windows import precision
from hlo.ir import Instruction
from hlo.ir.builder import build_computation
from hlo.values.types import PRED, S32, ArrayShape, array

_SIDE = re.compile(r"([A-Za-z]*)(\.\.\.)?([A-Za-z]*)")


def einsum(c: Context) -> Instruction:
    """Append a dot of two operands, whose result has its dimensions in the order of the formula.

    Labels of both operands that the result lacks are summed; a label that is twice on one side is
    a diagonal. A label with different sizes on the two sides is not shared: where the result has
    it, it is that of the side that is not of size 1.
    """
    labels, out = _labels(c, 2)
    x, lhs = _diagonal(c, c.operand(0), labels[0])
    y, rhs = _diagonal(c, c.operand(1), labels[1])
    sizes = [dict(zip(side, v.array_shape.dims, strict=True)) for side, v in ((lhs, x), (rhs, y))]
    shared = [n for n in lhs if n in rhs and sizes[0][n] == sizes[1][n]]
    apart = [n for n in lhs if n in rhs and n not in shared]
    # Those of the result come from one side only.
    gone = [n for n in apart if sizes[0][n] == 1]
    x, lhs = _summed(c, x, lhs, [n for n in lhs if n in shared or (n in out and n not in gone)])
    kept = [n for n in rhs if n in shared or (n in out and (n not in apart or n in gone))]
    y, rhs = _summed(c, y, rhs, kept)
    batch = [n for n in shared if n in out]
    dims: dict[str, Any] = {
        f"{name}_{kind}_dims": tuple(map(side.index, names))
        for name, side in (("lhs", lhs), ("rhs", rhs))
        for kind, names in (("batch", batch), ("contracting", [n for n in shared if n not in out]))
    }
    have = [*batch, *(n for n in (*lhs, *rhs) if n not in shared)]
    known = dict(zip([*lhs, *rhs], x.array_shape.dims + y.array_shape.dims, strict=True))
    declared = c.shape
    et = (declared if isinstance(declared, ArrayShape) else x.array_shape).element_type
    shape = array(et, tuple(known[n] for n in have))
    y = c.b.op("dot", x, y, shape=shape, operand_precision=precision(c), **dims)
    return _ordered(c, y, have, out)


def unary_einsum(c: Context) -> Instruction:
    """Append a sum over the dimensions that are not in the result, and a transpose."""
    labels, out = _labels(c, 1)
    x, have = _diagonal(c, c.operand(0), labels[0])
    x, have = _summed(c, x, have, [n for n in have if n in out])
    return _ordered(c, x, have, out)


def _labels(c: Context, count: int) -> tuple[list[list[str]], list[str]]:
    """Return the labels of each operand's dimensions, and of the result's.

    The dimensions for which `...` stands have numbers, which count from the last one.
    """
    formula = str(c.attr("einsum_config")).replace(" ", "")
    inputs, arrow, result = formula.partition("->")
    sides = inputs.split(",")
    form = "ij,jk->ik" if count == 2 else "ij->i"
    matches = [_SIDE.fullmatch(side) for side in (*sides, result)]
    if not arrow or len(sides) != count or not all(matches):
        raise InferError(f"einsum_config {formula!r} is not of the form {form!r}", code="bad-value")
    found, most = [], 0
    for i, m in enumerate(matches[:-1]):
        assert m is not None
        rank = c.operand(i).array_shape.rank
        rest = rank - len(m[1]) - len(m[3])
        if rest < 0 or (rest and not m[2]):
            raise InferError(f"einsum_config {formula!r} has other labels for operand {i} than it "
                             f"has dimensions, {rank}", code="bad-value")  # fmt: skip
        found.append([*m[1], *map(str, range(rest, 0, -1)), *m[3]])
        most = max(most, rest)
    last = matches[-1]
    assert last is not None
    out = [*last[1], *(map(str, range(most, 0, -1)) if last[2] else ()), *last[3]]
    if len(set(out)) != len(out) or set(out) - {n for side in found for n in side}:
        raise InferError(f"einsum_config {formula!r} has a result of other dimensions",
                         code="bad-value")  # fmt: skip
    return found, out


def _diagonal(c: Context, x: Instruction, labels: list[str]) -> tuple[Instruction, list[str]]:
    """Return a value whose labels all differ: equal ones become the diagonal."""
    twice = [i for i, label in enumerate(labels) if label in labels[:i]]
    if not twice:
        return x, labels
    shape = x.array_shape
    for i in twice:
        first = labels.index(labels[i])
        if shape.dims[i] != shape.dims[first]:
            raise InferError(f"dimensions {first} and {i} of {shape.to_string(False)} have one "
                             "label and different sizes", code="shape-mismatch")  # fmt: skip
        numbers = [c.b.op("iota", shape=shape.with_type(S32), iota_dimension=d) for d in (first, i)]
        equal = c.b.op("compare", *numbers, shape=shape.with_type(PRED), direction="EQ")
        zero = c.b.broadcast(c.b.constant(shape.element_type, 0), shape)
        x = c.b.op("select", equal, x, zero)
    return _sum(c, x, twice), [n for i, n in enumerate(labels) if i not in twice]


def _summed(
    c: Context, x: Instruction, labels: list[str], kept: Sequence[str]
) -> tuple[Instruction, list[str]]:
    """Return the sum over the dimensions that are not kept, and the labels of the others."""
    dims = [i for i, label in enumerate(labels) if label not in kept]
    return _sum(c, x, dims), [label for label in labels if label in kept]


def _sum(c: Context, x: Instruction, dims: Sequence[int]) -> Instruction:
    if not dims:
        return x
    et = x.array_shape.element_type
    add = build_computation("add", [array(et, ())] * 2, lambda b, p, q: b.op("add", p, q))
    return c.b.op("reduce", x, c.b.constant(et, 0), dimensions=tuple(dims),
                  to_apply=c.converter.adopt(add))  # fmt: skip


def _ordered(c: Context, x: Instruction, have: list[str], wanted: list[str]) -> Instruction:
    order = tuple(map(have.index, wanted))
    return x if have == wanted else c.b.op("transpose", x, dimensions=order)
