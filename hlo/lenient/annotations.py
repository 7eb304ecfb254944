"""Annotations that contradict each other where XLA does not compare them.

Shardings of a loop's values, aliases between memory spaces, layouts that only some all-reduces
constrain. None of them changes a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hlo.ir import Module
from hlo.ir.aliases import InputOutputAlias
from hlo.lenient.record import Note
from hlo.ops.collective.rules import UNEVEN
from hlo.values.types import Shape, compatible

_ALIAS = "input_output_alias"


def repair_annotations(module: Module, note: Note) -> None:
    """Make annotations agree."""
    _share_shardings(module, note)
    _relax_aliases(module, note)
    _free_layouts(module, note)


def _share_shardings(module: Module, note: Note) -> None:
    """Give the values of each loop the sharding of the first of them that has one."""
    for inst in module.call_sites():
        if inst.opcode != "while":
            continue
        body, condition = inst.body, inst.condition
        values = [inst, body.root, *body.parameters[:1], *condition.parameters[:1]]
        sharded = [v for v in values if "sharding" in v.annotations]
        if any(v.annotations["sharding"] != sharded[0].annotations["sharding"] for v in sharded):
            note(inst.name, "does not compare the shardings of a loop's values")
            for value in sharded:
                value.annotations["sharding"] = sharded[0].annotations["sharding"]


def _relax_aliases(module: Module, note: Note) -> None:
    """Make optional what must alias between arrays that are not stored alike."""
    parameters, result = _outside(module)
    relaxed = []
    for alias in module.attrs.get(_ALIAS, ()):
        if alias.must and _differ_in_layout(alias, parameters, result):
            alias = replace(alias, must=False)
        relaxed.append(alias)
    if relaxed and tuple(relaxed) != tuple(module.attrs[_ALIAS]):
        note(_ALIAS, "copies where the layout or the memory space differs")
        module.attrs[_ALIAS] = tuple(relaxed)


def _outside(module: Module) -> tuple[Sequence[Shape], Shape]:
    """Return the shapes of the parameters and of the result as callers see them."""
    own = module.entry.parameter_shapes
    said = module.attrs.get("entry_computation_layout")
    if said is None or len(said.parameters) != len(own):
        return own, module.entry.result_shape
    return said.parameters, said.result


def _differ_in_layout(alias: InputOutputAlias, parameters: Sequence[Shape], result: Shape) -> bool:
    if not 0 <= alias.parameter < len(parameters):
        return False
    try:
        source, target = parameters[alias.parameter].at(alias.index), result.at(alias.output)
    except IndexError:
        return False
    return compatible(source, target) and source != target


def _free_layouts(module: Module, note: Note) -> None:
    """Let no all-reduce constrain its layout where only some do."""
    all_reduces = [i for i in module.instructions() if i.opcode in UNEVEN]
    if len({bool(i.constrain_layout) for i in all_reduces}) > 1:
        for inst in all_reduces:
            inst.attrs["constrain_layout"] = False
            note(inst.name, "does not compare what all-reduces constrain")
