"""Running reductions in blocks."""

from __future__ import annotations

from hlo.errors import HloError
from hlo.expansions import Draft
from hlo.ir import Computation, Instruction, Module
from hlo.ops.attrs import PadDim, SliceDim, WindowDim
from hlo.passes.expand._inline import expand_instructions, rounds
from hlo.passes.expand._reducers import identity, reducer, without_overflow
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.values.types import array


@module_pass
def reduce_window_rewriter(module: Module, rewrites: Rewrites, *, base_length: int = 16) -> None:
    """Compute prefix sums, windows as long as their dimension, block by block.

    Within blocks, then over their totals: n log n steps instead of n^2. base_length: how long a
    block is, 2 or more. Sums of floats are in f64 until the end: in f32 blocks overflow where the
    whole does not.
    """
    if base_length < 2:
        raise HloError.at(
            "bad-pass-option", "reduce-window-rewriter: base_length must be at least 2"
        )

    def expansion(inst: Instruction) -> Computation | None:
        return _expanded(inst, base_length)

    rule = "reduce_window_rewriter.rewrite"
    expand_instructions(module, rewrites, rule, ["reduce-window"], expansion, approximate=rounds)


def _expanded(inst: Instruction, block: int) -> Computation | None:
    op, shape = reducer(inst), inst.operands[0].array_shape
    found = _running_dimension(inst)
    if op is None or found is None or shape.is_dynamic or not shape.num_elements:
        return None
    dim, is_reverse = found
    if shape.dims[dim] <= block:
        return None
    d = _Running(inst, op, dim, block)
    x, init = (d.convert(p, d.et) for p in d.parameters)
    if is_reverse:
        x = d.op("reverse", x, dimensions=(dim,))
    total = d.running(x, init)
    if is_reverse:
        total = d.op("reverse", total, dimensions=(dim,))
    return d.done(d.relaid(d.convert(total, inst.array_shape.element_type), inst.shape))


def _running_dimension(inst: Instruction) -> tuple[int, bool] | None:
    """Return the dimension along which results run, and whether from its end."""
    window: tuple[WindowDim, ...] = inst.window
    dims = [d for d, w in enumerate(window) if w != WindowDim()]
    if len(dims) != 1 or not inst.operands[0].shape.is_array:
        return None
    (dim,) = dims
    size = inst.operands[0].array_shape.dims[dim]
    for is_reverse, ends in ((False, (size - 1, 0)), (True, (0, size - 1))):
        if window[dim] == WindowDim(size, 1, *ends):
            return dim, is_reverse
    return None


class _Running(Draft):
    """Running reductions along a dimension, from its beginning."""

    def __init__(self, inst: Instruction, op: str, dim: int, block: int) -> None:
        super().__init__(inst)
        self.opcode, self.dim, self.block = op, dim, block
        self.et, self.function = without_overflow(inst, op)
        self.none = identity(self, op, self.et)

    def window(self, x: Instruction, init: Instruction, dim: int) -> Instruction:
        """Append running reductions by windows of the whole dimension."""
        size, rank = x.array_shape.dims[dim], x.array_shape.rank
        ones = [WindowDim()] * rank
        ones[dim] = WindowDim(size, 1, size - 1, 0)
        return self.op("reduce-window", x, init, window=tuple(ones), to_apply=self.function)

    def running(self, x: Instruction, init: Instruction) -> Instruction:
        dim, shape = self.dim, x.array_shape
        size = shape.dims[dim]
        if size <= self.block:
            return self.window(x, init, dim)
        blocks = -(-size // self.block)
        padded = self.padded(x, 0, blocks * self.block - size)
        before, after = shape.dims[:dim], shape.dims[dim + 1 :]
        apart = self.reshape(padded, (*before, blocks, self.block, *after))
        inside = self.window(apart, self.none, dim + 1)
        last = tuple(
            SliceDim(self.block - 1 if n == dim + 1 else 0, end)
            for n, end in enumerate(inside.array_shape.dims)
        )
        totals = self.reshape(self.op("slice", inside, slice=last), (*before, blocks, *after))
        # What comes before each block.
        earlier = self.padded(self.running(totals, self.none), 1, -1)
        start = self.op(self.opcode, self.broadcast(init, earlier.array_shape), earlier)
        dims = tuple(n for n in range(shape.rank + 1) if n != dim + 1)
        to = array(self.et, inside.array_shape.dims)
        whole = self.op(self.opcode, self.op("broadcast", start, shape=to, dimensions=dims), inside)
        flat = self.reshape(whole, (*before, blocks * self.block, *after))
        if blocks * self.block == size:
            return flat
        return self.op("slice", flat, slice=tuple(SliceDim(0, n) for n in shape.dims))

    def padded(self, x: Instruction, low: int, high: int) -> Instruction:
        """Append elements that change nothing before and behind, or cut some off."""
        if not low and not high:
            return x
        ends = (PadDim(low, high) if n == self.dim else PadDim(0, 0)
                for n in range(x.array_shape.rank))  # fmt: skip
        return self.op("pad", x, self.none, padding=tuple(ends))
