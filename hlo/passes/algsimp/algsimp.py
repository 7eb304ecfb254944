"""The algebraic simplifier: rewrite rules, each with its equation, one file per family."""

from __future__ import annotations

from functools import cache

from hlo.ir import Module

# Importing a family registers its rules.
from hlo.passes.algsimp import (  # noqa: F401
    _broadcast,
    _collective,
    _compare_select,
    _convert,
    _convolution,
    _dot,
    _dynamic_slice,
    _elementwise,
    _fast,
    _float,
    _gather_scatter,
    _integer,
    _layout,
    _logical,
    _pad,
    _quotient,
    _reduce,
    _reshape_transpose,
    _slice_concatenate,
    _sort,
    _structure,
    _window,
)
from hlo.passes.algsimp._rules import NEEDED_OPTION, RULES
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites


@module_pass
def algsimp(
    module: Module,
    rewrites: Rewrites,
    *,
    approximate: bool = True,
    fast_math: bool = False,
    dot_strength_reduction: bool = False,
    layout_sensitive: bool = False,
) -> None:
    """Simplify by algebraic rules.

    approximate: enable rules that round differently or reassociate. fast_math: enable rules that
    may add or remove an overflow, a NaN or the sign of zero. dot_strength_reduction: turn
    products with vectors into reductions. layout_sensitive: layouts are final, so that reshapes
    and transposes that move no data become bitcasts.
    """
    RULES.apply(
        module,
        rewrites,
        skipped=_skipped(
            approximate=approximate,
            fast_math=fast_math,
            dot_strength_reduction=dot_strength_reduction,
            layout_sensitive=layout_sensitive,
        ),
    )


@cache
def _skipped(*, approximate: bool, **options: bool) -> frozenset[str]:
    """Return the names of the rules that do not run with these options."""
    return frozenset(
        rule.name
        for rule in RULES.rules.values()
        if (rule.approximate and not approximate)
        or not options.get(NEEDED_OPTION.get(rule.name, ""), True)
    )
