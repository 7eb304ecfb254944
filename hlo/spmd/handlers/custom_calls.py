"""custom-call: routines on batches of matrices, order statistics, and functions of the host."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from hlo.ir import Instruction
from hlo.ops.host.callbacks import is_callback, is_callback_on_shards
from hlo.spmd.builder import SpmdBuilder
from hlo.spmd.handlers.by_factors import by_factors
from hlo.spmd.handlers.moved_cuts import with_moved_cuts
from hlo.spmd.handlers.one_device import device_of, on_one_device
from hlo.spmd.handlers.registry import Wanted, handles
from hlo.spmd.handlers.top_k import top_k
from hlo.spmd.handlers.whole import on_whole_values
from hlo.spmd.localize import localized
from hlo.spmd.mesh import PartitionSpec
from hlo.spmd.value import Value
from hlo.values.types import ArrayShape, TupleShape


@handles("custom-call")
def _custom_call(
    b: SpmdBuilder, inst: Instruction, operands: Sequence[Value], wanted: Wanted
) -> Value:
    """Run a known target on parts, and any other one on whole values: on each device, or on one
    that the sharding names if the call does more than compute its result, or runs Python.
    """
    if inst.custom_call_target == "TopK":
        return top_k(b, inst, operands, wanted, largest=True)
    if is_callback_on_shards(inst.custom_call_target) and not _has_arrays(inst):
        return _on_shards(b, inst, operands)
    device = device_of(inst)
    acts = inst.custom_call_has_side_effect or is_callback(inst.custom_call_target)
    if acts and device is not None:
        if not inst.shape.is_dynamic and not any(w.manual for w in wanted):
            return on_one_device(b, inst, operands, device)
    rule = inst.spec.factors(inst)
    if any(isinstance(v, tuple) for v in operands) or not _is_flat(inst):
        return on_whole_values(b, inst, operands, wanted, rule.reason)
    return by_factors(b, inst, with_moved_cuts(b, inst, rule, operands), wanted)


def _on_shards(b: SpmdBuilder, inst: Instruction, operands: Sequence[Value]) -> Value:
    """Run a call that returns no arrays on each device, on the shards of the operands."""
    local = b.append(localized(inst, [b.packed(v) for v in operands], inst.shape))
    return b.unpacked(local, inst.shape, itertools.repeat(PartitionSpec(())))


def _has_arrays(inst: Instruction) -> bool:
    return any(shape.is_array for _, shape in inst.shape.leaves())


def _is_flat(inst: Instruction) -> bool:
    shape = inst.shape
    parts = shape.elements if isinstance(shape, TupleShape) else (shape,)
    return all(isinstance(s, ArrayShape) for s in parts)
