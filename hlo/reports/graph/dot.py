"""A module in the DOT language: a cluster for each computation."""

from __future__ import annotations

from collections.abc import Iterator

from hlo.ir import Computation, Instruction, Module
from hlo.reports.graph.style import colour, shape_text, title


def to_dot(module: Module) -> str:
    """Return a graph for Graphviz: edges are values, dotted ones order, dashed ones calls."""
    lines = [f"digraph {_quoted(module.name)} {{", "  compound=true;",
             '  node [shape=box, style=filled, fontname="sans-serif", fontsize=10];']  # fmt: skip
    numbers: dict[Instruction, int] = {}
    for comp in module.computations:
        for inst in comp:
            numbers[inst] = len(numbers)
    for n, comp in enumerate(module.computations):
        lines.extend(_cluster(n, comp, numbers))
    for inst in module.instructions():
        lines.extend(_edges(inst, numbers))
    return "\n".join([*lines, "}", ""])


def _cluster(number: int, comp: Computation, numbers: dict[Instruction, int]) -> Iterator[str]:
    yield f"  subgraph cluster_{number} {{"
    yield f"    label={_quoted(comp.name)};"
    for inst in comp:
        label = _quoted(f"{title(inst)}\n{inst.name}\n{shape_text(inst.shape)}")
        border = ", penwidth=2" if inst.is_root else ""
        yield f'    i{numbers[inst]} [label={label}, fillcolor="{colour(inst)}"{border}];'
    yield "  }"


def _edges(inst: Instruction, numbers: dict[Instruction, int]) -> Iterator[str]:
    to = f"i{numbers[inst]}"
    for n, operand in enumerate(inst.operands):
        label = f" [label={n}]" if len(inst.operands) > 1 else ""
        yield f"  i{numbers[operand]} -> {to}{label};"
    for before in inst.control_predecessors:
        yield f"  i{numbers[before]} -> {to} [style=dotted];"
    for callee in inst.called_computations:
        yield f"  i{numbers[callee.root]} -> {to} [style=dashed, color=gray];"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
