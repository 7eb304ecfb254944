"""What instructions say besides what they compute goes: metadata, shardings, order, ..."""

from __future__ import annotations

from collections.abc import Sequence

from hlo.debug.reduction.editing import at
from hlo.ir import Module

_ORDER = "control-predecessors"


def targets(module: Module) -> list[str]:
    found: dict[str, list[str]] = {}
    for comp in module:
        for inst in comp:
            for kind in (*inst.annotations, *([_ORDER] if inst.control_predecessors else ())):
                found.setdefault(kind, []).append(f"{comp.name} {inst.name} {kind}")
    return [target for kind in sorted(found) for target in found[kind]]


def apply(module: Module, targets: Sequence[str]) -> bool:
    done = False
    for target in targets:
        comp, name, kind = target.split()
        inst = at(module, (comp, name))
        if inst is None:
            continue
        if kind == _ORDER:
            for other in list(inst.control_predecessors):
                inst.remove_control_predecessor(other)
                done = True
        elif inst.annotations.pop(kind, None) is not None:
            done = True
    return done
