"""Quantized types: integers of a storage type that stand for numbers of an expressed type.

A value of the module is the array of the storage type. Operations that move elements work on it;
others get the numbers that it stands for, and their results become integers again. Source: the
sections on quantization of StableHLO's specification.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from hlo.errors import InferError
from hlo.frontends.stablehlo.context import Context, Handler
from hlo.frontends.stablehlo.quantized_types import (
    Quantization,
    expressed,
    quantization_of,
    storage,
)
from hlo.ir import Instruction
from hlo.ir.builder import Builder
from hlo.values.literal import Literal
from hlo.values.types import S32, S64, ArrayShape, Shape

# Operations whose operands and results are what they are, whatever it stands for: they hand values
# on, or their regions compute on them.
_ON_STORAGE = frozenset(
    "all_reduce bitcast_convert call case composite constant custom_call get_dimension_size "
    "get_tuple_element if infeed map optimization_barrier outfeed recv reduce reduce_scatter "
    "reduce_window scatter select_and_scatter send set_dimension_size sort tuple while".split()
)
# Those that move elements, where they are quantized alike.
_MOVES = frozenset(
    "all_gather all_to_all broadcast broadcast_in_dim collective_broadcast collective_permute "
    "concatenate dynamic_broadcast_in_dim dynamic_gather dynamic_pad dynamic_reshape dynamic_slice "
    "dynamic_update_slice gather pad real_dynamic_slice reshape reverse select slice "
    "torch_index_select transpose".split()
)


def unchanged(c: Context) -> Instruction:
    """Return the operand of a quantization, which is in its result's type already."""
    return c.operand(0)


def append(c: Context, handler: Handler) -> Instruction:
    """Append an operation some of whose operands or results are quantized."""
    op = c.op
    types = [*op.operand_types, *op.result_types]
    if op.kind in _ON_STORAGE or (op.kind in _MOVES and _is_alike(types)):
        return handler(_with_types(c, storage))
    operands = [
        dequantized(c.b, inst, q) if (q := quantization_of(shape)) is not None else inst
        for inst, shape in zip(c.operands, op.operand_types, strict=True)
    ]
    made = handler(replace(_with_types(c, expressed), operands=operands))
    if len(op.result_types) == 1:
        q = quantization_of(op.result_types[0])
        return made if q is None else quantized(c.b, made, q)
    parts = []
    for i, shape in enumerate(op.result_types):
        part, q = c.b.element(made, i), quantization_of(shape)
        parts.append(part if q is None else quantized(c.b, part, q))
    return c.b.tuple(*parts)


def _with_types(c: Context, change: Callable[[Shape], Shape]) -> Context:
    operands, results = (list(map(change, t)) for t in (c.op.operand_types, c.op.result_types))
    return replace(c, op=replace(c.op, operand_types=operands, result_types=results))


def _is_alike(types: Sequence[Shape]) -> bool:
    """True where all quantized types have the same scales, whatever the dimension of these is."""
    found = [q for s in types if (q := quantization_of(s)) is not None]
    return len({replace(q, axis=None if q.axis is None else 0) for q in found}) == 1


def dequantized(b: Builder, x: Instruction, q: Quantization) -> Instruction:
    """Append the numbers that stored integers stand for."""
    # Differences of 16 bits and less have no rounding and no overflow in 32.
    wide = S32 if q.storage.bits <= 16 else S64
    shape = x.array_shape
    zero = _constant(b, shape.with_type(wide), q, q.zero_points)
    offset = b.op("subtract", b.convert(x, wide), zero)
    scale = _constant(b, shape.with_type(q.expressed), q, q.scales)
    return b.op("multiply", b.convert(offset, q.expressed), scale)


def quantized(b: Builder, x: Instruction, q: Quantization) -> Instruction:
    """Append the integers that are stored for numbers: rounded to the nearest, even for halves."""
    shape = x.array_shape
    if shape.element_type is not q.expressed:
        raise InferError(f"numbers of {shape.element_type} do not become a type that expresses "
                         f"{q.expressed}", code="type-mismatch")  # fmt: skip
    scaled = b.op("divide", x, _constant(b, shape, q, q.scales))
    moved = b.op("add", scaled, _constant(b, shape, q, q.zero_points))
    low, high = (b.broadcast(b.constant(q.expressed, n), shape) for n in (q.low, q.high))
    clamped = b.op("clamp", low, moved, high)
    return b.convert(b.op("round-nearest-even", clamped), q.storage)


def _constant(
    b: Builder, shape: ArrayShape, q: Quantization, values: Sequence[float]
) -> Instruction:
    """Append the scales or zero points of an array: one number, or one for each of an axis."""
    et = shape.element_type
    if q.axis is None:
        return b.broadcast(b.constant(et, values[0]), shape)
    along = ArrayShape(et, (len(values),))
    literal = b.literal(Literal.of(np.array(values).astype(et.dtype)))
    assert literal.array_shape.dims == along.dims
    return b.op("broadcast", literal, shape=shape, dimensions=(q.axis,))
