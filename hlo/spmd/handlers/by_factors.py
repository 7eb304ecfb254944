"""The partitioning of any operation by its factor rule.

Axes are chosen for its factors, operands are distributed accordingly, each device computes its
part, and partial results are reduced.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from hlo.ir import Computation, Instruction
from hlo.ops.factors import DimFactors, FactorKind, FactorRule
from hlo.spmd.assignment import Choices, scatter_target
from hlo.spmd.builder import SpmdBuilder
from hlo.spmd.handlers.registry import Wanted
from hlo.spmd.handlers.whole import on_whole_values
from hlo.spmd.localize import localized
from hlo.spmd.mesh import Axes, PartitionSpec
from hlo.spmd.value import Sharded, Unsharded, Value
from hlo.values.types import ArrayShape, Shape, TupleShape


@dataclass(frozen=True)
class Partial:
    """How the partial results of an operation along REDUCTION factors make the whole.

    Attributes:
        fill: the value that adds nothing, for padding of operand n.
        combine: returns the results from the partial results of the devices along axes.
    """

    fill: Callable[[int], Instruction | float | bool]
    combine: Callable[[SpmdBuilder, Sequence[Sharded], Axes, Wanted], Sequence[Sharded]]

    @staticmethod
    def by(computation: Computation | str, fill: Instruction | float | bool) -> Partial:
        """Return how partial results are reduced by a computation, or the opcode of one."""

        def combine(
            b: SpmdBuilder, values: Sequence[Sharded], axes: Axes, wanted: Wanted
        ) -> Sequence[Sharded]:
            return [
                reduced_over(b, value, axes, spec, computation)
                for value, spec in zip(values, wanted, strict=True)
            ]

        return Partial(lambda operand: fill, combine)


Share = Callable[
    [Sequence[Sharded | Unsharded], Sequence[PartitionSpec], Axes], Sequence[Instruction]
]
"""Appends what a device computes, and returns the leaves of the result: from its parts of the
operands, the specs of the results, and the axes along which they are partial results."""


def by_factors(
    b: SpmdBuilder, inst: Instruction, operands: Sequence[Value], wanted: Wanted,
    partial: Partial | None = None, rule: FactorRule | None = None, share: Share | None = None,
) -> Value:  # fmt: skip
    """Partition an operation by its factors. See `Handler`.

    partial: lets REDUCTION factors be cut. rule: in place of the operation's own. share: in place
    of the operation on parts of its operands; lets PERMUTATION factors be cut. The padding of what
    it gets is not masked.
    """
    rule = rule or inst.spec.factors(inst)
    if rule.structural:
        return on_whole_values(b, inst, operands, wanted, rule.reason)
    kinds = {FactorKind.PASS_THROUGH}
    if partial is not None:
        kinds.add(FactorKind.REDUCTION)
    if share is not None:
        kinds.add(FactorKind.PERMUTATION)
    shapes = [s for _, s in inst.shape.leaves()]
    choices = Choices(
        b.mesh, rule,
        [(v.shape, v.spec) if isinstance(v, Sharded) else None for v in operands],
        [
            (s, w) if isinstance(s, ArrayShape) else None
            for s, w in zip(shapes, wanted, strict=True)
        ],
        kinds,
    )  # fmt: skip
    chosen = choices.best()
    reduced = choices.reduced_axes(chosen)
    parts: list[Sharded | Unsharded] = []
    for number, (value, dims) in enumerate(zip(operands, rule.operands, strict=True)):
        if not isinstance(value, Sharded):
            assert isinstance(value, Unsharded)
            parts.append(value)
            continue
        spec = choices.spec(dims, chosen, value.spec.manual)
        if spec.is_replicated and _has_to_be_whole(rule, dims, value.spec, kinds):
            value = b.replicated(value, rule.reason)
        value = b.reshard(value, spec)
        if reduced and share is None:
            assert partial is not None
            over = [
                d for d, factors in enumerate(dims)
                if any(rule.factors[f].kind is FactorKind.REDUCTION for f in factors)
            ]  # fmt: skip
            if over:
                value = b.masked(value, partial.fill(number), over)
        parts.append(value)
    specs = [
        choices.spec(dims, chosen, w.manual) for dims, w in zip(rule.results, wanted, strict=True)
    ]
    locals_: list[Shape] = [
        b.mesh.local_shape(s, spec) if isinstance(s, ArrayShape) else s
        for s, spec in zip(shapes, specs, strict=True)
    ]
    on_device = [part.local for part in parts]
    if share is not None:
        results = list(share(parts, specs, reduced))
    elif isinstance(inst.shape, TupleShape):
        whole = b.append(localized(inst, on_device, TupleShape(tuple(locals_))))
        results = [b.element(whole, n) for n in range(len(shapes))]
    else:
        results = [b.append(localized(inst, on_device, locals_[0]))]
    values: list[Value] = [
        Sharded(local, spec, shape) if isinstance(shape, ArrayShape) else Unsharded(local)
        for local, shape, spec in zip(results, shapes, specs, strict=True)
    ]
    if reduced:
        assert partial is not None
        arrays = [v for v in values if isinstance(v, Sharded)]
        assert len(arrays) == len(values)
        values = list(partial.combine(b, arrays, reduced, wanted))
    return tuple(values) if isinstance(inst.shape, TupleShape) else values[0]


def _has_to_be_whole(
    rule: FactorRule, dims: DimFactors, spec: PartitionSpec, kinds: Collection[FactorKind]
) -> bool:
    """True where a dimension is cut whose factors cannot be; others are whole by choice."""
    return any(
        axes and all(rule.factors[f].kind not in kinds for f in factors)
        for factors, axes in zip(dims, spec.dims, strict=True)
    )


def reduced_over(
    b: SpmdBuilder, value: Sharded, axes: Axes, wanted: PartitionSpec,
    combine: Computation | str,
) -> Sharded:  # fmt: skip
    """Reduce partial results over the devices along axes.

    By a reduce-scatter, if each device wants a part of the result, else by an all-reduce.
    """
    target = scatter_target(b.mesh, value.shape, value.spec, wanted, axes)
    if target is None:
        return replace(value, local=b.all_reduce(value.local, axes, combine))
    dim = next(d for d, along in enumerate(target.dims) if along != value.spec.dims[d])
    along = target.dims[dim][len(value.spec.dims[dim]) :]
    return replace(value, local=b.reduce_scatter(value.local, dim, along, combine), spec=target)
