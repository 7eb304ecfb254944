"""Factor rules of contractions, convolutions and linear algebra."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from hlo.ops.attrs import WindowDim
from hlo.ops.contract.contraction_eval import DotDims, ragged_prefix
from hlo.ops.contract.operand_configs import blocks_of, scaling
from hlo.ops.factors import FactorKind, FactorRule, Rule, whole
from hlo.ops.rules import array_operand, array_result
from hlo.ops.spec import OpView

_SPARSE = "how the elements of a sparse operand are stored depends on the device"
_BLOCKS = "blocks of one scale do not cut the dimension evenly"
_GROUPS = "where groups begin and end is known when it runs"

Place = tuple[int, int]
"""An operand's number and a dimension."""


def _dims(op: OpView) -> DotDims:
    return DotDims(
        op.lhs_batch_dims, op.rhs_batch_dims, op.lhs_contracting_dims, op.rhs_contracting_dims
    )


# --- dot, scaled-dot ------------------------------------------------------------------------------


def _indices(op: OpView, dims: DotDims) -> list[tuple[list[Place], list[int], FactorKind]]:
    """Return each index of a dot: where operands have it, where the result has it, its kind."""
    lhs, rhs = array_operand(op, 0), array_operand(op, 1)
    kept = [[(0, i), (1, j)] for i, j in zip(dims.lhs_batch, dims.rhs_batch, strict=True)]
    kept += [[(0, i)] for i in dims.lhs_free(lhs.rank)]
    kept += [[(1, j)] for j in dims.rhs_free(rhs.rank)]
    summed = zip(dims.lhs_contract, dims.rhs_contract, strict=True)
    return [(places, [at], FactorKind.PASS_THROUGH) for at, places in enumerate(kept)] + [
        ([(0, i), (1, j)], [], FactorKind.REDUCTION) for i, j in summed
    ]


def dot(op: OpView) -> FactorRule:
    if op.sparsity_config is not None:
        return whole(_SPARSE)(op)
    blocks: dict[Place, list[tuple[int, int]]] = {}
    for side in (0, 1):
        scales = scaling(op, side)
        if scales is None:
            continue
        for n in (scales.scale, scales.zero):
            shape = array_operand(op, side)
            sizes = None if n is None else blocks_of(scales, shape, array_operand(op, n))
            for d, (size, step) in enumerate(sizes or ()):
                # Where scales are stored otherwise than one after another, 0 stands for no size.
                assert n is not None
                blocks.setdefault((side, d), []).append((n, size if step == 1 else 0))
    return _scaled(op, blocks)


def scaled_dot(op: OpView) -> FactorRule:
    blocks: dict[Place, list[tuple[int, int]]] = {}
    for side in (0, 1):
        shape, scales = array_operand(op, side), array_operand(op, side + 2)
        for d, (size, have) in enumerate(zip(shape.dims, scales.dims, strict=True)):
            blocks[side, d] = [(side + 2, size // have if have else 0)]
    return _scaled(op, blocks)


def _scaled(op: OpView, blocks: Mapping[Place, Sequence[tuple[int, int]]]) -> FactorRule:
    """Return the rule of a dot of whose operands blocks have a scale.

    blocks: for a dimension of operand 0 or 1, operands of scales, and how many elements have one in
    common. An index becomes several factors, so that scales have the major ones.
    """
    rule = Rule(op)
    for places, result, kind in _indices(op, _dims(op)):
        size = array_operand(op, places[0][0]).dims[places[0][1]]
        scales = [(n, d, block) for side, d in places for n, block in blocks.get((side, d), ())]
        cuts = sorted({1, size, *(block for _, _, block in scales)}, reverse=True)
        fits = all(b and a % b == 0 for a, b in pairwise(cuts)) and all(
            array_operand(op, n).dims[d] * block == size for n, d, block in scales
        )
        if not fits:
            if scales:
                rule.add(size, places, [(0, d) for d in result], FactorKind.NEED_REPLICATION)
            else:  # an empty dimension
                rule.add(size, places, [(0, d) for d in result], kind)
            continue
        for major, minor in pairwise(cuts) if size > 1 else [(size, 1)]:
            scaled = [(n, d) for n, d, block in scales if block <= minor]
            rule.add(major // minor, [*places, *scaled], [(0, d) for d in result], kind)
        rule.none([(n, d) for n, d, block in scales if block == size > 1])
    return rule.done(_BLOCKS)


# --- ragged-dot -----------------------------------------------------------------------------------


def ragged_dot(op: OpView) -> FactorRule:
    dims, (ragged,) = _dims(op), op.lhs_ragged_dims
    lhs, rhs, sizes = (array_operand(op, n) for n in range(3))
    group = op.rhs_group_dims[0] if op.rhs_group_dims else None
    summed = ragged in dims.lhs_contract
    prefix = ragged_prefix(dims, lhs.rank, ragged)
    of_sizes = {d: at for at, d in enumerate(prefix)} if sizes.rank > 1 else {}
    kept: list[list[Place]] = []
    for i, j in zip(dims.lhs_batch, dims.rhs_batch, strict=True):
        kept.append([(0, i), (1, j)])
    kept += [[(0, i)] for i in dims.lhs_free(lhs.rank)]
    kept += [[(1, j)] for j in dims.rhs_free(rhs.rank) if j != group]
    rule, first = Rule(op), int(summed)
    indices = [(places, [first + at]) for at, places in enumerate(kept)]
    contracted = zip(dims.lhs_contract, dims.rhs_contract, strict=True)
    indices += [([(0, i), (1, j)], []) for i, j in contracted]
    for places, result in indices:
        side, d = places[0]
        kind = FactorKind.PASS_THROUGH if result else FactorKind.REDUCTION
        if side == 0 and d == ragged and ragged not in dims.lhs_batch:
            kind = FactorKind.NEED_REPLICATION
        elif side == 0 and d in of_sizes:
            places = [*places, (2, of_sizes[d])]
        shape = array_operand(op, side)
        rule.add(shape.dims[d], places, [(0, at) for at in result], kind)
    return rule.done(_GROUPS)


# --- convolution ----------------------------------------------------------------------------------


def convolution(op: OpView) -> FactorRule:
    if op.sparsity_config is not None or op.block_scaling_config is not None:
        return whole(_SPARSE if op.sparsity_config is not None else _BLOCKS)(op)
    rule, d = Rule(op), op.dim_labels
    lhs, rhs, result = array_operand(op, 0), array_operand(op, 1), array_result(op)
    batches, features = op.batch_group_count, op.feature_group_count
    if batches > 1:
        rule.add(
            batches, [(0, d.input_batch), (1, d.kernel_output)], [(0, d.output_feature)]
        )  # fmt: skip
    if features > 1:
        rule.add(features, [(0, d.input_feature), (1, d.kernel_output)], [(0, d.output_feature)])
    rule.add(result.dims[d.output_batch], [(0, d.input_batch)], [(0, d.output_batch)])
    rule.add(
        rhs.dims[d.kernel_output] // (batches * features),
        [(1, d.kernel_output)],
        [(0, d.output_feature)],
    )
    rule.add(
        rhs.dims[d.kernel_input],
        [(0, d.input_feature), (1, d.kernel_input)],
        kind=FactorKind.REDUCTION,
    )
    for w, i, k, o in zip(
        op.window, d.input_spatial, d.kernel_spatial, d.output_spatial, strict=True
    ):
        moved = FactorKind.PERMUTATION
        if replace(w, reversal=False) == WindowDim():
            rule.add(lhs.dims[i], [(0, i)], [(0, o)])
            rule.none([(1, k)])
        elif w.size > result.dims[o]:
            # As in the gradient of a kernel: the sum is over the positions of the operand.
            rule.add(rhs.dims[k], [(0, i), (1, k)], kind=moved)
        else:
            rule.add(result.dims[o], [(0, i)], [(0, o)], moved)
    return rule.done("each position of the window needs all of the kernel")


# --- linear algebra -------------------------------------------------------------------------------


def triangular_solve(op: OpView) -> FactorRule:
    rule, b = Rule(op), array_operand(op, 1)
    rule.pointwise(range(b.rank - 2), (0, 1))
    # Columns of the right-hand sides (rows, where the matrix is on the right) are independent.
    free, solved = (b.rank - 1, b.rank - 2) if op.left_side else (b.rank - 2, b.rank - 1)
    rule.pointwise([free], (1,))
    rule.pointwise([solved], (1,), kind=FactorKind.NEED_REPLICATION)
    return rule.done("an element depends on all that are solved before it")
