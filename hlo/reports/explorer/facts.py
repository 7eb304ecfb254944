"""What a layout costs: physical size and padding, and where it comes from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from hlo.reports.explorer.formula import place_formula
from hlo.support.signature import checked
from hlo.values.layout import (
    checked_layout,
    element_bits,
    physical_bytes,
    physical_dims,
    physical_elements,
    tilings,
)
from hlo.values.layout.physical import array_shape, layout_errors
from hlo.values.types import ArrayShape, Shape, Tile


@dataclass(frozen=True)
class LayoutFacts:
    """Sizes of a shape in memory. A *place* is what one element takes in the buffer."""

    shape: ArrayShape
    physical_dims: tuple[int, ...]
    element_bits: int
    places: int
    # The places that each tile adds to make its dimensions whole, and those of the tail.
    tile_padding: tuple[tuple[Tile, int], ...]
    tail_padding: int
    prefix_bytes: int
    bytes: int
    formula: str

    @property
    def elements(self) -> int:
        return self.shape.num_elements

    @property
    def padding(self) -> int:
        """The number of places that hold no element."""
        return self.places - self.elements

    @property
    def unused_bits(self) -> int:
        """The bits of each place that its element does not need."""
        et = self.shape.element_type
        return self.element_bits - (1 if et.is_pred else et.bits)

    @property
    def waste(self) -> float:
        """The part of the bytes that holds no element."""
        return 1 - self.elements * self.element_bits / (8 * self.bytes) if self.bytes else 0.0

    @checked
    def byte_label(self, place: int) -> str:
        """Return where a place starts in the buffer: `6`, or `6.4` for bit 4 of byte 6."""
        byte, bit = divmod(place * self.element_bits, 8)
        return f"{self.prefix_bytes + byte}" + (f".{bit}" if bit else "")

    def to_json(self) -> dict[str, Any]:
        """Return the facts as JSON has them."""
        layout = checked_layout(self.shape)
        return {
            "shape": str(self.shape),
            "dims": list(self.shape.dims),
            "dynamic": [self.shape.is_dynamic_dim(d) for d in range(self.shape.rank)],
            "minor_to_major": list(layout.minor_to_major),
            "physical_dims": list(self.physical_dims),
            "elements": self.elements,
            "places": self.places,
            "tile_padding": [{"tile": str(t), "places": n} for t, n in self.tile_padding],
            "tail_padding": self.tail_padding,
            "element_bits": self.element_bits,
            "unused_bits": self.unused_bits,
            "prefix_bytes": self.prefix_bytes,
            "bytes": self.bytes,
            "waste": self.waste,
            "memory_space": layout.memory_space,
            "splits": [{"dim": s.dim, "indices": list(s.indices)} for s in layout.splits],
            "formula": self.formula,
        }


@checked
def layout_facts(shape: Shape | str) -> LayoutFacts:
    """Return what a shape takes in memory. Dynamic dimensions count at their bounds.

    Raises HloError for a layout that is not valid or does not say where elements are.
    """
    with layout_errors():
        return _facts(array_shape(shape))


def _facts(shape: ArrayShape) -> LayoutFacts:
    layout = checked_layout(shape)
    places = physical_elements(shape)
    sizes = [shape.num_elements, *(math.prod(step.inner) for step in tilings(shape, layout))]
    added = [after - before for before, after in pairwise(sizes)]
    return LayoutFacts(
        shape=shape,
        physical_dims=physical_dims(shape),
        element_bits=element_bits(shape),
        places=places,
        tile_padding=tuple(zip(layout.tiles, added, strict=True)),
        tail_padding=places - sizes[-1],
        prefix_bytes=layout.dynamic_prefix_bytes,
        bytes=physical_bytes(shape),
        formula=place_formula(shape),
    )
