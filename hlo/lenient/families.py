"""`repair`: runs the repairs of all families."""

from __future__ import annotations

from hlo.ir import Module
from hlo.lenient.annotations import repair_annotations
from hlo.lenient.arrays import repair_arrays
from hlo.lenient.random_bits import repair_random_bits
from hlo.lenient.record import Repair
from hlo.lenient.results import repair_results
from hlo.lenient.threads import repair_threads

# Callees are repaired before what depends on the shapes of their results.
_FAMILIES = (
    repair_threads,
    repair_annotations,
    repair_arrays,
    repair_random_bits,
    repair_results,
)


def repair(module: Module) -> list[Repair]:
    """Repair what XLA runs although it breaks a rule, in place; returns what was repaired.

    The graph of instructions has to be sound; what else is wrong stays as it is.
    """
    done: list[Repair] = []
    for family in _FAMILIES:
        family(module, lambda subject, xla: done.append(Repair(subject, xla)))
    if done and module.is_scheduled:
        for comp in module.computations:
            comp.sort()
    return done
