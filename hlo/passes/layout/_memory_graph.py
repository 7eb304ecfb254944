"""The dependence graph of a computation for schedulers, with the memory of its values."""

from __future__ import annotations

from collections.abc import Callable

from hlo.analysis.list_scheduling import Graph
from hlo.analysis.memory import Peaks, Values
from hlo.ir import Computation, Instruction


def memory_graph(
    comp: Computation, peaks: Peaks, keeps_order: Callable[[Instruction], bool]
) -> Graph:
    """Return the dependences of a computation's instructions, and the buffers they use.

    keeps_order: true for instructions that stay in the order in which they are. Arguments take no
    memory: every schedule needs theirs.
    """
    given = comp.in_order()
    values = Values(given)
    for p in comp.parameters:
        values.size.update(dict.fromkeys(values.made(p), 0))
    before = {}
    last = None
    for inst in given:
        before[inst] = dict.fromkeys(inst.predecessors())
        if keeps_order(inst):
            if last is not None:
                before[inst][last] = None
            last = inst
    return Graph(
        given,
        before,
        values.size,
        made={i: values.made(i) for i in given},
        uses={i: tuple(values.used(i)) for i in given},
        inside={i: peaks.inside(i) for i in given},
        results=values.held_by(comp.root),
    )
