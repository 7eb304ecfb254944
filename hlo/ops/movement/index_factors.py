"""Factor rules of gather and scatter.

A window that takes all of a dimension starts at 0 there (a scatter at another index writes none of
it), so that dimension passes through; others are looked up by index.
"""

from __future__ import annotations

from collections.abc import Sequence

from hlo.ops.factors import FactorKind, FactorRule, Rule
from hlo.ops.movement.gather_scatter_eval import IndexDims
from hlo.ops.rules import array_operand, array_result
from hlo.ops.spec import OpView

_ANYWHERE = "a window may begin anywhere"


def _batch_places(dims: IndexDims, rank: int, windows: Sequence[int]) -> dict[int, int]:
    """Return, for each dimension of the indices but the index vector's, that of the windows."""
    batch = [d for d in range(rank) if d not in windows]
    indices = [d for d in range(len(batch) + 1) if d != dims.index_vector_dim]
    return dict(zip(indices, batch, strict=False))


def gather(op: OpView, dims: IndexDims) -> FactorRule:
    rule, operand, result = Rule(op), array_operand(op, 0), array_result(op)
    batching = dict(zip(dims.indices_batching, dims.operand_batching, strict=True))
    for at, d in _batch_places(dims, result.rank, op.offset_dims).items():
        own = [(0, batching[at])] if at in batching else []
        rule.add(result.dims[d], [*own, (1, at)], [(0, d)])
    for d, at in zip(dims.window_dims(operand.rank), op.offset_dims, strict=True):
        if operand.dims[d] == result.dims[at]:
            rule.add(operand.dims[d], [(0, d)], [(0, at)])
        else:
            rule.add(operand.dims[d], [(0, d)], kind=FactorKind.PERMUTATION)
    for d in dims.collapsed:
        rule.add(operand.dims[d], [(0, d)], kind=FactorKind.PERMUTATION)
    return rule.done(_ANYWHERE)


def scatter(op: OpView, dims: IndexDims) -> FactorRule:
    rule, count = Rule(op), len(op.operand_shapes) // 2
    operand, updates = array_operand(op, 0), array_operand(op, count + 1)
    batching = dict(zip(dims.indices_batching, dims.operand_batching, strict=True))

    def add(size: int, d: int | None, at: int | None, updated: int | None, kind: FactorKind) -> int:
        """Add a factor of dimensions of the operands (and results), the indices, the updates."""
        own = [] if d is None else [(n, d) for n in range(count)]
        index = [] if at is None else [(count, at)]
        new = [] if updated is None else [(count + 1 + n, updated) for n in range(count)]
        return rule.add(size, [*own, *index, *new], own, kind)

    for at, updated in _batch_places(dims, updates.rank, op.update_window_dims).items():
        size = updates.dims[updated]
        if at in batching:
            add(size, batching[at], at, updated, FactorKind.PASS_THROUGH)
        else:
            add(size, None, at, updated, FactorKind.REDUCTION)
    for d, updated in zip(dims.window_dims(operand.rank), op.update_window_dims, strict=True):
        if operand.dims[d] == updates.dims[updated]:
            add(operand.dims[d], d, None, updated, FactorKind.PASS_THROUGH)
        else:
            add(operand.dims[d], d, None, None, FactorKind.PERMUTATION)
    for d in dims.collapsed:
        add(operand.dims[d], d, None, None, FactorKind.PERMUTATION)
    return rule.done(_ANYWHERE)
