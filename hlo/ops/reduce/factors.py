"""Factor rules of reductions, windows and orders."""

from __future__ import annotations

from hlo.ops.attrs import WindowDim
from hlo.ops.factors import FactorKind, FactorRule, Rule
from hlo.ops.rules import array_operand
from hlo.ops.spec import OpView


def reduce(op: OpView) -> FactorRule:
    rule, count = Rule(op), len(op.operand_shapes) // 2
    at = 0
    for d, size in enumerate(array_operand(op, 0).dims):
        places = [(n, d) for n in range(count)]
        if d in op.dimensions:
            rule.add(size, places, kind=FactorKind.REDUCTION)
        else:
            rule.add(size, places, [(n, at) for n in range(count)])
            at += 1
    return rule.done()


def reduce_window(op: OpView) -> FactorRule:
    count = len(op.operand_shapes) // 2
    return _windows(op, list(range(count)), count)


def select_and_scatter(op: OpView) -> FactorRule:
    return _windows(op, [0, 1], 1)


def _windows(op: OpView, operands: list[int], results: int) -> FactorRule:
    rule = Rule(op)
    for d, w in enumerate(op.window):
        # A window of one element that moves on by one is no window.
        alone = w == WindowDim(rhs_dilate=w.rhs_dilate, reversal=w.reversal)
        kind = FactorKind.PASS_THROUGH if alone else FactorKind.PERMUTATION
        rule.pointwise([d], operands, range(results), kind)
    return rule.done()


def batch_norm(op: OpView) -> FactorRule:
    """Return the rule of the three batch normalizations: features are independent.

    Each element of a normalization in training, and of its gradient, depends on all those of its
    feature.
    """
    rule, feature, rank = Rule(op), op.feature_index, array_operand(op, 0).rank
    wide = [0, 4] if op.opcode == "batch-norm-grad" else [0]
    narrow = [n for n in range(len(op.operand_shapes)) if n not in wide]
    results = rule.results[1:]
    size = array_operand(op, 0).dims[feature]
    rule.add(
        size,
        [*((n, feature) for n in wide), *((n, 0) for n in narrow)],
        [(0, feature), *((n, 0) for n in results)],
    )
    alone = op.opcode == "batch-norm-inference"
    rest = [d for d in range(rank) if d != feature]
    kind = FactorKind.PASS_THROUGH if alone else FactorKind.NEED_REPLICATION
    rule.pointwise(rest, wide, (0,), kind)
    return rule.done("mean and variance are those of all elements of a feature")


def sort(op: OpView) -> FactorRule:
    rule = Rule(op)
    every = rule.operands
    for d in range(array_operand(op, 0).rank):
        sorts = d in op.dimensions
        kind = FactorKind.PERMUTATION if sorts else FactorKind.PASS_THROUGH
        rule.pointwise([d], every, every, kind)
    return rule.done()


def top_k(op: OpView) -> FactorRule:
    """Return the rule of values and positions of the first elements of the last dimension."""
    rule, operand = Rule(op), array_operand(op, 0)
    rule.pointwise(range(operand.rank - 1), results=(0, 1))
    rule.add(operand.dims[-1], [(0, operand.rank - 1)], kind=FactorKind.PERMUTATION)
    rule.pointwise([operand.rank - 1], (), (0, 1), FactorKind.NEED_REPLICATION)
    return rule.done("the order of what is found is that of all of it")
