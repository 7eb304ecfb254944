"""Names become short: of instructions what they are with a number, of computations likewise."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hlo.ir import Module

_KINDS = ("instructions", "computations", "module")
# In two rounds: another one may have the name still.
_WAYS: tuple[Callable[[str], str], ...] = (lambda name: f"renamed_{name}", str)


def targets(module: Module) -> list[str]:
    return [kind for kind in _KINDS if apply(module.clone(), [kind])]


def apply(module: Module, targets: Sequence[str]) -> bool:
    done = False
    if "instructions" in targets:
        for comp in module:
            wanted = [
                f"p{i.parameter_number}" if i.opcode == "parameter" else f"v{n}"
                for n, i in enumerate(comp)
            ]
            if [i.name for i in comp] != wanted:
                done = True
                for way in _WAYS:
                    for inst, name in zip(comp, wanted, strict=True):
                        comp.rename(inst, way(name))
    if "computations" in targets:
        names = ["main" if c is module.entry else f"c{n}" for n, c in enumerate(module)]
        done |= _rename(module, names)
    if "module" in targets and module.name != "reduced":
        module.name, done = "reduced", True
    return done


def _rename(module: Module, names: Sequence[str]) -> bool:
    if [c.name for c in module] == names:
        return False
    for way in _WAYS:
        for comp, name in zip(module, names, strict=True):
            module.rename(comp, way(name))
    return True
