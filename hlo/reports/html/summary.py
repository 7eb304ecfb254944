"""The first things to know of a module, as HTML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hlo.analysis.elided import elided_constants
from hlo.analysis.memory import shape_bytes
from hlo.ir import Instruction, Module
from hlo.ir.computation import counted
from hlo.library_calls import expand_call
from hlo.reports.gpu import GpuReport
from hlo.reports.html.costliest import costliest_lines
from hlo.reports.html.device import (
    KERNEL_HEADS,
    KERNEL_NUMBERS,
    Cells,
    device_facts,
    kernel_rows,
)
from hlo.reports.module import Statistics
from hlo.reports.numbers import bytes_text, count_text
from hlo.reports.page import escaped
from hlo.support.quantities import quantity_text
from hlo.values.types import Shape, TupleShape

# Rows of a table; what is left out is counted.
_MOST = 400
_LONGEST_SHAPE = 300
# A shape of at most so many characters stands in one line.
_LINE = 40


@dataclass(frozen=True)
class Spent:
    """The seconds of a run by instruction, and in all; how they are known, and on what machine."""

    seconds: Mapping[Instruction, float]
    total: float
    how: str
    machine: str


def summary_html(
    module: Module,
    stats: Statistics,
    notes: Sequence[str],
    spent: Spent,
    peak: str | None,
    estimated: GpuReport | None = None,
) -> str:
    """Return the summary of a module: what costs most first.

    notes: warnings that the rest of the report has. peak: the peak of the compiled module's memory,
    None if it is not known. estimated: what a run takes on a GPU.
    """
    replicas, partitions = module.device_counts
    devices = replicas * partitions
    facts = [
        (f"Time of a run, {spent.how}", quantity_text(spent.total, "s")),
        ("Peak memory", peak) if peak is not None else
        ("Peak memory, unfused", f"{bytes_text(stats.peak_bytes)} at {stats.peak_at}"),
        ("Instructions", f"{stats.instructions:,} in {len(stats.computations):,} computations"),
        ("Operations", f"{count_text(stats.cost.operations)}{_more(stats)}"),
        ("Transcendentals", count_text(stats.cost.transcendentals)),
        ("Memory traffic, unfused", bytes_text(stats.cost.bytes)),
        ("Arguments", bytes_text(stats.argument_bytes)),
        ("Results", bytes_text(stats.result_bytes)),
        ("Devices", f"{devices} ({counted(replicas, 'replica')} of "
         f"{counted(partitions, 'partition')})" if devices > 1 else "1"),
    ]  # fmt: skip
    if estimated is not None:
        facts[1:1] = device_facts(estimated)
    parts = ['<dl class="facts">']
    parts += [f"<div><dt>{name}</dt><dd>{escaped(value)}</dd></div>" for name, value in facts]
    parts.append("</dl>")
    parts += _costliest(spent)
    warnings = [*_warnings(module, stats), *notes]
    if warnings:
        parts.append('<h2>Warnings</h2><ul class="warning">')
        parts += [f"<li>{escaped(text)}</li>" for text in warnings]
        parts.append("</ul>")
    parts.append('<div class="columns">')
    if estimated is not None:
        title = f"Kernels on {estimated.cost.estimate.device.name}, estimated"
        parts += _table(title, KERNEL_HEADS, kernel_rows(estimated), *KERNEL_NUMBERS)
    parts += _table("Parameters", ("number", "name", "shape", "bytes"), _parameters(module), 3)
    parts += _table("Results", ("number", "shape", "bytes"), _results(module), 2)
    opcodes = [(name, (f"{count:,}", count)) for name, count in stats.opcodes.items()]
    parts += _table("Opcodes", ("opcode", "count"), opcodes, 1)
    heads = ("name", "instructions", "operations", "bytes")
    parts += _table("Computations", heads, _computations(stats), 1, 2, 3)
    parts.append("</div>")
    return "\n".join(parts)


def _costliest(spent: Spent) -> Iterator[str]:
    """Yield a table of the lines of the program that take most time."""
    rows: list[Cells] = [
        (line.text, line.names, quantity_text(line.seconds, "s"),
         f"{line.seconds / spent.total:.1%}" if spent.total else "")
        for line in costliest_lines(spent.seconds)
    ]  # fmt: skip
    if rows:
        heads = ("line", "instructions", f"time, {spent.how}", "share")
        yield from _table("Costliest lines", heads, rows, 2, 3)
        yield f'<p class="muted">Peak of the machine: {escaped(spent.machine)}</p>'


def _more(stats: Statistics) -> str:
    return "" if stats.cost.exact else " or more"


def _warnings(module: Module, stats: Statistics) -> Iterator[str]:
    elided = elided_constants(module)
    if elided:
        names = ", ".join(inst.name for inst in elided[:3])
        yield f"{counted(len(elided), 'constant')} with elided values, among them {names}."
    if not stats.cost.exact:
        yield (
            "Costs are at least those shown: a loop has an unknown trip count and is counted "
            "once, or there are custom calls."
        )
    targets = {
        i.custom_call_target for i in module.instructions()
        if i.opcode == "custom-call" and expand_call(i) is None
    }  # fmt: skip
    if targets:
        some = ", ".join(sorted(targets)[:8])
        yield f"Custom calls, whose costs are not known: {some}."


def _table(title: str, heads: Sequence[str], rows: Sequence[Cells], *numbers: int) -> Iterator[str]:
    """Yield a table. rows: of texts, or of pairs of the text and the number to sort by."""
    yield f'<section><h2>{title} ({len(rows):,})</h2><div class="scrolls">'
    yield '<table class="sortable"><thead><tr>'
    yield "".join(
        f"<th{' class=number' if n in numbers else ''}>{head}</th>" for n, head in enumerate(heads)
    )
    yield "</tr></thead><tbody>"
    for row in rows[:_MOST]:
        cells = (_cell(cell, heads[n], n in numbers) for n, cell in enumerate(row))
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</tbody></table></div>"
    if len(rows) > _MOST:
        yield f'<p class="muted">and {len(rows) - _MOST:,} more</p>'
    yield "</section>"


def _cell(cell: object, head: str, is_number: bool) -> str:
    text, value = cell if isinstance(cell, tuple) else (cell, None)
    is_whole = head == "shape" and len(str(text)) <= _LINE
    kind = ' class="number"' if is_number else ' class="whole"' if is_whole else ""
    key = "" if value is None else f' data-value="{value}"'
    return f"<td{kind}{key}>{escaped(str(text))}</td>"


def _size(count: int) -> tuple[str, int]:
    return bytes_text(count), count


def _parameters(module: Module) -> list[Cells]:
    return [
        (p.parameter_number, p.name, _shape(p.shape), _size(shape_bytes(p.shape)))
        for p in module.entry.parameters
    ]


def _results(module: Module) -> list[Cells]:
    shape = module.entry.result_shape
    leaves = shape.elements if isinstance(shape, TupleShape) else (shape,)
    return [(n, _shape(leaf), _size(shape_bytes(leaf))) for n, leaf in enumerate(leaves)]


def _shape(shape: Shape) -> str:
    text = str(shape)
    return text if len(text) <= _LONGEST_SHAPE else f"{text[:_LONGEST_SHAPE]} …"


def _computations(stats: Statistics) -> list[Cells]:
    """Return a row for each computation, those of most operations first."""
    return [
        (
            name, comp["instructions"], (count_text(comp["cost"].operations),
            comp["cost"].operations), _size(comp["cost"].bytes),
        )
        for name, comp in sorted(
            stats.computations.items(), key=lambda item: -item[1]["cost"].operations
        )
    ]  # fmt: skip
