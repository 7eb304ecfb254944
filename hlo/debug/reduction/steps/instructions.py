"""Instructions of the entry go: users get parameters, operands become outputs."""

from __future__ import annotations

from collections.abc import Sequence

from hlo.debug.reduction.editing import outputs_of, replace_by_parameter, set_outputs
from hlo.ir import Module

_STAY = frozenset({"parameter", "constant"})


def targets(module: Module) -> list[str]:
    root = module.entry.root
    return [
        i.name
        for i in module.entry.post_order()
        if i.opcode not in _STAY and not (i is root and i.opcode == "tuple")
    ]


def apply(module: Module, targets: Sequence[str]) -> bool:
    entry = module.entry
    gone = {i for name in targets if (i := entry.get(name)) is not None and i.opcode not in _STAY}
    if not gone:
        return False
    shown = [o for o in outputs_of(entry) if o not in gone]
    for inst in entry.in_order():
        if inst in gone:
            shown += [o for o in inst.operands if o not in gone and o.opcode not in _STAY]
            if set(inst.users) - gone - ({entry.root} if entry.root.opcode == "tuple" else set()):
                replace_by_parameter(inst)
    if not shown:
        last = next(i for i in reversed(entry.in_order()) if i in gone)
        shown = last.operands[:1]
    if not shown:
        return False
    set_outputs(entry, shown)
    return True
