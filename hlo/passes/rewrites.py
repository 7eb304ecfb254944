"""The rewrites of one run of a pass: counted, named, and stopped at a limit."""

from __future__ import annotations

from dataclasses import dataclass

from hlo.ir import Instruction
from hlo.passes.analyses import Analyses


@dataclass(frozen=True, slots=True)
class Rewrite:
    """One change: the rule that made it, and the instruction that it was made at.

    approximate: results may differ by rounding from here on.
    """

    rule: str
    instruction: str
    approximate: bool = False


class Rewrites:
    """What a pass asks before each change that it makes.

    The changes of a run have numbers, so that it can be run again with only the first n of them:
    that is how `--validate` finds the rule that changed a result. A pass that changes a module
    without asking breaks that, and is taken to have changed nothing.

    Attributes:
        is_exact: approximate changes are refused: the module asks for strict arithmetic.
        notes: what the user should know, a line each.
        analyses: what is known of the module as the pass finds it.
    """

    def __init__(
        self, limit: int | None = None, analyses: Analyses | None = None, *, is_exact: bool = False
    ) -> None:
        self.limit = limit
        self.is_exact = is_exact
        self.analyses = Analyses() if analyses is None else analyses
        self.log: list[Rewrite] = []
        self.notes: list[str] = []

    def allow(self, rule: str, inst: Instruction, *, approximate: bool = False) -> bool:
        """Return whether a rule may change the module at an instruction, and count it if so.

        approximate: the change reassociates, or rounds elsewhere: results may differ by rounding.
        """
        if approximate and self.is_exact:
            return False
        if self.limit is not None and len(self.log) >= self.limit:
            return False
        self.log.append(Rewrite(rule, inst.name, approximate))
        return True

    @property
    def changed(self) -> bool:
        return bool(self.log)
