"""A layout as text."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from hlo.reports.explorer.facts import LayoutFacts
from hlo.reports.explorer.view import GAP, Axis, LayoutView, Panel
from hlo.support.signature import checked
from hlo.values.layout import checked_layout

# Padding whose value nobody asked for.
_PADDING = "."


@checked
def facts_text(facts: LayoutFacts) -> str:
    """Return what a layout costs, as lines."""
    layout = checked_layout(facts.shape)
    order = ", ".join(map(str, layout.minor_to_major)) or "none"
    physical = ",".join(map(str, facts.physical_dims))
    rows = [
        ("order", f"dimensions from minor to major: {order}"),
        ("physical", f"{facts.shape.element_type}[{physical}]"),
        ("elements", f"{facts.elements}, {bits_text(facts)}"),
        ("places", places_text(facts)),
        ("size", bytes_text(facts)),
        ("memory space", str(layout.memory_space)),
        *notes(facts),
        ("place", facts.formula),
    ]
    return f"{facts.shape}\n" + "".join(f"  {name:14}{value}\n" for name, value in rows)


def notes(facts: LayoutFacts) -> Iterator[tuple[str, str]]:
    """Yield what few shapes have, by name: dimensions that are dynamic or split."""
    shape = facts.shape
    dynamic = [f"i{d}" for d in range(shape.rank) if shape.is_dynamic_dim(d)]
    if dynamic:
        yield "dynamic", f"{', '.join(dynamic)}: as many places as the largest size takes"
    for split in checked_layout(shape).splits:
        bounds = [0, *split.indices, shape.dims[split.dim]]
        parts = ", ".join(f"{a} to {b - 1}" if b - a > 1 else str(a) for a, b in pairwise(bounds))
        yield "split", f"i{split.dim} in {len(bounds) - 1} parts, each in a memory: {parts}"


def bits_text(facts: LayoutFacts) -> str:
    """Return the size of an element: `8 bits each, 4 of them unused`."""
    unused = f", {facts.unused_bits} of them unused" if facts.unused_bits else ""
    return f"{facts.element_bits} bit{'s' * (facts.element_bits != 1)} each{unused}"


def places_text(facts: LayoutFacts) -> str:
    """Return the number of places, and of padding by what adds it."""
    parts = [f"{n} of them padding of tile {tile}" for tile, n in facts.tile_padding if n]
    if facts.tail_padding:
        parts.append(f"{facts.tail_padding} of them padding of the tail")
    return "".join([str(facts.places), *(f", {part}" for part in parts)])


def bytes_text(facts: LayoutFacts) -> str:
    """Return the size of the buffer and the part of it that is no element."""
    prefix = f", {facts.prefix_bytes} of them prefix" if facts.prefix_bytes else ""
    return f"{facts.bytes} bytes{prefix}, {100 * facts.waste:.3g}% without elements"


@checked
def layout_text(view: LayoutView) -> str:
    """Return where each element lies: the places by index, then memory place by place."""
    return "\n".join([*_by_index(view), "", *_in_memory(view), ""])


def _by_index(view: LayoutView) -> Iterator[str]:
    what = "the elements" if view.letters else "the place of each element"
    yield f"by index: {what}; {view.padding or _PADDING} is padding"
    for panel in view.panels:
        if panel is None:
            yield "..."
            continue
        if panel.title:
            yield panel.title
        yield from _panel(view, panel)


def _panel(view: LayoutView, panel: Panel) -> Iterator[str]:
    rows, columns = view.rows, view.columns
    table = [
        [GAP if cell is None else view.place_label(cell) or _PADDING for cell in row]
        for row in panel.rows
    ]
    heads = _heads(columns)
    names = _heads(rows)
    width = max(map(len, [*heads, *(x for row in table for x in row)]), default=1)
    left = max(map(len, [*names, rows.name]), default=0)

    def line(name: str, labels: list[str]) -> str:
        text = f"{name:>{left + 2}} "
        for i, label in zip(columns.shown, labels, strict=True):
            text += " |" if columns.starts_tile(i) else ""
            text += f" {label:>{width}}"
        return text

    if rows.name or columns.name:
        corner = rows.name + (" \\ " if rows.name and columns.name else "") + columns.name
        yield f"  {corner}"
    yield line("", heads)
    for i, name, row in zip(rows.shown, names, table, strict=True):
        if rows.starts_tile(i):
            yield " " * (left + 3) + "-" * (len(line("", heads)) - left - 3)
        yield line(name, row)


def _heads(axis: Axis) -> list[str]:
    return [x or _PADDING for x in axis.heads]


def _in_memory(view: LayoutView) -> Iterator[str]:
    what = "the elements" if view.letters else "the index of the element in each place"
    yield f"in memory: {what}, lines from the byte where they start"
    left = max(
        (len(view.facts.byte_label(line[0].place)) for line in view.memory if line), default=1
    )
    if view.facts.prefix_bytes:
        yield f"  {0:>{left}}  metadata prefix of {view.facts.prefix_bytes} bytes"
    lines = [
        None if line is None else [view.index_label(c) or _PADDING for c in line]
        for line in view.memory
    ]
    width = max((len(x) for line in lines if line for x in line), default=1)
    for cells, labels in zip(view.memory, lines, strict=True):
        if cells is None or labels is None:
            yield f"  {GAP:>{left}}"
            continue
        text = f"  {view.facts.byte_label(cells[0].place):>{left}} "
        for k, (cell, label) in enumerate(zip(cells, labels, strict=True)):
            ends = view.tile_places is not None and cell.place % view.tile_places == 0
            text += (" |" if k and ends and view.tile_places != 1 else "") + f" {label:<{width}}"
        yield text.rstrip()
