"""Kernel scheduling for a small arena.

The first use of a page of memory takes the system longer than many kernels take to fill it, so that
an arena of gigabytes costs seconds. The order of the text often keeps values alive for a use that
could come much earlier, such as activations for the gradient of a weight.
"""

from __future__ import annotations

from dataclasses import dataclass

from hlo.analysis.fusion.operations import updated_operands
from hlo.analysis.fusion.roles import Role
from hlo.analysis.list_scheduling import Graph, depth_first_order, list_order, reverse_list_order
from hlo.codegen.plan.liveness import Liveness, Path, Storage, array_leaves
from hlo.codegen.plan.recompute import recompute
from hlo.codegen.plan.tree import computations_of
from hlo.ir import Computation, Instruction
from hlo.ops import Trait
from hlo.values.layout.plain import size_bytes

# Smaller arenas are not worth scheduling.
_LARGE_BYTES = 1 << 24


@dataclass
class Reordering:
    """What changed: whether the order of anything did, and whether values have copies."""

    is_new_order: bool = False
    has_copies: bool = False


def order_kernels(entry: Computation, live: Liveness) -> Reordering:
    """Reorder the instructions of a flattened computation, and of loops and branches in it.

    Side effects keep their order, and reads of the old value precede an in-place update.
    """
    found = Reordering()
    for comp in computations_of(entry):
        if _bytes(comp, live) < _LARGE_BYTES:
            continue
        graph, updated = _graph(comp, live)
        if graph.peak(graph.given) < _LARGE_BYTES:
            continue
        orders = [graph.given]
        orders += (find(graph) for find in (list_order, reverse_list_order, depth_first_order))
        order = min(orders, key=graph.peak)
        count = len(comp)
        order = recompute(comp, graph, order, live, updated)
        if order is not graph.given:
            comp.reorder(order)
            found.is_new_order = True
            found.has_copies |= len(comp) != count
    return found


# They have no memory of their own in the arena.
_UNSTORED = frozenset({Role.FUSED, Role.ALIAS, Role.SCALAR, Role.PARAMETER})


def _bytes(comp: Computation, live: Liveness) -> int:
    """Return the bytes of all values that a computation stores."""
    stored = [inst for inst in comp if live.roles[inst] not in _UNSTORED]
    return sum([size_bytes(leaf) for inst in stored for _, leaf in array_leaves(inst)])


def _graph(comp: Computation, live: Liveness) -> tuple[Graph, set[Storage]]:
    """Return dependences, definitions and uses of instructions, and the values updated in place."""
    given = comp.in_order()
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
        made[inst] = []
        for path, leaf in array_leaves(inst):
            stored = inst, path
            if live.of(inst, path) != stored or live.roles[inst] is Role.FUSED or not leaf.dims:
                continue
            taken = _taken(inst, path, live)
            if taken is not None and place.get(taken, taken) in size:
                # Readers of the old value come first.
                before[inst].update(dict.fromkeys(readers.get(taken, ())))
                place[stored] = place.get(taken, taken)
            else:
                made[inst].append(stored)
                size[stored] = 0 if inst.opcode == "parameter" else size_bytes(leaf)
        for stored in read:
            readers.setdefault(stored, []).append(inst)
        uses[inst] = [s for s in dict.fromkeys(place.get(s, s) for s in read) if s in size]
    ends = (live.of(comp.root, path) for path, _ in array_leaves(comp.root))
    results = frozenset(place.get(s, s) for s in ends) & size.keys()
    # They are not in the arena.
    size.update(dict.fromkeys(results, 0))
    graph = Graph(given, before, size, made, uses, dict.fromkeys(given, 0), results)
    return graph, {*place, *place.values()}


def _acts(inst: Instruction, live: Liveness) -> bool:
    return live.roles[inst] in (Role.HOST, Role.CONTROL) or inst.spec.has(Trait.SIDE_EFFECT)


def _reads(inst: Instruction, live: Liveness) -> list[Storage]:
    """Return the stored values that an instruction reads when it runs."""
    if live.roles[inst] is Role.CONTROL:
        return [live.of(o, path) for o in inst.operands for path, _ in array_leaves(o)]
    return live.reads.get(inst, [])


def _taken(inst: Instruction, path: Path, live: Liveness) -> Storage | None:
    """Return the value that an instruction may update in place, or None."""
    if inst.opcode == "while":
        taken, at = live.of(inst.operands[0], path), live.start[inst]
    elif path in (changed := updated_operands(inst)):
        taken, at = live.of(changed[path], ()), live.position[inst]
    else:
        return None
    return taken if live.is_dead(taken, at) and taken[0].opcode != "parameter" else None
