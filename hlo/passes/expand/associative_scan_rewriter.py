"""Scans of one operation as running reductions."""

from __future__ import annotations

from hlo.expansions import Draft
from hlo.ir import Computation, Instruction, Module
from hlo.ir.builder import build_reducer
from hlo.ops.attrs import SliceDim, WindowDim
from hlo.passes.expand._inline import expand_instructions, rounds
from hlo.passes.expand._reducers import identity, identity_of
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites


@module_pass
def associative_scan_rewriter(module: Module, rewrites: Rewrites) -> None:
    """Express associative scans of a single operation by a `reduce-window`.

    Its windows are as long as the dimension; reduce-window-rewriter computes them in blocks.
    """
    rule = "associative_scan_rewriter.rewrite"
    expand_instructions(module, rewrites, rule, ["scan"], _expanded, approximate=rounds)


def _expanded(inst: Instruction) -> Computation | None:
    op = _operation(inst)
    if op is None or inst.operands[0].shape.is_dynamic:
        return None
    d = Draft(inst)
    x, carry = d.parameters
    (dim,), shape = inst.dimensions, x.array_shape
    size, et = shape.dims[dim], shape.element_type
    if not size:
        return None
    ends = (0, size - 1) if inst.is_reverse else (size - 1, 0)
    window = tuple(
        WindowDim(size, 1, *ends) if n == dim else WindowDim() for n in range(shape.rank)
    )
    running = d.op(
        "reduce-window", x, identity(d, op, et), window=window, to_apply=build_reducer(op, et, inst)
    )
    others = tuple(n for n in range(shape.rank) if n != dim)
    begin = d.op("broadcast", carry, shape=running.array_shape, dimensions=others)
    results = d.op(op, begin, running)
    at = 0 if inst.is_reverse else size - 1
    last = tuple(
        SliceDim(at, at + 1) if n == dim else SliceDim(0, m) for n, m in enumerate(shape.dims)
    )
    end = d.reshape(d.op("slice", results, slice=last), carry.array_shape.dims)
    parts = [d.relaid(p, s) for p, (_, s) in zip((results, end), inst.shape.leaves(), strict=True)]
    return d.done(d.tuple(*parts))


def _operation(inst: Instruction) -> str | None:
    """Return the operation of a scan that gives running results of it, and the last one."""
    root = inst.to_apply.root
    if not inst.is_associative or len(inst.operands) != 2 or root.opcode != "tuple":
        return None
    if inst.num_carries != 1 or len(root.operands) != 2:
        return None
    step, same = root.operands
    parameters = {p.name for p in inst.to_apply.parameters}
    if step is not same or len(step.operands) != 2 or {o.name for o in step.operands} != parameters:
        return None
    shapes = [step.array_shape, *(o.array_shape for o in step.operands)]
    types = {s.element_type for s in shapes}
    if len(types) > 1 or identity_of(step.opcode, shapes[0].element_type) is None:
        return None
    return step.opcode
