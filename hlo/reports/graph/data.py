"""A module as the data of a page: columns of numbers and texts, one entry for each instruction.

The scripts of the pages (`page/static/module.js`) read it. Instructions, computations and groups
are numbers, in the module's order; texts that repeat are numbers in `texts`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hlo.analysis.cost import costs_of_module
from hlo.analysis.executions import executions_of
from hlo.analysis.source_location import source_location
from hlo.ir import Computation, Instruction, Module
from hlo.reports.graph.groups import Group, groups_of
from hlo.reports.graph.style import line, op_name_of, runs_inside, title, value_text


class _Texts:
    """Texts by number."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        found = self._numbers.setdefault(text, len(self.all))
        if found == len(self.all):
            self.all.append(text)
        return found


def graph_data(
    module: Module, seconds: Mapping[Instruction, float] | None = None
) -> dict[str, Any]:
    """Return a module as data for the scripts, with costs of one run of each instruction.

    seconds: times of instructions, where they were measured.
    """
    texts = _Texts()
    comps = {comp: n for n, comp in enumerate(module.computations)}
    order = [inst for comp in comps for inst in comp.in_order()]
    numbers = {inst: n for n, inst in enumerate(order)}
    groups, group_of = _groups(comps)
    runs = executions_of(module)
    return {
        "name": module.name,
        "entry": comps[module.entry],
        "computations": [
            [comp.name, numbers[comp.root], runs[comp].count, int(runs[comp].exact)]
            for comp in comps
        ],
        "groups": groups,
        **_columns(order, numbers, comps, group_of, texts),
        **_costs(module, order),
        "seconds": None if seconds is None else [seconds.get(inst, 0.0) for inst in order],
        "texts": texts.all,
    }


def _groups(
    comps: Mapping[Computation, int],
) -> tuple[list[list[Any]], dict[Instruction, int]]:
    """Return a row for each group: that around it (-1 for none), computation and name.

    Beside them, the group of each instruction. The first group of a computation is all of it.
    """
    rows: list[list[Any]] = []
    group_of: dict[Instruction, int] = {}
    for comp, number in comps.items():
        around: dict[Group, int] = {}
        for group in groups_of(comp).groups():
            at = len(rows)
            rows.append([around.get(group, -1), number, group.name])
            for part in group.parts:
                if isinstance(part, Group):
                    around[part] = at
                else:
                    group_of[part] = at
    return rows, group_of


def _columns(
    order: list[Instruction], numbers: Mapping[Instruction, int],
    comps: Mapping[Computation, int], group_of: Mapping[Instruction, int], texts: _Texts,
) -> dict[str, Any]:  # fmt: skip
    values = {n: value for n, inst in enumerate(order) if (value := value_text(inst)) is not None}
    control = {
        n: [numbers[i] for i in inst.control_predecessors]
        for n, inst in enumerate(order) if inst.control_predecessors
    }  # fmt: skip
    inside = {
        n: [[role, comps[comp]] for role, comp in runs_inside(inst)]
        for n, inst in enumerate(order) if inst.called_computations
    }  # fmt: skip
    applied = {
        n: [comps[comp] for comp in inst.called_computations]
        for n, inst in enumerate(order) if inst.called_computations and not inside[n]
    }  # fmt: skip
    places = [source_location(inst) for inst in order]
    shardings = {
        n: texts.number(str(sharding))
        for n, inst in enumerate(order)
        if (sharding := inst.annotations.get("sharding")) is not None
    }
    return {
        "names": [inst.name for inst in order],
        "opcodes": [texts.number(inst.opcode) for inst in order],
        "categories": [texts.number(inst.spec.category.value) for inst in order],
        "titles": {n: t for n, inst in enumerate(order) if (t := title(inst)) != inst.opcode},
        "shapes": [texts.number(inst.shape.to_string(False)) for inst in order],
        "lines": [line(inst) for inst in order],
        "comp": [comps[inst.parent] for inst in order if inst.parent is not None],
        "group": [group_of[inst] for inst in order],
        "operands": [[numbers[o] for o in inst.operands] for inst in order],
        "control": control,
        "inside": {n: rows for n, rows in inside.items() if rows},
        "applied": applied,
        "values": values,
        "op_names": [texts.number(op_name_of(inst)) for inst in order],
        "sources": [texts.number(place.source) for place in places],
        "hlo_lines": [place.hlo_line or 0 for place in places],
        "shardings": shardings,
    }


def _costs(module: Module, order: list[Instruction]) -> dict[str, Any]:
    costs = costs_of_module(module)
    return {
        "flops": [costs[inst].operations + costs[inst].transcendentals for inst in order],
        "bytes": [costs[inst].bytes for inst in order],
        "inexact": [n for n, inst in enumerate(order) if not costs[inst].exact],
    }
