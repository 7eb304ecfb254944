"""Canonicalization of scatters."""

from __future__ import annotations

from collections.abc import Sequence

from hlo.ir import Instruction, Module
from hlo.ir.builder import Builder
from hlo.passes.cleanup._indices import as_rows, inverse, transposed
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import RuleSet

_RULES = RuleSet("scatter_simplifier")


@module_pass
def scatter_simplifier(module: Module, rewrites: Rewrites) -> None:
    """Canonicalize scatters: one index vector per row, leading dimensions indexed, full windows.

    Transposes and reshapes around them do the rest; updates stay in their order. Batching
    dimensions are left to batched-gather-scatter-normalizer.
    """
    _RULES.apply(module, rewrites)


@_RULES.rule("scatter", "scatter(x, i, u) = transpose(scatter(transpose(x), rows of i, u))")
def simple_scatter(inst: Instruction, b: Builder) -> Instruction | None:
    count = len(inst.operands) // 2
    operands, indices = inst.operands[:count], inst.operands[count]
    updates = inst.operands[count + 1 :]
    rank = operands[0].array_shape.rank
    if inst.input_batching_dims or is_simple(inst):
        return None
    if any(i.array_shape.is_dynamic for i in inst.operands):
        return None
    named: Sequence[int] = inst.scatter_dims_to_operand_dims
    order = [*named, *(d for d in range(rank) if d not in named)]
    rows = as_rows(b, indices, inst.index_vector_dim)
    new = b.op(
        "scatter", *(transposed(b, x, order) for x in operands), rows,
        *(_windows(b, inst, u, order) for u in updates),
        update_window_dims=tuple(range(1, rank + 1)), inserted_window_dims=(),
        scatter_dims_to_operand_dims=tuple(range(len(named))), input_batching_dims=(),
        scatter_indices_batching_dims=(), index_vector_dim=1,
        indices_are_sorted=inst.indices_are_sorted, unique_indices=inst.unique_indices,
        to_apply=inst.to_apply,
    )  # fmt: skip
    if count == 1:
        return transposed(b, new, inverse(order))
    return b.tuple(*(transposed(b, b.element(new, n), inverse(order)) for n in range(count)))


def _windows(
    b: Builder, scatter: Instruction, update: Instruction, order: Sequence[int]
) -> Instruction:
    """Return updates as rows of windows that have the dimensions of the transposed operand."""
    dims, inside = update.array_shape.dims, scatter.update_window_dims
    outside = [d for d in range(len(dims)) if d not in inside]
    rows = transposed(b, update, [*outside, *inside])
    sizes = [dims[d] for d in inside]
    for d in sorted(scatter.inserted_window_dims):
        sizes.insert(d, 1)
    count = 1
    for d in outside:
        count *= dims[d]
    return transposed(b, b.reshape(rows, [count, *sizes]), [0, *(1 + d for d in order)])


def is_simple(scatter: Instruction) -> bool:
    """True for a scatter in the form that this pass makes."""
    count = len(scatter.operands) // 2
    named, rank = scatter.scatter_dims_to_operand_dims, scatter.operands[0].array_shape.rank
    return (
        scatter.operands[count].array_shape.rank == 2
        and scatter.index_vector_dim == 1
        and not scatter.inserted_window_dims
        and list(named) == list(range(len(named)))
        and list(scatter.update_window_dims) == list(range(1, rank + 1))
    )
