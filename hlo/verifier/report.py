"""Collects diagnostics with the source locations of invalid instructions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hlo.errors import Diagnostic, InferError, Span
from hlo.ir import Computation, Instruction


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """Options of the verifier beyond the rules for all modules.

    layout_sensitive: the layouts of a result and of what it is made from have to agree, except
      where an operation may change them (as after layout assignment).
    allow_mixed_precision: floating-point operands may differ in precision from each other and from
      the result.
    allow_unbounded_dynamism: dimensions written `?` are allowed.
    allow_host_memory_space: layouts may name memory space 5, which is the host's.
    sorted_broadcasts: the dimensions of a broadcast ascend.
    reshapes_are_bitcasts: a reshape outside a fusion moves nothing in memory.
    names_unchanged: an instruction still has the name that its metadata says it was scheduled by.
    lenient: what XLA takes is taken, where it breaks a rule that nothing computed depends on.
    """

    layout_sensitive: bool = False
    allow_mixed_precision: bool = False
    allow_unbounded_dynamism: bool = True
    allow_host_memory_space: bool = True
    sorted_broadcasts: bool = False
    reshapes_are_bitcasts: bool = False
    names_unchanged: bool = False
    lenient: bool = False


class Report:
    """The diagnostics found so far."""

    def __init__(self, *, lenient: bool = False) -> None:
        self._lenient = lenient
        self.diagnostics: list[Diagnostic] = []
        self._broken: set[Instruction] = set()
        self._closed = False

    def close_own_rules(self) -> None:
        """Snapshot the set of invalid instructions."""
        self._closed = True

    def set_invalid(self, instructions: Iterable[Instruction]) -> None:
        """Say which instructions are invalid, where that has been found out before."""
        self._broken.update(instructions)
        self._closed = True

    def breaks_own_rule(self, inst: Instruction) -> bool:
        """True when an instruction is in the set of invalid ones."""
        return inst in self._broken

    def add(
        self,
        code: str,
        message: str,
        inst: Instruction | None = None,
        *,
        comp: Computation | None = None,
        operand: int | None = None,
        attr: str | None = None,
        hint: str | None = None,
        notes: Sequence[tuple[str, Instruction | Computation]] = (),
        xla: str | None = None,
    ) -> None:
        """Record an error at an instruction (its operand, its attribute) or at a computation.

        xla: what XLA does, if it accepts this; then a lenient verifier accepts it too.
        """
        if xla is not None and self._lenient:
            return
        if inst is not None and not self._closed:
            self._broken.add(inst)
        span = _place(inst, operand, attr) if inst is not None else comp.span if comp else None
        subject = f"{inst.name}: {inst.opcode}: " if inst is not None else ""
        self.diagnostics.append(
            Diagnostic(
                code, subject + message, span, _hint(hint, xla),
                tuple((text, at.span) for text, at in notes),
            )
        )  # fmt: skip

    def add_infer_error(self, inst: Instruction, error: InferError) -> None:
        """Record a broken rule of the op table, whose message begins with the opcode already."""
        if error.xla is not None and self._lenient:
            return
        self._broken.add(inst)
        span = _place(inst, error.operand, error.attr)
        self.diagnostics.append(
            Diagnostic(
                error.code, f"{inst.name}: {error.message}", span, _hint(error.hint, error.xla)
            )
        )

    def ordered(self) -> list[Diagnostic]:
        """Return the diagnostics in the order of the text; those without a location come last."""
        return sorted(
            self.diagnostics, key=lambda d: (d.span is None, d.span.start if d.span else 0)
        )


def _hint(hint: str | None, xla: str | None) -> str | None:
    return hint if xla is None else f"XLA {xla}; --verify=lenient accepts it"


def _place(inst: Instruction, operand: int | None, attr: str | None) -> Span | None:
    span = inst.span
    if span is None:
        return None
    if operand is not None:
        return span.operand(operand)
    return span if attr is None else span.attr(attr)
