"""The verifier on a module that is being edited: an instruction's own rule is asked once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hlo.errors import Diagnostic
from hlo.ir import Instruction, Module
from hlo.verifier.constraints import check_constraints
from hlo.verifier.instructions import InstructionChecker
from hlo.verifier.report import Report, VerifyOptions
from hlo.verifier.structure import check_acyclic, check_operand_count, check_recursion


class RuleChecker:
    """Checks instructions by the rules of their operations."""

    def __init__(self) -> None:
        self._report = Report()
        self._checker = InstructionChecker(VerifyOptions(), self._report)

    def check(self, inst: Instruction) -> list[Diagnostic]:
        """Return what is wrong with an instruction whatever the others are."""
        found = self._report.diagnostics
        check_operand_count(inst, self._report)
        self._checker.check(inst)
        errors, found[:] = list(found), []
        return errors


def check_together(
    module: Module,
    constrained: Sequence[Instruction],
    invalid: Iterable[Instruction],
    controlled: Iterable[Instruction],
) -> list[Diagnostic]:
    """Return what is wrong with instructions beyond their own rules, in a parsed module.

    constrained: all that are by `is_constrained`. invalid: those that break their own rules.
    controlled: those with control predecessors, the only ones that can be out of order.
    """
    report = Report()
    computations = {i.parent: None for i in controlled if i.parent is not None}
    for comp in computations:
        check_acyclic(comp, report)
    check_recursion(module, constrained, report)
    report.set_invalid(invalid)
    check_constraints(module, constrained, computations, VerifyOptions(), report)
    return report.diagnostics
