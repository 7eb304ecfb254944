"""`hlo-run --isolate-instructions`: each instruction of a module as a module of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hlo.ir import Computation, Instruction, Module

# What computes nothing, or only what other instructions do that run alone as well.
_SKIPPED = frozenset(
    "parameter constant tuple get-tuple-element after-all add-dependency opt-barrier bitcast "
    "while conditional call domain partition-id replica-id".split()
)


def isolated(
    source: bytes, name: str, form: str | None, verify: str
) -> Iterator[tuple[str, bytes]]:
    """Yield the name of each instruction that can run alone, and the text of its module.

    Its operands are parameters there. Those in loops, branches and called computations count, those
    inside of fusions and reducers do not. What other devices, the host or random state have part in
    is left out, and what is there already but for its name. Raises HloError.
    """
    from hlo.frontends.sources import read_module
    from hlo.frontends.text import PrintOptions, print_module
    from hlo.ir.extract import extract
    from hlo.lenient import verified

    module = verified(read_module(source, name, form), verify)
    seen = set()
    for inst in _instructions(module):
        if inst.opcode in _SKIPPED or _is_of_others(inst):
            continue
        alone = extract(inst, 0)
        text = print_module(alone, PrintOptions.fingerprint())
        if text not in seen:
            seen.add(text)
            yield inst.name, str(alone).encode()


def _instructions(module: Module) -> Iterator[Instruction]:
    """Yield the instructions of the entry, and of the computations that take control from it."""
    pending, met = [module.entry], {module.entry}
    while pending:
        comp: Computation = pending.pop()
        for inst in comp.in_order():
            yield inst
            if inst.opcode in ("while", "conditional", "call"):
                new = [c for c in inst.called_computations if c not in met]
                met |= set(new)
                pending += new


def _is_of_others(inst: Instruction) -> bool:
    from hlo.ops import Trait

    inside = [i for comp in inst.called_computations for i in comp]
    return any(
        i.spec.has(Trait.SIDE_EFFECT | Trait.COLLECTIVE | Trait.NO_FOLD) for i in (inst, *inside)
    )
