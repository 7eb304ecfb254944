"""Parameters of the entry go that nothing uses, or that another one of the shape can stand for."""

from __future__ import annotations

from collections.abc import Sequence

from hlo.debug.reduction.editing import forget_signature
from hlo.ir import Instruction, Module


def targets(module: Module) -> list[str]:
    parameters = module.entry.parameters
    unused = [p.name for p in parameters if not p.num_users and not p.is_root]
    return unused + [p.name for p in parameters if p.name not in unused and _first(p) is not p]


def _first(parameter: Instruction) -> Instruction:
    """Return the first parameter of the same shape that is used."""
    comp = parameter.parent
    assert comp is not None
    return next(p for p in comp.parameters if p.shape == parameter.shape and _is_used(p))


def _is_used(parameter: Instruction) -> bool:
    return parameter.num_users > 0 or parameter.is_root


def apply(module: Module, targets: Sequence[str]) -> bool:
    entry, done = module.entry, False
    for name in targets:
        parameter = entry.get(name)
        if parameter is None or parameter.opcode != "parameter":
            continue
        if _is_used(parameter):
            parameter.replace_all_uses_with(_first(parameter))
        if not _is_used(parameter) and not parameter.control_successors:
            entry.remove(parameter)
            forget_signature(module)
            done = True
    return done
