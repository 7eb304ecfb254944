"""What there is to know of a module at a glance, as objects that print as tables.

The functions here are methods of `Module`: `module.stats()`, `module.cost()`, `module.graph()`.
`import hlo` attaches them, `str(module)` and what notebooks show, as soon as it loads the IR, which
lies below all that they need.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import hlo.frontends.text  # noqa: F401 (attaches the text of modules)
from hlo.analysis.cost import Cost, cost_of, costs_of_computations, instruction_costs
from hlo.analysis.memory import peak_memory, shape_bytes
from hlo.analysis.network.costs import Network
from hlo.errors import HloError
from hlo.io.files import write_text
from hlo.ir import Computation, Instruction, Module
from hlo.reports.collectives import Communication, communication
from hlo.reports.notebook import computation_html, cost_html, module_html, statistics_html
from hlo.reports.numbers import bytes_text, count_text

_LARGEST = 10


@dataclass(frozen=True, repr=False)
class Statistics:
    """Counts by opcode, costs of one run, and peak memory of a module; prints as a table.

    Attributes:
        opcodes: how many instructions of each, most first.
        cost: of the entry, with all that it calls, unfused.
        value_bytes: of the results of all instructions.
        peak_bytes: what is held at the worst moment, which is at the instruction `peak_at`.
        largest_at_peak: name, shape and bytes of the largest values there.
        computations: number of instructions, and cost of one run, by name.
        communication: what the collectives send, and the time that takes.

    >>> module = hlo.parse("HloModule m ENTRY e { x = f32[] parameter(0) ROOT y = f32[] sqrt(x) }")
    >>> module.stats().peak_bytes, module.stats().opcodes
    (8, {'parameter': 1, 'sqrt': 1})
    """

    module: str
    instructions: int
    opcodes: Mapping[str, int]
    cost: Cost
    argument_bytes: int
    result_bytes: int
    value_bytes: int
    peak_bytes: int
    peak_at: str | None
    largest_at_peak: tuple[Mapping[str, Any], ...]
    computations: Mapping[str, Mapping[str, Any]]
    communication: Communication

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as dictionaries and numbers, as `hlo-opt --stats --json` prints it."""
        return {**asdict(self), "communication": self.communication.as_dict()}

    def _repr_html_(self) -> str:
        title = f"{self.module}: {self.instructions} instructions"
        return statistics_html(title, self._facts, self.opcodes, self.computations)

    @property
    def _facts(self) -> list[tuple[str, str]]:
        """What is one number, with its name."""
        return [
            (
                "operations",
                count_text(self.cost.operations) + ("" if self.cost.exact else " or more"),
            ),
            ("transcendentals", count_text(self.cost.transcendentals)),
            ("memory traffic", f"{bytes_text(self.cost.bytes)}, unfused"),
            ("arguments", bytes_text(self.argument_bytes)),
            ("results", bytes_text(self.result_bytes)),
            ("peak memory", f"{bytes_text(self.peak_bytes)}, unfused, at {self.peak_at}"),
        ]

    def __repr__(self) -> str:
        lines = [
            f"{self.module}: {self.instructions} instructions in "
            f"{len(self.computations)} computations",
            *(f"  {name:<15}  {value}" for name, value in self._facts),
            "",
            "largest values at the peak",
            *(
                f"  {bytes_text(v['bytes']):>12}  {v['name']} {v['shape']}"
                for v in self.largest_at_peak
            ),
            "",
            *([*self.communication.lines(), ""] if self.communication.rows else []),
            "opcodes",
            *(f"  {count:6}  {opcode}" for opcode, count in self.opcodes.items()),
            "",
            "computations (instructions, operations and bytes of one run)",
        ]
        for name, comp in self.computations.items():
            cost = comp["cost"]
            numbers = f"{comp['instructions']:6}  {count_text(cost.operations):>8}"
            lines.append(f"  {numbers}  {bytes_text(cost.bytes):>12}  {name}")
        return "\n".join(lines)


def statistics(module: Module, network: Network | None = None) -> Statistics:
    """Return counts by opcode, costs and peak memory, of the module and of each computation.

    network: what collectives are sent over; by default one of 50 GB/s and 2 us.
    """
    entry = module.entry
    peak, costs = peak_memory(entry), costs_of_computations(module)
    return Statistics(
        module.name,
        sum(len(c) for c in module.computations),
        dict(Counter(i.opcode for i in module.instructions()).most_common()),
        costs[entry],
        sum(map(shape_bytes, entry.parameter_shapes)),
        shape_bytes(entry.result_shape),
        sum(shape_bytes(i.shape) for i in module.instructions()),
        peak.bytes,
        peak.at.name if peak.at is not None else None,
        tuple(
            {"name": v.instruction.name, "shape": str(v.instruction.shape), "bytes": v.bytes}
            for v in peak.live[:_LARGEST]
        ),
        {c.name: {"instructions": len(c), "cost": cost} for c, cost in costs.items()},
        communication(module, network),
    )


@dataclass(frozen=True, repr=False)
class ModuleCost(Cost):
    """What a run of a module costs, unfused; prints as a table, the dearest instruction first.

    Attributes:
        instructions: those of the entry in order, each with its cost and that of all that it calls.

    >>> text = "HloModule m ENTRY e { x = f32[8] parameter(0) ROOT y = f32[8] sine(x) }"
    >>> module = hlo.parse(text)
    >>> print(module.cost())
      operations   transc.        bytes  instruction
               0         8         64 B  y = f32[8]{0} sine
               0         0          0 B  x = f32[8]{0} parameter
               0         8         64 B  in all
    """

    instructions: tuple[tuple[Instruction, Cost], ...] = field(default=(), compare=False)

    def as_rows(self) -> list[dict[str, Any]]:
        """Return a row for each instruction, as `hlo-opt --cost --json` prints them."""
        return [
            {"name": i.name, "opcode": i.opcode, "shape": str(i.shape), **asdict(cost)}
            for i, cost in self.instructions
        ]

    def _repr_html_(self) -> str:
        return cost_html(self, self.dearest)

    @property
    def dearest(self) -> list[tuple[Instruction, Cost]]:
        """The instructions by their operations, then their bytes, most first."""
        return sorted(self.instructions, key=lambda row: (-row[1].operations, -row[1].bytes))

    def __repr__(self) -> str:
        lines = [f"{'operations':>12} {'transc.':>9} {'bytes':>12}  instruction"]
        for inst, cost in self.dearest:
            what = inst.opcode
            if what == "custom-call":
                what += f' "{inst.custom_call_target}"'
            lines.append(f"{_numbers(cost)}  {inst.name} = {str(inst.shape)[:80]} {what}")
        more = "" if self.exact else ", or more"
        return "\n".join([*lines, f"{_numbers(self)}  in all{more}"])


def module_cost(module: Module) -> ModuleCost:
    """Return what one run of the module costs: the entry, and what it calls."""
    total = cost_of(module.entry)
    rows = tuple(instruction_costs(module.entry))
    return ModuleCost(total.operations, total.transcendentals, total.bytes, total.exact, rows)


class Graph:
    """A picture of a module; a notebook shows it.

    Attributes:
        dot: for Graphviz.
        html: a page that needs no other file, with search.

    >>> module = hlo.parse("HloModule m ENTRY e { x = f32[] parameter(0) ROOT y = f32[] sqrt(x) }")
    >>> module.graph().dot.startswith("digraph")
    True
    """

    def __init__(self, module: Module) -> None:
        from hlo.reports.graph import to_dot, to_html  # not before a picture is wanted

        self._name, self.dot, self.html = module.name, to_dot(module), to_html(module)

    def save(self, path: str | Path) -> None:
        """Write it to a file, `.dot` or `.html`. Raises HloError."""
        forms = {".dot": self.dot, ".gv": self.dot, ".html": self.html, ".htm": self.html}
        form = forms.get(Path(path).suffix.lower())
        if form is None:
            raise HloError.at(
                "bad-value", f"{path}: a graph is saved as {', '.join(forms)}",
                hint="Graphviz makes other pictures of it: dot -Tsvg graph.dot",
            )  # fmt: skip
        write_text(path, form)

    def _repr_html_(self) -> str:
        # A frame of its own, so that its styles and names stay out of the notebook's.
        return f'<iframe width="100%" height="600" srcdoc="{escape(self.html)}"></iframe>'

    def __repr__(self) -> str:
        return f"<Graph of {self._name}: .dot, .html, or save(path)>"


def graph(module: Module) -> Graph:
    """Return a picture of the module, for Graphviz, a browser or a notebook."""
    return Graph(module)


# --- numbers ------------------------------------------------------------------------------------


def _numbers(cost: Cost) -> str:
    return (
        f"{count_text(cost.operations):>12} {count_text(cost.transcendentals):>9} "
        f"{bytes_text(cost.bytes):>12}"
    )


Module.stats = statistics
Module.cost = module_cost
Module.graph = graph
Module._repr_html_ = module_html
Computation._repr_html_ = computation_html
