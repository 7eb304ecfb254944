"""What a picture of a layout shows: panels of cells by index, and lines of cells in memory.

Much is left out of a large array: what is shown of each dimension is around its ends and the first
and last border of tiles, where something happens.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from hlo.reports.explorer.facts import LayoutFacts, layout_facts
from hlo.support.signature import checked
from hlo.values.layout import checked_layout, multi_index, position_of, tilings, unravel
from hlo.values.types import ArrayShape, Layout, Shape

# So many panels are shown.
_PANELS = 4
# The longest row, in characters of its labels, and the most places on a line of memory.
_ROW_CHARACTERS = 112
_LINE_PLACES = 16
# Stands for what is left out.
GAP = ".."


@dataclass(frozen=True)
class Cell:
    """A place in memory and the index of its element, None where padding is.

    tiles: the coordinates of the tile that it is in, and of the tile inside that, if any. Without
    tiles, what varies slower than the most minor dimension.
    """

    place: int
    index: tuple[int, ...] | None
    tiles: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class Axis:
    """A dimension of `size` elements, made `padded` by tiles of `tile`.

    name: `i0`, or nothing for a dimension that only a tile has. shown: indices, None for a gap.
    """

    name: str
    size: int
    padded: int
    tile: int
    shown: tuple[int | None, ...]

    @property
    def heads(self) -> list[str]:
        """The labels of what is shown, empty for padding."""
        return [GAP if i is None else str(i) if i < self.size else "" for i in self.shown]

    def starts_tile(self, i: int | None) -> bool:
        """Tell whether a tile begins at an index, and another one is in front."""
        return self.tile > 1 and i is not None and i > 0 and i % self.tile == 0


@dataclass(frozen=True)
class Panel:
    """The cells that are shown of two dimensions; `title` says where in the others."""

    title: str
    rows: tuple[tuple[Cell | None, ...], ...]


@dataclass(frozen=True)
class LayoutView:
    """A picture of a layout, None standing for whatever is left out.

    Rows and columns are the two most minor dimensions in memory, in the order of their numbers. The
    lines of memory have `width` places. tile_places: the size of a tile that lies in one piece.
    padding: what padding holds, if that matters.
    """

    facts: LayoutFacts
    letters: bool
    rows: Axis
    columns: Axis
    panels: tuple[Panel | None, ...]
    memory: tuple[tuple[Cell, ...] | None, ...]
    width: int
    tile_places: int | None
    padding: str

    def index_label(self, cell: Cell) -> str:
        """Return what an element is called in memory: `2,3`, or a letter."""
        if cell.index is None:
            return self.padding
        if self.letters:
            return _letters(self._number(cell.index))
        return ",".join(map(str, cell.index)) or "()"

    def place_label(self, cell: Cell) -> str:
        """Return what an element is called by index: its place, or a letter."""
        if cell.index is None:
            return self.padding
        return _letters(self._number(cell.index)) if self.letters else str(cell.place)

    def _number(self, index: Sequence[int]) -> int:
        number = 0
        for i, size in zip(index, self.facts.shape.dims, strict=True):
            number = number * size + i
        return number


def _letters(number: int) -> str:
    """Return a, b, .., z, aa, ab, .."""
    text = ""
    number += 1
    while number:
        number, digit = divmod(number - 1, 26)
        text = chr(ord("a") + digit) + text
    return text


@checked
def layout_view(
    shape: Shape | str, limit: int = 16, *, letters: bool = False, padding: str = ""
) -> LayoutView:
    """Return what to show of a layout.

    limit: so many rows, columns and lines of memory at most, about. letters: name the elements a,
    b, .. in row-major order. padding: how to show padding, if not as such. Raises HloError for a
    layout that does not say where elements are.
    """
    facts = layout_facts(shape)
    return _Viewer(facts, limit, letters, padding).view()


class _Viewer:
    """Makes the view of a layout.

    Its dimensions are those of the array behind `lead` ones of size 1: two at least, and as many as
    the first tile names.
    """

    def __init__(self, facts: LayoutFacts, limit: int, letters: bool, padding: str) -> None:
        shape = facts.shape
        self.facts, self.limit, self.letters, self.padding = facts, limit, letters, padding
        self.layout = checked_layout(shape)
        self.steps = tilings(shape, self.layout)
        self.lead = lead = max(2 - shape.rank, self.steps[0].lead if self.steps else 0, 0)
        self.order = (*(d + lead for d in self.layout.minor_to_major), *reversed(range(lead)))
        self.dims = (1,) * lead + shape.dims
        layout = replace(self.layout, minor_to_major=self.order, levels=(), splits=())
        wide = replace(shape, dims=self.dims, dynamic=(), layout=layout)
        self.tiles = _tile_sizes(wide, layout)
        # Whole tiles change no place: what is padded along a dimension gets an index too.
        whole = [-(-n // t) * t for n, t in zip(self.dims, self.tiles, strict=True)]
        self.padded = replace(wide, dims=tuple(whole))

    def view(self) -> LayoutView:
        first, second = sorted(self.order[:2])
        label = max(len(str(self.facts.places)), len(str(self.dims[second]))) + 1
        rows = self._axis(first, self.limit)
        columns = self._axis(second, min(self.limit, max(4, _ROW_CHARACTERS // label)))
        width = self._line_width()
        return LayoutView(
            self.facts, self.letters, rows, columns,
            tuple(self._panels((first, rows), (second, columns))),
            tuple(self._memory(width)), width, self._tile_places(), self.padding,
        )  # fmt: skip

    # --- by index -------------------------------------------------------------------------------

    def _axis(self, d: int, limit: int) -> Axis:
        size, padded, tile = self.dims[d], self.padded.dims[d], self.tiles[d]
        borders = (tile, (size - 1) // tile * tile) if tile > 1 else ()
        splits = [i for s in self.layout.splits if s.dim + self.lead == d for i in s.indices]
        shown = _shown(padded, [*borders, size, *splits[:_PANELS]], limit)
        name = f"i{d - self.lead}" if d >= self.lead else ""
        return Axis(name, size, padded, tile, tuple(shown))

    def _panels(self, rows: tuple[int, Axis], columns: tuple[int, Axis]) -> Iterable[Panel | None]:
        others = [d for d in range(len(self.dims)) if d not in (rows[0], columns[0])]
        counts = [self.dims[d] for d in others]
        for number in _shown(math.prod(counts), [], _PANELS):
            if number is None:
                yield None
                continue
            at = dict(zip(others, unravel(number, counts), strict=True))
            title = ", ".join(f"i{d - self.lead} = {i}" for d, i in at.items() if d >= self.lead)
            cells = [
                tuple(
                    None if r is None or c is None else self._cell(at | {rows[0]: r, columns[0]: c})
                    for c in columns[1].shown
                )
                for r in rows[1].shown
            ]
            yield Panel(title, tuple(cells))

    def _cell(self, at: dict[int, int]) -> Cell:
        index = tuple(at[d] for d in range(len(self.dims)))
        place = int(position_of(self.padded, index))
        if any(i >= n for i, n in zip(index, self.dims, strict=True)):
            return Cell(place, None)
        return self._element(place, index[self.lead :])

    def _element(self, place: int, index: tuple[int, ...]) -> Cell:
        at: list[int] = [index[d] for d in self.layout.minor_to_major[::-1]]
        if not self.steps:
            return Cell(place, index, (tuple(at[:-1]),))
        tiles = []
        for step in self.steps[:2]:
            at = step.into_tiles(at)
            tiles.append(tuple(at[: len(at) - len(step.sizes)]))
        return Cell(place, index, tuple(tiles))

    # --- in memory ------------------------------------------------------------------------------

    def _tile_places(self) -> int | None:
        """Return the number of places of a tile, None for one of several pieces, or of no size."""
        physical = self.facts.physical_dims
        if not self.steps:
            return physical[-1] or None if physical else None
        inside = len(self.steps[0].sizes)
        for step in self.steps[1:]:
            named = sum(step.groups[step.kept :])
            if named > inside:
                return None
            inside += 2 * len(step.sizes) - named
        return math.prod(physical[len(physical) - inside :])

    def _line_width(self) -> int:
        """Return the places of a line of memory: whole tiles or parts of one, and whole bytes."""
        longest = sum(len(str(max(n - 1, 0))) + 1 for n in self.facts.shape.dims)
        most = max(1, min(_LINE_PLACES, _ROW_CHARACTERS // max(longest, 1)))
        unit = 1
        for size in reversed(self.facts.physical_dims):
            if unit * size > most:
                # A part of the next dimension, into which it falls without rest if possible.
                count = max(n for n in range(1, most // unit + 1) if size % n == 0)
                unit *= count if 2 * unit * count > most else most // unit
                break
            unit *= max(size, 1)
        return math.lcm(unit, max(1, 8 // self.facts.element_bits))

    def _memory(self, width: int) -> Iterable[tuple[Cell, ...] | None]:
        places, shape = self.facts.places, self.facts.shape
        used = places - self.facts.tail_padding
        borders = [used // width, -(-used // width)] if self.facts.tail_padding else []
        if shape.num_elements:
            borders.append(int(position_of(shape, [n - 1 for n in shape.dims])) // width + 1)
        tile = self._tile_places()
        if tile is not None and tile >= width:
            borders.append(tile // width)
        for line in _shown(-(-places // width), borders, self.limit):
            if line is None:
                yield None
                continue
            start = line * width
            yield tuple(self._at(k) for k in range(start, min(start + width, places)))

    def _at(self, place: int) -> Cell:
        index = multi_index(self.facts.shape, place)
        return Cell(place, None) if index is None else self._element(place, index)


def _tile_sizes(shape: ArrayShape, layout: Layout) -> list[int]:
    """Return the size of the first tile along each dimension that it makes whole, else 1."""
    sizes = [1] * shape.rank
    for step in tilings(shape, layout)[:1]:
        major_first = layout.minor_to_major[::-1]
        ends = list(accumulate(step.groups))[step.kept :]
        for end, count, size in zip(ends, step.groups[step.kept :], step.sizes, strict=True):
            # The index of merged dimensions goes on in the next major one, but for size 1.
            if math.prod(step.dims[end - count : end - 1]) == 1:
                sizes[major_first[end - 1]] = size
    return sizes


def _shown(size: int, borders: Iterable[int], limit: int) -> list[int | None]:
    """Return about `limit` of the numbers below `size`, None for each gap.

    They are those around the borders and ends, and more from the start.
    """
    if size <= limit:
        return list(range(size))
    kept = {i for b in (0, *borders, size) for i in (b - 1, b) if 0 <= i < size}
    kept |= set(range(max(0, limit - len(kept))))
    found: list[int | None] = []
    for i in sorted(kept):
        if found and found[-1] is not None and found[-1] < i - 1:
            # A single number takes no more room than the gap.
            found.append(i - 1 if found[-1] == i - 2 else None)
        found.append(i)
    return found
