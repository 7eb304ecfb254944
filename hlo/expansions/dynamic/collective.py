"""Collectives: arrays meet at their bounds, and results have the sizes of the operands.

The members of a group have operands of equal sizes. Where they have not, an error in the
interpreter, each takes its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from hlo.expansions.draft import expand
from hlo.expansions.dynamic.draft import SizedDraft, sized, unsupported, whole
from hlo.expansions.dynamic.sized import Sized, Value
from hlo.ir import Instruction

# Their result is of what is sent and of what is received, with contexts behind.
_PAIRED = ("all-gather-start", "collective-permute-start")


@sized(
    "all-gather", "all-gather-start", "all-reduce", "all-reduce-start", "all-to-all",
    "collective-broadcast", "collective-permute", "collective-permute-start",
    "collective-reduce", "reduce-scatter",
)  # fmt: skip
def _collective(d: SizedDraft, inst: Instruction, args: list[Value]) -> Value:
    alone = expand(inst)
    if alone is not None:
        return d.inlined(alone, args)
    if inst.slice_sizes_list:
        raise unsupported(inst, "buffers")
    data = args[:-1] if inst.has_dynamic_root else args
    # The dimension along which parts are put together, or apart.
    cut = inst.split_dimensions or ()
    if any(a.is_varying(dim) for a in data for dim in cut):
        raise unsupported(inst, "parts")
    made = whole(d, d.clone(inst, [d.at_bounds(a) for a in args]))
    if inst.opcode in _PAIRED:
        sent, received, *contexts = made
        return (_sized_like(sent, data, cut), _sized_like(received, data, cut), *contexts)
    return _sized_like(made, data, cut)


@sized("all-reduce-done")
def _reduced(d: SizedDraft, inst: Instruction, args: list[Value]) -> Value:
    return args[0]


@sized("all-gather-done", "collective-permute-done")
def _received(d: SizedDraft, inst: Instruction, args: list[Value]) -> Value:
    assert isinstance(args[0], tuple)
    return args[0][1]


def _sized_like(made: Value, operands: Sequence[Sized], cut: Sequence[int]) -> Value:
    """Return results, each with the sizes of its operand but along the dimension that is cut."""
    if isinstance(made, tuple):
        return tuple(_sized_like(m, [x], cut) for m, x in zip(made, operands, strict=True))
    sizes = enumerate(operands[0].sizes)
    return Sized(made.data, tuple(made.shape.dims[n] if n in cut else size for n, size in sizes))
