"""Scans as loops."""

from __future__ import annotations

from hlo.expansions.draft import Draft, expansion
from hlo.expansions.loop import counted_loop
from hlo.ir import Computation, Instruction
from hlo.ir.builder import Builder
from hlo.types import ArrayShape


@expansion("scan")
def _scan(inst: Instruction) -> Computation | None:
    """A loop that calls the function on one slice of each operand a step."""
    function: Computation = inst.attrs["to_apply"]
    (dim,) = inst.attrs["dimensions"]
    shapes = [s for _, s in inst.shape.leaves() if isinstance(s, ArrayShape)]
    leaves = [*shapes, *(o.array_shape for o in inst.operands)]
    if any(s.is_dynamic for s in leaves):
        return None
    inputs = len(inst.operands) - inst.attrs["num_carries"]
    outputs = len(shapes) - inst.attrs["num_carries"]
    steps = (inst.operands[0].array_shape if inputs else shapes[0]).dims[dim]

    def place(b: Builder, x: Instruction, at: Instruction) -> list[Instruction]:
        zero = b.constant(at.array_shape.element_type, 0)
        return [at if n == dim else zero for n in range(x.array_shape.rank)]

    def step(
        b: Builder, at: Instruction, values: list[Instruction], xs: list[Instruction]
    ) -> list[Instruction]:
        if inst.attrs["is_reverse"]:
            at = b.op("subtract", b.constant(at.array_shape.element_type, steps - 1), at)
        slices = []
        for x in xs:
            sizes = [1 if n == dim else size for n, size in enumerate(x.array_shape.dims)]
            piece = b.op("dynamic-slice", x, *place(b, x, at), dynamic_slice_sizes=tuple(sizes))
            slices.append(b.reshape(piece, (*sizes[:dim], *sizes[dim + 1 :])))
        args = [
            b.relaid(v, p.shape)
            for v, p in zip((*slices, *values[outputs:]), function.parameters, strict=True)
        ]
        made = b.op("call", *args, shape=function.root.shape, to_apply=function)
        results = [made]
        if made.shape.is_tuple:
            results = [b.element(made, n) for n in range(len(shapes))]
        stacked = []
        for whole, part in zip(values[:outputs], results, strict=False):
            sizes = [1 if n == dim else size for n, size in enumerate(whole.array_shape.dims)]
            piece = b.reshape(part, sizes)
            stacked.append(b.op("dynamic-update-slice", whole, piece, *place(b, whole, at)))
        return [*stacked, *results[outputs:]]

    d = Draft(inst)
    start = [d.zeros(s) for s in shapes[:outputs]]
    for carry, shape in zip(d.parameters[inputs:], shapes[outputs:], strict=True):
        start.append(d.relaid(carry, shape))
    done = counted_loop(d, steps, start, d.parameters[:inputs], step) if steps else start
    return d.done(d.tuple(*done) if inst.shape.is_tuple else done[0])
