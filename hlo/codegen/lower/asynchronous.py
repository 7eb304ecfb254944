"""Collectives in two steps, as the plain ones, which start where the start is.

Where its done is the only user of a start, beside it, the plain collective only starts, and a
`WAIT` in the place of the done ends it: in between, the program computes. Otherwise, and where
there are scalars, which are in registers, all of it happens at the start.
"""

from __future__ import annotations

from collections.abc import Sequence

from hlo.analysis.started import started_by
from hlo.codegen.lower.relayout import add_relaid, plain, relaid
from hlo.ir import Computation, Instruction
from hlo.ir.builder import Builder
from hlo.ops import OPS
from hlo.ops.attrs.program import OutputAlias
from hlo.ops.collective.device_groups import exchanges
from hlo.ops.host.custom_targets import WAIT
from hlo.values.types import ArrayShape, Shape, TupleShape


def ends_apart(done: Instruction) -> bool:
    """True for the done of a collective of several devices that ends there."""
    start, comp = done.operands[0], done.parent
    if start.spec.starts is None or start.slice_sizes_list:
        return False
    if list(start.users) != [done] or start.parent is not comp or comp is None:
        return False
    counts = comp.module.device_counts if comp.module is not None else (1, 1)
    leaves = [s for shape in (*start.operand_shapes, _received(start)) for _, s in shape.leaves()]
    has_scalars = any(not isinstance(s, ArrayShape) or not s.dims for s in leaves)
    return not has_scalars and exchanges(start, counts)


def _received(start: Instruction) -> Shape:
    """Return the shape of what a start gets from others."""
    if start.opcode == "all-reduce-start":
        return start.shape
    assert isinstance(start.shape, TupleShape)
    return start.shape.elements[1]


def add_start(
    target: Computation, start: Instruction, operands: list[Instruction],
    callees: Sequence[Computation],
) -> Instruction:  # fmt: skip
    """Append the plain collective of a start.

    callees: replace its called computations. Returns the value of the start; of one that ends apart
    the collective alone, for `add_done`.
    """
    assert start.spec.starts is not None
    spec = OPS[start.spec.starts]
    attrs = {key: value for key, value in start.attrs.items() if key in spec.attrs}
    model = Instruction(start.name, spec.name, _received(start), operands, attrs)
    model.span = start.span
    made = add_relaid(target, model, operands, callees)
    model.drop_edges()
    if len(start.users) == 1 and ends_apart(next(iter(start.users))):
        return made
    b, shape = Builder(target, start), plain(start.shape)
    if start.opcode == "all-reduce-start":
        return relaid(target, made, shape)
    assert isinstance(shape, TupleShape)
    sent = b.tuple(*operands) if shape.elements[0].is_tuple else operands[0]
    contexts = (b.zeros(s) for s in shape.elements[2:])
    return relaid(target, b.tuple(sent, made, *contexts), shape)


def add_done(target: Computation, done: Instruction, collective: Instruction) -> Instruction:
    """Append the end of a collective that `add_start` has started; returns its result."""
    b, shape = Builder(target, done), collective.shape
    if isinstance(shape, TupleShape):
        results = [b.element(collective, n) for n in range(len(shape.elements))]
        aliases = [OutputAlias((n,), n, ()) for n in range(len(results))]
    else:
        results, aliases = [collective], [OutputAlias((), 0, ())]
    attrs = {"custom_call_target": WAIT, "output_to_operand_aliasing": tuple(aliases)}
    ended = target.create("custom-call", shape, [*results, *collective.operands], attrs, like=done)
    assert started_by(ended) is collective
    return relaid(target, ended, plain(done.shape))
