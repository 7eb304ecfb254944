"""Asynchronous collectives, to overlap communication with other work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hlo.analysis.memory import computes, shape_bytes
from hlo.ir import Computation, Instruction, Module
from hlo.ir.builder import Builder, build_computation
from hlo.ir.calls import Calls
from hlo.ops import OPS, Category
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import has_opcode, unfused
from hlo.values.types import U32, ArrayShape, Shape, TupleShape, array

# The start of each operation that has one of its own.
_START = {spec.starts: spec for spec in OPS.values() if spec.starts is not None}


@module_pass
def async_collective_creator(
    module: Module,
    rewrites: Rewrites,
    *,
    convert_all_reduce: bool = True,
    convert_all_gather: bool = True,
    convert_collective_broadcast: bool = True,
    convert_collective_permute: bool = True,
    convert_all_to_all: bool = True,
    convert_reduce_scatter: bool = True,
    convert_ragged_all_to_all: bool = True,
    all_reduce_min_threshold_in_bytes: int = 0,
    all_gather_min_threshold_in_bytes: int = 0,
    reduce_scatter_min_threshold_in_bytes: int = 0,
    use_generic_async_start_done: bool = False,
    only_overlapping: bool = False,
) -> None:
    """Split collectives into start and done, between which other work can be scheduled.

    The thresholds are minimum sizes of the results. use_generic_async_start_done: use
    `async-start` also for collectives with a start opcode of their own. only_overlapping: those
    besides which there is something to compute that neither needs the result nor is needed for it.
    """
    least = {
        opcode: threshold
        for opcode, wanted, threshold in (
            ("all-reduce", convert_all_reduce, all_reduce_min_threshold_in_bytes),
            ("all-gather", convert_all_gather, all_gather_min_threshold_in_bytes),
            ("collective-broadcast", convert_collective_broadcast, 0),
            ("collective-permute", convert_collective_permute, 0),
            ("all-to-all", convert_all_to_all, 0),
            ("reduce-scatter", convert_reduce_scatter, reduce_scatter_min_threshold_in_bytes),
            ("ragged-all-to-all", convert_ragged_all_to_all, 0),
        )
        if wanted
    }
    if not has_opcode(module, least):
        return
    calls = Calls(module)
    for comp in unfused(module):
        chosen = [inst for inst in comp if _is_large(inst, least)]
        if only_overlapping:
            chosen = _overlapping(comp, chosen)
        for inst in chosen:
            if not rewrites.allow(f"async_collective_creator.{inst.opcode}", inst):
                continue
            own = inst.opcode in _START and not use_generic_async_start_done
            start, done = _own_start(inst) if own else _generic_start(inst)
            calls.added([start])
            for step in (start, done):
                notes = {k: v for k, v in inst.annotations.items() if k != "sharding"}
                step.annotations.update(notes)
            for before in inst.control_predecessors:
                start.add_control_predecessor(before)
            for after in inst.control_successors:
                after.add_control_predecessor(done)
            inst.replace_all_uses_with(done)
            calls.remove(inst)


def _is_large(inst: Instruction, least: Mapping[str, int]) -> bool:
    if inst.opcode not in least or shape_bytes(inst.shape) < least[inst.opcode]:
        return False
    return all(isinstance(s, ArrayShape) for s in inst.operand_shapes)


def _overlapping(comp: Computation, chosen: Sequence[Instruction]) -> list[Instruction]:
    """Return the instructions besides which an independent one computes something."""
    # By sets of bits, one for each that is chosen: those before and those after an instruction.
    bit = {inst: 1 << n for n, inst in enumerate(chosen)}
    order = comp.in_order()
    before: dict[Instruction, int] = {}
    after: dict[Instruction, int] = {}
    for inst in order:
        before[inst] = bit.get(inst, 0)
        for p in inst.predecessors():
            before[inst] |= before[p]
    for inst in reversed(order):
        after[inst] = bit.get(inst, 0)
        for user in (*inst.users, *inst.control_successors):
            after[inst] |= after[user]
    independent = 0
    for inst in order:
        if inst.spec.category not in (Category.COLLECTIVE, Category.ASYNC) and computes(inst):
            independent |= ~(before[inst] | after[inst])
    return [inst for inst in chosen if independent & bit[inst]]


def _own_start(inst: Instruction) -> tuple[Instruction, Instruction]:
    assert inst.parent is not None
    b = Builder(inst.parent, inst)
    shape: Shape = inst.shape
    if inst.opcode != "all-reduce":
        one = len(inst.operands) == 1
        operands = inst.operands[0].shape if one else TupleShape(tuple(inst.operand_shapes))
        shape = TupleShape((operands, inst.shape))
    if inst.opcode == "collective-permute":
        shape = TupleShape((operands, inst.shape, array(U32, ()), array(U32, ())))
    spec = _START[inst.opcode]
    start, (end,) = b.op(spec.name, *inst.operands, shape=shape, **inst.attrs), spec.continued_by
    return start, b.op(end, start, shape=inst.shape)


def _generic_start(inst: Instruction) -> tuple[Instruction, Instruction]:
    assert inst.parent is not None
    wrapped = build_computation(
        f"async_{inst.opcode}".replace("-", "_"), inst.operand_shapes,
        lambda b, *parameters: b.copy(inst, parameters), inst,
    )  # fmt: skip
    b = Builder(inst.parent, inst)
    shape = TupleShape((TupleShape(tuple(inst.operand_shapes)), inst.shape))
    start = b.op("async-start", *inst.operands, shape=shape, calls=wrapped)
    return start, b.op("async-done", start, shape=inst.shape)
