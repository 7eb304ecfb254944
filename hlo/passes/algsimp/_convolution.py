"""convolution, whose padding is zeros that are multiplied too."""

from __future__ import annotations

from dataclasses import replace

from hlo.ir import Instruction
from hlo.ir.builder import Builder
from hlo.ops.attrs import PadDim, WindowDim
from hlo.passes.algsimp._match import dims_of, filled, is_splat, type_of
from hlo.passes.algsimp._reducers import by_type
from hlo.passes.algsimp._rules import rule
from hlo.passes.algsimp._window import with_padding
from hlo.values.types import array


def _convolution(
    b: Builder, inst: Instruction, lhs: Instruction, rhs: Instruction, window: tuple[WindowDim, ...]
) -> Instruction:
    """Append a convolution like another, of other operands under another window."""
    attrs = {**inst.attrs, "window": window}
    return b.op("convolution", lhs, rhs, shape=array(type_of(inst), dims_of(inst)), **attrs)


def _is_dense(inst: Instruction) -> bool:
    return inst.sparsity_config is None


@rule("convolution", "convolution(x, w) = 0, for an empty x or w")
def convolution_of_nothing(inst: Instruction, b: Builder) -> Instruction | None:
    if not _is_dense(inst) or all(x.array_shape.num_elements for x in inst.operands):
        return None
    return filled(b, inst, 0)


@by_type("convolution", "convolution(pad(x, 0), w) = convolution(x, w), with padding", on="pad")
def convolution_of_pad(inst: Instruction, b: Builder) -> Instruction | None:
    padded = inst.operands[0]
    if padded.opcode != "pad" or not _is_dense(inst) or not is_splat(padded.operands[1], 0):
        return None
    d = inst.dim_labels
    x, pads = padded.operands[0], padded.padding
    if any(pads[i] != PadDim(0, 0) for i in (d.input_batch, d.input_feature)) or 0 in dims_of(x):
        return None
    window = with_padding(inst.window, tuple(pads[i] for i in d.input_spatial))
    return None if window is None else _convolution(b, inst, x, inst.operands[1], window)


@by_type(
    "convolution", "convolution(x, reverse(w)) = convolution(x, w), with reversal", on="reverse"
)
def convolution_of_reverse(inst: Instruction, b: Builder) -> Instruction | None:
    turned, d = inst.operands[1], inst.dim_labels
    if turned.opcode != "reverse" or not _is_dense(inst):
        return None
    dims = turned.dimensions
    if any(i not in d.kernel_spatial for i in dims):
        return None
    window = tuple(
        replace(w, reversal=w.reversal != (i in dims))
        for i, w in zip(d.kernel_spatial, inst.window, strict=True)
    )
    return _convolution(b, inst, inst.operands[0], turned.operands[0], window)


@by_type("convolution", "convolution(x, w) = dot(x, w), for windows of one element")
def convolution_as_dot(inst: Instruction, b: Builder) -> Instruction | None:
    """Only if the result's dimensions are in the order of a dot."""
    x, w = inst.operands
    d = inst.dim_labels
    if inst.feature_group_count != 1 or inst.batch_group_count != 1:
        return None
    if not _is_dense(inst) or any(replace(i, reversal=False) != WindowDim() for i in inst.window):
        return None
    taken = [d.input_batch, *d.input_spatial]
    given = [d.output_batch, *d.output_spatial]
    order = [given[taken.index(i)] for i in sorted(taken)]
    small = b.reshape(w, [dims_of(w)[i] for i in sorted((d.kernel_input, d.kernel_output))])
    from_input = 0 if d.kernel_input < d.kernel_output else 1
    options = {
        "operand_precision": inst.operand_precision, "algorithm": inst.algorithm,
    }  # fmt: skip
    if [*order, d.output_feature] == sorted([*order, d.output_feature]):
        return b.op(
            "dot", x, small, shape=array(type_of(inst), dims_of(inst)),
            lhs_contracting_dims=(d.input_feature,), rhs_contracting_dims=(from_input,), **options,
        )  # fmt: skip
    return None


@rule("convolution", "a window of one element is the same in reverse")
def convolution_without_reversal(inst: Instruction, b: Builder) -> Instruction | None:
    window = inst.window
    plain = tuple(replace(w, reversal=w.reversal and w.size > 1) for w in window)
    if plain == window:
        return None
    return _convolution(b, inst, inst.operands[0], inst.operands[1], plain)
