"""Gathers by loops of dynamic slices."""

from __future__ import annotations

from collections.abc import Sequence

from hlo.errors import HloError
from hlo.expansions import Draft
from hlo.expansions.loop import counted_loop
from hlo.ir import Computation, Instruction, Module
from hlo.ir.builder import Builder
from hlo.ops.movement.gather_scatter import index_dims
from hlo.passes.expand._inline import expand_instructions
from hlo.passes.expand._starts import Starts
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.values.types import array


@module_pass
def gather_expander(module: Module, rewrites: Rewrites, *, mode: str = "all") -> None:
    """Express gathers by a loop that copies one slice per iteration.

    mode: `all`, or `simple` for those of one slice, which need no loop.
    """
    if mode not in ("all", "simple"):
        raise HloError.at(
            "bad-pass-option", f"gather-expander: mode must be all or simple, not {mode}"
        )

    def expansion(inst: Instruction) -> Computation | None:
        return _expanded(inst, most=None if mode == "all" else 1)

    expand_instructions(module, rewrites, "gather_expander.expand", ["gather"], expansion)


def _expanded(inst: Instruction, most: int | None) -> Computation | None:
    operand, indices = inst.operands
    shape = inst.array_shape
    if any(i.array_shape.is_dynamic for i in (inst, operand, indices)):
        return None
    dims = index_dims(inst)
    starts = Starts.of(operand, indices, dims)
    if most is not None and starts.count > most:
        return None
    d = Draft(inst)
    sizes: Sequence[int] = inst.slice_sizes
    if 0 in sizes or not shape.num_elements:
        return d.done(d.zeros(shape))
    window = [sizes[n] for n in dims.window_dims(starts.rank)]

    def taken(b: Builder, x: Instruction, vectors: Instruction, at: Instruction) -> Instruction:
        """Append a slice as a row; `dynamic-slice` clamps starts as `gather` does."""
        place = starts.at(b, vectors, at)
        found = b.op("dynamic-slice", x, *place, dynamic_slice_sizes=tuple(sizes))
        return b.reshape(found, (1, *window))

    def step(
        b: Builder, at: Instruction, rows: list[Instruction], fixed: list[Instruction]
    ) -> list[Instruction]:
        x, vectors = fixed
        zeros = [b.constant(at.array_shape.element_type, 0)] * len(window)
        row = taken(b, x, vectors, at)
        return [b.op("dynamic-update-slice", rows[0], row, at, *zeros)]

    x = d.parameters[0]
    vectors = starts.vectors(d, d.parameters[1])
    if starts.count == 1:
        rows = taken(d, x, vectors, d.constant(starts.type, 0))
    else:
        all_rows = d.zeros(array(shape.element_type, (starts.count, *window)))
        rows = counted_loop(d, starts.count, [all_rows], [x, vectors], step)[0]
    rows = d.reshape(rows, (*starts.batch, *window))
    # Dimension `n` of the result is the batch's or the window's next one.
    offsets: Sequence[int] = inst.offset_dims
    batch, inner = iter(range(len(starts.batch))), iter(range(len(starts.batch), shape.rank))
    order = tuple(next(inner if n in offsets else batch) for n in range(shape.rank))
    if order != tuple(range(shape.rank)):
        rows = d.op("transpose", rows, dimensions=order)
    return d.done(d.relaid(rows, shape))
