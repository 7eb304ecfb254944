"""Scans as loops."""

from __future__ import annotations

from hlo.expansions.draft import Draft, expansion
from hlo.expansions.dynamic.sized import static, static_array
from hlo.expansions.loop import counted_loop
from hlo.ir import Computation, Instruction
from hlo.ir.builder import Builder
from hlo.values.types import S32, ArrayShape, array


@expansion("scan")
def _scan(inst: Instruction) -> Computation | None:
    shapes = (s for shape in (inst.shape, *inst.operand_shapes) for _, s in shape.leaves())
    if any(isinstance(s, ArrayShape) and s.is_dynamic for s in shapes):
        return None
    return scan_loop(inst, takes_count=False)


def scan_loop(inst: Instruction, *, takes_count: bool) -> Computation:
    """Return a loop that calls a scan's function on one slice of each operand a step.

    takes_count: the number of steps is one more operand, an s32 scalar. Shapes are at their bounds.
    """
    function: Computation = inst.to_apply
    (dim,) = inst.dimensions
    shapes = [static_array(s) for _, s in inst.shape.leaves()]
    inputs = len(inst.operands) - inst.num_carries
    outputs = len(shapes) - inst.num_carries
    d = Draft(inst, [static(s) for s in inst.operand_shapes])
    length = (d.parameters[0].array_shape if inputs else shapes[0]).dims[dim]
    steps: int | Instruction = length
    if takes_count:
        steps = d.parameter(len(d.parameters), array(S32, ()), "count")

    def place(b: Builder, x: Instruction, at: Instruction) -> list[Instruction]:
        zero = b.constant(at.array_shape.element_type, 0)
        return [at if n == dim else zero for n in range(x.array_shape.rank)]

    def step(
        b: Builder, at: Instruction, values: list[Instruction], constants: list[Instruction]
    ) -> list[Instruction]:
        if inst.is_reverse:
            et = at.array_shape.element_type
            last = b.constant(et, length - 1)
            if takes_count:
                last = b.op("subtract", constants[inputs], b.constant(et, 1))
            at = b.op("subtract", last, at)
        slices = []
        for x in constants[:inputs]:
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

    start = [d.zeros(s) for s in shapes[:outputs]]
    carries = d.parameters[inputs : len(inst.operands)]
    for carry, shape in zip(carries, shapes[outputs:], strict=True):
        start.append(d.relaid(carry, shape))
    done = counted_loop(d, steps, start, d.parameters[:inputs], step) if length else start
    return d.done(d.tuple(*done) if inst.shape.is_tuple else done[0])
