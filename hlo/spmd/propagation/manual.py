"""Manual regions: the axes along which parts of a program are written for one device already."""

from __future__ import annotations

from hlo.ir import Instruction, Module
from hlo.spmd.mesh import Axes
from hlo.spmd.propagation.annotations import is_call_of
from hlo.spmd.propagation.graph import TO_AUTOMATIC, TO_MANUAL, running_computations
from hlo.spmd.propagation.state import Graph, Value


def mark_manual(module: Module, graph: Graph) -> None:
    """Find what is in manual regions: what is computed from arrays that are, and for them alone.

    No axis of a region cuts an array in it, or one that is used in it.
    """
    if not any(v.manual for v in graph.values):
        return
    insts = [i for comp in running_computations(module) for i in comp]
    flows = [e for e in graph.edges if e.is_flow and e.prefix is None]
    is_changing = True
    while is_changing:
        is_changing = False
        for inst in insts:
            axes = _region(graph, inst)
            for value in graph.leaves[inst] if axes else ():
                is_changing |= _enter(value, axes)
        for edge in flows:
            source, target = edge.arrays
            is_changing |= _enter(target, source.manual)
        users = _users(graph, insts)
        for value in reversed(graph.values):
            regions = users.get(value.index, set())
            if not value.manual and len(regions) == 1 and value.inst.opcode != "parameter":
                is_changing |= _enter(value, next(iter(regions)))
    users = _users(graph, insts)
    for value in graph.values:
        for region in users.get(value.index, set()) if not value.manual else ():
            value.keep_off(region)


def _region(graph: Graph, inst: Instruction) -> Axes:
    """Return the manual axes of what an instruction computes."""
    if is_call_of(inst, TO_MANUAL, TO_AUTOMATIC) or inst.called_computations:
        return ()
    found = [v.manual for o in inst.operands for v in graph.leaves[o] if v is not None]
    return max(found, key=len, default=())


def _enter(value: Value | None, axes: Axes) -> bool:
    """Put a value into the region of some axes; returns whether it was outside."""
    if value is None or value.manual or not axes or any(set(d) & set(axes) for d in value.dims):
        return False
    value.manual = axes
    value.keep_off(axes)
    value.said = None
    return True


def _users(graph: Graph, insts: list[Instruction]) -> dict[int, set[Axes]]:
    """Return the regions that each value is used in, () being outside of all."""
    found: dict[int, set[Axes]] = {}
    for inst in insts:
        if is_call_of(inst, TO_MANUAL, TO_AUTOMATIC):
            continue
        results = [v for v in graph.leaves[inst] if v is not None]
        if inst.opcode == "get-tuple-element" and any(
            v in results for v in graph.leaves[inst.operands[0]]
        ):
            continue
        regions = {v.manual for v in results}
        for operand in inst.operands:
            for value in graph.leaves[operand]:
                # What hands a value on, as a tuple does, uses it nowhere itself.
                if value is not None and value not in results:
                    found.setdefault(value.index, set()).update(regions)
    return found
