"""Parts of a large module, in which what is wrong is looked for before the whole is run.

Parts are windows: neighbouring instructions of one computation. What comes from outside is a
parameter, what goes outside an output. They are run with small dimensions first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from hlo.debug.reduction.editing import OF_THE_SIGNATURE, Place, set_outputs
from hlo.debug.reduction.resizing import Axis, resize
from hlo.errors import HloError
from hlo.ir import Computation, Instruction, Module
from hlo.ir.extract import module_of
from hlo.verifier import verify

Make = Callable[[Module], Module | None]

# Instructions of a window: together they take little more time than the process of a test.
_WINDOW = 96
_WIDE = 4
# Dimensions of windows at first.
_SMALL = 4
# A value made of so few operations from constants alone is made where it is used.
_CONSTANT_DEPTH = 3


def candidates(module: Module) -> list[tuple[str, list[Make]]]:
    """Return windows of a module in rounds, each with a name: small and narrow ones first."""
    narrow = windows(module, _WINDOW, _WINDOW)
    between = windows(module, _WINDOW, _WINDOW, _WINDOW // 2)
    wide = windows(module, _WIDE * _WINDOW, _WIDE * _WINDOW // 2)
    return [
        ("parts, small", [partial(_part, part, small=True) for part in (*narrow, *between)]),
        ("parts", [partial(_part, part, small=False) for part in (*narrow, *between)]),
        ("wide parts, small", [partial(_part, part, small=True) for part in wide]),
        ("wide parts", [partial(_part, part, small=False) for part in wide]),
    ]


def windows(module: Module, size: int, stride: int, start: int = 0) -> list[list[Place]]:
    """Return neighbouring instructions of each computation that takes control."""
    found = []
    for comp in _in_control(module):
        names = [i.name for i in comp.in_order() if i.opcode not in ("parameter", "constant")]
        for at in range(start, len(names), stride):
            found.append([(comp.name, name) for name in names[at : at + size]])
    return found


def _in_control(module: Module) -> list[Computation]:
    """Return the entry, and the computations that it hands control to, each once."""
    found = [module.entry]
    for comp in found:
        for inst in comp.in_order():
            if inst.opcode in ("while", "conditional", "call"):
                found += [c for c in inst.called_computations if c not in found]
    return found


def _part(places: Sequence[Place], module: Module, *, small: bool) -> Module | None:
    comp = module.get(places[0][0])
    assert comp is not None
    part = cut(module, [comp[name] for _, name in places])
    if part is None or not small:
        return part
    try:
        verify(part)
    except HloError:
        return None
    resize(part, _small)
    return part


def _small(axis: Axis) -> int:
    """Return a small size, odd or even as it was."""
    return min(axis.size, _SMALL - axis.size % 2)


def cut(module: Module, wanted: Iterable[Instruction]) -> Module | None:
    """Return a module of some instructions of one computation; None if it would return nothing.

    The operands that are not among them are parameters, unless they are made from constants alone.
    Values that are used by others are outputs. Names are kept.
    """
    chosen = set(wanted)
    source = next(iter(chosen)).parent
    assert source is not None
    inside = set(chosen)
    for inst in chosen:
        for operand in inst.operands:
            inside |= _from_constants(operand, _CONSTANT_DEPTH) or set()
    comp = Computation(source.name)
    made: dict[Instruction, Instruction] = {}

    def value(old: Instruction) -> Instruction:
        if old not in made:
            attrs = {"number": len(comp.parameters)}
            annotations = {k: v for k, v in old.annotations.items() if k == "metadata"}
            made[old] = comp.add(
                Instruction(old.name, "parameter", old.shape, (), attrs, annotations=annotations)
            )
        return made[old]

    for old in source.in_order():
        if old in inside and old.opcode != "parameter":
            made[old] = comp.add(old.clone([value(o) for o in old.operands]))
    shown = [
        made[i]
        for i in source.in_order()
        if i in chosen and i.opcode not in ("parameter", "constant")
        if i.is_root or not i.num_users or not chosen.issuperset(i.users)
    ]
    if not shown:
        return None
    set_outputs(comp, shown)
    part = module_of(comp, module.custom_calls)
    kept = {k: v for k, v in module.attrs.items() if k not in OF_THE_SIGNATURE}
    part.name, part.attrs, part.tables = module.name, kept, dict(module.tables)
    comp.sort()
    return part


def _from_constants(inst: Instruction, depth: int) -> set[Instruction] | None:
    """Return a value with what it is made of, if that is constants alone; None otherwise."""
    if inst.opcode in ("constant", "iota"):
        return {inst}
    if not depth or not inst.operands or inst.called_computations:
        return None
    found = {inst}
    for operand in inst.operands:
        below = _from_constants(operand, depth - 1)
        if below is None:
            return None
        found |= below
    return found
