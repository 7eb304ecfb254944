"""Kernels that write parts of their result, or places of a layout: a thread an element."""

from __future__ import annotations

import math
from collections.abc import Mapping

from hlo.analysis.fusion.roles import Role
from hlo.codegen.llvm import Index
from hlo.codegen.loops.address import Indices, num_positions, store_position, store_prefix
from hlo.codegen.loops.element import clamped_start
from hlo.codegen.loops.kernel import Kernel, split_index
from hlo.codegen.targets.base import Plan
from hlo.codegen.targets.gpu.base import Gpu, Grid
from hlo.codegen.targets.gpu.block import Block
from hlo.codegen.targets.gpu.kernels.grid import over_threads
from hlo.ir import Instruction
from hlo.values.layout.plain import loop_order

_THREADS = 256


def _indices(k: Kernel, operand: Instruction, at: Index) -> Indices:
    """Return the indices of an element by its number, in the order of the result's memory."""
    order, dims = loop_order(k.shape), operand.array_shape.dims
    parts = split_index(k.b, at, [dims[d] for d in order]) if order else []
    found = dict(zip(order, parts, strict=True))
    return tuple(found.get(d, 0) for d in range(len(dims)))


def _emit_update(k: Kernel) -> Grid:
    """Write an update into the result, whose buffer already contains the operand."""
    update = k.inst.operands[1]
    dims = update.array_shape.dims

    def element(number: Index) -> None:
        at = _indices(k, update, number)
        starts = clamped_start(k.elements, k.inst, 2, dims, k.shape.dims)
        target = tuple(k.b.add(s, i) for s, i in zip(starts, at, strict=True))
        k.store(k.elements.at(update, at), target)

    return over_threads(k, math.prod(dims), element)


def _emit_concatenate(k: Kernel) -> Grid:
    """Write each operand to its offset: some blocks for each of them."""
    assert isinstance(k.target, Gpu)
    b, (axis,) = k.b, k.inst.dimensions
    block = Block(b, k.target)
    b.is_careful = True
    number, first, offset = block.block_index(), 0, 0
    for operand in k.inst.operands:
        shape = operand.array_shape
        blocks = -(-shape.num_elements // _THREADS)
        is_mine = b.both(b.compare("sge", number, first), b.compare("slt", number, first + blocks))
        at = b.add(b.mul(b.sub(number, first), _THREADS), block.thread_index())
        with b.when(b.both(is_mine, b.compare("slt", at, shape.num_elements))):
            found = list(_indices(k, operand, at))
            value = k.elements.at(operand, tuple(found))
            found[axis] = b.add(found[axis], offset)
            k.store(value, tuple(found))
        first, offset = first + blocks, offset + shape.dims[axis]
    return Grid(k.shape.num_elements, 1.0, first, _THREADS)


def _emit_copy(k: Kernel) -> Grid:
    """Write an array in a layout with tiles, padding, or several elements in a byte."""
    (source,) = k.inst.operands
    shape, count = k.shape, num_positions(k.shape)
    assert shape.layout is not None
    prefix = shape.layout.dynamic_prefix_bytes

    def position(at: Index) -> None:
        if prefix:
            with k.b.when(k.b.compare("eq", at, 0)):
                store_prefix(k.b, shape, k.outputs[0])
        if count:
            store_position(k.b, shape, k.outputs[0], at, lambda i: k.elements.at(source, i))

    return over_threads(k, max(count, 1), position)


def _plan_update(inst: Instruction, _: Mapping[Instruction, Role], __: Gpu) -> Plan:
    return Plan((_emit_update,) if inst.operands[1].array_shape.num_elements else ())


def _plan_concatenate(inst: Instruction, _: Mapping[Instruction, Role], __: Gpu) -> Plan:
    return Plan((_emit_concatenate,) if inst.array_shape.num_elements else ())


def _plan_copy(_: Instruction, __: Mapping[Instruction, Role], ___: Gpu) -> Plan:
    return Plan((_emit_copy,))


PLANNERS = {
    "dynamic-update-slice": _plan_update,
    "concatenate": _plan_concatenate,
    "copy": _plan_copy,
}
