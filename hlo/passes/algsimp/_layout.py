"""copy and bitcast, whose semantics depend on layouts."""

from __future__ import annotations

from hlo.analysis.bitcasts import is_bitcast
from hlo.ir import Instruction
from hlo.ir.builder import Builder
from hlo.passes.algsimp._rules import rule
from hlo.values.types import ArrayShape, Layout

SENSITIVE = "layout_sensitive"


@rule("copy bitcast", "copy(x) = x, bitcast(x) = x, to the same shape and layout", dynamic=True)
def relaid_as_before(inst: Instruction, b: Builder) -> Instruction | None:
    x = inst.operands[0]
    return x if x.shape == inst.shape else None


@rule("copy bitcast", "copy(copy(x)) = copy(x), bitcast(bitcast(x)) = bitcast(x)")
def relaid_twice(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    if inner.opcode != inst.opcode:
        return None
    return b.op(inst.opcode, inner.operands[0], shape=inst.shape)


def _plain_order(shape: ArrayShape) -> tuple[int, ...] | None:
    """Return the dimensions from major to minor of an array without tiles or padding."""
    layout = shape.layout
    if layout is None or layout != Layout(layout.minor_to_major):
        return None
    return layout.minor_to_major[::-1]


@rule("transpose", "transpose(x) = bitcast(x), where elements stay in their places in memory",
      option=SENSITIVE)  # fmt: skip
def transpose_as_bitcast(inst: Instruction, b: Builder) -> Instruction | None:
    return b.op("bitcast", inst.operands[0], shape=inst.shape) if is_bitcast(inst) else None


@rule("reshape", "reshape(x) = bitcast(x), where elements stay in their places in memory",
      option=SENSITIVE)  # fmt: skip
def reshape_as_bitcast(inst: Instruction, b: Builder) -> Instruction | None:
    return b.op("bitcast", inst.operands[0], shape=inst.shape) if is_bitcast(inst) else None


@rule("copy", "copy(x) = bitcast(x), where only sizes of one move in memory", option=SENSITIVE)
def copy_as_bitcast(inst: Instruction, b: Builder) -> Instruction | None:
    x = inst.operands[0]
    if not isinstance(x.shape, ArrayShape):
        return None
    old, new = _plain_order(x.shape), _plain_order(inst.array_shape)
    if old is None or new is None:
        return None
    sizes = x.shape.dims
    if [d for d in old if sizes[d] != 1] != [d for d in new if sizes[d] != 1]:
        return None
    return b.op("bitcast", x, shape=inst.shape)
