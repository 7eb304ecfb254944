"""What computations contain: numbers that those share which differ in names and order only."""

from __future__ import annotations

from hlo.analysis.matching.colours import downward, upward
from hlo.analysis.matching.graphs import Graph, graph_of
from hlo.analysis.matching.labels import Labels, Numbers
from hlo.ir import Computation, Instruction, Module


class Contents:
    """Numbers of the contents of computations, of several modules, and their graphs."""

    def __init__(self, labels: Labels) -> None:
        self._labels = labels
        self._numbers = Numbers()
        self._of: dict[Computation, int] = {}
        self._graphs: dict[Computation, Graph] = {}

    def add(self, module: Module) -> None:
        """Number the computations of a module."""
        for comp in module.callees_first():
            graph = self._graphs[comp] = graph_of(comp)
            labels = [self.whole(inst) for inst in graph.nodes]
            free = [0] * len(labels)
            up = upward(graph, labels, free, self._numbers)
            down = downward(graph, labels, free, self._numbers)
            both = tuple(sorted(zip(up, down, strict=True)))
            key = "computation", comp.execution_thread, comp.backend_config, both
            self._of[comp] = self._numbers[key]

    def number(self, comp: Computation) -> int:
        """Return the number of a computation's contents."""
        return self._of[comp]

    def graph(self, comp: Computation) -> Graph:
        """Return the graph of a computation."""
        return self._graphs[comp]

    def own(self, inst: Instruction) -> int:
        """Return the label of an instruction by itself."""
        return self._labels.own(inst)

    def whole(self, inst: Instruction) -> int:
        """Return the label of an instruction together with the computations that it calls."""
        own = self._labels.own(inst)
        if not inst.spec.computation_attrs:
            return own
        called = tuple(self._of[c] for c in inst.called_computations)
        return self._numbers["calls", own, called]
