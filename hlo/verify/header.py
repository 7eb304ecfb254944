"""What the module's header promises: its schedule, its entry layout, its aliases."""

from __future__ import annotations

from hlo.ir import Computation, Instruction, Module
from hlo.verify.report import Report, VerifyOptions


def check_header(module: Module, options: VerifyOptions, report: Report) -> None:
    """Check the header against the computations."""
    if module.is_scheduled:
        for comp in module.computations:
            _check_schedule(comp, report)


def _check_schedule(comp: Computation, report: Report) -> None:
    """Check that the order of the text can be run."""
    seen: set[Instruction] = set()
    for inst in comp:
        for before in inst.predecessors():
            if before not in seen:
                report.add(
                    "bad-schedule",
                    f"the module is scheduled, and {before.name} comes after it", inst,
                    notes=[(f"{before.name} is here", before)],
                )  # fmt: skip
        seen.add(inst)
