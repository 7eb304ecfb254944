"""Random modules around one or two operations each, for all operations: `generate_ops(seed)`.

Every operation is tried in the types, ranks, sizes and attributes that it has a meaning for, its
operands being arguments, constants or what other operations make of them, so that it is compiled
alone, fused into others and with others fused into it; in the entry, in calls, fusions, loops and
branches, which may be inside each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hlo.ir import Module
from tests.generators import op_cases, op_loops, op_sums
from tests.generators.op_builder import Cases
from tests.generators.op_cases import Maker
from tests.generators.op_nesting import nest

MAKERS = {**op_cases.MAKERS, **op_sums.MAKERS, **op_loops.MAKERS}


@dataclass(frozen=True)
class Case:
    """A module and its arguments.

    makers: which operations it is around. rtol: what floats may be off by, of themselves, and a
    little of the largest; None is what one rounding allows, 0 nothing. on_xla: False where XLA:CPU
    is known to compute something else.
    """

    module: Module
    args: list[Any]
    makers: tuple[str, ...] = ()
    rtol: float | None = None
    on_xla: bool = True


def generate_ops(seed: int, maker: str | None = None, *, nested: bool = True) -> Case:
    """Return a valid module and its arguments; the same ones for a seed.

    nested: False for operations that stand in the entry all.
    """
    g = Cases(seed, maker or "")
    names = tuple(g.rng.choice(list(MAKERS)) for _ in range(g.rng.choice((1, 1, 2))))
    if maker is not None:
        names = (maker,)
    return made_by([(name, MAKERS[name]) for name in names], g, nested=nested)


def made_by(makers: Sequence[tuple[str, Maker]], g: Cases, *, nested: bool = True) -> Case:
    """Return the module of what makers append, and its arguments."""
    for _, make in makers:
        make(g)
    g.comp.set_root(g.emit("tuple", g.results))
    entry = nest(g, g.comp) if nested and g.may_nest else g.comp
    entry.name = "main"  # another function of this name would be XLA's entry
    g.module.add(entry, entry=True)
    return Case(g.module, g.args, tuple(name for name, _ in makers), g.rtol, g.on_xla)
