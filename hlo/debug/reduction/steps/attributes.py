"""Attributes get their defaults."""

from __future__ import annotations

from collections.abc import Sequence

from hlo.debug.reduction.editing import at
from hlo.ir import Module


def targets(module: Module) -> list[str]:
    return [
        f"{comp.name} {inst.name} {name}"
        for comp in module
        for inst in comp.in_order()
        for name, attr in inst.spec.attrs.items()
        if name in inst.attrs and not attr.codec.holds_computations
        if inst.opcode not in ("parameter", "constant")
        if inst.attrs[name] is not None and inst.attrs[name] != inst.spec.defaults[name]
    ]


def apply(module: Module, targets: Sequence[str]) -> bool:
    done = False
    for target in targets:
        comp, name, attribute = target.split()
        inst = at(module, (comp, name))
        if inst is not None and inst.attrs.get(attribute) != inst.spec.defaults.get(attribute):
            inst.attrs[attribute] = inst.spec.defaults[attribute]
            done = True
    return done
