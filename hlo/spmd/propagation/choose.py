"""The choice of shardings that nobody annotated, by what they cost.

Propagation takes the first sharding that reaches an array, which may make every product of a
network end in an all-reduce. Here, values that are computed from each other element by element are
one variable, its labels are the dimensions that a group of mesh axes may cut, and the tables of
costs are those of the operations between them, as the partitioner would do them. Groups of axes are
decided one after the other. What is annotated, and the parameters and results of the program, stay
as propagation left them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from hlo.analysis.trips import trip_count
from hlo.ir import Computation, Module
from hlo.spmd.mesh import Axes
from hlo.spmd.propagation.costs import Dims, EdgeCosts
from hlo.spmd.propagation.graph import running_computations
from hlo.spmd.propagation.labelling import least_labels, total_cost
from hlo.spmd.propagation.state import Edge, Graph, Value

# How much less all of it has to cost for other shardings than those that propagated.
_GAIN = 0.02
# Operations with more variables are counted operand by operand.
_MOST_VARIABLES = 3
_MOST_ROUNDS = 3
# How much computing counts: if less of it costs more bytes, then hardly.
_WORK = (1.0, 1 / 16)
# A device computes so many operations in the time in which it receives a byte.
_OPERATIONS_PER_BYTE = 64


def choose_shardings(module: Module, graph: Graph) -> None:
    """Replace the shardings of values that are free by those of least cost."""
    if graph.mesh.size == 1 or not any(v.is_bound and any(v.dims) for v in graph.values):
        return
    problem = _Problem(module, graph)
    before = {v.index: tuple(v.dims) for v in problem.free}
    blocks = _blocks(graph)
    for _ in range(_MOST_ROUNDS):
        if not any([problem.decide(block) for block in blocks]):
            break
    for value in problem.free:
        old = before[value.index]
        if tuple(value.dims) != old:
            cuts = ", ".join(str(graph.mesh.count(axes)) for axes in old)
            value.origins = [f"chosen by cost, in place of [{cuts}] that propagated"] * len(old)


def _blocks(graph: Graph) -> list[Axes]:
    """Return the groups of mesh axes that annotations use together, larger ones first."""
    mesh = graph.mesh
    together = [True] * max(0, len(mesh.sizes) - 1)
    for value in graph.values:
        if not value.is_bound:
            continue
        runs = [*value.dims, value.manual]
        for low in range(len(together)):
            for axes in runs:
                if low in axes or low + 1 in axes:
                    at = axes.index(low) if low in axes else -1
                    if at < 0 or axes[at + 1 : at + 2] != (low + 1,):
                        together[low] = False
    blocks: list[list[int]] = []
    for axis in mesh.axes:
        if blocks and together[axis - 1]:
            blocks[-1].append(axis)
        else:
            blocks.append([axis])
    return sorted(map(tuple, blocks), key=lambda b: (-mesh.count(b), b))


@dataclass(eq=False)
class _Variable:
    """Values with one sharding: computed from each other element by element.

    work: operations on their elements, all devices together.
    """

    number: int
    values: list[Value] = field(default_factory=list)
    work: float = 0.0

    @property
    def dims(self) -> Dims:
        return tuple(self.values[0].dims)


class _Problem:
    def __init__(self, module: Module, graph: Graph) -> None:
        self.graph, self.mesh = graph, graph.mesh
        self.costs = EdgeCosts(graph.mesh)
        self.free = [v for v in graph.values if not v.is_bound and v.dims]
        self.of: dict[int, _Variable] = {}
        self.variables: list[_Variable] = []
        runs = _runs(module)
        self._join()
        self.edges: list[tuple[Edge, float, int]] = []
        for edge in graph.edges:
            weight = runs.get(edge.inst.parent, 1.0) if edge.inst.parent is not None else 1.0
            inside = {self.of[v.index].number for v in edge.arrays if v.index in self.of}
            if not inside:
                continue
            is_inner = len(inside) == 1 and all(v.index in self.of for v in edge.arrays)
            if edge.is_uniform and is_inner:
                if not edge.is_flow:
                    variable = self.of[edge.arrays[0].index]
                    variable.work += weight * edge.arrays[0].shape.num_elements
            else:
                self.edges.append((edge, weight, self.costs.kind(edge)))

    def _join(self) -> None:
        parent = {v.index: v.index for v in self.free}
        by_index = {v.index: v for v in self.free}

        def find(i: int) -> int:
            while parent[i] != i:
                parent[i] = parent[parent[i]]
                i = parent[i]
            return i

        for edge in self.graph.edges:
            if edge.is_uniform:
                known = [v.index for v in edge.arrays if v.index in parent]
                for other in known[1:]:
                    if by_index[other].dims == by_index[known[0]].dims:
                        a, b = sorted((find(known[0]), find(other)))
                        parent[b] = a
        for value in self.free:
            root = find(value.index)
            if root not in self.of:
                self.of[root] = _Variable(len(self.variables))
                self.variables.append(self.of[root])
            self.of[value.index] = self.of[root]
            self.of[root].values.append(value)

    # --- one group of axes ----------------------------------------------------------------------

    def decide(self, block: Axes) -> bool:
        """Choose the dimensions that a group of axes cuts; returns whether any changed."""
        labels = [self._labels(v, block) for v in self.variables]
        costs = list(self._tables(labels))
        now = [0] * len(labels)
        for share in _WORK:
            tables = [(names, bytes_ + share * work) for names, bytes_, work in costs]
            found = least_labels(list(map(len, labels)), tables)
            gains = total_cost(tables, found) <= (1 - _GAIN) * total_cost(tables, now)
            if gains and self._moved(labels, found) <= self._moved(labels, now):
                break
        else:
            return False
        for variable, choices, label in zip(self.variables, labels, found, strict=True):
            for value in variable.values if label else ():
                value.dims = list(choices[label])
        return True

    def _moved(self, labels: Sequence[Sequence[Dims]], chosen: Sequence[int]) -> float:
        """Return the bytes that a device receives.

        A change of distribution that several instructions need is made once.
        """
        total = 0.0
        shared: dict[tuple[int, Dims], float] = {}
        for edge, weight, kind in self.edges:
            numbers = [self.of[v.index].number if v.index in self.of else -1 for v in edge.arrays]
            cut = tuple(
                labels[n][chosen[n]] if n >= 0 else tuple(v.dims)
                for n, v in zip(numbers, edge.arrays, strict=True)
            )
            cost = self.costs.cost(edge, kind, cut)
            total += weight * (cost.moved - sum(bytes_ for *_, bytes_ in cost.operands))
            for i, target, bytes_ in cost.operands:
                key = edge.arrays[i].index, target
                shared[key] = max(shared.get(key, 0.0), weight * bytes_)
        return total + sum(shared.values())

    def _labels(self, variable: _Variable, block: Axes) -> list[Dims]:
        """Return the ways to cut a variable along a group of axes: the present one first."""
        now = variable.dims
        rest = tuple(tuple(a for a in axes if a not in block) for axes in now)
        found = [now]
        off = 0
        for value in variable.values:
            off |= value.off
        if any(off >> a & 1 for a in block):
            return found
        shape = variable.values[0].shape
        options = [rest]
        for dim, size in enumerate(shape.dims):
            along = self._fitting(size, rest[dim], block)
            if along and not shape.is_dynamic_dim(dim):
                axes = tuple(sorted((*rest[dim], *along)))
                options.append((*rest[:dim], axes, *rest[dim + 1 :]))
        return found + [o for o in options if o != now]

    def _fitting(self, size: int, have: Axes, block: Axes) -> Axes:
        """Return the leading axes of a group that cut a size evenly, or all if it is large."""
        for length in range(len(block), 0, -1):
            count = self.mesh.count((*have, *block[:length]))
            if size >= count and size % count == 0:
                return block[:length]
        return block if size >= 2 * self.mesh.count((*have, *block)) else ()

    def _tables(
        self, labels: Sequence[Sequence[Dims]]
    ) -> Iterator[tuple[tuple[int, ...], np.ndarray, np.ndarray]]:
        """Yield variables, the bytes that combinations of their labels move, and their work."""
        for variable in self.variables:
            options = labels[variable.number]
            if variable.work and len(options) > 1:
                parts = [self.mesh.count(a for axes in o for a in axes) for o in options]
                work = variable.work / _OPERATIONS_PER_BYTE / np.array(parts)
                yield (variable.number,), np.zeros(len(options)), work
        known: dict[object, tuple[np.ndarray, np.ndarray]] = {}
        for edge, weight, kind in self.edges:
            for part, number in self._parts(edge, kind):
                options_of = [
                    tuple(labels[self.of[v.index].number]) if v.index in self.of
                    else (tuple(v.dims),)
                    for v in part.arrays
                ]  # fmt: skip
                names = [self.of[v.index].number if v.index in self.of else -1
                         for v in part.arrays]  # fmt: skip
                order = tuple(sorted(set(names) - {-1}))
                if all(len(labels[n]) == 1 for n in order):
                    continue
                places = tuple(order.index(n) if n >= 0 else -1 for n in names)
                key = number, tuple(options_of), places
                if key not in known:
                    sizes = [len(labels[n]) for n in order]
                    known[key] = self._table(part, number, options_of, places, sizes)
                moved, work = known[key]
                yield order, moved * weight, work * weight

    def _table(
        self, edge: Edge, kind: int, options: Sequence[Sequence[Dims]], places: Sequence[int],
        sizes: Sequence[int],
    ) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
        moved, work = np.empty(sizes), np.empty(sizes)
        for at in product(*map(range, sizes)):
            cut = tuple(o[at[p] if p >= 0 else 0] for o, p in zip(options, places, strict=True))
            cost = self.costs.cost(edge, kind, cut)
            moved[at], work[at] = cost.moved, cost.work
        return moved, work

    def _parts(self, edge: Edge, kind: int) -> Iterator[tuple[Edge, int]]:
        """Yield an edge, or where it has many variables, each of its operands with the result."""
        names = {self.of[v.index].number for v in edge.arrays if v.index in self.of}
        n = edge.num_operands
        if len(names) <= _MOST_VARIABLES or n in (0, len(edge.arrays)):
            yield edge, kind
            return
        for i in range(n):
            part = Edge(edge.index, edge.inst, (edge.arrays[i], edge.arrays[n]),
                        (edge.factors[i], edge.factors[n]), edge.table, (i, 0), 1)  # fmt: skip
            yield part, self.costs.kind(part)


def _runs(module: Module) -> dict[Computation, float]:
    """Return how often each computation runs, as far as the trip counts of loops are known."""
    comps = running_computations(module)
    found = dict.fromkeys(comps, 1.0)
    for comp in comps:
        for inst in comp:
            times = (trip_count(inst) or 1) if inst.opcode == "while" else 1
            for callee in inst.called_computations:
                if callee in found:
                    found[callee] = max(found[callee], min(found[comp] * times, 1e9))
    return found
