"""The order of kernels in which the arena is small.

First use of a page of memory takes the system longer than many a kernel takes to fill it, so that
an arena of gigabytes costs seconds. The order of the text often has values wait for a use that
could have come long before, as the gradient of a weight does for its activations.
"""

from __future__ import annotations

from collections.abc import Iterator

from hlo.analysis.schedule import Graph, depth_first_order, list_order, reverse_list_order
from hlo.codegen.address import size_bytes
from hlo.codegen.buffers import Liveness, Path, Storage
from hlo.codegen.fusion import Role
from hlo.codegen.memory import updated_operands
from hlo.ir import Computation, Instruction
from hlo.ops import Trait
from hlo.types import ArrayShape

# Less than that is not worth the look.
_LARGE_BYTES = 1 << 24


def schedule(entry: Computation) -> None:
    """Reorder the instructions of a flattened computation, and of loops and branches in it.

    What happens outside keeps its order, and what is updated in place is read before as it was.
    """
    live = Liveness()
    live.visit(entry)
    for comp in _all_of(entry):
        graph = _graph(comp, live, comp is entry)
        if graph.peak(graph.given) < _LARGE_BYTES:
            continue
        orders = [graph.given]
        orders += (find(graph) for find in (list_order, reverse_list_order, depth_first_order))
        comp.reorder(min(orders, key=graph.peak))


def _all_of(entry: Computation) -> Iterator[Computation]:
    stack = [entry]
    while stack:
        comp = stack.pop()
        yield comp
        for inst in comp:
            if inst.opcode in ("while", "conditional"):
                stack += inst.called_computations


def _graph(comp: Computation, live: Liveness, is_entry: bool) -> Graph:
    given = comp.in_order()
    inside = dict.fromkeys(given, 0)
    size: dict[Storage, int] = {}
    made: dict[Instruction, list[Storage]] = {}
    uses: dict[Instruction, list[Storage]] = {}
    before: dict[Instruction, dict[Instruction, None]] = {}
    readers: dict[Storage, list[Instruction]] = {}
    # Values that take the memory of another.
    place: dict[Storage, Storage] = {}
    last_acting = None
    for inst in given:
        before[inst] = dict.fromkeys(inst.predecessors())
        if _acts(inst, live):
            if last_acting is not None:
                before[inst][last_acting] = None
            last_acting = inst
        read = _reads(inst, live)
        for stored in read:
            readers.setdefault(stored, []).append(inst)
        uses[inst] = [place.get(s, s) for s in read]
        made[inst] = []
        for path, leaf in inst.shape.leaves():
            if not isinstance(leaf, ArrayShape) or live.of(inst, path) != (inst, path):
                continue
            taken = _taken(inst, path, live)
            if taken is not None and place.get(taken, taken) in size:
                before[inst].update(dict.fromkeys(readers.get(taken, ())))
                before[inst].pop(inst, None)
                place[inst, path] = place.get(taken, taken)
            elif live.roles[inst] is not Role.FUSED and leaf.dims:
                made[inst].append((inst, path))
                size[inst, path] = 0 if inst.opcode == "parameter" else size_bytes(leaf)
    for inst in given:
        uses[inst] = [s for s in dict.fromkeys(uses[inst]) if s in size]
    results = set()
    for path, leaf in comp.root.shape.leaves():
        if isinstance(leaf, ArrayShape):
            stored = live.of(comp.root, path)
            results.add(place.get(stored, stored))
    results &= size.keys()
    # They are not in the arena.
    size.update(dict.fromkeys(results, 0))
    return Graph(given, before, size, made, uses, inside, frozenset(results))


def _acts(inst: Instruction, live: Liveness) -> bool:
    return live.roles[inst] in (Role.HOST, Role.CONTROL) or inst.spec.has(Trait.SIDE_EFFECT)


def _reads(inst: Instruction, live: Liveness) -> list[Storage]:
    """Return the stored values that an instruction reads when it runs."""
    if live.roles[inst] is Role.CONTROL:
        return [
            live.of(o, path)
            for o in inst.operands
            for path, leaf in o.shape.leaves()
            if isinstance(leaf, ArrayShape)
        ]
    return live.reads.get(inst, [])


def _taken(inst: Instruction, path: Path, live: Liveness) -> Storage | None:
    """Return the value that an instruction changes in place to be its result."""
    if inst.opcode == "while":
        taken, at = live.of(inst.operands[0], path), live.start[inst]
    elif path in (changed := updated_operands(inst)):
        taken, at = live.of(changed[path], ()), live.position[inst]
    else:
        return None
    return taken if live.is_dead(taken, at) and taken[0].opcode != "parameter" else None
