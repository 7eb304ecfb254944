"""reduce-window, which ignores padding and dilation holes."""

from __future__ import annotations

from dataclasses import replace

from hlo.ir import Instruction
from hlo.ir.builder import Builder
from hlo.ops.attrs import PadDim, SliceDim, WindowDim
from hlo.passes.algsimp._match import dims_of, type_of
from hlo.passes.algsimp._reducers import by_order, combined, combiner, is_neutral, reduce
from hlo.passes.algsimp._rules import rule


@rule("reduce-window", "reduce-window(x, c) = c op slice(x), for windows of one element")
def window_of_one(inst: Instruction, b: Builder) -> Instruction | None:
    op = combiner(inst)
    if op is None or (type_of(inst).is_complex and op != "add"):
        return None
    x, init = inst.operands
    window: tuple[WindowDim, ...] = inst.window
    if any(w.size != 1 or w.pad_low or w.pad_high or w.lhs_dilate != 1 for w in window):
        return None
    if 0 in dims_of(x):
        return None
    if any(w.stride != 1 for w in window):
        slices = tuple(SliceDim(0, n, w.stride) for n, w in zip(dims_of(x), window, strict=True))
        x = b.op("slice", x, slice=slices)
    return combined(b, op, init, x)


@by_order("reduce-window", "reduce-window(x, c) = reduce(x, c), for windows of whole dimensions")
def window_of_all(inst: Instruction, b: Builder) -> Instruction | None:
    x, window = inst.operands[0], inst.window
    whole = []
    for d, (n, w, out) in enumerate(zip(dims_of(x), window, dims_of(inst), strict=True)):
        if w == replace(WindowDim(), reversal=w.reversal):
            continue
        covers = w.pad_low >= 0 and w.size - w.pad_low >= n
        if out != 1 or not covers or w.lhs_dilate != 1 or w.rhs_dilate != 1:
            return None
        whole.append(d)
    return b.reshape(reduce(b, inst, x, whole), dims_of(inst)) if whole else None


@by_order("reduce-window", "reduce-window(pad(x, e)) = reduce-window(x), with padding, neutral e")
def window_of_pad(inst: Instruction, b: Builder) -> Instruction | None:
    inner, op = inst.operands[0], combiner(inst)
    if inner.opcode != "pad" or op is None or not is_neutral(op, inner.operands[1]):
        return None
    window = with_padding(inst.window, inner.padding)
    if window is None or 0 in dims_of(inner.operands[0]):
        return None
    return b.op(
        "reduce-window", inner.operands[0], inst.operands[1], window=window,
        to_apply=inst.to_apply,
    )  # fmt: skip


def with_padding(
    window: tuple[WindowDim, ...], padding: tuple[PadDim, ...]
) -> tuple[WindowDim, ...] | None:
    """Return a window over an array equal to `window` over the padded array; None for negative
    sizes.

    What is padded is dilated after that, with the elements.
    """
    if any(min(p.low, p.high) < 0 for p in padding):
        return None
    return tuple(
        replace(
            w,
            pad_low=w.pad_low + p.low * w.lhs_dilate,
            pad_high=w.pad_high + p.high * w.lhs_dilate,
            lhs_dilate=w.lhs_dilate * (p.interior + 1),
        )
        for w, p in zip(window, padding, strict=True)
    )


@rule("reduce-window", "reduce-window(x, c) = broadcast(c), for an empty x")
def window_of_nothing(inst: Instruction, b: Builder) -> Instruction | None:
    if combiner(inst) is None or inst.operands[0].array_shape.num_elements:
        return None
    return b.broadcast(inst.operands[1], inst.array_shape)
