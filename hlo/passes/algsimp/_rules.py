"""Registry of the algebraic simplifier's rules, and the options that enable them."""

from __future__ import annotations

from collections.abc import Callable

from hlo.passes.rules import Rewriter, RuleSet

RULES = RuleSet("algsimp")

# The option of the pass that a rule needs, by name of the rule; the others always run.
NEEDED_OPTION: dict[str, str] = {}


def rule(
    opcodes: str,
    equation: str,
    *,
    approximate: bool = False,
    option: str = "",
    dynamic: bool = False,
    on: str = "",
) -> Callable[[Rewriter], Rewriter]:
    """Register a rule of the simplifier, as `RuleSet.rule` does.

    option: the option of the pass without which the rule does not run. dynamic: the rule is valid
    for arrays with dynamic dimensions too; others never see them. on: as for `RuleSet.rule`.
    """

    def add(rewrite: Rewriter) -> Rewriter:
        RULES.rule(opcodes, equation, approximate=approximate, static=not dynamic, on=on)(rewrite)
        if option:
            NEEDED_OPTION[f"{RULES.name}.{rewrite.__name__}"] = option
        return rewrite

    return add
