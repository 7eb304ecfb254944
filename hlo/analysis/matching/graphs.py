"""The graphs that are matched: a computation, or a module with its fusions and calls inlined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hlo.ir import Computation, Instruction, Module

# The position of a use that is a control dependence.
CONTROL = -1


@dataclass
class Graph:
    """Instructions by number, each after those that it depends on.

    Attributes:
        nodes: the instructions.
        operands: of each, the numbers of its operands, in order.
        before: of each, the numbers of its control predecessors.
        uses: of each, who uses it and at which position (`CONTROL` for a control dependence).
        roots: the numbers of results.
    """

    nodes: Sequence[Instruction]
    operands: list[tuple[int, ...]] = field(default_factory=list)
    before: list[tuple[int, ...]] = field(default_factory=list)
    uses: list[list[tuple[int, int]]] = field(default_factory=list)
    roots: set[int] = field(default_factory=set)

    def connect(self) -> None:
        """Find the uses of each instruction."""
        uses = self.uses = [[] for _ in self.nodes]
        for n, operands in enumerate(self.operands):
            for position, operand in enumerate(operands):
                uses[operand].append((n, position))
            for other in self.before[n]:
                uses[other].append((n, CONTROL))


def graph_of(comp: Computation) -> Graph:
    """Return a computation as a graph."""
    graph = Graph(comp.in_order())
    number = {inst: n for n, inst in enumerate(graph.nodes)}
    for inst in graph.nodes:
        graph.operands.append(tuple([number[o] for o in inst.operands]))
        before = inst.control_predecessors
        graph.before.append(tuple([number[p] for p in before]) if before else ())
    if comp.has_root:
        graph.roots.add(number[comp.root])
    graph.connect()
    return graph


def inlined(module: Module) -> Graph:
    """Return a module as one graph, in which fusions and calls are replaced by what they run.

    Only bodies with a single caller are inlined; other computations are parts without connection.
    Elements of a tuple that a body returns are those values themselves.
    """
    callers = module.callers()
    bodies = {
        comp: sites[0]
        for comp, sites in callers.items()
        if len(sites) == 1 and sites[0].opcode in ("fusion", "call")
    }
    nodes: list[Instruction] = []
    # Of each instruction met so far, what computes its value, outside or inside of bodies.
    value: dict[Instruction, Instruction] = {}
    graph = Graph(nodes)
    number: dict[Instruction, int] = {}
    for comp in module.callees_first():
        if comp in bodies:
            continue
        stack = [iter(comp.in_order())]
        sites: list[Instruction] = []
        while stack:
            inst = next(stack[-1], None)
            if inst is None:
                stack.pop()
                if sites:
                    site = sites.pop()
                    value[site] = value[site.called_computations[0].root]
                continue
            if _is_inlined(inst, bodies):
                body = inst.called_computations[0]
                for parameter in body.parameters:
                    value[parameter] = value[inst.operands[parameter.parameter_number]]
                sites.append(inst)
                stack.append(i for i in body.in_order() if i.opcode != "parameter")
                continue
            value[inst] = _element(inst, value)
            if value[inst] is inst:
                number[inst] = len(nodes)
                nodes.append(inst)
        graph.roots.add(number[value[comp.root]])
    for inst in nodes:
        graph.operands.append(tuple(number[value[o]] for o in inst.operands))
        graph.before.append(tuple(number[value[p]] for p in inst.control_predecessors))
    graph.connect()
    return graph


def _is_inlined(inst: Instruction, bodies: Mapping[Computation, Instruction]) -> bool:
    return inst.opcode in ("fusion", "call") and inst.called_computations[0] in bodies


def _element(inst: Instruction, value: Mapping[Instruction, Instruction]) -> Instruction:
    """Return what computes a value: of an element of a body's tuple, that element."""
    if inst.opcode != "get-tuple-element":
        return inst
    [operand] = inst.operands
    whole = value[operand]
    if whole is operand or whole.opcode != "tuple":
        return inst
    return value[whole.operands[inst.tuple_index]]
