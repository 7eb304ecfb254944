"""Custom calls whose author says how they are partitioned, as with JAX's `custom_partitioning`.

After propagation the partitioner of a call is told the shardings of its operands and results. It
returns others, if it likes, and the program of each device. That becomes a manual computation.
"""

from __future__ import annotations

from collections.abc import Callable

from hlo.errors import InferError
from hlo.ir import Computation, Instruction, Module
from hlo.spmd.partitioners import PARTITIONERS
from hlo.spmd.propagation.annotations import leaf_shardings
from hlo.spmd.propagation.graph import TO_AUTOMATIC, TO_MANUAL, running_computations
from hlo.values.sharding import Sharding, TupleSharding, WholeSharding
from hlo.values.types import ArrayShape, Shape, TupleShape

_REPLICATED, _MANUAL = WholeSharding("replicated"), WholeSharding("manual")


def expand_custom_partitioning(module: Module, prepare: Callable[[Module], object]) -> None:
    """Have the calls in a module whose targets have a partitioner be what it says, in place.

    prepare: changes the program of a call to the form that the partitioner of modules takes.
    Raises InferError.
    """
    for comp in running_computations(module):
        for inst in list(comp):
            if inst.opcode == "custom-call" and inst.custom_call_target in PARTITIONERS:
                _expand(module, comp, inst, prepare)


def _expand(
    module: Module, comp: Computation, inst: Instruction, prepare: Callable[[Module], object]
) -> None:
    operands = [_arrays(o, o.shape) for o in inst.operands]
    results = _arrays(inst, inst.shape)
    given = [array for arrays in operands for array in arrays]
    if len(given) != len(inst.operands):
        raise InferError(
            f"custom-call: {inst.custom_call_target} is partitioned with arrays alone",
            code="type-mismatch",
        )
    made = PARTITIONERS[inst.custom_call_target](inst, given, results)
    prepare(made.module)
    entry = _import(module, made.module)
    shards = []
    for operand, sharding, local in zip(
        inst.operands, made.operands, entry.parameter_shapes, strict=True
    ):
        marked = _mark(comp, "Sharding", operand, operand.shape, sharding, inst)
        shards.append(_mark(comp, TO_MANUAL, marked, local, _MANUAL, inst))
    call = comp.create("call", entry.result_shape, shards, {"to_apply": entry}, like=inst)
    call.annotations["sharding"] = _manual(call.shape)
    outs: list[Instruction] = [call]
    if isinstance(call.shape, TupleShape):
        outs = [
            comp.create("get-tuple-element", s, [call], {"index": n}, like=inst)
            for n, s in enumerate(call.shape.elements)
        ]
        for out in outs:
            out.annotations["sharding"] = _MANUAL
    wholes = [
        _mark(comp, TO_AUTOMATIC, out, shape, sharding, inst)
        for out, (shape, _), sharding in zip(outs, results, made.results, strict=True)
    ]
    whole = wholes[0]
    if isinstance(inst.shape, TupleShape):
        whole = comp.create("tuple", inst.shape, wholes, like=inst)
        whole.annotations["sharding"] = TupleSharding(tuple(made.results))
    inst.replace_all_uses_with(whole)
    comp.remove(inst)


def _arrays(inst: Instruction, shape: Shape) -> list[tuple[ArrayShape, Sharding]]:
    shardings = leaf_shardings(inst.annotations.get("sharding", _REPLICATED), shape)
    return [
        (s, sharding or _REPLICATED)
        for (_, s), sharding in zip(shape.leaves(), shardings, strict=True)
        if isinstance(s, ArrayShape)
    ]


def _mark(
    comp: Computation, target: str, operand: Instruction, shape: Shape, sharding: Sharding,
    like: Instruction,
) -> Instruction:  # fmt: skip
    made = comp.create("custom-call", shape, [operand], {"custom_call_target": target}, like=like)
    made.annotations["sharding"] = sharding
    return made


def _manual(shape: Shape) -> Sharding:
    count = sum(1 for _ in shape.leaves())
    return TupleSharding((_MANUAL,) * count) if isinstance(shape, TupleShape) else _MANUAL


def _import(module: Module, other: Module) -> Computation:
    """Add another module's computations, which run on shards; returns its entry."""
    used = max((i.channel_id or 0 for i in module.instructions()), default=0)
    made: dict[Computation, Computation] = {}
    for comp in other.callees_first():
        made[comp] = copy = comp.clone(comp.name)
        for inst in copy:
            inst.replace_called(made)
            if inst.channel_id:
                inst.attrs["channel_id"] = inst.channel_id + used
            inst.annotations["sharding"] = _manual(inst.shape)
    for comp in other.computations:
        module.add(made[comp])
    return made[other.entry]
