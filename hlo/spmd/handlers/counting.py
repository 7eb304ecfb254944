"""Values that come from no operand: numbers along a dimension, constants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hlo.ir import Instruction
from hlo.spmd.builder import SpmdBuilder
from hlo.spmd.handlers.by_factors import by_factors
from hlo.spmd.handlers.registry import Wanted, handles
from hlo.spmd.value import Sharded, Value
from hlo.values.literal import Literal
from hlo.values.types import ArrayShape


@handles("iota")
def _iota(b: SpmdBuilder, inst: Instruction, operands: Sequence[Value], wanted: Wanted) -> Value:
    shape = inst.array_shape
    if shape.is_dynamic:
        return by_factors(b, inst, operands, wanted)
    spec = replace(wanted[0], unreduced=())
    along = b.op("iota", shape=b.mesh.local_shape(shape, spec), iota_dimension=inst.iota_dimension)
    if b.mesh.count(spec.dims[inst.iota_dimension]) > 1:
        # Added up in a type that holds every index, whatever the result's rounds to.
        index = b.index(Sharded(along, spec, shape), inst.iota_dimension)
        along = b.convert(index, shape.element_type)
    return b.sharded(along, spec, shape)


@handles("constant")
def _constant(
    b: SpmdBuilder, inst: Instruction, operands: Sequence[Value], wanted: Wanted
) -> Value:
    """Fill the shard, where all elements are the same; others are cut out of the whole."""
    shape, literal = inst.shape, inst.literal
    if not isinstance(shape, ArrayShape) or not wanted[0].axes or literal.is_elided_in_part:
        return by_factors(b, inst, operands, wanted)
    values = literal.array.reshape(-1)
    words = values.view(f"V{values.itemsize}")
    if not len(words) or np.any(words != words[0]):
        return by_factors(b, inst, operands, wanted)
    spec = replace(wanted[0], unreduced=())
    value = b.literal(Literal.of(values[0]))
    return b.sharded(b.broadcast(value, b.mesh.local_shape(shape, spec)), spec)
