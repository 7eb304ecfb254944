"""Canonicalization of gathers."""

from __future__ import annotations

from collections.abc import Sequence

from hlo.ir import Instruction, Module
from hlo.ir.builder import Builder
from hlo.passes.cleanup._indices import as_rows, inverse, transposed
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import RuleSet

_RULES = RuleSet("gather_simplifier")


@module_pass
def gather_simplifier(module: Module, rewrites: Rewrites) -> None:
    """Canonicalize gathers: one index vector per row, leading dimensions indexed, full windows.

    Transposes and reshapes around them do the rest. Batching dimensions are left to
    batched-gather-scatter-normalizer.
    """
    _RULES.apply(module, rewrites)


@_RULES.rule("gather", "gather(x, i) = reshape(gather(transpose(x), rows of i))")
def simple_gather(inst: Instruction, b: Builder) -> Instruction | None:
    operand, indices = inst.operands
    rank = operand.array_shape.rank
    if inst.operand_batching_dims or is_simple(inst):
        return None
    if 0 in inst.slice_sizes:
        return None  # windows without elements that are collapsed are zeros
    if any(i.array_shape.is_dynamic for i in (inst, operand, indices)):
        return None
    named: Sequence[int] = inst.start_index_map
    order = [*named, *(d for d in range(rank) if d not in named)]
    sizes = [inst.slice_sizes[d] for d in order]
    rows = as_rows(b, indices, inst.index_vector_dim)
    windows = b.op(
        "gather", transposed(b, operand, order), rows,
        offset_dims=tuple(range(1, rank + 1)), collapsed_slice_dims=(),
        start_index_map=tuple(range(len(named))), operand_batching_dims=(),
        start_indices_batching_dims=(), index_vector_dim=1, slice_sizes=tuple(sizes),
        indices_are_sorted=inst.indices_are_sorted,
    )  # fmt: skip
    # The window's dimensions in the order of the operand's, without those that are not wanted.
    windows = transposed(b, windows, [0, *(1 + d for d in inverse(order))])
    dims, offsets = inst.array_shape.dims, inst.offset_dims
    batch = [d for d in range(len(dims)) if d not in offsets]
    result = b.reshape(windows, [dims[d] for d in (*batch, *offsets)])
    return transposed(b, result, inverse([*batch, *offsets]))


def is_simple(gather: Instruction) -> bool:
    """True for a gather in the form that this pass makes."""
    return (
        gather.operands[1].array_shape.rank == 2
        and gather.index_vector_dim == 1
        and not gather.collapsed_slice_dims
        and list(gather.start_index_map) == list(range(len(gather.start_index_map)))
        and list(gather.offset_dims) == list(range(1, gather.operands[0].array_shape.rank + 1))
    )
