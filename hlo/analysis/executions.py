"""How often the computations of a module run."""

from __future__ import annotations

from dataclasses import dataclass

from hlo.analysis.trips import trip_count
from hlo.ir import Computation, Instruction, Module


@dataclass(frozen=True)
class Executions:
    """How often something runs. `exact` is false inside loops of unknown trip count, counted as one
    iteration, and inside conditionals, of which each branch is counted as if it ran."""

    count: int = 0
    exact: bool = True

    def __add__(self, other: Executions) -> Executions:
        return Executions(self.count + other.count, self.exact and other.exact)


def executions_of(module: Module) -> dict[Computation, Executions]:
    """Return how often each computation runs in one run of the entry.

    Applications to single elements, as by `reduce`, count as one.
    """
    found = {comp: Executions() for comp in module.computations}
    found[module.entry] = Executions(1)
    for comp in reversed(module.callees_first()):
        here = found[comp]
        for inst in comp:
            if inst.spec.computation_attrs and here.count:
                for callee, times in _calls(inst).items():
                    new = Executions(here.count * times.count, here.exact and times.exact)
                    found[callee] += new
    return found


def _calls(inst: Instruction) -> dict[Computation, Executions]:
    """Return how often one execution of an instruction runs each computation that it calls."""
    found: dict[Computation, Executions] = {}
    if inst.opcode == "while":
        trips = trip_count(inst)
        count, exact = (1, False) if trips is None else (trips, True)
        found[inst.body] = Executions(count, exact)
        test = Executions(count + 1, exact)
        found[inst.condition] = found.get(inst.condition, Executions()) + test
        return found
    once = Executions(1, inst.opcode != "conditional")
    for callee in inst.called_computations:
        found[callee] = found.get(callee, Executions()) + once
    return found
