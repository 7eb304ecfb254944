"""A layout as an SVG drawing that needs nothing else, for white and dark pages."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

from hlo.reports.explorer.text import bits_text, bytes_text, notes, places_text
from hlo.reports.explorer.view import GAP, Axis, Cell, LayoutView, Panel
from hlo.support.signature import checked

# Pixels. A character is as wide as one of a monospaced font of 11 pixels, on whole pixels: where
# fonts are hinted, characters are that far apart.
_CHARACTER, _CELL_HEIGHT, _LEAST_WIDTH = 7.0, 22, 24
_MARGIN, _LINE, _SPACE, _TILE_SPACE, _GAP = 16, 18, 22, 5, 18
_WIDEST = 1000
_WRAP = 110
# How much larger the title's font is.
_TITLE = 14 / 11

# Neighbouring tiles differ in colour, and tiles inside one in shade.
_COLOURS = (
    ("#cfe3fa", "#b3d0f2"),
    ("#fdeeb3", "#f6de84"),
    ("#d3eecb", "#b5dfa9"),
    ("#fad7df", "#f2b9c6"),
    ("#e4d8f6", "#cfbcec"),
    ("#fde0c2", "#f8c998"),
)
# What a step along each coordinate of a tile, from the last, adds to the number of its colour.
_STEPS = (1, 3, 2)

_HEAD = """<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"
 viewBox="0 0 {width} {height}" role="img" aria-label="{label}">
<style>
text {{ font: 11px 'DejaVu Sans Mono', Menlo, Consolas, monospace; fill: #1f2328; }}
.title {{ font-size: 14px; font-weight: bold; }}
.section {{ font-weight: bold; }}
.faint {{ fill: #59636e; }}
.middle, g text {{ text-anchor: middle; }}
.end {{ text-anchor: end; }}
.card {{ fill: #ffffff; stroke: #d1d9e0; }}
.cell, g rect {{ stroke: #8c959f; stroke-width: 0.6; }}
.ground {{ fill: #f3f4f6; }}
.stroke {{ stroke: #8c959f; stroke-width: 0.8; }}
.dot {{ fill: #8c959f; }}
@media (prefers-color-scheme: dark) {{
  text {{ fill: #e6edf3; }}
  .faint {{ fill: #9da7b3; }}
  .card {{ fill: #0d1117; stroke: #3d444d; }}
  .cell, g rect {{ stroke: #4b535d; }}
  .ground {{ fill: #20262e; }}
  .stroke {{ stroke: #6e7681; }}
  .dot {{ fill: #6e7681; }}
  g text {{ fill: #1f2328; }}
}}
</style>
<defs>
<pattern id="tile-padding" width="6" height="6" patternUnits="userSpaceOnUse">
<rect class="ground" width="6" height="6"/>
<path class="stroke" d="M-1,1 l2,-2 M0,6 l6,-6 M5,7 l2,-2"/>
</pattern>
<pattern id="tail-padding" width="6" height="6" patternUnits="userSpaceOnUse">
<rect class="ground" width="6" height="6"/><circle class="dot" cx="3" cy="3" r="1.2"/>
</pattern>
</defs>
<rect class="card" x="0.5" y="0.5" width="{inner_width}" height="{inner_height}" rx="6"/>
"""


@checked
def layout_svg(view: LayoutView) -> str:
    """Return a drawing of a layout: cells by index, coloured by tile, then the lines of memory.

    A cell by index shows its place in memory, a cell in memory its index; padding is hatched. Each
    tells index, place and byte to whoever points at it.
    """
    return _Drawing(view).text()


@dataclass(frozen=True)
class _Marks:
    """Where the marks of an axis are, from its start, and how long they all are."""

    starts: list[float]
    sizes: list[float]

    @property
    def length(self) -> float:
        return self.starts[-1] + self.sizes[-1] if self.starts else 0


class _Drawing:
    def __init__(self, view: LayoutView) -> None:
        self.view = view
        self.parts: list[str] = []
        self.y = float(_MARGIN)
        self.right = 0.0

    def text(self) -> str:
        self._head()
        self._by_index()
        self._in_memory()
        self._legend()
        width, height = round(self.right) + _MARGIN, round(self.y) + _MARGIN
        head = _HEAD.format(
            width=width, height=height, inner_width=width - 1, inner_height=height - 1,
            label=escape(f"layout of {self.view.facts.shape}"),
        )  # fmt: skip
        return "".join([head, *self.parts, "</svg>\n"])

    # --- pieces ---------------------------------------------------------------------------------

    def _write(self, x: float, y: float, text: str, style: str = "") -> None:
        """Write text whose base line starts at a point, or has its middle or end there."""
        if not text:
            return
        width = len(text) * _CHARACTER * (_TITLE if style == "title" else 1)
        beyond = 0 if "end" in style else width / 2 if "middle" in style else width
        self.right = max(self.right, x + beyond)
        kind = f' class="{style}"' if style else ""
        self.parts.append(f'<text x="{x:g}" y="{y:g}"{kind}>{escape(text)}</text>\n')

    def _box(
        self, x: float, y: float, width: float, fill: str, label: str, tip: str, style: str = ""
    ) -> None:
        self.right = max(self.right, x + width)
        box = f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{_CELL_HEIGHT}"'
        text = ""
        if label:
            at = f'x="{x + width / 2:g}" y="{y + _CELL_HEIGHT / 2 + 4:g}"'
            text = f"<text {at}{style}>{escape(label)}</text>"
        self.parts.append(f'<g><title>{escape(tip)}</title>{box} fill="{fill}"/>{text}</g>\n')

    def _cell(self, x: float, y: float, width: float, cell: Cell, label: str) -> None:
        at = f"place {cell.place}, byte {self.view.facts.byte_label(cell.place)}"
        if cell.index is None:
            self._box(x, y, width, self._padding(cell.place), label, f"padding, {at}",
                      ' class="faint"')  # fmt: skip
        else:
            index = ",".join(map(str, cell.index))
            self._box(x, y, width, _colour(cell), label, f"index ({index}), {at}")

    def _padding(self, place: int) -> str:
        facts = self.view.facts
        tail = place >= facts.places - facts.tail_padding
        return f"url(#{'tail' if tail else 'tile'}-padding)"

    def _line(self, text: str, style: str = "") -> None:
        self.y += _LINE
        self._write(_MARGIN, self.y - 4, text, style)

    # --- the parts of the drawing ---------------------------------------------------------------

    def _head(self) -> None:
        facts = self.view.facts
        layout = facts.shape.layout
        in_space = layout is not None and layout.memory_space
        space = f", in memory space {in_space}" if in_space else ""
        self._line(str(facts.shape), "title")
        self._line(f"elements: {facts.elements}, {bits_text(facts)}")
        self._line(f"places: {places_text(facts)}")
        self._line(f"size: {bytes_text(facts)}{space}")
        for name, text in (*notes(facts), ("place", facts.formula)):
            indent = " " * (len(name) + 2)
            for line in textwrap.wrap(f"{name}: {text}", _WRAP, subsequent_indent=indent):
                self._line(line)

    def _by_index(self) -> None:
        view = self.view
        what = "elements" if view.letters else "the place in memory of each element"
        self.y += _SPACE / 2
        self._line(f"by index: {what}", "section")
        labels = [
            view.place_label(cell) for panel in view.panels if panel
            for row in panel.rows for cell in row if cell
        ]  # fmt: skip
        width = _width([*labels, *view.columns.heads])
        columns = _marks(view.columns, width, _GAP)
        rows = _marks(view.rows, _CELL_HEIGHT, _GAP)
        left = _CHARACTER * max(map(len, [*view.rows.heads, view.rows.name])) + 8
        x, top = float(_MARGIN), self.y
        height = rows.length + 2 * _LINE + (_LINE if any(p and p.title for p in view.panels) else 0)
        for panel in view.panels:
            title = len(panel.title) * _CHARACTER if panel else 0
            size = max(left + columns.length, title)
            if x > _MARGIN and x + size > _WIDEST:
                x, top = _MARGIN, top + height + _SPACE
            if panel is None:
                self._write(x, top + _LINE - 4, GAP, "faint")
                wraps = x == _MARGIN
                x, top = (x, top + _LINE) if wraps else (x + _GAP, top)
                continue
            self._panel(panel, x, top, left, rows, columns)
            x += size + _SPACE
        self.y = top + height

    def _panel(
        self, panel: Panel, x: float, y: float, left: float, rows: _Marks, columns: _Marks
    ) -> None:
        view = self.view
        if panel.title:
            y += _LINE
            self._write(x, y - 4, panel.title, "faint")
        self._write(x + left + columns.length / 2, y + _LINE - 5, view.columns.name, "faint middle")
        self._write(x + left - 8, y + 2 * _LINE - 5, view.rows.name, "faint end")
        for head, start, size in zip(
            view.columns.heads, columns.starts, columns.sizes, strict=True
        ):
            middle = x + left + start + size / 2
            self._write(middle, y + 2 * _LINE - 5, head, "faint middle")
        y += 2 * _LINE
        for head, row, down, height in zip(
            view.rows.heads, panel.rows, rows.starts, rows.sizes, strict=True
        ):
            self._write(x + left - 8, y + down + height / 2 + 4, head, "faint end")
            for cell, start, size in zip(row, columns.starts, columns.sizes, strict=True):
                if cell is not None:
                    label = view.place_label(cell)
                    self._cell(x + left + start, y + down, size, cell, label)

    def _in_memory(self) -> None:
        view = self.view
        what = "elements" if view.letters else "the index of the element in each place"
        self.y += _SPACE / 2
        self._line(f"in memory: {what}, lines from the byte where they start", "section")
        shown = [cell for line in view.memory if line for cell in line]
        width = _width(map(view.index_label, shown))
        starts = [view.facts.byte_label(line[0].place) for line in view.memory if line]
        left = _MARGIN + _CHARACTER * max(map(len, starts), default=1) + 8
        self._prefix(left)
        tile = view.tile_places
        if tile is None or tile == 1 or (view.width % tile and tile % view.width):
            tile = view.facts.places + 1
        for line in view.memory:
            if line is None:
                self._write(left - 8, self.y + 10, GAP, "faint end")
                self.y += _GAP
                continue
            if line[0].place % tile == 0 and line[0].place:
                self.y += _TILE_SPACE
            middle = self.y + _CELL_HEIGHT / 2 + 4
            self._write(left - 8, middle, view.facts.byte_label(line[0].place), "faint end")
            x = left
            for k, cell in enumerate(line):
                x += _TILE_SPACE if k and cell.place % tile == 0 else 0
                self._cell(x, self.y, width, cell, view.index_label(cell))
                x += width
            self.y += _CELL_HEIGHT

    def _prefix(self, left: float) -> None:
        size = self.view.facts.prefix_bytes
        if not size:
            return
        what = f"metadata prefix of {size} bytes"
        width, base = _width([what]), self.y + _CELL_HEIGHT / 2 + 4
        self._write(left - 8, base, "0", "faint end")
        self.parts.append(
            f'<rect class="cell ground" x="{left:g}" y="{self.y:g}" width="{width:g}" '
            f'height="{_CELL_HEIGHT}"/>\n'
        )
        self._write(left + width / 2, base, what, "middle")
        self.y += _CELL_HEIGHT + _TILE_SPACE

    def _legend(self) -> None:
        facts = self.view.facts
        self.y += _SPACE / 2
        what = "tile" if facts.tile_padding else "run of the most minor dimension"
        entries = []
        if facts.elements:
            entries += [(colours[0], "") for colours in _COLOURS[1:3]]
            entries.append((_COLOURS[0][0], f"a colour for each {what}"))
        if facts.elements and len(facts.tile_padding) > 1:
            entries += [(_COLOURS[0][0], ""), (_COLOURS[0][1], "a shade for each tile inside it")]
        if any(n for _, n in facts.tile_padding):
            entries.append(("url(#tile-padding)", "padding of tiles"))
        if facts.tail_padding:
            entries.append(("url(#tail-padding)", "padding of the tail"))
        x = float(_MARGIN)
        for fill, label in entries:
            self.parts.append(
                f'<rect class="cell" x="{x:g}" y="{self.y:g}" width="14" height="14" '
                f'fill="{fill}"/>\n'
            )
            x += 14
            if label:
                self._write(x + 6, self.y + 11, label, "faint")
                x += 6 + len(label) * _CHARACTER + _SPACE
        self.y += 14


def _colour(cell: Cell) -> str:
    """Return the colour of a cell's tile, in the shade of the tile inside it."""
    outer = cell.tiles[0] if cell.tiles else ()
    number = sum(_STEPS[k % len(_STEPS)] * i for k, i in enumerate(reversed(outer)))
    shade = sum(cell.tiles[1][len(outer) :]) if len(cell.tiles) > 1 else 0
    return _COLOURS[number % len(_COLOURS)][shade % 2]


def _width(labels: Iterable[str]) -> float:
    """Return the width of cells that hold these labels."""
    return max(_LEAST_WIDTH, round(max(map(len, labels), default=0) * _CHARACTER + 8))


def _marks(axis: Axis, size: float, gap: float) -> _Marks:
    starts: list[float] = []
    sizes: list[float] = []
    at = 0.0
    for n, i in enumerate(axis.shown):
        if n and axis.starts_tile(i):
            at += _TILE_SPACE
        starts.append(at)
        sizes.append(gap if i is None else size)
        at += sizes[-1]
    return _Marks(starts, sizes)
