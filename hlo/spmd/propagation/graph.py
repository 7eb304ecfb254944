"""The graph that shardings propagate in: which leaves are one array, and what ties arrays together.

Tuples, the state of loops, calls and branches are structure: leaf by leaf, their arrays are those
of other instructions. Everything else is an edge with the factors of its operation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hlo.ir import Computation, Instruction, Module
from hlo.ops import Trait
from hlo.ops.factors import DimFactors
from hlo.spmd.mesh import Axes, DeviceMesh
from hlo.spmd.propagation.annotations import (
    ANNOTATION,
    PARAMETERS,
    RESULTS,
    Annotation,
    Annotations,
    is_allowed,
    is_call_of,
    leaf_shapes,
)
from hlo.spmd.propagation.state import Direction, Graph, Value
from hlo.values.types import ArrayShape

# Custom calls that return their operand, and the directions that shardings may pass them in.
MARKS = {
    "Sharding": Direction.BOTH,
    "xla.sdy.FuncResultSharding": Direction.BOTH,
    "ShardBarrierFrom": Direction.BACKWARD,
    "ShardBarrierTo": Direction.FORWARD,
    "xla.sdy.PropagationBarrier": Direction.NONE,
}
TO_MANUAL, TO_AUTOMATIC = "SPMDFullToShardShape", "SPMDShardToFullShape"
GROUP = "xla.sdy.ShardingGroup"
_CALLS = Trait.CALL | Trait.CONTROL_FLOW


def running_computations(module: Module) -> list[Computation]:
    """Return the entry and what runs on whole values: callers before callees."""
    found = {module.entry: None}
    work = [module.entry]
    while work:
        for inst in work.pop():
            if inst.spec.has(_CALLS) or inst.opcode.startswith("async-"):
                for callee in inst.called_computations:
                    if callee not in found:
                        found[callee] = None
                        work.append(callee)
    order = module.callees_first()
    order.reverse()
    return [comp for comp in order if comp in found]


def build_graph(module: Module, mesh: DeviceMesh, annotations: Annotations) -> Graph:
    """Return the graph of a module: its values have what annotations say, and nothing else."""
    return _Builder(module, mesh, annotations).build()


class _Builder:
    def __init__(self, module: Module, mesh: DeviceMesh, annotations: Annotations) -> None:
        self.module = module
        self.graph = Graph(mesh)
        self.comps = running_computations(module)
        self.annotations = annotations
        self.first: dict[Instruction, int] = {}
        self.shapes: list[object] = []
        self.places: list[tuple[Instruction, int]] = []
        self.said: list[Annotation | None] = []
        for comp in self.comps:
            for inst in comp:
                self.first[inst] = len(self.shapes)
                for leaf, shape in enumerate(leaf_shapes(inst.shape)):
                    self.shapes.append(shape)
                    self.places.append((inst, leaf))
                    self.said.append(annotations.get((inst, leaf)))
        self.parent = list(range(len(self.shapes)))
        # Flows of data between leaves that may have different shardings.
        self.flows: list[tuple[Instruction, int, int]] = []

    def build(self) -> Graph:
        for comp in self.comps:
            for inst in comp:
                self._join(inst)
        self._make_values()
        for inst, source, target in self.flows:
            a, b = self._value(source), self._value(target)
            if a is not None and b is not None and len(a.dims) == len(b.dims):
                self.graph.flow(inst, a, b)
        for comp in self.comps:
            for inst in comp:
                self._connect(inst)
        self._connect_groups()
        self._close_boundary()
        return self.graph

    # --- one array ------------------------------------------------------------------------------

    def _find(self, leaf: int) -> int:
        parent = self.parent
        while parent[leaf] != leaf:
            parent[leaf] = parent[parent[leaf]]
            leaf = parent[leaf]
        return leaf

    def _same(self, inst: Instruction, source: int, target: int, count: int) -> None:
        """State that leaves are the same arrays; annotations that differ keep them apart."""
        for i in range(count):
            a, b = self._find(source + i), self._find(target + i)
            if a == b:
                continue
            here, there = self.said[a], self.said[b]
            if here is not None and there is not None and here != there:
                self.flows.append((inst, source + i, target + i))
                continue
            first, second = min(a, b), max(a, b)
            self.parent[second] = first
            self.said[first] = here or there

    def _passed(self, inst: Instruction, source: int, target: int, count: int) -> None:
        """State that data flows from leaves to leaves, which may be distributed differently."""
        self.flows += [(inst, source + i, target + i) for i in range(count)]

    def _forward(self, inst: Instruction, source: int, target: int, count: int) -> None:
        """State that the result of an instruction is the leaves of an operand, unless annotated."""
        annotated = (inst, 0) in self.annotations or self._is_annotated(inst)
        (self._passed if annotated else self._same)(inst, source, target, count)

    def _is_annotated(self, inst: Instruction) -> bool:
        count = len(leaf_shapes(inst.shape))
        return any((inst, leaf) in self.annotations for leaf in range(count))

    def _join(self, inst: Instruction) -> None:
        here = self.first[inst]
        count = len(leaf_shapes(inst.shape))
        match inst.opcode:
            case "tuple":
                join = self._passed if self._is_target(inst) else self._forward
                for operand in inst.operands:
                    size = len(leaf_shapes(operand.shape))
                    join(inst, self.first[operand], here, size)
                    here += size
            case "get-tuple-element":
                source = inst.operands[0]
                at = _element(source, inst.tuple_index)
                self._forward(inst, self.first[source] + at, here, count)
            case "opt-barrier" | "add-dependency" | "domain" | "async-update" | "copy-done":
                self._forward(inst, self.first[inst.operands[0]], here, count)
            case "async-done":
                source = inst.operands[0]
                self._forward(inst, self.first[source] + _element(source, 1), here, count)
            case "copy-start":
                for at in (0, 1):
                    self._forward(inst, self.first[inst.operands[0]], here + at, 1)
            case "while":
                for leaf in (inst.body.parameters[0], inst.condition.parameters[0], inst.body.root):
                    self._same(inst, here, self.first[leaf], count)
                self._passed(inst, self.first[inst.operands[0]], here, count)
            case "conditional":
                for callee, operand in zip(
                    inst.called_computations, inst.operands[1:], strict=True
                ):
                    self._same(inst, here, self.first[callee.root], count)
                    self._pass_arguments(inst, callee, [operand])
            case "call" | "fusion":
                callee = inst.called_computations[0]
                self._same(inst, here, self.first[callee.root], count)
                self._pass_arguments(inst, callee, inst.operands)
            case "async-start" if inst.called_computations:
                callee = inst.called_computations[0]
                at = here
                for operand in inst.operands:
                    size = len(leaf_shapes(operand.shape))
                    self._passed(inst, self.first[operand], at, size)
                    at += size
                size = len(leaf_shapes(callee.root.shape))
                self._same(inst, here + _element(inst, 1), self.first[callee.root], size)
                self._pass_arguments(inst, callee, inst.operands)

    def _pass_arguments(
        self, inst: Instruction, callee: Computation, operands: Sequence[Instruction]
    ) -> None:
        for parameter, operand in zip(callee.parameters, operands, strict=True):
            count = len(leaf_shapes(parameter.shape))
            self._passed(inst, self.first[operand], self.first[parameter], count)

    def _is_target(self, inst: Instruction) -> bool:
        """Return whether a tuple is where its elements get the sharding of a result or a state."""
        users = inst.users
        return inst.is_root or (len(users) == 1 and users[0].opcode == "while")

    # --- values ---------------------------------------------------------------------------------

    def _make_values(self) -> None:
        made: dict[int, Value] = {}
        for leaf, shape in enumerate(self.shapes):
            inst, _ = self.places[leaf]
            here = self.graph.leaves.setdefault(inst, [])
            if not isinstance(shape, ArrayShape):
                here.append(None)
                continue
            root = self._find(leaf)
            if root not in made:
                made[root] = self._make(root, shape)
            here.append(made[root])
        for comp in self.comps:
            for inst in comp:
                self.graph.leaves.setdefault(inst, [])

    def _make(self, root: int, shape: ArrayShape) -> Value:
        inst, number = self.places[root]
        values = self.graph.values
        rank = shape.rank
        value = Value(len(values), inst, number, shape, [()] * rank, [True] * rank, [""] * rank)
        said = self.said[root]
        if said is not None:
            value.is_bound = True
            value.manual = said.spec.manual
            value.keep_off((*said.spec.manual, *said.spec.unreduced, *said.replicated))
            value.open = list(said.open)
            value.is_fixed = not any(said.open)
            value.said = said.sharding if value.is_fixed else None
            for dim, axes in enumerate(said.spec.dims):
                priority = said.priorities[dim] if said.priorities else 0
                if priority:
                    self.graph.later.append((priority, value, dim, axes, value.open[dim]))
                    value.keep_off(axes)
                    value.open[dim] = False
                elif axes or not value.open[dim]:
                    value.cut(dim, axes, ANNOTATION)
        values.append(value)
        return value

    def _value(self, leaf: int) -> Value | None:
        inst, number = self.places[leaf]
        return self.graph.leaves[inst][number]

    # --- edges ----------------------------------------------------------------------------------

    def _connect(self, inst: Instruction) -> None:
        if inst.opcode == "custom-call":
            target = inst.custom_call_target
            if target in MARKS:
                self._connect_mark(inst)
                return
            if target in (TO_MANUAL, TO_AUTOMATIC):
                self._connect_region(inst)
                return
        if inst.opcode in _STRUCTURE or inst.spec.has(_CALLS):
            return
        rule = inst.spec.factors(inst)
        if rule.structural:
            return
        arrays: list[Value] = []
        dims: list[DimFactors] = []
        numbers: list[int] = []
        operands = [self.graph.leaves[o] if o.shape.is_array else [None] for o in inst.operands]
        sides = ([leaves[0] for leaves in operands], rule.operands), (
            self.graph.leaves[inst], rule.results
        )  # fmt: skip
        counts = []
        for values, side in sides:
            for number, (value, factors) in enumerate(zip(values, side, strict=True)):
                if value is not None and any(factors):
                    arrays.append(value)
                    dims.append(factors)
                    numbers.append(number)
            counts.append(len(arrays))
        if arrays:
            self.graph.connect(inst, arrays, dims, rule.factors, numbers, counts[0])

    def _connect_mark(self, inst: Instruction) -> None:
        allowed = MARKS[inst.custom_call_target]
        if is_call_of(inst, "xla.sdy.PropagationBarrier"):
            note = inst.annotations.get("frontend_attributes", {})
            number = str(note.get("xla.sdy.allowed_direction", "0")).split(" ")[0]
            allowed = _DIRECTIONS.get(number, Direction.NONE)
        for operand in inst.operands[:1]:
            for a, b in zip(self.graph.leaves[operand], self.graph.leaves[inst], strict=False):
                for value in (a, b) if allowed is not Direction.BOTH else ():
                    if value is not None:
                        value.is_bound = True
                if a is not None and b is not None and len(a.dims) == len(b.dims):
                    self.graph.flow(inst, a, b, allowed)

    def _connect_region(self, inst: Instruction) -> None:
        """Connect the arrays outside and inside of a manual region, by the axes that are not its.

        Outside, the manual axes come before those of the factors.
        """
        a, b = self.graph.leaves[inst.operands[0]][0], self.graph.leaves[inst][0]
        if a is None or b is None:
            return
        outer, inner = (a, b) if inst.custom_call_target == TO_MANUAL else (b, a)
        if outer.manual == inner.manual or not inner.manual:
            return
        ours = set(inner.manual) - set(outer.manual)
        leading = tuple(tuple(_leading(axes, ours)) for axes in outer.dims)
        if sum(map(len, leading)) != sum(x in ours for axes in outer.dims for x in axes):
            return
        none: tuple[Axes, ...] = ((),) * len(outer.dims)
        prefix = (leading, none) if outer is a else (none, leading)
        self.graph.flow(inst, a, b, prefix=prefix)

    def _connect_groups(self) -> None:
        """Connect the arrays of each group of arrays of the same sharding."""
        groups: dict[tuple[str, int], list[tuple[Instruction, Value]]] = {}
        for (inst, leaf), said in self.annotations.items():
            value = self.graph.leaves.get(inst, [None] * (leaf + 1))[leaf]
            if said.group is not None and value is not None:
                groups.setdefault(said.group, []).append((inst, value))
        for comp in self.comps:
            for inst in comp:
                if is_call_of(inst, GROUP):
                    text = inst.annotations.get("frontend_attributes", {})
                    word = str(text.get("xla.sdy.sharding_group_id", "")).split(" ")[0]
                    value = self.graph.leaves[inst.operands[0]][0]
                    if word.isdecimal() and value is not None:
                        groups.setdefault(("sdy", int(word)), []).append((inst, value))
        for members in groups.values():
            _, first = members[0]
            for _, value in members:
                value.is_bound = True
            for inst, other in members[1:]:
                if other.shape.dims == first.shape.dims:
                    self.graph.flow(inst, first, other)

    # --- the header -----------------------------------------------------------------------------

    def _close_boundary(self) -> None:
        """Keep parameters and results replicated that propagation may not choose."""
        entry = self.module.entry
        places = [(p, leaf) for p in entry.parameters for leaf in range(len(leaf_shapes(p.shape)))]
        by_leaf = len(entry.parameters) == 1 and len(places) > 1
        for at, (inst, leaf) in enumerate(places):
            number, count = (at, len(places)) if by_leaf else (
                inst.parameter_number, len(entry.parameters)
            )  # fmt: skip
            is_open = is_allowed(self.module, PARAMETERS, number, count)
            self._bind(inst, leaf, "the parameter's header: it stays replicated", is_open=is_open)
        root = entry.root
        count = len(leaf_shapes(root.shape))
        for leaf in range(count):
            is_open = is_allowed(self.module, RESULTS, leaf, count)
            self._bind(root, leaf, "the result's header: it stays replicated", is_open=is_open)

    def _bind(self, inst: Instruction, leaf: int, origin: str, *, is_open: bool) -> None:
        value = self.graph.leaves[inst][leaf]
        if value is not None:
            value.is_bound = True
        if is_open or value is None or self.said[self._find(self.first[inst] + leaf)] is not None:
            return
        value.open = [False] * len(value.dims)
        value.is_fixed = True
        value.origins = [origin] * len(value.dims)


_DIRECTIONS = {
    "0": Direction.NONE,
    "1": Direction.FORWARD,
    "2": Direction.BACKWARD,
    "3": Direction.BOTH,
}
_STRUCTURE = frozenset(
    {
        "tuple", "get-tuple-element", "opt-barrier", "add-dependency", "domain", "parameter",
        "constant", "after-all", "async-start", "async-update", "async-done", "copy-start",
        "copy-done",
    }
)  # fmt: skip


def _element(inst: Instruction, index: int) -> int:
    """Return the number of leaves before an element of a tuple."""
    return sum(1 for path, _ in inst.shape.leaves() if path[0] < index)


def _leading(axes: Axes, ours: set[int]) -> Iterator[int]:
    for axis in axes:
        if axis not in ours:
            return
        yield axis
