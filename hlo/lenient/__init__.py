"""How strictly modules are verified: `strict` by every rule, `lenient` as XLA runs them.

XLA runs some modules that break a rule of the verifier. A lenient module is first repaired: each
file of this package brings one family of such modules into the form that the rules ask for, with
the results that XLA gives, so that passes, code generation and the interpreter know one form only.
A strict error says where lenient verification helps.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from hlo.errors import Diagnostic, HloError, did_you_mean
from hlo.ir import Module
from hlo.ops.host.custom_targets import builtin_target
from hlo.verifier import VerifyOptions, diagnose, verify, verify_structure

if TYPE_CHECKING:
    from hlo.lenient.record import Repair

__all__ = ["MODES", "verified", "verify_as", "verify_in_place"]

MODES = ("strict", "lenient")
_LENIENT = VerifyOptions(lenient=True)


def verified(module: Module, mode: str) -> Module:
    """Return a module that is valid: the given one, or a repaired copy of it if need be.

    mode: `strict`, or `lenient`, which repairs what XLA runs. Raises HloError.
    """
    _check(mode)
    if mode == "strict":
        _verify_strictly(module)
        return module
    if not _needs_repair(module):
        return module
    repaired = module.clone()
    _repair(repaired)
    return repaired


def verify_in_place(module: Module, mode: str) -> None:
    """Make a module valid as `verified` does, but in place. Raises HloError."""
    _check(mode)
    if mode == "strict":
        _verify_strictly(module)
    elif _needs_repair(module):
        _repair(module)


def verify_as(module: Module, mode: str) -> None:
    """Check that a module is valid: by every rule (`strict`), or as XLA runs it (`lenient`).

    It stays as it is. Raises HloError.
    """
    verified(module, mode)


def _check(mode: str) -> None:
    if mode not in MODES:
        hint = did_you_mean(mode, MODES) or "one of " + ", ".join(MODES)
        raise HloError.at("bad-value", f"unknown mode to verify: {mode!r}", hint=hint)


def _repair(module: Module) -> None:
    from hlo.lenient.families import repair
    from hlo.lenient.foreign import drop_unneeded_calls

    verify_structure(module)
    repair(module)
    verify(module, _LENIENT)
    drop_unneeded_calls(module)  # valid ones only, as in XLA


def _needs_repair(module: Module) -> bool:
    """True for a module that is invalid, or contains what no backend runs as it is."""
    if diagnose(module, _LENIENT):
        return True
    return any(
        builtin_target(inst.custom_call_target) is None
        if inst.opcode == "custom-call"
        else inst.attrs.get("sparsity_config") is not None
        for inst in module.instructions()
    )


def _verify_strictly(module: Module) -> None:
    diagnostics = diagnose(module)
    if not diagnostics:
        return
    from hlo.lenient.families import repair

    repaired = module.clone() if _can_be_cloned(diagnostics) else None
    repairs = repair(repaired) if repaired is not None else []
    if repaired is not None and repairs:
        remaining = set(map(_identity, diagnose(repaired, _LENIENT)))
        diagnostics = [
            d if _identity(d) in remaining else _with_hint(d, repairs) for d in diagnostics
        ]
    raise HloError(diagnostics)


# Errors after which the graph of instructions cannot be copied.
_BROKEN = frozenset(
    {"bad-parent", "bad-users", "cycle", "duplicate-name", "foreign-computation"}
    | {"foreign-operand", "no-entry", "no-root", "recursive-call"}
)


def _can_be_cloned(diagnostics: Iterable[Diagnostic]) -> bool:
    return _BROKEN.isdisjoint(d.code for d in diagnostics)


def _identity(diagnostic: Diagnostic) -> tuple[str, str, str]:
    return diagnostic.code, diagnostic.message, str(diagnostic.span)


def _with_hint(diagnostic: Diagnostic, repairs: Iterable[Repair]) -> Diagnostic:
    """Return the diagnostic with what XLA does, by the repair of the instruction that it names."""
    known = (r.xla for r in repairs if diagnostic.message.startswith(r.subject + ":"))
    what = next(known, "runs what this is due to")
    return replace(diagnostic, hint=f"XLA {what}; --verify=lenient accepts it")


def __dir__() -> list[str]:
    return sorted(__all__)
