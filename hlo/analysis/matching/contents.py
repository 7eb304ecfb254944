"""What computations contain: numbers that those share which differ in names and order only."""

from __future__ import annotations

from hlo.analysis.matching.colours import downward, upward
from hlo.analysis.matching.graphs import Graph, graph_of
from hlo.analysis.matching.labels import Labels, Numbers
from hlo.analysis.matching.values import comparable_config
from hlo.ir import Computation, Instruction, Module


class Contents:
    """Numbers of the contents of computations, of several modules, and their graphs."""

    def __init__(self, labels: Labels) -> None:
        self._labels = labels
        self._numbers = Numbers()
        self._of: dict[Computation, int] = {}
        self._graphs: dict[Computation, Graph] = {}

    def add(self, module: Module) -> None:
        """Number the computations that others call; the entry is large, and no copy of another."""
        for comp in module.callees_first():
            if comp is not module.entry:
                self._of[comp] = self._describe(comp)

    def _describe(self, comp: Computation) -> int:
        graph = self.graph(comp)
        labels = [self.whole(inst) for inst in graph.nodes]
        fixed, free = [0] * len(labels), range(len(labels))
        up = upward(graph, labels, fixed, free, self._numbers)
        down = downward(graph, labels, fixed, free, self._numbers)
        both = tuple(sorted(zip(up, down, strict=True)))
        config = comparable_config(comp.backend_config)
        return self._numbers["computation", comp.execution_thread, config, both]

    def number(self, comp: Computation) -> int:
        """Return the number of a computation's contents."""
        found = self._of.get(comp)
        if found is None:
            found = self._of[comp] = self._describe(comp)
        return found

    def graph(self, comp: Computation) -> Graph:
        """Return the graph of a computation."""
        found = self._graphs.get(comp)
        if found is None:
            found = self._graphs[comp] = graph_of(comp)
        return found

    def own(self, inst: Instruction) -> int:
        """Return the label of an instruction by itself."""
        return self._labels.own(inst)

    def whole(self, inst: Instruction) -> int:
        """Return the label of an instruction together with the computations that it calls."""
        own = self._labels.own(inst)
        if not inst.spec.computation_attrs:
            return own
        called = tuple([self.number(c) for c in inst.called_computations])
        return self._numbers["calls", own, called]
