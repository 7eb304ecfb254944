"""The verifier: finds all errors of a module in one run, and repairs none.

`diagnose` checks the graph first, then each instruction by the rule of its operation, then
constraints between instructions: calls, pairs, devices, buffers, the header. Source: the
specification of each operation and XLA's `xla/service/hlo_verifier.cc`.
"""

from __future__ import annotations

from hlo.errors import Diagnostic, HloError
from hlo.ir import Module, need_module
from hlo.verifier.constraints import check_constraints, is_constrained
from hlo.verifier.instructions import check_instructions
from hlo.verifier.report import Report, VerifyOptions
from hlo.verifier.structure import check_structure

__all__ = ["VerifyOptions", "diagnose", "verify", "verify_structure"]


def diagnose(module: Module, options: VerifyOptions | None = None) -> list[Diagnostic]:
    """Return the diagnostics of a module, in the order of its text."""
    need_module(module)
    options = options or VerifyOptions()
    report = Report(lenient=options.lenient)
    if check_structure(module, report):
        check_instructions(module, options, report)
        # Later checks rely on individually valid instructions.
        report.close_own_rules()
        instructions = [i for i in module.instructions() if is_constrained(i)]
        check_constraints(module, instructions, module.computations, options, report)
    return report.ordered()


def verify_structure(module: Module) -> None:
    """Check that passes can walk a module, whatever its operations. Raises HloError."""
    report = Report()
    check_structure(module, report)
    if report.diagnostics:
        raise HloError(report.ordered())


def verify(module: Module, options: VerifyOptions | None = None) -> None:
    """Check that a module is valid. Raises HloError with all diagnostics."""
    diagnostics = diagnose(module, options)
    if diagnostics:
        raise HloError(diagnostics)


def __dir__() -> list[str]:
    return sorted(__all__)
