"""The same program written differently: `shuffled(module, seed)`.

Instructions are in a random order that respects dependences, computations in one in which callees
come first, and everything has a random name.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from hlo.ir import Computation, Instruction, Module

T = TypeVar("T")


def shuffled(module: Module, seed: int) -> Module:
    """Return a copy of a module in another order, under other names."""
    return shuffle(module, seed)[0]


def shuffle(module: Module, seed: int) -> tuple[Module, dict[Instruction, Instruction]]:
    """Return such a copy, and what became of each instruction."""
    rng = random.Random(seed)
    result = Module(f"m{rng.randrange(10**6)}", attrs=module.attrs, source=module.source)
    result.tables = module.tables
    names = _names(rng, sum(len(c) for c in module.computations) + len(module.computations))
    made: dict[Computation, Computation] = {}
    became: dict[Instruction, Instruction] = {}
    for comp in _order(rng, module.computations, _callees):
        new = Computation(names.pop(), execution_thread=comp.execution_thread)
        new.backend_config = comp.backend_config
        clones: dict[Instruction, Instruction] = {}
        for inst in _order(rng, list(comp), Instruction.predecessors):
            clone = inst.clone([clones[o] for o in inst.operands], name=names.pop())
            clone.replace_called(made)
            for before in inst.control_predecessors:
                clone.add_control_predecessor(clones[before])
            clones[inst] = new.add(clone)
        new.set_root(clones[comp.root])
        became |= clones
        made[comp] = result.add(new, entry=comp is module.entry)
    return result, became


def _callees(comp: Computation) -> list[Computation]:
    return [c for inst in comp for c in inst.called_computations]


def _names(rng: random.Random, count: int) -> list[str]:
    stems = ["add", "fusion", "x", "Arg_0", "constant", "region", "while.body", "p"]
    names = [f"{rng.choice(stems)}.{n}" for n in range(count)]
    rng.shuffle(names)
    return names


def _order(rng: random.Random, items: Sequence[T], before: Callable[[T], Iterable[T]]) -> list[T]:
    """Return the items in a random order, each after those that come before it."""
    waiting = {item: set(before(item)) for item in items}
    after: dict[T, list[T]] = {item: [] for item in items}
    for item, others in waiting.items():
        for other in others:
            after[other].append(item)
    ready = [item for item, others in waiting.items() if not others]
    order: list[T] = []
    while ready:
        at = rng.randrange(len(ready))
        ready[at], ready[-1] = ready[-1], ready[at]
        item = ready.pop()
        order.append(item)
        for other in after[item]:
            waiting[other].discard(item)
            if not waiting[other]:
                ready.append(other)
    return order
