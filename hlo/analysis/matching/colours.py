"""An instruction described by what it computes, and by what becomes of it.

`upward` colours an instruction by its label and the colours of its operands, down to parameters and
constants; `downward` by its label and the colours of its users, up to the results. Two instructions
that are already matched are a colour of their own, whatever they are: so what lies between matched
ones is compared by itself.

In one computation, no two instructions that a result depends on have equal colours downward: the
operands to follow from the result to one of them lead nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hlo.analysis.matching.graphs import Graph
from hlo.analysis.matching.labels import Numbers


def upward(
    graph: Graph,
    labels: Sequence[int],
    fixed: Sequence[int],
    free: Iterable[int],
    numbers: Numbers,
) -> list[int]:
    """Return the colour of each instruction by what it depends on.

    fixed: the colour of a matched instruction, below 0. free: the others, in order.
    """
    colours = list(fixed)
    before = graph.before
    for n in free:
        operands = tuple([colours[o] for o in graph.operands[n]])
        if before[n]:
            control = tuple(sorted([colours[o] for o in before[n]]))
            colours[n] = numbers["up", labels[n], operands, control]
        else:
            colours[n] = numbers["up", labels[n], operands]
    return colours


def downward(
    graph: Graph,
    labels: Sequence[int],
    fixed: Sequence[int],
    free: Sequence[int],
    numbers: Numbers,
) -> list[int]:
    """Return the colour of each instruction by what depends on it; `fixed` and `free` as above."""
    colours = list(fixed)
    roots = graph.roots
    for n in reversed(free):
        users = [(colours[u], position) for u, position in graph.uses[n]]
        if len(users) > 1:
            users.sort()
        colours[n] = numbers["down", labels[n], tuple(users), n in roots]
    return colours
