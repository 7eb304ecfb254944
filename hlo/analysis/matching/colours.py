"""An instruction described by what it computes, and by what becomes of it.

`upward` colours an instruction by its label and the colours of its operands, down to parameters and
constants; `downward` by its label and the colours of its users, up to the results. Two instructions
that are already matched are a colour of their own, whatever they are: so what lies between matched
ones is compared by itself.

In one computation, no two instructions that a result depends on have equal colours downward: the
operands to follow from the result to one of them lead nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence

from hlo.analysis.matching.graphs import Graph
from hlo.analysis.matching.labels import Numbers


def upward(
    graph: Graph, labels: Sequence[int], fixed: Sequence[int], numbers: Numbers
) -> list[int]:
    """Return the colour of each instruction by what it depends on.

    fixed: the colour of a matched instruction, below 0, or 0 for one that is not matched.
    """
    colours: list[int] = []
    for n, label in enumerate(labels):
        if fixed[n]:
            colours.append(fixed[n])
            continue
        key = ("up", label, tuple([colours[o] for o in graph.operands[n]]))
        if graph.before[n]:
            key += (tuple(sorted([colours[o] for o in graph.before[n]])),)  # type: ignore[assignment]
        colours.append(numbers[key])
    return colours


def downward(
    graph: Graph, labels: Sequence[int], fixed: Sequence[int], numbers: Numbers
) -> list[int]:
    """Return the colour of each instruction by what depends on it; `fixed` as above."""
    colours = [0] * len(labels)
    for n in range(len(labels) - 1, -1, -1):
        if fixed[n]:
            colours[n] = fixed[n]
            continue
        users = sorted([(colours[u], position) for u, position in graph.uses[n]])
        colours[n] = numbers["down", labels[n], tuple(users), n in graph.roots]
    return colours
