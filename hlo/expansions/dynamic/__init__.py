"""Arrays of dynamic size, as arrays at their bounds and sizes in s32 scalars.

After this no shape is dynamic: a parameter, a result, the state of a loop and so on has, behind
each array, a scalar for each of its dimensions that may vary. Which those are is known from where
a value comes, whatever shapes declare. Padding may hold anything; where an operation would look at
it, it is covered first (see the rules, a file a family).

A size outside its bound is an error, which ends the program.

Source: `hlo.eval.dynamic`, whose semantics these are; XLA's dynamic padder.
"""

from hlo.expansions.dynamic import (  # noqa: F401  (they register rules)
    collective,
    contraction,
    elementwise,
    movement,
    reduction,
    reshape,
)
from hlo.expansions.dynamic.draft import SizedDraft, whole
from hlo.expansions.dynamic.entry import with_sizes
from hlo.expansions.dynamic.sized import (
    SIZED_CALLS,
    Sized,
    Value,
    may_be_dynamic,
    need_bounds,
    static,
)

__all__ = [
    "SIZED_CALLS",
    "Sized",
    "SizedDraft",
    "Value",
    "may_be_dynamic",
    "need_bounds",
    "static",
    "whole",
    "with_sizes",
]


def __dir__() -> list[str]:
    return sorted(__all__)
