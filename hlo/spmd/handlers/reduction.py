"""reduce: each device reduces what it has, and the partial results are reduced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hlo.analysis.patterns import picks_an_argument, single_binary_op
from hlo.ir import Instruction
from hlo.ops import OPS
from hlo.ops.rules import tuple_or_single
from hlo.spmd.builder import SpmdBuilder
from hlo.spmd.handlers.by_factors import Partial, by_factors
from hlo.spmd.handlers.registry import Wanted, handles
from hlo.spmd.mesh import Axes, PartitionSpec
from hlo.spmd.value import Sharded, Value
from hlo.values.types import ElementType, array


@handles("reduce")
def _reduce(b: SpmdBuilder, inst: Instruction, operands: Sequence[Value], wanted: Wanted) -> Value:
    values = [v for v in operands if isinstance(v, Sharded)]
    arrays, inits = values[: len(values) // 2], values[len(values) // 2 :]
    is_cut = any(v.spec.dims[d] for v in arrays for d in inst.dimensions)
    inits = [b.replicated(v) for v in inits]
    if not is_cut:
        return by_factors(b, inst, [*arrays, *inits], wanted)
    op = single_binary_op(inst.to_apply)
    types = {v.shape.element_type for v in values}
    if len(arrays) == 1 and op is not None and len(types) == 1:
        (et,) = types
        identity = identity_of(op, et)
        if identity is not None:
            return _by_identity(b, inst, op, identity, (arrays[0], inits[0]), wanted)
    if picks_an_argument(inst.to_apply):
        # The initial values are elements among others: it does not matter how often.
        return by_factors(b, inst, [*arrays, *inits], wanted, _gathered(inst, inits))
    return by_factors(b, inst, [*arrays, *inits], wanted)


def identity_of(op: str, et: ElementType) -> Any:
    """Return the value that changes nothing under an operation; None where there is none."""
    spec = OPS[op]
    return spec.identity(et) if spec.identity is not None else None


def _by_identity(
    b: SpmdBuilder, inst: Instruction, op: str, identity: Any, operands: tuple[Sharded, Sharded],
    wanted: Wanted,
) -> Value:  # fmt: skip
    """Reduce from the identity on each device, and take in the initial value at the end."""
    x, init = operands
    et = x.shape.element_type
    none = b.constant(et, identity)
    partial = Partial.by(inst.to_apply, none)
    if is_neutral(init.local, op, identity):
        return by_factors(b, inst, [x, init], wanted, partial)
    start = Sharded(none, PartitionSpec((), x.spec.manual), array(et, ()))
    total = by_factors(b, inst, [x, start], wanted, partial)
    assert isinstance(total, Sharded)
    local = total.local
    first = b.broadcast(init.local, local.array_shape)
    return replace(total, local=b.op(op, first, local, shape=local.shape))


def is_neutral(init: Instruction, op: str, identity: Any) -> bool:
    """True for a constant that may be taken in any number of times."""
    if init.opcode != "constant":
        return False
    value = np.asarray(init.literal.value)
    # Both zeros: a sum of negative zeros may become a zero.
    return bool(value == identity) if op == "add" else value.tobytes() == np.asarray(
        identity, value.dtype).tobytes()  # fmt: skip


def _gathered(inst: Instruction, inits: Sequence[Sharded]) -> Partial:
    """Return how the partial results are gathered and reduced by the same function."""

    def combine(
        b: SpmdBuilder, values: Sequence[Sharded], axes: Axes, wanted: Wanted
    ) -> list[Sharded]:
        stacked = []
        for value in values:
            dims = value.local.array_shape.dims
            stacked.append(b.all_gather(b.reshape(value.local, (1, *dims)), 0, axes))
        shape = tuple_or_single([v.local.array_shape for v in values])
        total = b.op(
            "reduce", *stacked, *(v.local for v in inits), shape=shape, dimensions=(0,),
            to_apply=inst.to_apply,
        )  # fmt: skip
        parts = [total] if len(values) == 1 else [b.element(total, n) for n in range(len(values))]
        return [replace(v, local=part) for v, part in zip(values, parts, strict=True)]

    return Partial(lambda operand: inits[operand].local, combine)
