"""Factor rules of collectives, of which programs have some where they are written per device.

The dimension that a collective works along is whole on each device, as it stands in the program;
others may be cut.
"""

from __future__ import annotations

from collections.abc import Collection

from hlo.ops.factors import FactorKind, FactorRule, Rule, structural, whole
from hlo.ops.rules import array_operand
from hlo.ops.spec import OpView
from hlo.values.types import ArrayShape

_SPLIT = "the collective splits or joins this dimension of each device"

done = structural("it hands on a result of its start")


def each(op: OpView) -> FactorRule:
    """Return the rule of collectives of one result for each operand, along no dimension."""
    return _arrays(op, (), len(op.operand_shapes) - op.has_dynamic_root)


def along_dimension(op: OpView) -> FactorRule:
    """Return the rule of all-gather, reduce-scatter and all-to-all, along `dimensions`."""
    dims = op.split_dimensions
    if dims is None:  # the operands are the parts
        rule = Rule(op)
        every = rule.operands
        rule.pointwise(range(array_operand(op, 0).rank), every, every)
        return rule.done()
    return _arrays(op, dims, len(op.operand_shapes))


def permuted(op: OpView) -> FactorRule:
    if op.slice_sizes_list:
        return whole("its slices begin at offsets that are known when it runs")(op)
    return each(op)


def _arrays(op: OpView, along: Collection[int], count: int) -> FactorRule:
    """Return the rule of collectives whose operand n becomes result n, of a start n + count too."""
    rule = Rule(op)
    leaves = [s for _, s in op.shape.leaves()]
    for n in range(count):
        shape = array_operand(op, n)
        results = [(m, leaves[m]) for m in range(n, min(2 * count, len(leaves)), count)]
        for d in range(shape.rank):
            kind = FactorKind.NEED_REPLICATION if d in along else FactorKind.PASS_THROUGH
            same = [
                m for m, s in results
                if isinstance(s, ArrayShape) and s.rank == shape.rank and s.dims[d] == shape.dims[d]
            ]  # fmt: skip
            rule.pointwise([d], [n], same, kind)
    return rule.done(_SPLIT)


def ragged_all_to_all(op: OpView) -> FactorRule:
    rule, target = Rule(op), array_operand(op, 1)
    rule.pointwise(range(1, target.rank), (0, 1))
    rule.pointwise([0], (1,), kind=FactorKind.NEED_REPLICATION)
    return rule.done("rows are sent by offsets and sizes that are known when it runs")
