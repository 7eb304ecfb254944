"""Attributes and layouts of single operations on arrays that XLA passes over."""

from __future__ import annotations

from dataclasses import replace

from hlo.errors import InferError
from hlo.ir import Instruction, Module
from hlo.ir.builder import Builder
from hlo.lenient.record import Note, inferred, is_as_declared
from hlo.ops.spec import OpRecord
from hlo.values.types import ArrayShape, Layout, compatible


def repair_arrays(module: Module, note: Note) -> None:
    """Repair windows, sparse convolutions, empty transforms, and bitcasts between padded tiles."""
    for comp in module.computations:
        for inst in comp.in_order():
            if inst.attrs.get("window"):
                _fill_reversal(inst, note)
            if inst.opcode == "convolution":
                _make_dense(inst, note)
            elif inst.opcode == "fft":
                _skip_empty_transform(inst, note)
            elif inst.opcode == "bitcast":
                _leave_out_padding(inst, note)


def _fill_reversal(inst: Instruction, note: Note) -> None:
    """Reverse no dimension behind those that a short `rhs_reversal` names."""
    if any(dim.reversal is None for dim in inst.window):
        note(inst.name, "reverses no dimension behind those that are named")
        inst.attrs["window"] = tuple(replace(d, reversal=bool(d.reversal)) for d in inst.window)


def _make_dense(inst: Instruction, note: Note) -> None:
    """Compute a convolution whose operands are whole without what it says of their sparsity."""
    if inst.sparsity_config is None or len(inst.operands) != 2:
        return
    dense = OpRecord.of(inst, inst.operand_shapes, {**inst.attrs, "sparsity_config": None})
    try:
        shape = inst.spec.infer(dense)
    except InferError:
        return
    if compatible(shape, inst.shape):
        note(inst.name, "computes with the operands as they are, whatever sparsity_config says")
        inst.attrs["sparsity_config"] = None


def _skip_empty_transform(inst: Instruction, note: Note) -> None:
    """Replace a transform without elements, whose lengths fit to no dimension of size 0."""
    shape = inst.shape
    if not isinstance(shape, ArrayShape) or shape.num_elements or is_as_declared(inst):
        return
    operand = inst.operands[0].shape
    if inst.fft_type in ("FFT", "IFFT") and compatible(shape, operand):
        assert inst.parent is not None
        note(inst.name, "computes nothing where there are no elements")
        inst.replace_all_uses_with(Builder(inst.parent, inst).zeros(shape))
        inst.parent.remove(inst)


def _leave_out_padding(inst: Instruction, note: Note) -> None:
    """Take a bitcast for one of the elements in row-major order, without the padding of tiles."""
    operand, shape = inst.operands[0].shape, inst.shape
    if not (isinstance(operand, ArrayShape) and isinstance(shape, ArrayShape)):
        return
    if inferred(inst) is not None or _bits(operand) != _bits(shape):
        return
    assert inst.parent is not None
    note(inst.name, "takes the elements without the padding of tiles")
    b = Builder(inst.parent, inst)
    value = b.op("copy", inst.operands[0], shape=_plain(operand))
    if not compatible(operand, shape):
        value = b.op("bitcast", value, shape=_plain(shape))
    inst.replace_all_uses_with(b.op("copy", value, shape=shape))
    inst.parent.remove(inst)


def _plain(shape: ArrayShape) -> ArrayShape:
    return shape.with_layout(Layout.default(shape.rank))


def _bits(shape: ArrayShape) -> int:
    """Return the size of the elements alone."""
    return shape.num_elements * shape.element_type.bits
