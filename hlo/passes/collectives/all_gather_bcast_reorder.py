"""Broadcasts that are gathered."""

from __future__ import annotations

from hlo.ir import Instruction, Module
from hlo.ir.builder import Builder
from hlo.passes.collectives._collective import is_movable
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import RuleSet
from hlo.values.types import array

_RULES = RuleSet("all_gather_bcast_reorder")


@module_pass
def all_gather_bcast_reorder(module: Module, rewrites: Rewrites) -> None:
    """Gather before broadcasting, so that less data is exchanged between devices."""
    _RULES.apply(module, rewrites)


@_RULES.rule("all-gather", "all-gather(broadcast(x)) = broadcast(all-gather(x))")
def gathered_broadcast(inst: Instruction, b: Builder) -> Instruction | None:
    broadcast = inst.operands[0]
    if broadcast.opcode != "broadcast" or not is_movable(inst):
        return None
    if not inst.array_shape.num_elements:
        return None
    x, dims = broadcast.operands[0], broadcast.dimensions
    (along,), shape = inst.dimensions, inst.array_shape
    uniform = (n for d, n in enumerate(shape.dims) if d not in (*dims, along))
    if all(n == 1 for n in uniform):
        return None  # nothing less would go between devices
    et, inner, part = shape.element_type, x.array_shape.dims, broadcast.array_shape.dims[along]
    if along in dims:
        at = dims.index(along)
        whole = array(et, [shape.dims[along] if d == at else n for d, n in enumerate(inner)])
        gathered = b.op("all-gather", x, shape=whole, **(inst.attrs | {"dimensions": (at,)}))
        return b.op("broadcast", gathered, shape=array(et, shape.dims), dimensions=dims)
    # One value for each device in front, whose places in the result are side by side.
    count = shape.dims[along] // part
    row = b.reshape(x, (1, *inner))
    gathered = b.op(
        "all-gather", row, shape=array(et, (count, *inner)), **(inst.attrs | {"dimensions": (0,)})
    )
    apart = (*shape.dims[:along], count, part, *shape.dims[along + 1 :])
    moved = (along, *(d + (d > along) for d in dims))
    return b.reshape(b.op("broadcast", gathered, shape=array(et, apart), dimensions=moved),
                     shape.dims)  # fmt: skip
