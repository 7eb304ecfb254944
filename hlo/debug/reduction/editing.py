"""What the steps of a reduction share: places, outputs, parameters, and removal of leftovers."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hlo.analysis.effects import Effects
from hlo.ir import Computation, Instruction, Module
from hlo.values.types import TupleShape

# Attributes of the header that say something of the entry's parameters and results.
OF_THE_SIGNATURE = ("entry_computation_layout", "input_output_alias", "buffer_donor")

Place = tuple[str, str]
"""An instruction by name: its computation's, its own."""


def place_of(inst: Instruction) -> Place:
    assert inst.parent is not None
    return inst.parent.name, inst.name


def at(module: Module, place: Place) -> Instruction | None:
    """Return the instruction at a place, None if it is gone."""
    comp = module.get(place[0])
    return comp.get(place[1]) if comp is not None else None


def outputs_of(comp: Computation) -> list[Instruction]:
    """Return the values that a computation returns: the elements of a tuple that is its root."""
    root = comp.root
    return list(root.operands) if root.opcode == "tuple" else [root]


def set_outputs(comp: Computation, outputs: Iterable[Instruction]) -> None:
    """Return other values from a computation, each once: a tuple unless it is only one."""
    values = list(dict.fromkeys(outputs))
    if len(values) == 1:
        comp.set_root(values[0])
        return
    shape = TupleShape(tuple(v.shape for v in values))
    comp.create("tuple", shape, values, name="outputs", root=True)


def replace_by_parameter(inst: Instruction) -> Instruction:
    """Have users of an instruction of an entry use a new parameter instead; returns that.

    The instruction stays, without users.
    """
    comp = inst.parent
    assert comp is not None
    attrs = {"number": len(comp.parameters)}
    parameter = Instruction(inst.name, "parameter", inst.shape, (), attrs, span=inst.span)
    if "metadata" in inst.annotations:
        parameter.annotations["metadata"] = inst.annotations["metadata"]
    comp.add(parameter)
    name = inst.name
    inst.replace_all_uses_with(parameter)
    if inst.opcode != "parameter":
        # Tests and plug-ins look for values by name.
        comp.rename(inst, f"{name}.replaced")
        comp.rename(parameter, name)
    return parameter


def unused_parameters(comp: Computation) -> list[Instruction]:
    return [p for p in comp.parameters if not p.num_users and not p.is_root]


def change(module: Module, edit: Callable[[Module], bool]) -> bool:
    """Edit a module, then remove what nothing needs any more; returns what `edit` does.

    Dead instructions go, computations without callers, and parameters of the entry that were used
    before; what the header says of parameters and results goes if these are others. The order of
    instructions is a valid schedule afterwards.
    """
    entry = module.entry
    kept = {p.name for p in unused_parameters(entry)}
    signature = entry.parameter_shapes, entry.result_shape
    if not edit(module):
        return False
    _remove_dead(module)
    for parameter in unused_parameters(entry):
        if parameter.name not in kept and not parameter.control_successors:
            entry.remove(parameter)
    for number, parameter in enumerate(entry.parameters):
        parameter.attrs["number"] = number
    if (entry.parameter_shapes, entry.result_shape) != signature:
        forget_signature(module)
    for comp in module:
        comp.sort()
    return True


def _remove_dead(module: Module) -> None:
    effects = Effects()
    for comp in module:
        for inst in reversed(comp.in_order()):
            if effects.is_removable(inst):
                comp.remove(inst)
    live = {module.entry}
    todo = [module.entry]
    while todo:
        for inst in todo.pop():
            for callee in inst.called_computations:
                if callee not in live:
                    live.add(callee)
                    todo.append(callee)
    for comp in module.computations:
        if comp not in live:
            module.remove(comp)


def forget_signature(module: Module) -> None:
    """Drop what the header says of the entry's parameters and results."""
    for name in OF_THE_SIGNATURE:
        module.attrs.pop(name, None)
    module.trees = None
