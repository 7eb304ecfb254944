"""What instructions cost in a run of their module: operations, bytes, and an estimate of time."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from hlo.analysis.cost import Cost, cost_of, cost_of_instruction
from hlo.analysis.executions import Executions, executions_of
from hlo.analysis.simulation.machine import Machine
from hlo.ir import Computation, Instruction, Module
from hlo.ir.calls import applied_computations

# What costs as much as what it runs, which is counted there.
_RUNS_OTHERS = frozenset({"while", "conditional", "call", "async-start"})


class Costs:
    """The costs of the instructions of two modules.

    Inside a fusion an instruction costs its arithmetic; the fusion itself costs its memory traffic.
    A loop costs what its body does, as often as it runs; a conditional all of its branches.
    """

    def __init__(self, left: Module, right: Module, machine: Machine) -> None:
        self._left, self._right, self.machine = _Side(left), _Side(right), machine

    def between(self, left: Instruction | None, right: Instruction | None) -> tuple[Cost, float]:
        """Return what the right one costs more in a run, and how many seconds more it may take."""
        ours = Cost() if left is None else self._left.of(left)
        theirs = Cost() if right is None else self._right.of(right)
        before = 0.0 if left is None else self._left.seconds(left, self.machine)
        after = 0.0 if right is None else self._right.seconds(right, self.machine)
        return theirs + ours.times(-1), after - before

    @cached_property
    def totals(self) -> tuple[Cost, Cost]:
        """The costs of a run of both modules."""
        return self._left.total, self._right.total


class _Side:
    def __init__(self, module: Module) -> None:
        self._module = module
        self._fusions: dict[Instruction, Cost] = {}

    @cached_property
    def total(self) -> Cost:
        return cost_of(self._module.entry)

    @cached_property
    def _executions(self) -> Mapping[Computation, Executions]:
        return executions_of(self._module)

    @cached_property
    def _applied(self) -> set[Computation]:
        return set(applied_computations(self._module))

    @cached_property
    def _fused(self) -> Mapping[Computation, Instruction]:
        """The computations of fusions, with the first fusion of each."""
        bodies: dict[Computation, Instruction] = {}
        for inst in self._module.instructions():
            if inst.opcode == "fusion":
                for body in inst.called_computations:
                    bodies.setdefault(body, inst)
        return bodies

    def of(self, inst: Instruction) -> Cost:
        """Return what an instruction costs in a run of the module."""
        comp = inst.parent
        assert comp is not None
        cost = self._once(inst, comp)
        if not (cost.operations or cost.transcendentals or cost.bytes):
            return cost
        here = self._executions[comp]
        return cost.times(here.count) + Cost(exact=here.exact)

    def _once(self, inst: Instruction, comp: Computation) -> Cost:
        """Return what one execution costs."""
        if comp in self._applied and comp not in self._fused:
            return Cost()  # counted where it is applied
        if inst.opcode in _RUNS_OTHERS:
            return Cost()
        if inst.opcode != "fusion":
            cost = cost_of_instruction(inst)
            if comp in self._fused:
                return Cost(cost.operations, cost.transcendentals, 0, cost.exact)
            return cost
        if comp in self._fused:
            return Cost()  # of its traffic there is none, and the rest is counted inside
        cost = self._of_fusion(inst)
        return Cost(bytes=cost.bytes, exact=cost.exact)

    def _of_fusion(self, inst: Instruction) -> Cost:
        if inst not in self._fusions:
            self._fusions[inst] = cost_of_instruction(inst)
        return self._fusions[inst]

    def seconds(self, inst: Instruction, machine: Machine) -> float:
        """Return how long all executions of an instruction may take.

        A fusion is one kernel: arithmetic takes time only if it takes longer than the memory's.
        What it takes longer is that of the instructions inside, in proportion to their work.
        """
        comp = inst.parent
        assert comp is not None
        cost = self._once(inst, comp)
        once = machine.seconds(cost)
        if once and comp in self._fused:
            whole = self._of_fusion(self._fused[comp])
            longer = machine.seconds(whole) - machine.seconds(Cost(bytes=whole.bytes))
            work = whole.operations + whole.transcendentals
            once = longer * (cost.operations + cost.transcendentals) / work if work else 0.0
        return once * self._executions[comp].count if once else 0.0
