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
        return theirs + ours.times(-1), self._seconds(theirs) - self._seconds(ours)

    def _seconds(self, cost: Cost) -> float:
        return self.machine.seconds(cost)

    @cached_property
    def totals(self) -> tuple[Cost, Cost]:
        """The costs of a run of both modules."""
        return self._left.total, self._right.total


class _Side:
    def __init__(self, module: Module) -> None:
        self._module = module

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
    def _fused(self) -> set[Computation]:
        bodies = set()
        for inst in self._module.instructions():
            if inst.opcode == "fusion":
                bodies.update(inst.called_computations)
        return bodies

    def of(self, inst: Instruction) -> Cost:
        """Return what an instruction costs in a run of the module."""
        comp = inst.parent
        assert comp is not None
        if comp in self._applied and comp not in self._fused:
            return Cost()  # counted where it is applied
        if inst.opcode in _RUNS_OTHERS:
            return Cost()
        cost = cost_of_instruction(inst)
        if inst.opcode == "fusion":
            cost = Cost(bytes=cost.bytes, exact=cost.exact)
        elif comp in self._fused:
            cost = Cost(cost.operations, cost.transcendentals, 0, cost.exact)
        here = self._executions[comp]
        return cost.times(here.count) + Cost(exact=here.exact)
