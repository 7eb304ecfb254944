"""Dots with leading batches and one dimension that is summed over."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hlo.expansions import Draft
from hlo.ir import Computation, Instruction, Module
from hlo.ops.contract.contraction_eval import DotDims
from hlo.passes.expand._inline import expand_instructions
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.values.types import array

_KEYS = ("lhs_batch_dims", "rhs_batch_dims", "lhs_contracting_dims", "rhs_contracting_dims")


@module_pass
def dot_decomposer(module: Module, rewrites: Rewrites) -> None:
    """Canonicalize dots to `[batch..., m, k] x [batch..., k, n]` by transposes and reshapes.

    At most one dimension of each side is free, and one is summed over.
    """
    expand_instructions(module, rewrites, "dot_decomposer.expand", ["dot"], _expanded)


def _expanded(inst: Instruction) -> Computation | None:
    lhs, rhs = (o.array_shape for o in inst.operands)
    dims = DotDims(*(inst.attrs[k] for k in _KEYS))
    out = inst.array_shape
    if _is_canonical(dims, lhs.rank, rhs.rank) or any(s.is_dynamic for s in (lhs, rhs, out)):
        return None
    d = Draft(inst)
    batch = tuple(lhs.dims[n] for n in dims.lhs_batch)
    left, right = dims.lhs_free(lhs.rank), dims.rhs_free(rhs.rank)
    k = math.prod(lhs.dims[n] for n in dims.lhs_contract)
    m, n = (_merged(s.dims, free) for s, free in ((lhs, left), (rhs, right)))
    x = _moved(d, d.parameters[0], (*dims.lhs_batch, *left, *dims.lhs_contract))
    y = _moved(d, d.parameters[1], (*dims.rhs_batch, *dims.rhs_contract, *right))
    at = tuple(range(len(batch)))
    canonical = (at, at, (len(batch) + len(m),), (len(batch),))
    attrs = {**inst.attrs, **dict(zip(_KEYS, canonical, strict=True))}
    x, y = d.reshape(x, (*batch, *m, k)), d.reshape(y, (*batch, k, *n))
    # A dot may state any type for its result.
    sizes = array(out.element_type, (*batch, *m, *n))
    product = d.op("dot", x, y, shape=sizes, **attrs)
    return d.done(d.relaid(d.reshape(product, out.dims), out))


def _is_canonical(dims: DotDims, lhs_rank: int, rhs_rank: int) -> bool:
    leading = tuple(range(len(dims.lhs_batch)))
    return (
        len(dims.lhs_contract) == 1
        and dims.lhs_batch == dims.rhs_batch == leading
        and len(dims.lhs_free(lhs_rank)) <= 1
        and len(dims.rhs_free(rhs_rank)) <= 1
    )


def _merged(sizes: Sequence[int], dims: Sequence[int]) -> tuple[int, ...]:
    """Return the size of some dimensions as one; nothing for none."""
    return (math.prod(sizes[d] for d in dims),) if dims else ()


def _moved(d: Draft, value: Instruction, order: tuple[int, ...]) -> Instruction:
    if order == tuple(range(len(order))):
        return value
    return d.op("transpose", value, dimensions=order)
